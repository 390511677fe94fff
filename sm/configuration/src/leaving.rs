//! Which links traffic is to leave, by both of their ends: read from what is expected and what is seen.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::Guid;
use snin_protocol::Time;
use snin_sm_database::records::Place;
use snin_sm_database::seen::{LinkState, Seen};

use crate::expected::{Expected, Mode, Pattern};

/// A port that traffic leaves, or has left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leaving {
    /// The switch's port at the other end, as it was last seen or is expected.
    pub(crate) peer: Option<Place>,
    /// From when on nothing is on the link any more; none: tables lead there still.
    pub(crate) empty: Option<Time>,
    /// Its link is down.
    pub(crate) rests: bool,
}

/// The ports that traffic is to leave by what is expected of them.
pub(crate) fn leaving_by_mode(expected: &Expected) -> impl Iterator<Item = Place> + '_ {
    let all = expected.switches.iter().flat_map(|(&guid, switch)| {
        switch.ports.iter().map(move |(&num, port)| ((guid, num), port.mode))
    });
    all.filter(|(_, mode)| mode.leaves()).map(|(place, _)| place)
}

/// Both ends of the links that are left by what is expected of them, and switches that keep none.
pub(crate) fn leaving(expected: &Expected, seen: &Seen) -> (BTreeSet<Place>, BTreeSet<Guid>) {
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
pub(crate) fn whole(expected: &Expected, seen: &Seen, ends: &BTreeSet<Place>) -> BTreeSet<Guid> {
    let homes: BTreeSet<Guid> = seen.own_ports().into_iter().map(|place| place.0).collect();
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
pub(crate) fn pinned(expected: &Expected) -> BTreeMap<Place, Place> {
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
pub(crate) fn peer(
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
