//! Phase-out: traffic leaves a port before its link is disabled.
//!
//! ```text
//! withheld -> the view without it -> the controller moves its grants, says clear -> tables -> empty -> disabled
//! ```
//!
//! A link between switches is disabled at the end that can be reached afterwards: at the switch that keeps other
//! links, else at the nearer one. That end comes up again when the port leaves no more: until then it is not what
//! is expected of it that counts.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::operator::manager::PortState;

use super::compare::own_ports;
use super::expected::{Expected, Mode, Pattern};
use super::reason::{Action, Reason};
use super::seen::{LinkState, Seen};
use super::{Configuration, LinkOrder, Mark};
use crate::database::Place;

/// How long after the last table was written the last packet has arrived.
const LINGER: Time = Time::millis(100);

/// A port that traffic leaves, or has left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leaving {
    /// The switch's port at the other end, as it was last seen or is expected.
    peer: Option<Place>,
    /// From when on nothing is on the link any more; none: tables lead there still.
    empty: Option<Time>,
    /// Its link is down.
    rests: bool,
}

/// The end of a link that traffic leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    /// What its link is told when it is empty; none: the other end is told.
    pub(super) order: Option<LinkOrder>,
    /// From when on it may be told.
    empty: Option<Time>,
}

impl Exit {
    /// What the link is to be told now.
    pub(super) fn due(&self, link: LinkState, now: Time) -> Option<LinkOrder> {
        let empty = link != LinkState::Up || self.empty.is_some_and(|at| at <= now);
        self.order.filter(|_| empty)
    }
}

/// Everything that leaves.
#[derive(Debug, Default)]
pub(super) struct Exits {
    pub(super) ends: BTreeMap<Place, Exit>,
    /// Switches that keep no link.
    pub(super) whole: BTreeSet<Guid>,
}

impl Configuration {
    /// Which links are left, by both of their ends.
    pub(super) fn leave(&mut self, expected: &Expected, seen: &Seen) -> Exits {
        let by_mode = leaving_by_mode(expected);
        let marked = self.marks.iter().filter(|(_, mark)| matches!(mark, Mark::PhasedOut(_)));
        let places: BTreeSet<Place> = by_mode.chain(marked.map(|(&place, _)| place)).collect();
        self.leaving.retain(|place, _| places.contains(place));
        let mut exits = Exits::default();
        if places.is_empty() {
            return exits;
        }
        let pinned = pinned(expected);
        let mut new = BTreeSet::new();
        for &place in &places {
            new.extend((!self.leaving.contains_key(&place)).then_some(place));
            let known = self.leaving.entry(place).or_default();
            // Once its link is down, the end that was told so is still the one that was seen, not the planned one.
            let is_seen = seen.port(place).is_some_and(|port| port.neighbour.is_some());
            if is_seen || known.peer.is_none() {
                known.peer = peer(place, expected, seen, &pinned);
            }
        }
        let ends = |(&place, known): (&Place, &Leaving)| [Some(place), known.peer];
        let all = self.leaving.iter().flat_map(ends).flatten().collect();
        exits.whole = whole(expected, seen, &all);
        for &place in &places {
            let known = self.leaving.entry(place).or_default();
            let ends = [Some(place), known.peer];
            let hops = |end: &Place| {
                let hops = seen.switches.get(&end.0).map(|switch| switch.hops);
                (exits.whole.contains(&end.0), hops, *end)
            };
            let there = ends
                .into_iter()
                .flatten()
                .filter(|&end| seen.port(end).is_some() && expected.port(end).is_some());
            let told = there.min_by_key(hops);
            let up = |end: Place| seen.port(end).is_some_and(|port| port.link == LinkState::Up);
            known.rests = !ends.into_iter().flatten().any(up);
            if known.rests {
                known.empty = None;
            }
            let off = expected.port(place).is_some_and(|port| port.mode == Mode::Off);
            let order = if off { LinkOrder::PowerOff } else { LinkOrder::Disable };
            for end in ends.into_iter().flatten() {
                let order = (told == Some(end)).then_some(order);
                exits.ends.insert(end, Exit { order, empty: known.empty });
            }
            if new.contains(&place) && !known.rests {
                let why = self.why_it_leaves(place);
                self.tell(place, Action::PhaseOut, why);
            }
        }
        exits
    }

    fn why_it_leaves(&self, place: Place) -> Reason {
        match self.marks.get(&place) {
            Some(Mark::PhasedOut(why)) => Reason::Operator(why.clone()),
            _ => Reason::Expected,
        }
    }

    /// How a port that leaves is, for people; none: it stays.
    pub(super) fn leaving_state(&self, place: Place) -> Option<(PortState, String)> {
        let leaving = self.leaving.get(&place)?;
        let why = match self.marks.get(&place) {
            Some(Mark::PhasedOut(why)) => why.clone(),
            _ => String::new(),
        };
        let state = if leaving.rests { PortState::PhasedOut } else { PortState::Leaving };
        Some((state, why))
    }

    /// The fabric is as it was meant to be: no table leads over the links for which `is_left` says so, and what is
    /// still on its way has arrived soon.
    pub fn settled(&mut self, is_left: impl Fn(Place) -> bool, now: Time) {
        for (&place, leaving) in &mut self.leaving {
            let ends = [Some(place), leaving.peer];
            if leaving.empty.is_none() && !leaving.rests && ends.into_iter().flatten().any(&is_left)
            {
                let at = now + LINGER;
                leaving.empty = Some(at);
                self.judge_at = Some(self.judge_at.map_or(at, |other| other.min(at)));
            }
        }
    }

    /// When the next link is empty.
    pub(super) fn next_empty(&self, now: Time) -> Option<Time> {
        self.leaving.values().filter_map(|leaving| leaving.empty).filter(|&at| at > now).min()
    }

    /// Whether anything leaves of which it is not known yet that its link is empty.
    pub fn awaits_empty(&self) -> bool {
        self.leaving.values().any(|leaving| leaving.empty.is_none() && !leaving.rests)
    }
}

/// The ports that traffic is to leave by what is expected of them.
fn leaving_by_mode(expected: &Expected) -> impl Iterator<Item = Place> + '_ {
    let all = expected.switches.iter().flat_map(|(&guid, switch)| {
        switch.ports.iter().map(move |(&num, port)| ((guid, num), port.mode))
    });
    all.filter(|(_, mode)| mode.leaves()).map(|(place, _)| place)
}

/// Both ends of the links that are left by what is expected of them, and switches that keep none.
pub(super) fn leaving(expected: &Expected, seen: &Seen) -> (BTreeSet<Place>, BTreeSet<Guid>) {
    let pinned = pinned(expected);
    let mut ends = BTreeSet::new();
    for place in leaving_by_mode(expected) {
        ends.insert(place);
        ends.extend(peer(place, expected, seen, &pinned));
    }
    let whole = whole(expected, seen, &ends);
    (ends, whole)
}

/// Switches of which every link is left: those that are up, and those that are expected to be. Never the one at
/// which the manager is.
fn whole(expected: &Expected, seen: &Seen, ends: &BTreeSet<Place>) -> BTreeSet<Guid> {
    let homes: BTreeSet<Guid> = own_ports(seen).into_iter().map(|place| place.0).collect();
    let left = |guid: &Guid| {
        let ports = seen.switches.get(guid).into_iter().flat_map(|switch| switch.ports());
        let up = ports.filter(|(_, port)| port.link == LinkState::Up).map(|(num, _)| num);
        let wanted = expected.switches.get(guid).into_iter().flat_map(|switch| &switch.ports);
        let wanted = wanted.filter(|(_, port)| port.mode != Mode::Disabled).map(|(&num, _)| num);
        up.chain(wanted).all(|num| ends.contains(&(*guid, num)))
    };
    let concerned: BTreeSet<Guid> = ends.iter().map(|&(guid, _)| guid).collect();
    let stays = |guid: &Guid| *guid != seen.manager && !homes.contains(guid);
    concerned.into_iter().filter(|guid| stays(guid) && left(guid)).collect()
}

/// Ports of switches, by the one port that is expected behind each.
fn pinned(expected: &Expected) -> BTreeMap<Place, Place> {
    let all = expected.switches.iter().flat_map(|(&guid, switch)| {
        switch.ports.iter().map(move |(&num, port)| ((guid, num), port.neighbour.as_ref()))
    });
    all.filter_map(|(place, pattern)| Some((place_of(pattern?)?, place))).collect()
}

/// The one port that fits, where node and port are given.
fn place_of(pattern: &Pattern) -> Option<Place> {
    Some((pattern.node_guid?, pattern.port?))
}

/// The switch's port at the other end, as it is seen or else expected.
fn peer(
    place: Place,
    expected: &Expected,
    seen: &Seen,
    pinned: &BTreeMap<Place, Place>,
) -> Option<Place> {
    let neighbour = seen.port(place).and_then(|port| port.neighbour.as_ref());
    if let Some(neighbour) = neighbour {
        return neighbour.is_switch.then_some((neighbour.node_guid, neighbour.port));
    }
    let own = expected.port(place).and_then(|port| place_of(port.neighbour.as_ref()?));
    let is_switch = |place: &Place| expected.switches.contains_key(&place.0);
    own.filter(is_switch).or_else(|| pinned.get(&place).copied())
}
