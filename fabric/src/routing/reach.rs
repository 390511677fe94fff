//! Up-then-down reachability of one destination switch from all others.

use std::collections::BTreeMap;

use super::Ranks;
use super::balanced::NextHops;
use crate::{NodeIndex, PortNum, Topology};

const FAR: u32 = u32::MAX;

/// The cables of one direction of a switch: own port, the switch there, lowest port first.
type Cables = Vec<(u8, u32)>;

/// The switch-to-switch cables of a fabric, up and down. Switches whose cables of a direction lead from the
/// same ports to the same switches are *twins* in it: every question has the same answer for all twins, so the
/// answer is worked out once for them. In a regular Clos the leaves of a pod are twins.
pub(super) struct Links {
    up: Direction,
    down: Direction,
    /// The sets of twins upwards, so that those of the switches above come first.
    twins_from_top: Vec<u32>,
    /// By set of twins upwards: the switches.
    members: Vec<Vec<NodeIndex>>,
}

struct Direction {
    twin_of: Vec<u32>,
    /// By set of twins: their cables.
    cables: Vec<Cables>,
}

impl Direction {
    fn new(cables_of: impl Iterator<Item = Cables>) -> Self {
        let mut known = BTreeMap::new();
        let mut cables = Vec::new();
        let twin_of = cables_of.map(|own| {
            *known.entry(own.clone()).or_insert_with(|| {
                cables.push(own);
                cables.len() as u32 - 1
            })
        });
        Self { twin_of: twin_of.collect(), cables }
    }

    fn of(&self, switch: NodeIndex) -> &[(u8, u32)] {
        &self.cables[self.twin_of[switch.index()] as usize]
    }
}

impl Links {
    /// The sets of twins, upwards and downwards, that a switch is in.
    pub(super) fn twins(&self, switch: NodeIndex) -> (u32, u32) {
        (self.up.twin_of[switch.index()], self.down.twin_of[switch.index()])
    }

    pub(super) fn new(topology: &Topology, ranks: &Ranks) -> Self {
        let cables = |switch: NodeIndex, up: bool| -> Cables {
            topology
                .switch_links(switch)
                .filter(|&(_, peer)| ranks.is_above(peer, switch) == up)
                .map(|(port, peer)| (port.0, peer.0))
                .collect()
        };
        let up = Direction::new(topology.switches().map(|switch| cables(switch, true)));
        let down = Direction::new(topology.switches().map(|switch| cables(switch, false)));
        // Twins have the same switches above them, so the first of a set comes after all of those.
        let mut listed = vec![false; up.cables.len()];
        let mut twins_from_top = Vec::with_capacity(up.cables.len());
        for switch in ranks.descending() {
            let twins = up.twin_of[switch.index()];
            if !std::mem::replace(&mut listed[twins as usize], true) {
                twins_from_top.push(twins);
            }
        }
        let mut members = vec![Vec::new(); up.cables.len()];
        for switch in topology.switches() {
            members[up.twin_of[switch.index()] as usize].push(switch);
        }
        Self { up, down, twins_from_top, members }
    }
}

/// The nearest of a switch's cables: hops over it, and the lowest port of those with as many.
#[derive(Clone, Copy)]
struct Nearest {
    hops: u32,
    port: u8,
}

impl Nearest {
    const NONE: Self = Self { hops: FAR, port: PortNum::NONE.0 };

    fn among(cables: &[(u8, u32)], hops: impl Fn(usize) -> u32) -> Self {
        let mut nearest = Self::NONE;
        for &(port, peer) in cables {
            let over = hops(peer as usize).saturating_add(1);
            if over < nearest.hops {
                nearest = Self { hops: over, port };
            }
        }
        nearest
    }
}

/// How far a destination switch is from every switch, by routes that go up, then down.
///
/// A switch that can reach the destination going only down does so; else it goes up. That makes any
/// choice among legal next hops free of loops: the rank falls, then rises, and never turns twice.
pub(super) struct Reach {
    /// By switch: the way that goes only down. Few have one: those above the destination.
    down: Vec<Nearest>,
    /// The switches above the destination, itself included, from the bottom up.
    above: Vec<NodeIndex>,
    /// By set of twins: that way, where it was worked out.
    twins_down: Vec<Option<Nearest>>,
    /// By set of twins: the way that goes up first.
    up: Vec<Nearest>,
}

impl Reach {
    pub(super) fn new(links: &Links) -> Self {
        Self {
            down: vec![Nearest::NONE; links.up.twin_of.len()],
            above: Vec::new(),
            twins_down: vec![None; links.down.cables.len()],
            up: vec![Nearest::NONE; links.up.cables.len()],
        }
    }

    /// Computes distances and next hops to `destination`: upwards over the switches above it, then
    /// downwards over all sets of twins.
    pub(super) fn compute(&mut self, links: &Links, ranks: &Ranks, destination: NodeIndex) {
        for switch in self.above.drain(..) {
            self.down[switch.index()] = Nearest::NONE;
        }
        self.down[destination.index()] = Nearest { hops: 0, port: PortNum::ZERO.0 };
        self.above.push(destination);
        let mut next = 0;
        while let Some(&switch) = self.above.get(next) {
            next += 1;
            for &(_, peer) in links.up.of(switch) {
                let down = &mut self.down[peer as usize];
                if down.hops == FAR {
                    // Marked as found; the way itself follows when all below it are known.
                    down.hops = FAR - 1;
                    self.above.push(NodeIndex(peer));
                }
            }
        }
        // Stage by stage they were met in order: a sort that looks for runs has little to do.
        self.above.sort_by_key(|&switch| std::cmp::Reverse(ranks.place(switch)));
        self.twins_down.fill(None);
        for &switch in self.above.iter().skip(1) {
            let twins = links.down.twin_of[switch.index()] as usize;
            let cables = &links.down.cables[twins];
            self.down[switch.index()] = *self.twins_down[twins]
                .get_or_insert_with(|| Nearest::among(cables, |peer| self.down[peer].hops));
        }
        for &twins in &links.twins_from_top {
            let hops = |peer: usize| match self.down[peer].hops {
                FAR => self.up[links.up.twin_of[peer] as usize].hops,
                hops => hops,
            };
            self.up[twins as usize] = Nearest::among(&links.up.cables[twins as usize], hops);
        }
    }

    /// The lowest port of a switch's nearest legal next hops: 0xFF where there is no route, 0 at the
    /// destination.
    pub(super) fn port(&self, links: &Links, switch: NodeIndex) -> u8 {
        match self.down[switch.index()] {
            Nearest { hops: FAR, .. } => self.up[links.up.twin_of[switch.index()] as usize].port,
            nearest => nearest.port,
        }
    }

    /// The destination and every switch above it, from the bottom up.
    pub(super) fn above(&self) -> &[NodeIndex] {
        &self.above
    }

    /// The switches that have no legal route to the destination.
    pub(super) fn without_route<'a>(
        &'a self,
        links: &'a Links,
    ) -> impl Iterator<Item = NodeIndex> + 'a {
        let sets = self.up.iter().zip(&links.members);
        let nowhere = sets.filter(|(up, _)| up.hops == FAR).flat_map(|(_, members)| members);
        nowhere.copied().filter(|switch| self.down[switch.index()].hops == FAR)
    }

    /// All nearest legal next hops of `switch`, lowest port first; empty where there is no route.
    pub(super) fn nearest(&self, links: &Links, switch: NodeIndex, ports: &mut Vec<PortNum>) {
        let twins = links.up.twin_of[switch.index()] as usize;
        let (cables, hops) = match self.down[switch.index()].hops {
            FAR => (links.up.of(switch), self.up[twins].hops),
            hops => (links.down.of(switch), hops),
        };
        let only_down = self.down[switch.index()].hops != FAR;
        let from = |peer: usize| match self.down[peer].hops {
            FAR if !only_down => self.up[links.up.twin_of[peer] as usize].hops,
            hops => hops,
        };
        ports.clear();
        if hops != FAR {
            let near = |&&(_, peer): &&(u8, u32)| from(peer as usize).saturating_add(1) == hops;
            ports.extend(cables.iter().filter(near).map(|&(port, _)| PortNum(port)));
        }
    }
}

/// Next hops of routes that go up, then down.
pub(super) struct UpDown<'a> {
    links: &'a Links,
    ranks: &'a Ranks,
    reach: Reach,
}

impl<'a> UpDown<'a> {
    pub(super) fn new(links: &'a Links, ranks: &'a Ranks) -> Self {
        Self { links, ranks, reach: Reach::new(links) }
    }
}

impl NextHops for UpDown<'_> {
    fn find(
        &mut self,
        topology: &Topology,
        to: NodeIndex,
        chooses: &dyn Fn(NodeIndex) -> bool,
        each: &mut dyn FnMut(NodeIndex, &[PortNum]),
    ) {
        let Self { links, ranks, reach } = self;
        reach.compute(links, ranks, to);
        let mut is_above = vec![false; topology.switch_count()];
        reach.above().iter().for_each(|switch| is_above[switch.index()] = true);
        let others = ranks.descending().iter().filter(|switch| !is_above[switch.index()]);
        let mut ports = Vec::new();
        for &switch in reach.above().iter().filter(|&&switch| switch != to).chain(others) {
            ports.clear();
            if chooses(switch) {
                reach.nearest(links, switch, &mut ports);
            }
            each(switch, &ports);
        }
    }
}
