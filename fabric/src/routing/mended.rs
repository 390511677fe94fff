//! Routes in lanes after a change: what was there stays, in its lane, and what has to be led otherwise is led so
//! that its lane holds it.
//!
//! Programs send with the service level of the path record that they once got. So a pair of switches keeps its
//! lane for as long as there are routes that fit it, be they longer than the shortest; only where there are none
//! it takes another.

use std::collections::{BTreeMap, BTreeSet};

use super::balanced::Ends;
use super::engine::Former;
use super::former::{Known, Near};
use super::lanes::{Assignment, Lanes, Wait};
use super::shortest::Shortest;
use super::{AddressPlan, Ranks};
use crate::hosts::Hosts;
use crate::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// Other routes that are tried so that a lane holds one.
const MOST_TRIES: usize = 200;

/// What is to be mended.
pub(super) struct Torn<'a> {
    pub(super) topology: &'a Topology,
    pub(super) ranks: &'a Ranks,
    pub(super) ends: &'a [Ends<'a>],
    pub(super) plan: &'a AddressPlan,
    pub(super) former: Former<'a>,
    /// The lanes that were.
    pub(super) lanes: &'a Lanes,
    /// At most so many lanes.
    pub(super) most: u8,
    /// Which routes are wanted, where lanes let them be.
    pub(super) shortest: Shortest,
}

/// Tables in which all is led, the lanes, and what the most loaded link carries.
pub(super) struct Mended<'a> {
    pub(super) tables: Vec<ForwardingTable>,
    pub(super) assignment: Assignment<'a>,
    pub(super) load: u64,
}

/// Fills in tables that hold no host's address yet; `None` where there are too few lanes.
pub(super) fn mend<'a>(mut torn: Torn<'a>, tables: Vec<ForwardingTable>) -> Option<Mended<'a>> {
    let mut shortest = std::mem::replace(&mut torn.shortest, Shortest::Any);
    let mut mending = Mending::new(&torn, tables);
    let known = Known::new(torn.topology, torn.plan, torn.former);
    for &Ends { switch: to, lids } in torn.ends {
        lids.iter().for_each(|&lid| mending.keep(&known, (to, lid)));
    }
    for is_fresh in [false, true] {
        for &Ends { switch: to, lids } in torn.ends {
            for &lid in lids {
                mending.place_kept((to, lid), is_fresh);
            }
        }
    }
    for &Ends { switch: to, lids } in torn.ends {
        let near = Near::new(torn.topology, &mut shortest, to);
        for &lid in lids {
            mending.join(&known, &near, (to, lid))?;
        }
    }
    for &Ends { switch: to, lids } in torn.ends {
        let near = Near::new(torn.topology, &mut shortest, to);
        for &lid in lids {
            mending.shorten(&near, (to, lid));
        }
    }
    let load = mending.loads.iter().copied().max().unwrap_or(0);
    Some(Mended { tables: mending.tables, assignment: mending.assignment, load })
}

/// A port that may lead a switch to an address: the shortest way first, then what was, then what is wanted, then
/// what loads its link least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Choice {
    hops: usize,
    is_other: bool,
    is_unwanted: bool,
    load: u64,
    at: NodeIndex,
    port: PortNum,
}

/// Routes on their way.
struct Mending<'a> {
    topology: &'a Topology,
    tables: Vec<ForwardingTable>,
    assignment: Assignment<'a>,
    /// Pairs of switches of which both are known from before have their lane; these have none yet.
    fresh: BTreeSet<(NodeIndex, NodeIndex)>,
    /// By switch: hosts there, and their addresses.
    hosts: Vec<u64>,
    lids: Vec<&'a [Lid]>,
    /// How many addresses each host has.
    offsets: usize,
    /// By port: pairs of hosts that send by it at base addresses.
    loads: Vec<u64>,
    /// Routes that are in their lanes: by address, the switches that they come from.
    placed: BTreeMap<Lid, Vec<bool>>,
}

impl<'a> Mending<'a> {
    fn new(torn: &Torn<'a>, tables: Vec<ForwardingTable>) -> Self {
        let topology = torn.topology;
        let mut assignment = Assignment::new(topology, torn.ranks, torn.most);
        let fresh = assignment.prefer_former(torn.former, torn.lanes);
        let mut lids: Vec<&[Lid]> = vec![&[]; topology.switch_count()];
        torn.ends.iter().for_each(|ends| lids[ends.switch.index()] = ends.lids);
        let hosts = Hosts::of(topology).per_switch(topology);
        Self {
            topology,
            tables,
            assignment,
            fresh,
            hosts: topology.switches().map(|switch| hosts[switch.index()] as u64).collect(),
            lids,
            offsets: torn.plan.lmc().addresses(),
            loads: vec![0; topology.port_count()],
            placed: BTreeMap::new(),
        }
    }

    /// The links to an address on another switch; `None` where tables do not lead there.
    fn way(&self, from: NodeIndex, (to, lid): (NodeIndex, Lid)) -> Option<Vec<PortIndex>> {
        let (mut at, mut way) = (from, Vec::new());
        while at != to {
            let (out, peer) = self.hop(at, self.tables[at.index()].get(lid))?;
            way.push(out);
            if way.len() > self.topology.switch_count() {
                return None;
            }
            at = peer;
        }
        Some(way)
    }

    /// The link by a port of a switch, and the switch behind it.
    fn hop(&self, at: NodeIndex, port: PortNum) -> Option<(PortIndex, NodeIndex)> {
        let out = self.topology.port_of(at, port).filter(|_| port != PortNum::ZERO)?;
        let peer = self.topology.peer_node(out)?;
        self.topology.is_switch(peer).then_some((out, peer))
    }

    /// Former entries that still lead to the address are there again.
    fn keep(&mut self, known: &Known<'_>, (to, lid): (NodeIndex, Lid)) {
        let former = known.lid(lid);
        let mut leads: Vec<Option<bool>> = vec![None; self.topology.switch_count()];
        leads[to.index()] = Some(true);
        for from in self.topology.switches() {
            let (mut at, mut met) = (from, Vec::new());
            let end = loop {
                match leads[at.index()] {
                    Some(known) => break known,
                    // So far it does not: where it is met again there is a circle.
                    None => leads[at.index()] = Some(false),
                }
                met.push(at);
                let port = known.port(at, former);
                let Some((_, peer)) = self.hop(at, port) else { break false };
                at = peer;
            };
            for at in met {
                leads[at.index()] = Some(end);
                if end {
                    self.tables[at.index()].set(lid, known.port(at, former));
                }
            }
        }
        self.placed.insert(lid, vec![false; self.topology.switch_count()]);
    }

    /// Routes that were kept are in their lanes again. `is_fresh`: those of pairs without one. Where a lane does
    /// not hold a route that was there, since the order of switches is another, that is sought anew, and what
    /// passes there.
    fn place_kept(&mut self, end: (NodeIndex, Lid), is_fresh: bool) {
        for from in self.topology.switches().filter(|&from| from != end.0) {
            if self.hosts[from.index()] == 0 || self.fresh.contains(&key(from, end.0)) != is_fresh {
                continue;
            }
            let Some(way) = self.way(from, end) else { continue };
            if !self.place(from, end, &way) {
                self.cut_off(from, end);
            }
        }
    }

    /// No switch leads to the address over this one any more.
    fn cut_off(&mut self, at: NodeIndex, end: (NodeIndex, Lid)) {
        let passes = |&from: &NodeIndex| {
            let way = self.way(from, end).unwrap_or_default();
            from != end.0 && way.iter().any(|&link| self.topology.port(link).node == at)
        };
        let passing: Vec<NodeIndex> = self.topology.switches().filter(passes).collect();
        for &from in &passing {
            self.unplace(from, end);
        }
        for from in passing {
            self.tables[from.index()].set(end.1, PortNum::NONE);
        }
    }

    /// Puts a route in the lane of its pair, if that holds it; a pair without one takes one.
    fn place(&mut self, from: NodeIndex, (to, lid): (NodeIndex, Lid), way: &[PortIndex]) -> bool {
        if self.hosts[from.index()] == 0 {
            return true;
        }
        let (pair, waits) = (key(from, to), waits(way));
        let fits = match !waits.is_empty() && self.fresh.contains(&pair) {
            true => self.assignment.put_in(pair, &waits) && self.fresh.remove(&pair),
            false => self.assignment.put_in_own(pair, &waits),
        };
        if fits {
            self.count((to, lid), from, way, true);
        }
        fits
    }

    fn unplace(&mut self, from: NodeIndex, end: (NodeIndex, Lid)) {
        if !self.is_placed(from, end.1) {
            return;
        }
        if let Some(way) = self.way(from, end) {
            self.assignment.take_out(key(from, end.0), &waits(&way));
            self.count(end, from, &way, false);
        }
    }

    fn is_placed(&self, from: NodeIndex, lid: Lid) -> bool {
        self.placed.get(&lid).is_some_and(|placed| placed[from.index()])
    }

    fn count(
        &mut self,
        (_, lid): (NodeIndex, Lid),
        from: NodeIndex,
        way: &[PortIndex],
        is_in: bool,
    ) {
        if let Some(placed) = self.placed.get_mut(&lid) {
            placed[from.index()] = is_in;
        }
        if !lid.index().is_multiple_of(self.offsets) {
            return;
        }
        let hosts = self.hosts[from.index()];
        for link in way {
            let load = &mut self.loads[link.index()];
            *load = if is_in { *load + hosts } else { *load - hosts };
        }
    }

    /// Leads every switch to an address that has no way there, the nearest first: each so that its lane holds the
    /// route, else by another lane.
    fn join(&mut self, known: &Known<'_>, near: &Near, end: (NodeIndex, Lid)) -> Option<()> {
        let (to, lid) = end;
        let former = known.lid(lid);
        let mut hops: Vec<Option<usize>> = self.topology.switches().map(|_| None).collect();
        for &switch in &near.order {
            hops[switch.index()] = self.way(switch, end).map(|way| way.len());
        }
        hops[to.index()] = Some(0);
        let mut choices = BTreeSet::new();
        let mut refused = BTreeSet::new();
        for &switch in near.order.iter().filter(|it| hops[it.index()].is_none()) {
            choices.extend(self.choices(known, near, (switch, lid, former), &hops));
        }
        loop {
            let forced = choices.is_empty();
            let Some(choice) = choices.pop_first().or_else(|| refused.pop_first()) else { break };
            let Choice { at, port, .. } = choice;
            if hops[at.index()].is_some() {
                continue;
            }
            let is_joined = match forced {
                false => self.join_by(at, end, port, Self::place),
                // Others make way, or the pair takes another lane. That may help those behind it.
                true => {
                    self.make_way(at, end) || self.join_by(at, end, port, Self::place_elsewhere)
                }
            };
            if !is_joined {
                if !forced {
                    refused.insert(choice);
                }
                continue;
            }
            let joined = self.way(at, end).map(|way| way.len());
            hops[at.index()] = joined;
            for (_, peer) in self.topology.switch_links(at) {
                if hops[peer.index()].is_none() {
                    choices.extend(self.choices(known, near, (peer, lid, former), &hops));
                }
            }
        }
        near.order.iter().all(|switch| hops[switch.index()].is_some()).then_some(())
    }

    /// Leads a switch without a route by a port, if a lane holds the route.
    fn join_by(
        &mut self,
        at: NodeIndex,
        end: (NodeIndex, Lid),
        port: PortNum,
        place: impl Fn(&mut Self, NodeIndex, (NodeIndex, Lid), &[PortIndex]) -> bool,
    ) -> bool {
        self.tables[at.index()].set(end.1, port);
        let is_placed = self.way(at, end).is_some_and(|way| place(self, at, end, &way));
        if !is_placed {
            self.tables[at.index()].set(end.1, PortNum::NONE);
        }
        is_placed
    }

    /// Leads a switch on the way of a neighbour otherwise, so that the lane holds the route by that neighbour.
    fn make_way(&mut self, at: NodeIndex, end: (NodeIndex, Lid)) -> bool {
        let mut tries = MOST_TRIES;
        let links: Vec<(PortNum, NodeIndex)> = self.topology.switch_links(at).collect();
        for (port, peer) in links {
            let Some(way) = self.way(peer, end) else { continue };
            for on_way in way.into_iter().map(|link| self.topology.port(link).node) {
                let former = self.tables[on_way.index()].get(end.1);
                let others: Vec<PortNum> =
                    self.topology.switch_links(on_way).map(|(port, _)| port).collect();
                for other in others.into_iter().filter(|&other| other != former) {
                    if tries == 0 {
                        return false;
                    }
                    tries -= 1;
                    if !self.lead(on_way, end, other) {
                        continue;
                    }
                    if self.join_by(at, end, port, Self::place) {
                        return true;
                    }
                    self.lead(on_way, end, former);
                }
            }
        }
        false
    }

    fn choices(
        &self,
        known: &Known<'_>,
        near: &Near,
        (at, _, former): (NodeIndex, Lid, Option<Lid>),
        hops: &[Option<usize>],
    ) -> Vec<Choice> {
        let was = known.port(at, former);
        let links = self.topology.switch_links(at);
        let choices = links.filter_map(|(port, peer)| {
            let link = self.topology.port_of(at, port)?;
            Some(Choice {
                hops: hops[peer.index()]? + 1,
                is_other: port != was || !near.has(at, port),
                is_unwanted: !near.has(at, port),
                load: self.loads[link.index()],
                at,
                port,
            })
        });
        choices.collect()
    }

    /// Gives all routes between two switches another lane, this one among them.
    fn place_elsewhere(
        &mut self,
        from: NodeIndex,
        end: (NodeIndex, Lid),
        way: &[PortIndex],
    ) -> bool {
        let pair = key(from, end.0);
        let mut all = Vec::new();
        for (from, to) in [(from, end.0), (end.0, from)] {
            for &lid in self.lids[to.index()] {
                let way = self.is_placed(from, lid).then(|| self.way(from, (to, lid)));
                all.extend(way.flatten().iter().flat_map(|way| waits(way)));
            }
        }
        let former = self.assignment.lane(pair.0, pair.1);
        self.assignment.take_out(pair, &all);
        let mut with = all.clone();
        with.extend(waits(way));
        if !self.assignment.put_in(pair, &with) {
            self.assignment.put_back(pair, &all, former);
            return false;
        }
        self.fresh.remove(&pair);
        self.count(end, from, way, true);
        true
    }

    /// Leads switches the shortest way where they are led another one, as far as lanes let them.
    fn shorten(&mut self, near: &Near, end: (NodeIndex, Lid)) {
        for &at in &near.order {
            let port = self.tables[at.index()].get(end.1);
            if near.has(at, port) {
                continue;
            }
            let mut others = near.ports[at.index()].clone();
            let load = |port: &PortNum| {
                let link = self.topology.port_of(at, *port);
                link.map_or(u64::MAX, |link| self.loads[link.index()])
            };
            others.sort_by_cached_key(load);
            others.into_iter().any(|port| self.lead(at, end, port));
        }
    }

    /// Leads to an address by another port, if all routes through there fit their lanes.
    fn lead(&mut self, at: NodeIndex, end: (NodeIndex, Lid), port: PortNum) -> bool {
        let (to, lid) = end;
        let mut ways: Vec<(NodeIndex, Vec<PortIndex>)> = Vec::new();
        for from in self.topology.switches().filter(|&from| self.is_placed(from, lid)) {
            let Some(way) = self.way(from, end) else { continue };
            if way.iter().any(|&link| self.topology.port(link).node == at) {
                ways.push((from, way));
            }
        }
        let former_port = self.tables[at.index()].get(lid);
        self.tables[at.index()].set(lid, port);
        if self.way(at, end).is_none() {
            self.tables[at.index()].set(lid, former_port);
            return false;
        }
        for (from, way) in &ways {
            self.assignment.take_out(key(*from, to), &waits(way));
            self.count(end, *from, way, false);
        }
        let mut led = Vec::new();
        for (from, _) in &ways {
            let Some(way) = self.way(*from, end) else { break };
            if !self.place(*from, end, &way) {
                break;
            }
            led.push((*from, way));
        }
        if led.len() == ways.len() {
            return true;
        }
        for (from, way) in led {
            self.assignment.take_out(key(from, to), &waits(&way));
            self.count(end, from, &way, false);
        }
        self.tables[at.index()].set(lid, former_port);
        for (from, way) in ways {
            let pair = key(from, to);
            let lane = self.assignment.lane(pair.0, pair.1);
            self.assignment.put_back(pair, &waits(&way), lane);
            self.count(end, from, &way, true);
        }
        false
    }
}

/// A pair of switches in the order of its key.
fn key(one: NodeIndex, other: NodeIndex) -> (NodeIndex, NodeIndex) {
    (one.max(other), one.min(other))
}

fn waits(way: &[PortIndex]) -> Vec<Wait> {
    way.windows(2).map(|pair| (pair[0], pair[1])).collect()
}
