//! What a fabric is to be like, and its form in text.

use std::fmt;
use std::str::FromStr;

use crate::topology::{MAX_PORTS, TopologyError};
use crate::{LinkRate, Speed, Width};

/// The most rows, columns, groups or switches of a fabric in which all switches carry hosts.
const MOST_OF_A_KIND: u32 = 4_096;

/// How fast the cables of a fabric are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates {
    /// Of hosts.
    pub host: LinkRate,
    /// Between switches.
    pub up: LinkRate,
}

impl Rates {
    /// All alike.
    pub const NDR4: Self = Self { host: LinkRate::NDR4, up: LinkRate::NDR4 };
}

impl Default for Rates {
    fn default() -> Self {
        Self::NDR4
    }
}

/// A fabric to make, read from `clos:LEAVES,SPINES,HOSTS[,PLANES]`, `fattree:RADIX[,PODS]`,
/// `pods:PODS,LEAVES,AGGREGATION,CORES,HOSTS,GROUPS`, `torus:WIDTH,HEIGHT,HOSTS`,
/// `dragonfly:GROUPS,SWITCHES,HOSTS` or `random:SWITCHES,CABLES,HOSTS[,SEED]`,
/// all with `[,host=RATE][,up=RATE]` where cables are not 4xNDR. `HOSTS` are those of each switch that carries
/// some.
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
        /// How fast its cables are.
        rates: Rates,
    },
    /// Three stages of switches with `radix` ports: pods of radix/2 leaves and radix/2 aggregation
    /// switches, (radix/2)^2 cores, radix/2 hosts a leaf.
    FatTree {
        /// Ports of every switch, even.
        radix: u32,
        /// Pods, 2 to `radix`.
        pods: u32,
        /// How fast its cables are.
        rates: Rates,
    },
    /// Three stages of any size: in every pod each leaf has a cable to each aggregation switch, and aggregation
    /// switches and cores are in as many groups, in which each has a cable to each.
    Pods {
        /// Pods.
        pods: u32,
        /// Leaves of a pod.
        leaves: u32,
        /// Aggregation switches of a pod.
        aggregation: u32,
        /// Cores.
        cores: u32,
        /// Hosts a leaf.
        hosts: u32,
        /// Groups of cores; they share out both evenly.
        groups: u32,
        /// How fast its cables are.
        rates: Rates,
    },
    /// Switches in rows and columns that are rings.
    Torus {
        /// Switches of a row.
        width: u32,
        /// Switches of a column.
        height: u32,
        /// Hosts a switch.
        hosts: u32,
        /// How fast its cables are.
        rates: Rates,
    },
    /// Groups of switches that are cabled each to each, and each group to each other one.
    Dragonfly {
        /// Groups.
        groups: u32,
        /// Switches a group.
        switches: u32,
        /// Hosts a switch.
        hosts: u32,
        /// How fast its cables are.
        rates: Rates,
    },
    /// Switches cabled by chance.
    Random {
        /// Switches.
        switches: u32,
        /// Cables between switches, of each switch.
        cables: u32,
        /// Hosts a switch.
        hosts: u32,
        /// What chance follows from.
        seed: u32,
        /// How fast its cables are.
        rates: Rates,
    },
}

/// A recipe that cannot be read or built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// Not of the form the recipes have.
    #[error(
        "`{0}` is no fabric (expected clos:LEAVES,SPINES,HOSTS[,PLANES], fattree:RADIX[,PODS], \
         pods:PODS,LEAVES,AGGREGATION,CORES,HOSTS,GROUPS, torus:WIDTH,HEIGHT,HOSTS, \
         dragonfly:GROUPS,SWITCHES,HOSTS or random:SWITCHES,CABLES,HOSTS[,SEED], with host=RATE or up=RATE behind)"
    )]
    Form(String),
    /// A rate that no link has.
    #[error("`{recipe}`: {rate} is no rate of a link (such as 4xHDR, or the 200G that it carries)")]
    Rate {
        /// The recipe.
        recipe: String,
        /// What was to be one.
        rate: String,
    },
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
        let (kind, parts) = text.split_once(':').ok_or_else(form)?;
        let (mut numbers, mut rates) = (Vec::new(), Rates::default());
        let mut told = [false; 2];
        for part in parts.split(',') {
            let Some((key, value)) = part.split_once('=') else {
                // Rates come last.
                let number = part.parse::<u32>().ok().filter(|_| told == [false; 2]);
                numbers.push(number.ok_or_else(form)?);
                continue;
            };
            let (known, rate) = match key {
                "host" => (&mut told[0], &mut rates.host),
                "up" => (&mut told[1], &mut rates.up),
                _ => return Err(form()),
            };
            if std::mem::replace(known, true) {
                return Err(form());
            }
            let (recipe, value) = (text.to_owned(), value.to_owned());
            *rate = carries(&value).ok_or(RecipeError::Rate { recipe, rate: value })?;
        }
        let recipe = match (kind, numbers.as_slice()) {
            ("clos", &[leaves, spines, hosts]) => {
                Self::Clos { leaves, spines, hosts, planes: 1, rates }
            }
            ("clos", &[leaves, spines, hosts, planes]) => {
                Self::Clos { leaves, spines, hosts, planes, rates }
            }
            ("fattree", &[radix]) => Self::FatTree { radix, pods: radix, rates },
            ("fattree", &[radix, pods]) => Self::FatTree { radix, pods, rates },
            ("pods", &[pods, leaves, aggregation, cores, hosts, groups]) => {
                Self::Pods { pods, leaves, aggregation, cores, hosts, groups, rates }
            }
            ("torus", &[width, height, hosts]) => Self::Torus { width, height, hosts, rates },
            ("dragonfly", &[groups, switches, hosts]) => {
                Self::Dragonfly { groups, switches, hosts, rates }
            }
            ("random", &[switches, cables, hosts]) => {
                Self::Random { switches, cables, hosts, seed: 1, rates }
            }
            ("random", &[switches, cables, hosts, seed]) => {
                Self::Random { switches, cables, hosts, seed, rates }
            }
            _ => return Err(form()),
        };
        let what = recipe.out_of_range();
        what.map_or(Ok(recipe), |what| Err(RecipeError::Range { recipe: text.to_owned(), what }))
    }
}

/// `4xHDR`, or `200G`: the link that carries so much, of four lanes where there is one.
fn carries(text: &str) -> Option<LinkRate> {
    if let Ok(rate) = text.parse() {
        return Some(rate);
    }
    let bits = text.strip_suffix('G')?.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    let widths = [4, 2, 1, 8, 12].into_iter().filter_map(Width::new);
    let rates =
        widths.flat_map(|width| Speed::ALL.iter().map(move |&s| LinkRate { width, speed: s }));
    rates.into_iter().find(|rate| rate.bits_per_second() == bits)
}

/// As it is read.
impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rates = match *self {
            Self::Clos { leaves, spines, hosts, planes, rates } => {
                write!(f, "clos:{leaves},{spines},{hosts}")?;
                if planes > 1 {
                    write!(f, ",{planes}")?;
                }
                rates
            }
            Self::FatTree { radix, pods, rates } => {
                write!(f, "fattree:{radix},{pods}")?;
                rates
            }
            Self::Pods { pods, leaves, aggregation, cores, hosts, groups, rates } => {
                write!(f, "pods:{pods},{leaves},{aggregation},{cores},{hosts},{groups}")?;
                rates
            }
            Self::Torus { width, height, hosts, rates } => {
                write!(f, "torus:{width},{height},{hosts}")?;
                rates
            }
            Self::Dragonfly { groups, switches, hosts, rates } => {
                write!(f, "dragonfly:{groups},{switches},{hosts}")?;
                rates
            }
            Self::Random { switches, cables, hosts, seed, rates } => {
                write!(f, "random:{switches},{cables},{hosts},{seed}")?;
                rates
            }
        };
        for (key, rate) in [("host", rates.host), ("up", rates.up)] {
            if rate != LinkRate::NDR4 {
                write!(f, ",{key}={rate}")?;
            }
        }
        Ok(())
    }
}

impl Recipe {
    fn out_of_range(self) -> Option<String> {
        let max = u64::from(MAX_PORTS);
        match self {
            Self::Clos { leaves, spines, hosts, planes, .. } => {
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
            Self::FatTree { radix, pods, .. } => {
                if radix < 2 || radix % 2 != 0 || u64::from(radix) > max {
                    Some(format!("the radix is even and 2 to {max}, not {radix}"))
                } else if pods < 2 || pods > radix {
                    Some(format!("the pods are 2 to {radix}, not {pods}"))
                } else {
                    None
                }
            }
            Self::Pods { pods, leaves, aggregation, cores, hosts, groups, .. } => {
                let numbers = [pods, leaves, aggregation, cores, hosts, groups];
                let widest = [
                    ("a leaf", u64::from(hosts) + u64::from(aggregation)),
                    ("an aggregation switch", u64::from(leaves) + u64::from(cores / groups.max(1))),
                    ("a core", u64::from(pods) * u64::from(aggregation / groups.max(1))),
                ];
                if numbers.contains(&0) || pods < 2 {
                    Some("every number is at least 1, and there are 2 pods".to_owned())
                } else if aggregation % groups != 0 || cores % groups != 0 {
                    Some(format!("{groups} groups share out aggregation switches and cores evenly"))
                } else if numbers.iter().any(|&number| number > MOST_OF_A_KIND) {
                    Some(format!("{MOST_OF_A_KIND} at most of a kind"))
                } else {
                    let (which, ports) = widest.into_iter().find(|&(_, ports)| ports > max)?;
                    Some(format!("{which} would need {ports} ports ({max} are possible)"))
                }
            }
            Self::Torus { width, height, hosts, .. } => {
                let ports = u64::from(hosts) + 4;
                Self::direct_out_of_range([width, height, hosts], ports)
            }
            Self::Dragonfly { groups, switches, hosts, .. } => {
                let between = u64::from(groups).div_ceil(u64::from(switches.max(1)));
                let ports = u64::from(hosts) + u64::from(switches) + between;
                Self::direct_out_of_range([groups, switches, hosts], ports)
            }
            Self::Random { switches, cables, hosts, .. } => {
                let ports = u64::from(hosts) + u64::from(cables);
                let few =
                    (switches < 3 || cables < 2).then_some("3 switches and 2 cables at least");
                few.map(str::to_owned)
                    .or_else(|| Self::direct_out_of_range([switches, cables, hosts], ports))
            }
        }
    }

    fn direct_out_of_range(numbers: [u32; 3], ports: u64) -> Option<String> {
        let max = u64::from(MAX_PORTS);
        if numbers.contains(&0) {
            Some("every number is at least 1".to_owned())
        } else if ports > max {
            Some(format!("a switch would need {ports} ports ({max} are possible)"))
        } else {
            (numbers[0].max(numbers[1]) > MOST_OF_A_KIND)
                .then(|| format!("{MOST_OF_A_KIND} at most of a kind"))
        }
    }
}
