//! Shortest routes in lanes, spread over the links as far as the lanes have room.
//!
//! How many lanes routes need follows from how alike they are: fewest where both directions between two switches
//! take the same links, most where each address goes its own way. So several beginnings are tried, and from each the
//! routes that make the most loaded links are moved, one address at one switch a time, as long as its pairs of
//! switches still find lanes. That gives what DFSSSP's balance gives, in the lanes that LASH needs.

use super::Ranks;
use super::balanced::{self, Cost, Ends};
use super::lanes::{Assignment, Lanes, Wait, walk};
use super::ranks::distances;
use super::shortest::{Shortest, Weights};
use crate::hosts::Hosts;
use crate::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// Addresses times switches with hosts: larger fabrics are routed up*/down*.
const MOST_ROUTES: usize = 10_000_000;
/// Routes that are walked from each beginning. Some tenths of a second.
const MOST_STEPS: usize = 1_000_000;
/// Moves of one link's routes that are tried, the best first: one may find no lanes.
const MOST_TRIES: usize = 30;

/// Fills in the routes to the addresses, of which each host has so many, and finds the lane of each; `None` where
/// `most` lanes do not suffice. `is_spread`: the best of several; else by the lowest ports.
pub(super) fn fill(
    topology: &Topology,
    ranks: &Ranks,
    ends: &[Ends<'_>],
    offsets: usize,
    tables: &mut Vec<ForwardingTable>,
    (is_spread, most): (bool, u8),
) -> Option<Lanes> {
    let addresses: usize = ends.iter().map(|ends| ends.lids.len()).sum();
    let carrying = ends.iter().filter(|ends| !ends.lids.is_empty()).count();
    if addresses.saturating_mul(carrying) > MOST_ROUTES {
        return None;
    }
    let beginnings = match is_spread {
        true => {
            vec![Shortest::Any, Shortest::Weighted(Weights::new(topology)), Shortest::LowestPort]
        }
        false => vec![Shortest::LowestPort],
    };
    let mut best: Option<(Cost, Vec<ForwardingTable>, Lanes)> = None;
    for mut shortest in beginnings {
        let mut filled = tables.clone();
        balanced::fill(topology, &mut shortest, ends, offsets, &mut filled);
        let Some(mut layered) = Layered::new(topology, ranks, (ends, offsets), filled, most) else {
            continue;
        };
        if is_spread {
            layered.spread();
        }
        let cost = layered.cost();
        if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
            best = Some((cost, layered.tables, layered.assignment.finish()));
        }
    }
    let (_, filled, lanes) = best?;
    *tables = filled;
    Some(lanes)
}

/// A host's base address, on a switch.
#[derive(Clone, Copy)]
struct Base {
    switch: NodeIndex,
    lid: Lid,
}

/// A switch is to lead to a base address by another port: by how much less the loads' fourth powers add up to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Move {
    change: i128,
    base: usize,
    port: PortNum,
}

struct Layered<'a> {
    topology: &'a Topology,
    tables: Vec<ForwardingTable>,
    assignment: Assignment<'a>,
    /// By switch.
    hosts: Vec<u64>,
    lids: Vec<&'a [Lid]>,
    /// By switch: how far all others are.
    distances: Vec<Vec<u32>>,
    bases: Vec<Base>,
    /// By base address and switch: how many hosts send to it through there.
    flows: Vec<Vec<u32>>,
    /// By port of a switch: how many hosts send by it.
    loads: Vec<u64>,
}

impl<'a> Layered<'a> {
    /// Lanes for the routes of the tables; `None` where there are too few.
    fn new(
        topology: &'a Topology,
        ranks: &'a Ranks,
        (ends, offsets): (&'a [Ends<'a>], usize),
        tables: Vec<ForwardingTable>,
        most: u8,
    ) -> Option<Self> {
        let switches = topology.switch_count();
        let hosts = Hosts::of(topology).per_switch(topology);
        let is_base = |lid: &Lid| lid.index().is_multiple_of(offsets);
        let bases = ends.iter().flat_map(|&Ends { switch, lids }| {
            lids.iter().copied().filter(is_base).map(move |lid| Base { switch, lid })
        });
        let bases: Vec<Base> = bases.collect();
        let mut lids: Vec<&[Lid]> = vec![&[]; switches];
        ends.iter().for_each(|ends| lids[ends.switch.index()] = ends.lids);
        let mut layered = Self {
            topology,
            tables,
            assignment: Assignment::new(topology, ranks, most),
            hosts: topology.switches().map(|switch| hosts[switch.index()] as u64).collect(),
            lids,
            distances: topology.switches().map(|switch| distances(topology, switch).0).collect(),
            flows: vec![vec![0; switches]; bases.len()],
            bases,
            loads: vec![0; topology.port_count()],
        };
        for one in topology.switches() {
            for other in topology.switches().take(one.index()) {
                let waits = layered.waits(one, other);
                if !layered.assignment.put_in((one, other), &waits) {
                    return None;
                }
            }
        }
        for base in 0..layered.bases.len() {
            topology.switches().for_each(|from| layered.count(base, from, true));
        }
        Some(layered)
    }

    fn cost(&self) -> Cost {
        (
            self.loads.iter().copied().max().unwrap_or(0),
            self.loads.iter().map(|load| load * load).sum(),
        )
    }

    /// What the routes between two switches, in both directions, have links wait for.
    fn waits(&self, one: NodeIndex, other: NodeIndex) -> Vec<Wait> {
        let (mut waits, mut way) = (Vec::new(), Vec::new());
        if [one, other].iter().any(|switch| self.lids[switch.index()].is_empty()) {
            return waits;
        }
        for (from, to) in [(one, other), (other, one)] {
            for &lid in self.lids[to.index()] {
                walk(self.topology, &self.tables, (from, to), lid, &mut way);
                waits.extend(way.windows(2).map(|pair| (pair[0], pair[1])));
            }
        }
        waits.sort_unstable();
        waits.dedup();
        waits
    }

    fn way(&self, from: NodeIndex, base: usize) -> Vec<PortIndex> {
        let mut way = Vec::new();
        let Base { switch, lid } = self.bases[base];
        walk(self.topology, &self.tables, (from, switch), lid, &mut way);
        way
    }

    /// What a switch's hosts send to an address is on its links, or no longer is.
    fn count(&mut self, base: usize, from: NodeIndex, is_on: bool) {
        let hosts = self.hosts[from.index()];
        if hosts == 0 || from == self.bases[base].switch {
            return;
        }
        for link in self.way(from, base) {
            let flow = &mut self.flows[base][self.topology.port(link).node.index()];
            let load = &mut self.loads[link.index()];
            match is_on {
                true => (*load, *flow) = (*load + hosts, *flow + hosts as u32),
                false => (*load, *flow) = (*load - hosts, *flow - hosts as u32),
            }
        }
    }

    /// Moves routes away from the most loaded links, until none of those above the mean has any that can be moved.
    fn spread(&mut self) {
        let topology = self.topology;
        let links = topology.switches().flat_map(|switch| {
            let links = topology.switch_links(switch);
            links.filter_map(move |(port, _)| topology.port_of(switch, port))
        });
        let links: Vec<PortIndex> = links.collect();
        // Shortest routes are as long as any, so that the sum does not change.
        let mean = self.loads.iter().sum::<u64>() / links.len().max(1) as u64;
        let mut is_stuck = vec![false; self.loads.len()];
        let mut steps = MOST_STEPS;
        while steps > 0 {
            let movable = links.iter().filter(|link| !is_stuck[link.index()]);
            let most = movable.max_by_key(|link| self.loads[link.index()]).copied();
            let Some(link) = most.filter(|link| self.loads[link.index()] > mean) else { return };
            let at = self.topology.port(link).node;
            let mut moves = self.moves(link, &mut steps);
            moves.sort_unstable();
            moves.truncate(MOST_TRIES);
            let is_moved = moves.into_iter().any(|Move { base, port, .. }| {
                steps > 0 && self.lead(at, (base, port), &mut steps)
            });
            match is_moved {
                true => is_stuck.fill(false),
                false => is_stuck[link.index()] = true,
            }
        }
    }

    /// What would take load from the link.
    fn moves(&self, link: PortIndex, steps: &mut usize) -> Vec<Move> {
        let at = self.topology.port(link).node;
        let mut moves = Vec::new();
        for (base, &Base { switch: to, lid }) in self.bases.iter().enumerate() {
            let flow = u64::from(self.flows[base][at.index()]);
            let port = self.tables[at.index()].get(lid);
            if flow == 0 || to == at || self.topology.port_of(at, port) != Some(link) {
                continue;
            }
            let distance = &self.distances[to.index()];
            let is_nearer = |peer: NodeIndex| distance[peer.index()] < distance[at.index()];
            let others = self.topology.switch_links(at);
            let others = others.filter(|&(other, peer)| other != port && is_nearer(peer));
            let former = self.way(at, base);
            for (port, peer) in others {
                *steps = steps.saturating_sub(1);
                let Some(out) = self.topology.port_of(at, port) else { continue };
                let mut way = self.way(peer, base);
                way.push(out);
                let fourth = |load: u64| i128::from(load).pow(4);
                let load = |link: &PortIndex| self.loads[link.index()];
                let less = |link| fourth(load(link)) - fourth(load(link) - flow);
                let more = |link| fourth(load(link) + flow) - fourth(load(link));
                let left = former.iter().filter(|link| !way.contains(link)).map(less);
                let taken = way.iter().filter(|link| !former.contains(link)).map(more);
                let change = taken.sum::<i128>() - left.sum::<i128>();
                if change < 0 {
                    moves.push(Move { change, base, port });
                }
            }
        }
        moves
    }

    /// Leads to a base address by another port, if all routes through there find lanes.
    fn lead(&mut self, at: NodeIndex, (base, port): (usize, PortNum), steps: &mut usize) -> bool {
        let Base { switch: to, lid } = self.bases[base];
        let passes = |&from: &NodeIndex| {
            let mut way = self.way(from, base).into_iter();
            from != to && way.any(|link| self.topology.port(link).node == at)
        };
        let sends = |switch: &NodeIndex| self.hosts[switch.index()] > 0;
        let from: Vec<NodeIndex> = self.topology.switches().filter(sends).filter(passes).collect();
        let walks = |from: &NodeIndex| self.lids[from.index()].len() + self.lids[to.index()].len();
        let walked: usize = from.iter().map(walks).sum();
        *steps = steps.saturating_sub(self.topology.switch_count() + 2 * walked);
        let former: Vec<(Vec<Wait>, u8)> = from
            .iter()
            .map(|&from| (self.waits(from, to), self.assignment.lane(from, to)))
            .collect();
        for (&from, (waits, _)) in from.iter().zip(&former) {
            self.count(base, from, false);
            self.assignment.take_out((from, to), waits);
        }
        let former_port = self.tables[at.index()].get(lid);
        self.tables[at.index()].set(lid, port);
        let mut put_in: Vec<Vec<Wait>> = Vec::new();
        for &from in &from {
            let waits = self.waits(from, to);
            if !self.assignment.put_in((from, to), &waits) {
                break;
            }
            put_in.push(waits);
        }
        let fits = put_in.len() == from.len();
        if !fits {
            for (&from, waits) in from.iter().zip(&put_in) {
                self.assignment.take_out((from, to), waits);
            }
            self.tables[at.index()].set(lid, former_port);
            for (&from, (waits, lane)) in from.iter().zip(&former) {
                self.assignment.put_back((from, to), waits, *lane);
            }
        }
        from.iter().for_each(|&from| self.count(base, from, true));
        fits
    }
}
