//! Fabrics from a few numbers: two-stage Clos, three-stage fat trees, and networks that are neither.

mod direct;
mod recipe;

pub use recipe::{Rates, Recipe, RecipeError};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::topology::{Handle, TopologyBuilder, TopologyError};
use crate::{Guid, LinkRate, NodeKind, PortIndex, PortNum, Topology};

impl Recipe {
    /// Builds the fabric. Hosts are `host0` upwards in the order snin numbers them, switches `leaf0`,
    /// `spine0`, `agg0`, `core0` upwards, or `switch0` where all carry hosts.
    ///
    /// # Errors
    /// When it would have more nodes than a topology can.
    pub fn build(self) -> Result<Topology, RecipeError> {
        let (Self::Clos { rates, .. }
        | Self::FatTree { rates, .. }
        | Self::Pods { rates, .. }
        | Self::Torus { rates, .. }
        | Self::Dragonfly { rates, .. }
        | Self::Random { rates, .. }) = self;
        let mut fabric = Fabric { rates, ..Fabric::default() };
        match self {
            Self::Clos { leaves, spines, hosts, planes, .. } => {
                fabric.clos(leaves, spines, hosts, planes)?;
            }
            Self::FatTree { radix, pods, .. } => {
                let half = radix / 2;
                fabric.pods(pods, (half, half, half * half), half, half)?;
            }
            Self::Pods { pods, leaves, aggregation, cores, hosts, groups, .. } => {
                fabric.pods(pods, (leaves, aggregation, cores), hosts, groups)?;
            }
            Self::Torus { width, height, hosts, .. } => {
                fabric.direct(width * height, hosts, &direct::torus(width, height))?;
            }
            Self::Dragonfly { groups, switches, hosts, .. } => {
                let cables = direct::dragonfly(groups, switches);
                fabric.direct(groups * switches, hosts, &cables)?;
            }
            Self::Random { switches, cables, hosts, seed, .. } => {
                fabric.direct(switches, hosts, &direct::random(switches, cables, seed.into()))?;
            }
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
    rates: Rates,
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
                    let down = l as u32 * planes + plane + 1;
                    self.cable((leaf, up), (spine, down), self.rates.up)?;
                }
            }
        }
        Ok(())
    }

    fn pods(
        &mut self,
        pods: u32,
        (leaves, aggregation, cores): (u32, u32, u32),
        hosts: u32,
        groups: u32,
    ) -> Result<(), TopologyError> {
        let (width, above) = (aggregation / groups, cores / groups);
        let leaf = self.switches("leaf", 1, pods * leaves, hosts + aggregation)?;
        let agg = self.switches("agg", 2, pods * aggregation, leaves + above)?;
        let core = self.switches("core", 3, cores, pods * width)?;
        for pod in 0..pods {
            for l in 0..leaves {
                let this = leaf[(pod * leaves + l) as usize];
                self.hosts(this, hosts)?;
                for a in 0..aggregation {
                    let up = agg[(pod * aggregation + a) as usize];
                    self.cable((this, hosts + a + 1), (up, l + 1), self.rates.up)?;
                }
            }
            for a in 0..aggregation {
                let this = agg[(pod * aggregation + a) as usize];
                for c in 0..above {
                    let up = core[(a / width * above + c) as usize];
                    let down = pod * width + a % width + 1;
                    self.cable((this, leaves + c + 1), (up, down), self.rates.up)?;
                }
            }
        }
        Ok(())
    }

    /// Switches that all carry hosts, and the cables between them.
    fn direct(
        &mut self,
        count: u32,
        hosts: u32,
        cables: &[(u32, u32)],
    ) -> Result<(), TopologyError> {
        let mut ports = vec![hosts; count as usize];
        let mut next = |switch: u32| {
            ports[switch as usize] += 1;
            (switch as usize, ports[switch as usize])
        };
        let cables: Vec<_> = cables.iter().map(|&(a, b)| (next(a), next(b))).collect();
        let most = ports.iter().copied().max().unwrap_or(hosts);
        let switches = self.switches("switch", 1, count, most)?;
        for &switch in &switches {
            self.hosts(switch, hosts)?;
        }
        for ((a, a_port), (b, b_port)) in cables {
            self.cable((switches[a], a_port), (switches[b], b_port), self.rates.up)?;
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
            self.cable((leaf, port), (host, 1), self.rates.host)?;
            self.hosts += 1;
        }
        Ok(())
    }

    fn cable(
        &mut self,
        a: (Handle, u32),
        b: (Handle, u32),
        rate: LinkRate,
    ) -> Result<(), TopologyError> {
        let end = |(handle, port): (Handle, u32)| (handle, PortNum(port as u8));
        for (handle, port) in [end(a), end(b)] {
            self.builder.set_rate(handle, port, rate)?;
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
    fn a_fat_tree_is_pods_of_one_size() {
        let of = |text: &str| text.parse::<Recipe>().unwrap().build().unwrap();
        assert_eq!(of("fattree:6,4"), of("pods:4,3,3,9,3,3"));
        let shared = of("pods:4,4,4,8,4,2");
        assert_eq!(shared.cable_count(), 64 + 4 * 4 * 4 + 4 * 4 * 4);
        let recipe: Recipe = "pods:4,4,4,8,4,2,up=800G".parse().unwrap();
        assert_eq!(recipe.to_string().parse(), Ok(recipe));
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
    fn cables_run_at_the_rates_that_are_told() {
        let recipe: Recipe = "clos:4,3,2,host=200G,up=8xHDR".parse().unwrap();
        assert_eq!(recipe.to_string(), "clos:4,3,2,host=4xHDR,up=8xHDR");
        assert_eq!(recipe.to_string().parse(), Ok(recipe));
        let fabric = recipe.build().unwrap();
        for port in fabric.ports().filter(|&port| fabric.peer(port).is_some()) {
            let ends = [Some(port), fabric.peer(port)].into_iter().flatten();
            let between = ends.map(|end| fabric.port(end).node).all(|node| fabric.is_switch(node));
            let rate = fabric.port(port).rate.unwrap().to_string();
            assert_eq!(rate, if between { "8xHDR" } else { "4xHDR" });
        }
        let slow: Recipe = "fattree:4,up=50G".parse().unwrap();
        assert_eq!(slow.to_string(), "fattree:4,4,up=2xEDR");
        for bad in ["clos:4,3,2,host=0G", "clos:4,3,2,up=fast", "fattree:4,up=401G"] {
            assert!(matches!(bad.parse::<Recipe>(), Err(RecipeError::Rate { .. })), "{bad}");
        }
        for bad in ["clos:4,3,host=200G,2", "clos:4,3,2,down=200G", "clos:4,3,2,up=4xHDR,up=4xHDR"]
        {
            assert!(matches!(bad.parse::<Recipe>(), Err(RecipeError::Form(_))), "{bad}");
        }
    }

    #[test]
    fn impossible_recipes_say_what_is_possible() {
        for bad in ["clos:4,3", "ring:4", "clos:4,3,x", "fattree:", "clos"] {
            assert!(matches!(bad.parse::<Recipe>(), Err(RecipeError::Form(_))), "{bad}");
        }
        for bad in
            ["pods:1,2,2,2,2,1", "pods:2,4,4,4,4,3", "pods:2,4,200,200,100,2", "pods:2,0,1,1,1,1"]
        {
            assert!(matches!(bad.parse::<Recipe>(), Err(RecipeError::Range { .. })), "{bad}");
        }
        for bad in ["clos:4,0,2", "clos:300,3,2", "clos:4,200,100", "fattree:5", "fattree:4,5"] {
            assert!(matches!(bad.parse::<Recipe>(), Err(RecipeError::Range { .. })), "{bad}");
        }
    }
}
