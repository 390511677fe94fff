//! Fabrics from a few numbers: two-stage Clos and three-stage fat trees.

use std::fmt;
use std::str::FromStr;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::topology::{Handle, MAX_PORTS, TopologyBuilder, TopologyError};
use crate::{Guid, LinkRate, NodeKind, PortIndex, PortNum, Topology};

/// A fabric to make, read from `clos:LEAVES,SPINES,HOSTS[,PLANES]` or `fattree:RADIX[,PODS]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recipe {
    /// Two stages: every leaf has `planes` cables to every spine and `hosts` hosts.
    Clos {
        /// Leaf switches.
        leaves: u32,
        /// Spine switches.
        spines: u32,
        /// Hosts a leaf.
        hosts: u32,
        /// Parallel cables of a leaf-spine pair.
        planes: u32,
    },
    /// Three stages of switches with `radix` ports: pods of radix/2 leaves and radix/2 aggregation
    /// switches, (radix/2)^2 cores, radix/2 hosts a leaf.
    FatTree {
        /// Ports of every switch, even.
        radix: u32,
        /// Pods, 2 to `radix`.
        pods: u32,
    },
}

/// A recipe that cannot be read or built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// Not of the form the recipes have.
    #[error(
        "`{0}` is no fabric (expected clos:LEAVES,SPINES,HOSTS[,PLANES] or fattree:RADIX[,PODS])"
    )]
    Form(String),
    /// A number that no fabric can have.
    #[error("`{recipe}`: {what}")]
    Range {
        /// The recipe.
        recipe: String,
        /// Which number, and what is possible.
        what: String,
    },
    /// Too large for a topology.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

impl FromStr for Recipe {
    type Err = RecipeError;

    fn from_str(text: &str) -> Result<Self, RecipeError> {
        let form = || RecipeError::Form(text.to_owned());
        let (kind, numbers) = text.split_once(':').ok_or_else(form)?;
        let numbers: Vec<u32> =
            numbers.split(',').map(|n| n.parse().map_err(|_| form())).collect::<Result<_, _>>()?;
        let recipe = match (kind, numbers.as_slice()) {
            ("clos", &[leaves, spines, hosts]) => Self::Clos { leaves, spines, hosts, planes: 1 },
            ("clos", &[leaves, spines, hosts, planes]) => {
                Self::Clos { leaves, spines, hosts, planes }
            }
            ("fattree", &[radix]) => Self::FatTree { radix, pods: radix },
            ("fattree", &[radix, pods]) => Self::FatTree { radix, pods },
            _ => return Err(form()),
        };
        let what = recipe.out_of_range();
        what.map_or(Ok(recipe), |what| Err(RecipeError::Range { recipe: text.to_owned(), what }))
    }
}

/// As it is read.
impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clos { leaves, spines, hosts, planes: 1 } => {
                write!(f, "clos:{leaves},{spines},{hosts}")
            }
            Self::Clos { leaves, spines, hosts, planes } => {
                write!(f, "clos:{leaves},{spines},{hosts},{planes}")
            }
            Self::FatTree { radix, pods } => write!(f, "fattree:{radix},{pods}"),
        }
    }
}

impl Recipe {
    fn out_of_range(self) -> Option<String> {
        let max = u64::from(MAX_PORTS);
        match self {
            Self::Clos { leaves, spines, hosts, planes } => {
                let leaf_ports = u64::from(hosts) + u64::from(spines) * u64::from(planes);
                let spine_ports = u64::from(leaves) * u64::from(planes);
                if leaves == 0 || spines == 0 || hosts == 0 || planes == 0 {
                    Some("every number is at least 1".to_owned())
                } else if leaf_ports > max {
                    Some(format!("a leaf would need {leaf_ports} ports ({max} are possible)"))
                } else if spine_ports > max {
                    Some(format!("a spine would need {spine_ports} ports ({max} are possible)"))
                } else {
                    None
                }
            }
            Self::FatTree { radix, pods } => {
                if radix < 2 || radix % 2 != 0 || u64::from(radix) > max {
                    Some(format!("the radix is even and 2 to {max}, not {radix}"))
                } else if pods < 2 || pods > radix {
                    Some(format!("the pods are 2 to {radix}, not {pods}"))
                } else {
                    None
                }
            }
        }
    }

    /// Builds the fabric. Hosts are `host0` upwards in the order snin numbers them, switches `leaf0`,
    /// `spine0`, `agg0`, `core0` upwards; links run at 4xNDR.
    ///
    /// # Errors
    /// When it would have more nodes than a topology can.
    pub fn build(self) -> Result<Topology, RecipeError> {
        let mut fabric = Fabric::default();
        match self {
            Self::Clos { leaves, spines, hosts, planes } => {
                fabric.clos(leaves, spines, hosts, planes)?;
            }
            Self::FatTree { radix, pods } => fabric.fat_tree(radix, pods)?,
        }
        Ok(fabric.builder.build()?)
    }
}

/// The GUIDs made here begin with 0x02 (locally administered, as in EUI-64), then the kind, then the
/// number; the last byte is left to the ports.
fn guid(kind: u64, number: u32) -> Guid {
    Guid(0x0200_0000_0000_0000 | kind << 40 | u64::from(number) << 8)
}

/// A copy with `count` of the cables between switches taken away at random, or all where there are fewer.
pub fn cut_cables(topology: &Topology, count: usize, seed: u64) -> Topology {
    let mut cables: Vec<PortIndex> = Vec::new();
    for switch in topology.switches() {
        let inner = |&(port, peer): &(PortIndex, PortIndex)| {
            port < peer && topology.is_switch(topology.port(peer).node)
        };
        cables.extend(topology.cables(switch).filter(inner).map(|(port, _)| port));
    }
    cables.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    topology.without_cables(&cables[..count.min(cables.len())])
}

#[derive(Default)]
struct Fabric {
    builder: TopologyBuilder,
    hosts: u32,
}

impl Fabric {
    fn clos(
        &mut self,
        leaves: u32,
        spines: u32,
        hosts: u32,
        planes: u32,
    ) -> Result<(), TopologyError> {
        let leaf = self.switches("leaf", 1, leaves, hosts + spines * planes)?;
        let spine = self.switches("spine", 2, spines, leaves * planes)?;
        for (l, &leaf) in leaf.iter().enumerate() {
            self.hosts(leaf, hosts)?;
            for (s, &spine) in spine.iter().enumerate() {
                for plane in 0..planes {
                    let up = hosts + s as u32 * planes + plane + 1;
                    self.cable((leaf, up), (spine, l as u32 * planes + plane + 1))?;
                }
            }
        }
        Ok(())
    }

    fn fat_tree(&mut self, radix: u32, pods: u32) -> Result<(), TopologyError> {
        let half = radix / 2;
        let leaf = self.switches("leaf", 1, pods * half, radix)?;
        let aggregation = self.switches("agg", 2, pods * half, radix)?;
        let core = self.switches("core", 3, half * half, radix)?;
        for pod in 0..pods {
            for l in 0..half {
                let this = leaf[(pod * half + l) as usize];
                self.hosts(this, half)?;
                for a in 0..half {
                    let up = aggregation[(pod * half + a) as usize];
                    self.cable((this, half + a + 1), (up, l + 1))?;
                }
            }
            for a in 0..half {
                let this = aggregation[(pod * half + a) as usize];
                for c in 0..half {
                    let up = core[(a * half + c) as usize];
                    self.cable((this, half + c + 1), (up, pod + 1))?;
                }
            }
        }
        Ok(())
    }

    fn switches(
        &mut self,
        name: &str,
        kind: u64,
        count: u32,
        ports: u32,
    ) -> Result<Vec<Handle>, TopologyError> {
        let add = |number| {
            let node = guid(kind, number);
            let name = format!("{name}{number}");
            let handle = self.builder.add(NodeKind::Switch, node, u64::from(ports), &name)?;
            self.builder.node_mut(handle).system_image = node;
            Ok(handle)
        };
        (0..count).map(add).collect()
    }

    fn hosts(&mut self, leaf: Handle, count: u32) -> Result<(), TopologyError> {
        for port in 1..=count {
            let node = guid(0x10, self.hosts);
            let name = format!("host{}", self.hosts);
            let host = self.builder.add(NodeKind::Adapter, node, 1, &name)?;
            self.builder.node_mut(host).system_image = node;
            self.cable((leaf, port), (host, 1))?;
            self.hosts += 1;
        }
        Ok(())
    }

    fn cable(&mut self, a: (Handle, u32), b: (Handle, u32)) -> Result<(), TopologyError> {
        let end = |(handle, port): (Handle, u32)| (handle, PortNum(port as u8));
        for (handle, port) in [end(a), end(b)] {
            self.builder.set_rate(handle, port, LinkRate::NDR4)?;
        }
        self.builder.cable(end(a), end(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clos_has_the_cables_it_should() {
        let fabric = "clos:4,3,2,2".parse::<Recipe>().unwrap().build().unwrap();
        assert_eq!(fabric.switch_count(), 7);
        assert_eq!(fabric.node_count(), 7 + 8);
        assert_eq!(fabric.cable_count(), 8 + 4 * 3 * 2);
    }

    #[test]
    fn a_fat_tree_has_the_cables_it_should() {
        let fabric = "fattree:4,3".parse::<Recipe>().unwrap().build().unwrap();
        assert_eq!(fabric.switch_count(), 3 * 4 + 4);
        assert_eq!(fabric.node_count(), fabric.switch_count() + 12);
        assert_eq!(fabric.cable_count(), 12 + 3 * 4 + 3 * 4);
    }

    #[test]
    fn cutting_takes_cables_between_switches_only() {
        let whole = "clos:4,3,2".parse::<Recipe>().unwrap().build().unwrap();
        let cut = cut_cables(&whole, 5, 1);
        assert_eq!(cut.cable_count(), whole.cable_count() - 5);
        assert_eq!(cut_cables(&whole, 5, 1), cut);
        assert_ne!(cut_cables(&whole, 5, 2), cut);
        assert_eq!(cut_cables(&whole, 99, 1).cable_count(), 8, "the hosts' own");
    }

    #[test]
    fn impossible_recipes_say_what_is_possible() {
        for bad in ["clos:4,3", "ring:4", "clos:4,3,x", "fattree:", "clos"] {
            assert!(matches!(bad.parse::<Recipe>(), Err(RecipeError::Form(_))), "{bad}");
        }
        for bad in ["clos:4,0,2", "clos:300,3,2", "clos:4,200,100", "fattree:5", "fattree:4,5"] {
            assert!(matches!(bad.parse::<Recipe>(), Err(RecipeError::Range { .. })), "{bad}");
        }
    }
}
