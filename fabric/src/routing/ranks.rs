//! Ranks: what "up" and "down" mean. Every route goes up first, then down, never up again, so no set of
//! routes over the same ranks closes a credit loop (Schroeder et al., Autonet, 1991).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::clos::{Clos, Level};
use crate::hosts::Hosts;
use crate::{NodeIndex, Topology};

/// An order of all switches from the top to the bottom, so every cable has an up end. In a Clos it is that of
/// their ranks, 0 at the top, and equal ranks are ordered by GUID.
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
    /// switches of its pod 1, cores 2, other aggregation switches 3, other leaves 4. What is outside is below
    /// all stages, the farther from the Clos the lower.
    pub fn of_clos(topology: &Topology, clos: &Clos) -> Self {
        let home = clos.pod(clos.transit);
        let below = depths_outside(topology, clos);
        let rank = |switch: NodeIndex| match clos.level(switch) {
            _ if switch == clos.transit => 0,
            Level::Root if clos.stages() == 2 => 1,
            Level::Leaf if clos.stages() == 2 => 2,
            Level::Aggregation if clos.pod(switch) == home => 1,
            Level::Root => 2,
            Level::Aggregation => 3,
            Level::Leaf => 4,
            Level::Outside => 4 + below[switch.index()],
        };
        Self::new(topology.switches().map(rank).collect())
    }

    /// Ranks of any fabric, in each connected part for itself. The switch that is nearest to all others is at the
    /// top; the next is always one that is cabled to those before it, so each has a way up. Of several it is the
    /// one that is farthest from hosts: what only joins others is above what carries hosts, as in a Clos, but for
    /// the few over which the upper ones are joined.
    pub fn of_any(topology: &Topology, hosts: &Hosts) -> Self {
        let levels = levels(topology, hosts);
        let mut rank = vec![u32::MAX; topology.switch_count()];
        let mut descending = Vec::with_capacity(rank.len());
        for switch in topology.switches() {
            if rank[switch.index()] != u32::MAX {
                continue;
            }
            let part: Vec<NodeIndex> = distances(topology, switch).1;
            let height = |&s: &NodeIndex| {
                let (distance, part) = distances(topology, s);
                part.last().map_or(0, |last| distance[last.index()])
            };
            let key = |s: &NodeIndex| (height(s), Reverse(levels[s.index()]), *s);
            let Some(top) = part.iter().copied().min_by_key(key) else { continue };
            let (distance, part) = distances(topology, top);
            part.iter().for_each(|s| rank[s.index()] = distance[s.index()]);
            descending.extend(downwards(topology, &levels, top, &distance));
        }
        Self::of(rank, descending)
    }

    fn new(rank: Vec<u32>) -> Self {
        let mut descending: Vec<NodeIndex> = (0..rank.len() as u32).map(NodeIndex).collect();
        descending.sort_by_key(|s| (rank[s.index()], *s));
        Self::of(rank, descending)
    }

    pub(super) fn of(rank: Vec<u32>, descending: Vec<NodeIndex>) -> Self {
        let mut place = vec![0; rank.len()];
        for (at, switch) in descending.iter().enumerate() {
            place[switch.index()] = at as u32;
        }
        Self { rank, descending, place }
    }

    /// The rank of a switch; of a fabric that is no Clos its distance from the top.
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

/// Hops from every switch outside the Clos to it; 0 of the others.
fn depths_outside(topology: &Topology, clos: &Clos) -> Vec<u32> {
    let mut depth = vec![0; topology.switch_count()];
    let is_outside = |switch: NodeIndex| clos.level(switch) == Level::Outside;
    let mut reached: Vec<NodeIndex> = topology.switches().filter(|s| !is_outside(*s)).collect();
    let mut next = if clos.outside.is_empty() { reached.len() } else { 0 };
    while let Some(&switch) = reached.get(next) {
        next += 1;
        for (_, peer) in topology.switch_links(switch) {
            if is_outside(peer) && depth[peer.index()] == 0 {
                depth[peer.index()] = depth[switch.index()] + 1;
                reached.push(peer);
            }
        }
    }
    depth
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

/// Hops from every switch to the nearest that carries a host; 0 where none does.
pub(super) fn levels(topology: &Topology, hosts: &Hosts) -> Vec<u32> {
    let mut level = vec![u32::MAX; topology.switch_count()];
    let carries = hosts.per_switch(topology);
    let mut reached: Vec<NodeIndex> =
        topology.switches().filter(|switch| carries[switch.index()] > 0).collect();
    reached.iter().for_each(|switch| level[switch.index()] = 0);
    let mut next = 0;
    while let Some(&switch) = reached.get(next) {
        next += 1;
        for (_, peer) in topology.switch_links(switch) {
            if level[peer.index()] == u32::MAX {
                level[peer.index()] = level[switch.index()] + 1;
                reached.push(peer);
            }
        }
    }
    level.iter().map(|&level| if level == u32::MAX { 0 } else { level }).collect()
}

/// The switches of a part as [`Ranks::of_any`] orders them.
fn downwards(
    topology: &Topology,
    levels: &[u32],
    top: NodeIndex,
    distance: &[u32],
) -> Vec<NodeIndex> {
    let key = |s: NodeIndex| (Reverse(levels[s.index()]), distance[s.index()], s);
    let mut listed = vec![false; levels.len()];
    let (mut order, mut next) = (Vec::new(), BTreeSet::from([key(top)]));
    while let Some(&first) = next.first() {
        // Where the others at hand are lower than some that are not, one that leads to those is next.
        let leads_up = |&&(level, _, s): &&(Reverse<u32>, u32, NodeIndex)| {
            let mut peers = topology.switch_links(s).map(|(_, peer)| peer.index());
            peers.any(|peer| !listed[peer] && levels[peer] > level.0)
        };
        let mut same = next.iter().take_while(|(level, ..)| *level == first.0);
        let chosen = same.find(leads_up).copied().unwrap_or(first);
        next.remove(&chosen);
        let switch = chosen.2;
        listed[switch.index()] = true;
        order.push(switch);
        let peers = topology.switch_links(switch).map(|(_, peer)| peer);
        next.extend(peers.filter(|peer| !listed[peer.index()]).map(key));
    }
    order
}
