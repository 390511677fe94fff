//! Which virtual lane each route takes, so that links of no lane wait for each other in a circle.
//!
//! Lane 0 has the routes that go up and then down by an order of the switches. Such routes close no circle, and
//! other traffic that goes up and then down, as multicast does, can share the lane. Where the routes between two
//! switches turn up again, that pair takes the first of the other lanes in which its routes close no circle. Both
//! directions of a pair have the same lane, because the passive side of a connection sends with the service level
//! of the request. That is LASH (Skeie, Lysne, Theiss, 2002). DFSSSP (Domke, Hoefler, Nagel, 2011) gives each
//! direction a lane of its own, which the passive side does not use. Nue (Domke, Hoefler, Matsuoka, 2016) needs
//! no given number of lanes but takes detours.

use super::Ranks;
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
}

impl Lanes {
    /// Lanes in use.
    pub const fn count(&self) -> u8 {
        self.count
    }

    /// The lane of routes between hosts on these switches; 0 of switches that are not there.
    pub fn of(&self, one: NodeIndex, other: NodeIndex) -> u8 {
        let is_there = one.index() < self.switches && other.index() < self.switches;
        if is_there { self.of[one.index() * self.switches + other.index()] } else { 0 }
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
}

impl<'a> Assignment<'a> {
    /// No routes yet; at most so many lanes.
    pub(super) fn new(topology: &'a Topology, ranks: &'a Ranks, most: u8) -> Self {
        let switches = topology.switch_count();
        let most = most.clamp(1, MOST_LANES);
        let lanes = Lanes { switches, of: vec![0; switches * switches], count: 1, load: 0 };
        Self { topology, ranks, lanes, others: Vec::new(), most }
    }

    /// Routes between two switches take this lane if they can; there are as many as that needs.
    pub(super) fn prefer(&mut self, pair: (NodeIndex, NodeIndex), lane: u8) {
        if lane < self.most {
            let needed = usize::from(lane).max(self.others.len());
            self.others.resize_with(needed, || Lane::new(self.topology));
            self.note(pair, lane);
        }
    }

    /// The lanes of all routes, of which the most loaded link has so many pairs of hosts.
    pub(super) fn finish(self, load: u64) -> Lanes {
        Lanes { count: self.others.len() as u8 + 1, load, ..self.lanes }
    }

    /// Gives the routes between two switches a lane, the one that they had if possible; whether there is one.
    pub(super) fn put_in(&mut self, pair: (NodeIndex, NodeIndex), waits: &[Wait]) -> bool {
        let lane = self.find(self.lane(pair.0, pair.1), waits);
        lane.into_iter().for_each(|lane| self.note(pair, lane));
        lane.is_some()
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
            self.lanes.of[one.index() * self.lanes.switches + other.index()] = lane;
        }
    }

    /// Takes the routes between two switches out of their lane, because they are about to change.
    pub(super) fn take_out(&mut self, pair: (NodeIndex, NodeIndex), waits: &[Wait]) {
        if let Some(lane) = self.lanes.of(pair.0, pair.1).checked_sub(1) {
            self.others[usize::from(lane)].take_out(waits);
        }
    }

    fn find(&mut self, former: u8, waits: &[Wait]) -> Option<u8> {
        let turns_up = |&(first, next): &Wait| !self.goes_up(first) && self.goes_up(next);
        let is_up_down = !waits.iter().any(turns_up);
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
