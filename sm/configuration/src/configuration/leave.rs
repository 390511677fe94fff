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

use super::{Configuration, Mark};
use crate::expected::{Expected, Mode};
use crate::leaving::{Leaving, leaving_by_mode, peer, pinned, whole};
use crate::reason::{Action, Reason};
use snin_sm_database::judgement::LinkOrder;
use snin_sm_database::records::Place;
use snin_sm_database::seen::{LinkState, Seen};

/// How long after the last table was written the last packet has arrived.
const LINGER: Time = Time::millis(100);

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

    /// No table leads over the links for which `is_left` says so: what is still on its way has arrived soon.
    pub(super) fn note_empty(&mut self, is_left: &dyn Fn(Place) -> bool, now: Time) {
        for (&place, leaving) in &mut self.leaving {
            let ends = [Some(place), leaving.peer];
            if leaving.empty.is_none() && !leaving.rests && ends.into_iter().flatten().any(is_left)
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
}
