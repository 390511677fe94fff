//! Up-then-down reachability of one destination switch from all others.

use super::Ranks;
use crate::{NodeIndex, PortNum, Topology};

const FAR: u32 = u32::MAX;

/// A cable from one switch to another, as [`Reach`] walks them.
#[derive(Clone, Copy)]
struct Link {
    port: u8,
    peer: u32,
    up: bool,
}

/// The switch-to-switch cables of a fabric, with their direction, packed for walking them often.
pub(super) struct Links {
    first: Vec<u32>,
    links: Vec<Link>,
}

impl Links {
    pub(super) fn new(topology: &Topology, ranks: &Ranks) -> Self {
        let mut first = vec![0];
        let mut links = Vec::new();
        for switch in topology.switches() {
            links.extend(topology.switch_links(switch).map(|(port, peer)| Link {
                port: port.0,
                peer: peer.0,
                up: ranks.is_above(peer, switch),
            }));
            first.push(links.len() as u32);
        }
        Self { first, links }
    }

    fn of(&self, switch: NodeIndex) -> &[Link] {
        let range = self.first[switch.index()]..self.first[switch.index() + 1];
        &self.links[range.start as usize..range.end as usize]
    }
}

/// How far a destination switch is from every switch, by routes that go up, then down.
///
/// A switch that can reach the destination going only down does so; else it goes up. That makes any
/// choice among legal next hops free of loops: the rank falls, then rises, and never turns twice.
pub(super) struct Reach {
    /// Hops going only down.
    down: Vec<u32>,
    /// Hops by the legal way: down where that is possible.
    legal: Vec<u32>,
}

impl Reach {
    pub(super) fn new(switches: usize) -> Self {
        Self { down: vec![FAR; switches], legal: vec![FAR; switches] }
    }

    /// Computes the distances to `destination`: one pass upwards, one pass downwards over the ranks.
    pub(super) fn compute(&mut self, links: &Links, ranks: &Ranks, destination: NodeIndex) {
        self.down.fill(FAR);
        self.down[destination.index()] = 0;
        for &switch in ranks.descending().iter().rev().filter(|&&s| s != destination) {
            let below = links.of(switch).iter().filter(|link| !link.up);
            let nearest = below.map(|link| self.down[link.peer as usize]).min();
            self.down[switch.index()] = nearest.unwrap_or(FAR).saturating_add(1);
        }
        self.legal.copy_from_slice(&self.down);
        for &switch in ranks.descending() {
            if self.legal[switch.index()] == FAR {
                let above = links.of(switch).iter().filter(|link| link.up);
                let nearest = above.map(|link| self.legal[link.peer as usize]).min();
                self.legal[switch.index()] = nearest.unwrap_or(FAR).saturating_add(1);
            }
        }
    }

    /// The nearest legal next hops of `switch`, lowest port first; empty where there is no route.
    pub(super) fn nearest(&self, links: &Links, switch: NodeIndex, ports: &mut Vec<PortNum>) {
        ports.clear();
        let only_down = self.down[switch.index()] != FAR;
        let mut best = FAR;
        for link in links.of(switch).iter().filter(|link| link.up != only_down) {
            let peer = link.peer as usize;
            let distance = if only_down { self.down[peer] } else { self.legal[peer] };
            if distance < best {
                best = distance;
                ports.clear();
            }
            if distance == best && distance != FAR {
                ports.push(PortNum(link.port));
            }
        }
    }
}
