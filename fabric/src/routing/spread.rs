//! Routes are moved off the most loaded links: one base address at one switch a time, to another of the next
//! hops that it may take there.
//!
//! [`balanced`](super::balanced) chooses address by address and cannot know what comes after. Here
//! all are there, so that each move is weighed by what it changes: the sum of the loads' sixth powers has to
//! fall, which the most loaded links make up.

use std::collections::BTreeSet;

use super::balanced::{Cost, NextHops};
use super::lanes::{Assignment, Wait, walk};
use crate::hosts::Hosts;
use crate::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// Addresses times switches that next hops are kept for: on larger fabrics routes stay as they are.
pub(super) const MOST_ROUTES: usize = 10_000_000;
/// Moves of one link's routes that are tried, the best first: lanes may have no room for one.
const MOST_TRIES: usize = 30;
/// Base addresses that are looked at in the time in which one route is walked.
const LOOKS: usize = 16;

/// A host's base address.
#[derive(Clone, Copy)]
pub(super) struct Base {
    /// The switch that the host is on.
    pub(super) switch: NodeIndex,
    pub(super) lid: Lid,
}

/// A switch is to lead to a base address by another port: by how much that changes the sum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Move {
    change: i128,
    base: usize,
    port: PortNum,
}

/// Lanes that routes have to find.
pub(super) struct Laned<'a> {
    pub(super) assignment: Assignment<'a>,
    /// By switch: all addresses of the hosts there.
    pub(super) lids: Vec<&'a [Lid]>,
    /// Pairs of switches whose routes are put in after all others.
    pub(super) late: BTreeSet<(NodeIndex, NodeIndex)>,
}

/// What may be moved, and what the links carry.
pub(super) struct Spread<'a> {
    topology: &'a Topology,
    tables: Vec<ForwardingTable>,
    /// By switch.
    hosts: Vec<u64>,
    bases: Vec<Base>,
    /// By switch with base addresses: by which ports each other one may lead there.
    next_hops: Vec<Vec<Vec<PortNum>>>,
    /// By base address and switch: how many hosts send to it through there.
    flows: Vec<Vec<u32>>,
    /// By port of a switch: how many hosts send by it.
    loads: Vec<u64>,
    laned: Option<Laned<'a>>,
}

impl<'a> Spread<'a> {
    /// Base addresses as the tables lead to them; `chooses`: which switches may lead otherwise.
    pub(super) fn new(
        topology: &'a Topology,
        bases: Vec<Base>,
        (next_hops, chooses): (&mut dyn NextHops, &dyn Fn(NodeIndex) -> bool),
        tables: Vec<ForwardingTable>,
    ) -> Self {
        let switches = topology.switch_count();
        let hosts = Hosts::of(topology).per_switch(topology);
        let mut ports = vec![Vec::new(); switches];
        let ends: BTreeSet<NodeIndex> = bases.iter().map(|base| base.switch).collect();
        for to in ends {
            let own = &mut ports[to.index()];
            own.resize(switches, Vec::new());
            let mut each = |switch: NodeIndex, ports: &[PortNum]| {
                own[switch.index()].extend_from_slice(ports);
            };
            next_hops.find(topology, to, chooses, &mut each);
        }
        let mut spread = Self {
            topology,
            tables,
            hosts: topology.switches().map(|switch| hosts[switch.index()] as u64).collect(),
            next_hops: ports,
            flows: vec![vec![0; switches]; bases.len()],
            bases,
            loads: vec![0; topology.port_count()],
            laned: None,
        };
        for base in 0..spread.bases.len() {
            topology.switches().for_each(|from| spread.count(base, from, true));
        }
        spread
    }

    /// Routes have to find these lanes; `None` where there are too few for them as they are.
    pub(super) fn laned(mut self, laned: Laned<'a>) -> Option<Self> {
        self.laned = Some(laned);
        let (topology, late) = (self.topology, self.laned.as_ref()?.late.clone());
        let pairs = topology.switches().flat_map(|one| {
            let others = topology.switches().take(one.index());
            others.map(move |other| (one, other))
        });
        let others = pairs.filter(|pair| !late.contains(pair));
        for (one, other) in others.chain(late.iter().copied()) {
            let waits = self.waits(one, other);
            let laned = self.laned.as_mut()?;
            if !laned.assignment.put_in((one, other), &waits) {
                return None;
            }
        }
        Some(self)
    }

    /// The most loaded link, then how uneven they are.
    pub(super) fn cost(&self) -> Cost {
        let squares = self.loads.iter().map(|load| load * load).sum();
        (self.loads.iter().copied().max().unwrap_or(0), squares)
    }

    /// The tables, and the lanes.
    pub(super) fn finish(self) -> (Vec<ForwardingTable>, Option<Laned<'a>>) {
        (self.tables, self.laned)
    }

    /// Moves routes as [`Self::run`] does: the tables by which the most loaded link carried least.
    pub(super) fn improved(
        mut self,
        steps: usize,
        is_free: impl Fn(usize, NodeIndex) -> bool,
    ) -> Vec<ForwardingTable> {
        let mut best = (self.cost(), self.tables.clone());
        self.run(steps, is_free, |spread| {
            let cost = spread.cost();
            if cost.0 < best.0.0 {
                best = (cost, spread.tables.clone());
            }
        });
        if self.cost() < best.0 { self.tables } else { best.1 }
    }

    /// Moves routes away from the most loaded links, until none of those above the mean has any that can be
    /// moved, or so many routes were walked. `is_free`: whether a switch may lead to a base address as it likes;
    /// `each` is called after each move.
    pub(super) fn run(
        &mut self,
        mut steps: usize,
        is_free: impl Fn(usize, NodeIndex) -> bool,
        mut each: impl FnMut(&Self),
    ) {
        let topology = self.topology;
        let links = topology.switches().flat_map(|switch| {
            let links = topology.switch_links(switch);
            links.filter_map(move |(port, _)| topology.port_of(switch, port))
        });
        let links: Vec<PortIndex> = links.collect();
        // All next hops are as near as any, so that the sum does not change.
        let mean = self.loads.iter().sum::<u64>() / links.len().max(1) as u64;
        let mut is_stuck = vec![false; self.loads.len()];
        while steps > 0 {
            let movable = links.iter().filter(|link| !is_stuck[link.index()]);
            let most = movable.max_by_key(|link| self.loads[link.index()]).copied();
            let Some(link) = most.filter(|link| self.loads[link.index()] > mean) else { return };
            let at = topology.port(link).node;
            let mut moves = self.moves(link, &is_free, &mut steps);
            moves.sort_unstable();
            moves.truncate(MOST_TRIES);
            let is_moved = moves.into_iter().any(|Move { base, port, .. }| {
                steps > 0 && self.lead(at, (base, port), &mut steps)
            });
            match is_moved {
                true => {
                    is_stuck.fill(false);
                    each(self);
                }
                false => is_stuck[link.index()] = true,
            }
        }
    }

    /// What would take load from the link.
    fn moves(
        &self,
        link: PortIndex,
        is_free: &impl Fn(usize, NodeIndex) -> bool,
        steps: &mut usize,
    ) -> Vec<Move> {
        let at = self.topology.port(link).node;
        let mut moves = Vec::new();
        *steps = steps.saturating_sub(1 + self.bases.len() / LOOKS);
        for (base, &Base { switch: to, lid }) in self.bases.iter().enumerate() {
            let flow = u64::from(self.flows[base][at.index()]);
            let port = self.tables[at.index()].get(lid);
            let leads = || self.topology.port_of(at, port) == Some(link);
            if flow == 0 || to == at || !leads() || !is_free(base, at) {
                continue;
            }
            let others = &self.next_hops[to.index()][at.index()];
            if others.len() < 2 {
                continue;
            }
            let former = self.way(at, base);
            for &port in others.iter().filter(|&&other| other != port) {
                *steps = steps.saturating_sub(1);
                let Some(out) = self.topology.port_of(at, port) else { continue };
                let Some(peer) = self.topology.peer_node(out) else { continue };
                let mut way = self.way(peer, base);
                // What lanes keep from the shortest way may come back here.
                if way.iter().any(|&link| self.topology.port(link).node == at) {
                    continue;
                }
                way.push(out);
                let power = |load: u64| i128::from(load).pow(6);
                let load = |link: &PortIndex| self.loads[link.index()];
                let is_new = |link: &&PortIndex| !former.contains(link);
                let less = |link| power(load(link)) - power(load(link) - flow);
                let more = |link| power(load(link) + flow) - power(load(link));
                let left = former.iter().filter(|link| !way.contains(link)).map(less);
                let taken = way.iter().filter(is_new).map(more);
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
        *steps = steps.saturating_sub(self.topology.switch_count());
        let former: Vec<(Vec<Wait>, u8)> =
            from.iter().map(|&from| self.taken_out(from, to)).collect();
        from.iter().for_each(|&from| self.count(base, from, false));
        let former_port = self.tables[at.index()].get(lid);
        self.tables[at.index()].set(lid, port);
        let mut put_in: Vec<Vec<Wait>> = Vec::new();
        for &from in &from {
            let waits = self.waits(from, to);
            *steps = steps.saturating_sub(2 * waits.len());
            let laned = self.laned.as_mut();
            if !laned.is_none_or(|laned| laned.assignment.put_in((from, to), &waits)) {
                break;
            }
            put_in.push(waits);
        }
        let fits = put_in.len() == from.len();
        if !fits {
            self.tables[at.index()].set(lid, former_port);
        }
        if let Some(laned) = self.laned.as_mut().filter(|_| !fits) {
            for (&from, waits) in from.iter().zip(&put_in) {
                laned.assignment.take_out((from, to), waits);
            }
            for (&from, (waits, lane)) in from.iter().zip(&former) {
                laned.assignment.put_back((from, to), waits, *lane);
            }
        }
        from.iter().for_each(|&from| self.count(base, from, true));
        fits
    }

    /// What the routes between two switches, in both directions, have links wait for; nothing where there are no
    /// lanes.
    fn waits(&self, one: NodeIndex, other: NodeIndex) -> Vec<Wait> {
        let (mut waits, mut way) = (Vec::new(), Vec::new());
        let Some(Laned { lids, .. }) = &self.laned else { return waits };
        if [one, other].iter().any(|switch| lids[switch.index()].is_empty()) {
            return waits;
        }
        for (from, to) in [(one, other), (other, one)] {
            for &lid in lids[to.index()] {
                walk(self.topology, &self.tables, (from, to), lid, &mut way);
                waits.extend(way.windows(2).map(|pair| (pair[0], pair[1])));
            }
        }
        waits.sort_unstable();
        waits.dedup();
        waits
    }

    /// Takes the routes between two switches out of their lane: what they had links wait for, and the lane.
    fn taken_out(&mut self, from: NodeIndex, to: NodeIndex) -> (Vec<Wait>, u8) {
        let waits = self.waits(from, to);
        let Some(Laned { assignment, .. }) = &mut self.laned else { return (waits, 0) };
        assignment.take_out((from, to), &waits);
        let lane = assignment.lane(from, to);
        (waits, lane)
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
}
