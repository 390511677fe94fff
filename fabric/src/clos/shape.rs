//! A recognised Clos.

use super::Irregularity;
use crate::{NodeIndex, PortIndex, PortNum, Topology};

/// A switch's stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Hosts hang here.
    Leaf,
    /// Between leaves and cores; three stages only.
    Aggregation,
    /// A spine of two stages, a core of three.
    Root,
    /// In no stage: it hangs on the Clos, no tree covers it, and routes to it go up and then down.
    Outside,
}

/// A fabric's Clos shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clos {
    /// Leaves, by GUID.
    pub leaves: Vec<NodeIndex>,
    /// Aggregation switches, by GUID; empty with two stages.
    pub aggregation: Vec<NodeIndex>,
    /// Spines or cores, by GUID.
    pub roots: Vec<NodeIndex>,
    /// Parallel cables of a leaf and the switch above it, as most pairs have them.
    pub leaf_planes: usize,
    /// Cables of a root to every leaf, with three stages to every pod: so many trees grow from it. With two stages
    /// these are the `leaf_planes`.
    pub root_planes: usize,
    /// Three stages: aggregation switches of a pod that lead to the same cores, as most pods have them. They
    /// share the root's cables to the pod evenly.
    pub group_width: usize,
    /// The leaf that routes between roots pass through, at the top of the ranks.
    pub transit: NodeIndex,
    /// Cables that no Clos has, each by one end: they carry ordinary traffic, and no tree uses them.
    pub strays: Vec<PortIndex>,
    /// Switches that hang on the Clos and are no part of it, by GUID.
    pub outside: Vec<NodeIndex>,
    /// Everything that is not as it would be in a regular fabric.
    pub irregularities: Vec<Irregularity>,
    /// Stage of every switch.
    pub(super) level: Vec<Level>,
    /// Pod of every leaf and aggregation switch; 0 with two stages and for roots.
    pub(super) pod: Vec<u32>,
    /// Group of every root and aggregation switch; of a spine its own place among the roots.
    pub(super) group: Vec<u32>,
    /// Place of every aggregation switch among those of its pod and group; 0 of others.
    pub(super) place_in_group: Vec<u32>,
    pub(super) pods: u32,
    pub(super) groups: u32,
}

impl Clos {
    /// 2 or 3.
    pub fn stages(&self) -> usize {
        if self.aggregation.is_empty() { 2 } else { 3 }
    }

    /// Stage of a switch.
    pub fn level(&self, switch: NodeIndex) -> Level {
        self.level[switch.index()]
    }

    /// Pod of a leaf or aggregation switch, from 0; always 0 with two stages.
    pub fn pod(&self, switch: NodeIndex) -> u32 {
        self.pod[switch.index()]
    }

    /// Group of a root or aggregation switch, from 0 by lowest root GUID.
    pub fn group(&self, switch: NodeIndex) -> u32 {
        self.group[switch.index()]
    }

    /// Place of an aggregation switch among those of its pod that lead to the same cores, from 0 by GUID.
    pub fn place_in_group(&self, switch: NodeIndex) -> u32 {
        self.place_in_group[switch.index()]
    }

    /// Parallel cables of a root and a switch below it, as most pairs have them.
    pub const fn root_cables(&self) -> usize {
        self.root_planes / self.group_width
    }

    /// Number of pods; 1 with two stages.
    pub const fn pods(&self) -> u32 {
        self.pods
    }

    /// Number of groups; the number of spines with two stages.
    pub const fn groups(&self) -> u32 {
        self.groups
    }

    /// The switches below a root that one of its trees leads over, by the cable of the root to each leaf, or pod,
    /// that it uses.
    pub fn below(&self, root: NodeIndex, plane: u16) -> Vec<NodeIndex> {
        let place = usize::from(plane) / self.root_cables().max(1);
        let leads = |&&switch: &&NodeIndex| {
            self.group(switch) == self.group(root) && self.place_in_group(switch) as usize == place
        };
        self.leaves.iter().chain(self.aggregation.iter().filter(leads)).copied().collect()
    }

    /// How many cables lead from `switch` up to the next stage; strays are none of them.
    pub fn uplinks(&self, topology: &Topology, switch: NodeIndex) -> usize {
        let leads_up = |peer: NodeIndex| match (self.level(switch), self.level(peer)) {
            (Level::Leaf, Level::Aggregation) => self.pod(switch) == self.pod(peer),
            (Level::Leaf, Level::Root) => self.stages() == 2,
            (Level::Aggregation, Level::Root) => self.group(switch) == self.group(peer),
            _ => false,
        };
        topology.switch_links(switch).filter(|&(_, peer)| leads_up(peer)).count()
    }
}

/// The parallel cables from `lower` to `upper`, as `lower`'s ports, lowest first: the n-th is plane n.
pub(crate) fn parallel(
    topology: &Topology,
    lower: NodeIndex,
    upper: NodeIndex,
) -> impl Iterator<Item = PortNum> + '_ {
    topology.switch_links(lower).filter(move |&(_, peer)| peer == upper).map(|(port, _)| port)
}
