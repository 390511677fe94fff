//! Which virtual lane each route takes, so that links of no lane wait for each other in a circle.
//!
//! Lane 0 has the routes that go up and then down by an order of the switches. Such routes close no circle, and
//! other traffic that goes up and then down, as multicast does, can share the lane. Where the routes between two
//! switches turn up again, that pair takes the first of the other lanes in which its routes close no circle. Both
//! directions of a pair have the same lane, because the passive side of a connection sends with the service level
//! of the request. That is LASH (Skeie, Lysne, Theiss, 2002). DFSSSP (Domke, Hoefler, Nagel, 2011) gives each
//! direction a lane of its own, which the passive side does not use. Nue (Domke, Hoefler, Matsuoka, 2016) needs
//! no given number of lanes but takes detours.

use std::collections::BTreeSet;

use super::Ranks;
use super::engine::Former;
use super::former::former_switches;
use crate::hosts::Hosts;
use crate::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// The most data lanes of a port (IBA 7.6.2).
pub const MOST_LANES: u8 = 15;

/// The lane of every route between two switches, which is its service level, too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lanes {
    switches: usize,
    /// By pair of switches.
    of: Vec<u8>,
    count: u8,
    /// Pairs of hosts on the most loaded link when the routes were chosen; it stays while they are only mended.
    pub(super) load: u64,
    /// By pair of switches, a bit each: the lanes that it had before. Programs may send by those still.
    had: Vec<u16>,
    /// Pairs of switches with hosts that had another lane a moment ago.
    changed: Vec<(NodeIndex, NodeIndex)>,
    /// The lanes that were before are known.
    is_followed: bool,
}

impl Lanes {
    /// One lane for all routes.
    pub(super) fn one(topology: &Topology) -> Self {
        let switches = topology.switch_count();
        let pairs = switches * switches;
        Self {
            switches,
            of: vec![0; pairs],
            count: 1,
            load: 0,
            had: vec![0; pairs],
            changed: Vec::new(),
            is_followed: false,
        }
    }

    /// With the lanes that were before a change.
    pub(super) fn following(mut self, topology: &Topology, former: Option<Former<'_>>) -> Self {
        let Some(former) = former else { return self };
        let was = former_switches(topology, former.topology);
        let hosts = Hosts::of(topology).per_switch(topology);
        let before = former.routing.lanes.as_ref();
        for one in topology.switches() {
            for other in topology.switches().take(one.index()) {
                let Some((was_one, was_other)) = was[one.index()].zip(was[other.index()]) else {
                    continue;
                };
                let lane = before.map_or(0, |lanes| lanes.of(was_one, was_other));
                let had = before.map_or(0, |lanes| lanes.had[lanes.place(was_one, was_other)]);
                for place in [self.place(one, other), self.place(other, one)] {
                    self.had[place] = had | 1 << lane;
                }
                if lane != self.of(one, other) && hosts[one.index()] * hosts[other.index()] > 0 {
                    self.changed.push((one, other));
                }
            }
        }
        self.is_followed = true;
        self
    }

    /// Pairs of switches with hosts whose lane is another than before the last change. What their programs know
    /// is out of date.
    pub fn changed(&self) -> &[(NodeIndex, NodeIndex)] {
        &self.changed
    }

    /// The lanes that routes between hosts on two switches had before; `None` where that is not known.
    pub fn had(
        &self,
        one: NodeIndex,
        other: NodeIndex,
    ) -> Option<impl Iterator<Item = u8> + use<>> {
        let had = self.had.get(self.place(one, other)).copied().filter(|_| self.is_followed)?;
        Some((0..=MOST_LANES).filter(move |lane| had & 1 << lane != 0))
    }

    /// Whether the lanes that were before are known.
    pub(super) const fn is_followed(&self) -> bool {
        self.is_followed
    }

    const fn place(&self, one: NodeIndex, other: NodeIndex) -> usize {
        one.0 as usize * self.switches + other.0 as usize
    }

    /// Lanes in use.
    pub const fn count(&self) -> u8 {
        self.count
    }

    /// Whether every pair has the same lane there.
    pub fn agree(&self, other: &Self) -> bool {
        self.of == other.of && self.count == other.count
    }

    /// The lane of routes between hosts on these switches; 0 of switches that are not there.
    pub fn of(&self, one: NodeIndex, other: NodeIndex) -> u8 {
        let is_there = one.index() < self.switches && other.index() < self.switches;
        if is_there { self.of[self.place(one, other)] } else { 0 }
    }
}

/// One link, then one that it waits for.
pub(super) type Wait = (PortIndex, PortIndex);

/// Lanes to which routes are given and taken.
pub(super) struct Assignment<'a> {
    topology: &'a Topology,
    ranks: &'a Ranks,
    lanes: Lanes,
    /// Those beyond the first.
    others: Vec<Lane>,
    most: u8,
    /// Each pair keeps the lane that it has.
    is_settled: bool,
}

impl<'a> Assignment<'a> {
    /// No routes yet; at most so many lanes.
    pub(super) fn new(topology: &'a Topology, ranks: &'a Ranks, most: u8) -> Self {
        let (most, lanes) = (most.clamp(1, MOST_LANES), Lanes::one(topology));
        Self { topology, ranks, lanes, others: Vec::new(), most, is_settled: false }
    }

    /// Routes between two switches take this lane if they can; there are as many as that needs. Whether there may
    /// be so many.
    fn prefer(&mut self, pair: (NodeIndex, NodeIndex), lane: u8) -> bool {
        let may_be = lane < self.most;
        if may_be {
            let needed = usize::from(lane).max(self.others.len());
            self.others.resize_with(needed, || Lane::new(self.topology));
            self.note(pair, lane);
        }
        may_be
    }

    /// Pairs of switches take the lanes that they had, if they can: those that are not among them are returned.
    pub(super) fn prefer_former(
        &mut self,
        former: Former<'_>,
        lanes: &Lanes,
    ) -> BTreeSet<(NodeIndex, NodeIndex)> {
        let was = former_switches(self.topology, former.topology);
        let mut others = BTreeSet::new();
        for one in self.topology.switches() {
            for other in self.topology.switches().take(one.index()) {
                let both = was[one.index()].zip(was[other.index()]);
                let lane = both.map(|(one, other)| lanes.of(one, other));
                if !lane.is_some_and(|lane| self.prefer((one, other), lane)) {
                    others.insert((one, other));
                }
            }
        }
        others
    }

    /// Every pair of switches has the lane that it has there, and keeps it.
    pub(super) fn settle(&mut self, lanes: &Lanes) {
        self.others
            .resize_with(usize::from(lanes.count).saturating_sub(1), || Lane::new(self.topology));
        (self.lanes, self.is_settled) = (lanes.clone(), true);
    }

    /// The lanes of all routes, of which the most loaded link has so many pairs of hosts.
    pub(super) fn finish(self, load: u64) -> Lanes {
        Lanes { count: self.others.len() as u8 + 1, load, ..self.lanes }
    }

    /// Gives the routes between two switches a lane, the one that they had if possible; whether there is one.
    pub(super) fn put_in(&mut self, pair: (NodeIndex, NodeIndex), waits: &[Wait]) -> bool {
        if self.is_settled {
            return self.put_in_own(pair, waits);
        }
        let lane = self.find(self.lane(pair.0, pair.1), waits);
        lane.into_iter().for_each(|lane| self.note(pair, lane));
        lane.is_some()
    }

    /// Puts routes between two switches into the lane that those have, if it holds them.
    pub(super) fn put_in_own(&mut self, pair: (NodeIndex, NodeIndex), waits: &[Wait]) -> bool {
        self.put_in_lane(self.lane(pair.0, pair.1), waits)
    }

    /// Puts routes into a lane, if that holds them.
    pub(super) fn put_in_lane(&mut self, lane: u8, waits: &[Wait]) -> bool {
        let Some(place) = lane.checked_sub(1).map(usize::from) else {
            return self.is_up_down(waits);
        };
        let needed = self.others.len().max(place + 1);
        self.others.resize_with(needed, || Lane::new(self.topology));
        self.others[place].put_in(waits)
    }

    /// Takes routes out of a lane.
    pub(super) fn take_out_of_lane(&mut self, lane: u8, waits: &[Wait]) {
        if let Some(lane) = lane.checked_sub(1) {
            self.others[usize::from(lane)].take_out(waits);
        }
    }

    /// Gives routes back the lane that they had before a change that is undone.
    pub(super) fn put_back(&mut self, pair: (NodeIndex, NodeIndex), waits: &[Wait], lane: u8) {
        self.note(pair, lane);
        if let Some(lane) = lane.checked_sub(1) {
            self.others[usize::from(lane)].put_in(waits);
        }
    }

    /// The lane of the routes between two switches.
    pub(super) fn lane(&self, one: NodeIndex, other: NodeIndex) -> u8 {
        self.lanes.of(one, other)
    }

    fn note(&mut self, (one, other): (NodeIndex, NodeIndex), lane: u8) {
        for (one, other) in [(one, other), (other, one)] {
            let place = self.lanes.place(one, other);
            self.lanes.of[place] = lane;
        }
    }

    /// Takes the routes between two switches out of their lane, because they are about to change.
    pub(super) fn take_out(&mut self, pair: (NodeIndex, NodeIndex), waits: &[Wait]) {
        self.take_out_of_lane(self.lanes.of(pair.0, pair.1), waits);
    }

    fn find(&mut self, former: u8, waits: &[Wait]) -> Option<u8> {
        let is_up_down = self.is_up_down(waits);
        if former == 0 && is_up_down {
            return Some(0);
        }
        let former = former.checked_sub(1).map(usize::from);
        if let Some(former) = former.filter(|&former| self.others[former].put_in(waits)) {
            return Some(former as u8 + 1);
        }
        if is_up_down {
            return Some(0);
        }
        let others = &mut self.others;
        if let Some(place) = others.iter_mut().position(|lane| lane.put_in(waits)) {
            return Some(place as u8 + 1);
        }
        if others.len() + 1 >= usize::from(self.most) {
            return None;
        }
        let mut lane = Lane::new(self.topology);
        let fits = lane.put_in(waits);
        others.push(lane);
        fits.then_some(others.len() as u8)
    }

    fn is_up_down(&self, waits: &[Wait]) -> bool {
        let turns_up = |&(first, next): &Wait| !self.goes_up(first) && self.goes_up(next);
        !waits.iter().any(turns_up)
    }

    /// Whether the link that a port sends on leads up.
    fn goes_up(&self, out: PortIndex) -> bool {
        let peer = self.topology.peer_node(out);
        peer.is_some_and(|peer| self.ranks.is_above(peer, self.topology.port(out).node))
    }
}

/// The links between switches on the way to an address on another switch, each by the port that sends on it.
pub(super) fn walk(
    topology: &Topology,
    tables: &[ForwardingTable],
    (from, to): (NodeIndex, NodeIndex),
    lid: Lid,
    way: &mut Vec<PortIndex>,
) {
    way.clear();
    let mut at = from;
    while at != to && way.len() < topology.switch_count() {
        let port = tables[at.index()].get(lid);
        let out = topology.port_of(at, port).filter(|_| port != PortNum::ZERO);
        let next = out.and_then(|out| Some((out, topology.peer_node(out)?)));
        let Some((out, peer)) = next.filter(|&(_, peer)| topology.is_switch(peer)) else { return };
        way.push(out);
        at = peer;
    }
}

/// Links of one lane, in an order in which each comes before those that it waits for (Pearce and Kelly, 2006).
struct Lane {
    /// By link: its place in the order.
    place: Vec<u32>,
    /// By link: those that it waits for, and for how many pairs of switches.
    next: Vec<Vec<(PortIndex, u32)>>,
    /// By link: those that wait for it.
    before: Vec<Vec<PortIndex>>,
    is_met: Vec<bool>,
}

impl Lane {
    fn new(topology: &Topology) -> Self {
        let links = topology.port_count();
        Self {
            place: (0..links as u32).collect(),
            next: vec![Vec::new(); links],
            before: vec![Vec::new(); links],
            is_met: vec![false; links],
        }
    }

    /// Whether the first link of each pair may wait for the second one; else none of them does.
    fn put_in(&mut self, waits: &[Wait]) -> bool {
        let added = waits.iter().take_while(|&&(first, next)| self.add(first, next)).count();
        if added < waits.len() {
            self.take_out(&waits[..added]);
        }
        added == waits.len()
    }

    fn take_out(&mut self, waits: &[Wait]) {
        for &(first, next) in waits {
            let those = &mut self.next[first.index()];
            let Some(place) = those.iter().position(|(link, _)| *link == next) else { continue };
            those[place].1 -= 1;
            if those[place].1 == 0 {
                those.swap_remove(place);
                self.before[next.index()].retain(|&link| link != first);
            }
        }
    }

    /// Whether `first` may wait for `next`: not where `next` waits for it already.
    fn add(&mut self, first: PortIndex, next: PortIndex) -> bool {
        let Self { place, next: waits_for, before, is_met } = self;
        if let Some(known) = waits_for[first.index()].iter_mut().find(|(link, _)| *link == next) {
            known.1 += 1;
            return true;
        }
        let (top, bottom) = (place[next.index()], place[first.index()]);
        if bottom > top {
            let after = |link: PortIndex| waits_for[link.index()].iter().map(|(link, _)| *link);
            let mut behind = reached(next, after, is_met, |link| place[link.index()] <= bottom);
            if behind.contains(&first) {
                return false;
            }
            let ahead = |link: PortIndex| before[link.index()].iter().copied();
            let mut ahead = reached(first, ahead, is_met, |link| place[link.index()] >= top);
            let both = ahead.iter().chain(&behind);
            let mut places: Vec<u32> = both.map(|link| place[link.index()]).collect();
            places.sort_unstable();
            ahead.sort_unstable_by_key(|link| place[link.index()]);
            behind.sort_unstable_by_key(|link| place[link.index()]);
            for (link, new) in ahead.into_iter().chain(behind).zip(places) {
                place[link.index()] = new;
            }
        }
        waits_for[first.index()].push((next, 1));
        before[next.index()].push(first);
        true
    }
}

/// The links that `start` leads to, itself included, over those that are near.
fn reached<I: Iterator<Item = PortIndex>>(
    start: PortIndex,
    over: impl Fn(PortIndex) -> I,
    is_met: &mut [bool],
    is_near: impl Fn(PortIndex) -> bool,
) -> Vec<PortIndex> {
    let mut reached = vec![start];
    is_met[start.index()] = true;
    let mut at = 0;
    while let Some(&link) = reached.get(at) {
        at += 1;
        for link in over(link) {
            if !is_met[link.index()] && is_near(link) {
                is_met[link.index()] = true;
                reached.push(link);
            }
        }
    }
    reached.iter().for_each(|link| is_met[link.index()] = false);
    reached
}
