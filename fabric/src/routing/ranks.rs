//! Ranks: what "up" and "down" mean. Every route goes up first, then down, never up again, so no set of
//! routes over the same ranks closes a credit loop (Schroeder et al., Autonet, 1991).

use crate::clos::{Clos, Level};
use crate::{NodeIndex, Topology};

/// A rank for every switch, 0 at the top. Equal ranks are ordered by GUID, so every cable has an up end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranks {
    rank: Vec<u32>,
    /// Switches from the top to the bottom.
    descending: Vec<NodeIndex>,
    /// Place of each in that order.
    place: Vec<u32>,
}

impl Ranks {
    /// Ranks of a Clos. The transit leaf is at the top, so that roots (and what hangs on them) reach each
    /// other through it; below it every switch has the rank of its stage, even if cables are missing: ranks
    /// that stay when cables come and go keep every mixture of old and new tables free of loops.
    ///
    /// Two stages: transit leaf 0, spines 1, other leaves 2. Three: transit leaf 0, the aggregation
    /// switches of its pod 1, cores 2, other aggregation switches 3, other leaves 4.
    pub fn of_clos(topology: &Topology, clos: &Clos) -> Self {
        let home = clos.pod(clos.transit);
        let rank = |switch: NodeIndex| match clos.level(switch) {
            _ if switch == clos.transit => 0,
            Level::Root if clos.stages() == 2 => 1,
            Level::Leaf if clos.stages() == 2 => 2,
            Level::Aggregation if clos.pod(switch) == home => 1,
            Level::Root => 2,
            Level::Aggregation => 3,
            Level::Leaf => 4,
        };
        Self::new(topology.switches().map(rank).collect())
    }

    /// Ranks of any fabric: distance from the switch that is nearest to all others, in each connected
    /// part for itself.
    pub fn breadth_first(topology: &Topology) -> Self {
        let count = topology.switch_count();
        let mut rank = vec![u32::MAX; count];
        for switch in topology.switches() {
            if rank[switch.index()] != u32::MAX {
                continue;
            }
            let part: Vec<NodeIndex> = distances(topology, switch).1;
            let height = |&s: &NodeIndex| {
                let (distance, part) = distances(topology, s);
                part.last().map_or(0, |last| distance[last.index()])
            };
            let Some(top) = part.iter().copied().min_by_key(|s| (height(s), *s)) else { continue };
            let (distance, part) = distances(topology, top);
            part.iter().for_each(|s| rank[s.index()] = distance[s.index()]);
        }
        Self::new(rank)
    }

    fn new(rank: Vec<u32>) -> Self {
        let mut descending: Vec<NodeIndex> = (0..rank.len() as u32).map(NodeIndex).collect();
        descending.sort_by_key(|s| (rank[s.index()], *s));
        let mut place = vec![0; rank.len()];
        for (at, switch) in descending.iter().enumerate() {
            place[switch.index()] = at as u32;
        }
        Self { rank, descending, place }
    }

    /// The rank of a switch.
    pub fn rank(&self, switch: NodeIndex) -> u32 {
        self.rank[switch.index()]
    }

    /// Whether a step from `lower` to `upper` goes up.
    pub fn is_above(&self, upper: NodeIndex, lower: NodeIndex) -> bool {
        self.place(upper) < self.place(lower)
    }

    /// The place of a switch from the top, 0 for the topmost.
    pub(crate) fn place(&self, switch: NodeIndex) -> u32 {
        self.place[switch.index()]
    }

    /// Switches from the top to the bottom.
    pub(super) fn descending(&self) -> &[NodeIndex] {
        &self.descending
    }
}

/// Hops from `start` to every switch, and the switches reached in order of distance.
pub(super) fn distances(topology: &Topology, start: NodeIndex) -> (Vec<u32>, Vec<NodeIndex>) {
    let mut distance = vec![u32::MAX; topology.switch_count()];
    distance[start.index()] = 0;
    let mut reached = vec![start];
    let mut next = 0;
    while let Some(&switch) = reached.get(next) {
        next += 1;
        for (_, peer) in topology.switch_links(switch) {
            if distance[peer.index()] == u32::MAX {
                distance[peer.index()] = distance[switch.index()] + 1;
                reached.push(peer);
            }
        }
    }
    (distance, reached)
}
