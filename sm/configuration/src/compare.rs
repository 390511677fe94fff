//! Comparison of the expected with the seen fabric: differences, objections, and what is learnt from a fabric.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use snin_fabric::{Guid, LinkRate, PortNum};

use crate::expected::{Expected, ExpectedPort, ExpectedSwitch, Mode, Pattern};
use crate::leaving::leaving;
use crate::reason::{Objection, Reason};
use snin_sm_database::records::Place;
use snin_sm_database::seen::{LinkState, Seen, SeenPort};

/// Something that is not as it is expected to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The port; port 0 where the switch is meant.
    pub place: Place,
    /// `leaf3/20`, or `leaf3`.
    pub at: String,
    /// What differs.
    pub what: What,
}

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An expected switch is not there.
    NoSwitch,
    /// A switch is there that is not expected.
    StrangeSwitch,
    /// An expected switch has no such port.
    NoPort,
    /// The link is disabled and shall not be.
    Disabled,
    /// The link is enabled and shall not be.
    Enabled,
    /// A neighbour is expected, and the link is down.
    Down {
        /// The expected neighbour.
        expected: String,
    },
    /// The wrong neighbour, or a link too narrow or slow: what a port under test fails for too.
    Wrong(Reason),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = &self.at;
        match &self.what {
            What::NoSwitch => write!(f, "{at}: expected, but not there"),
            What::StrangeSwitch => write!(f, "{at}: there, but not expected"),
            What::NoPort => write!(f, "{at}: the switch has no such port"),
            What::Disabled => write!(f, "{at}: disabled, expected enabled"),
            What::Enabled => write!(f, "{at}: enabled, expected disabled"),
            What::Down { expected } => write!(f, "{at}: the link is down, expected {expected}"),
            What::Wrong(reason) => write!(f, "{at}: {reason}"),
        }
    }
}

/// Everything that is not as expected, in the order of switches and ports.
pub fn differences(expected: &Expected, seen: &Seen) -> Vec<Difference> {
    let mut differences = Vec::new();
    let (leaving, _) = leaving(expected, seen);
    for (&guid, switch) in &expected.switches {
        let name = || if switch.name.is_empty() { guid.to_string() } else { switch.name.clone() };
        let Some(there) = seen.switches.get(&guid) else {
            // One that keeps no link cannot be reached.
            if !switch.ports.is_empty() && switch.ports.values().all(|port| port.mode.is_down()) {
                continue;
            }
            let place = (guid, PortNum::ZERO);
            differences.push(Difference { place, at: name(), what: What::NoSwitch });
            continue;
        };
        for (&num, port) in &switch.ports {
            let place = (guid, num);
            let what = match there.port(num) {
                None => Some(What::NoPort),
                Some(there) => difference(port, there, leaving.contains(&place)),
            };
            differences.extend(what.map(|what| {
                let at = expected.port_name(place);
                Difference { place, at, what }
            }));
        }
    }
    for (&guid, switch) in &seen.switches {
        if !expected.switches.is_empty() && !expected.switches.contains_key(&guid) {
            let place = (guid, PortNum::ZERO);
            let at = switch.name.clone();
            differences.push(Difference { place, at, what: What::StrangeSwitch });
        }
    }
    differences
}

fn difference(expected: &ExpectedPort, seen: &SeenPort, leaves: bool) -> Option<What> {
    match seen.link {
        LinkState::Up if leaves => return Some(What::Enabled),
        // The other end may have been told.
        _ if leaves => return None,
        LinkState::Disabled if expected.mode.is_down() => return None,
        _ if expected.mode.is_down() => return Some(What::Enabled),
        LinkState::Disabled => return Some(What::Disabled),
        _ => {}
    }
    if let Some(reason) = miswired(expected, seen) {
        return Some(What::Wrong(reason));
    }
    match (&expected.neighbour, &seen.neighbour, seen.link) {
        (Some(pattern), None, LinkState::Down) => {
            Some(What::Down { expected: pattern.to_string() })
        }
        (_, _, LinkState::Up) => slow(expected, seen.rate).map(What::Wrong),
        _ => None,
    }
}

/// Why the neighbour is the wrong one, if one is there and is.
pub(super) fn miswired(expected: &ExpectedPort, seen: &SeenPort) -> Option<Reason> {
    let (pattern, found) = (expected.neighbour.as_ref()?, seen.neighbour.as_ref()?);
    let reason = || Reason::Miswired { expected: pattern.to_string(), found: found.port_name() };
    (!pattern.fits(found)).then(reason)
}

/// Why a link is not as wide and fast as it has to be, if it is not.
pub(super) fn slow(expected: &ExpectedPort, rate: Option<LinkRate>) -> Option<Reason> {
    let wide = expected.width.is_none_or(|width| rate.is_some_and(|rate| rate.width >= width));
    let fast = expected.speed.is_none_or(|speed| rate.is_some_and(|rate| rate.speed >= speed));
    (!wide || !fast).then(|| Reason::Slow { required: required(expected), is: rate })
}

/// `4xNDR`, `4x` or `NDR`.
fn required(expected: &ExpectedPort) -> String {
    let width = expected.width.map_or_else(String::new, |width| format!("{}x", width.lanes()));
    width + expected.speed.map_or("", |speed| speed.name())
}

/// Whether the port would be disabled, as things are.
fn would_be_disabled(expected: &Expected, port: &ExpectedPort, seen: &SeenPort) -> bool {
    let judged = port.mode == Mode::Enabled || expected.tests.miswire;
    match port.mode.is_down() {
        true => seen.link == LinkState::Up,
        false => judged && miswired(port, seen).is_some(),
    }
}

/// What speaks against the configuration as a whole, in this fabric.
pub fn check(expected: &Expected, seen: &Seen) -> Vec<Objection> {
    let mut objections = Vec::new();
    let mut places: BTreeMap<(Guid, Option<PortNum>), Place> = BTreeMap::new();
    let mut cut = BTreeSet::new();
    for (&guid, switch) in &expected.switches {
        for (&num, port) in &switch.ports {
            let place = (guid, num);
            let only = port.neighbour.as_ref().filter(|_| !port.mode.is_down());
            if let Some(key) = only.and_then(|pattern| one_port(expected, pattern))
                && let Some(first) = places.insert(key, place)
            {
                let [first, second] = [first, place].map(|place| expected.port_name(place));
                objections.push(Objection::Twice { guid: key.0, first, second });
            }
            let Some(there) = seen.port(place) else { continue };
            if would_be_disabled(expected, port, there) {
                cut.insert(place);
                if seen.is_own(place) {
                    objections.push(Objection::OwnPort(seen.port_name(place)));
                }
            }
        }
    }
    let (before, after) = (seen.reached(&BTreeSet::new()), seen.reached(&cut));
    let (_, meant) = leaving(expected, seen);
    for &guid in before.difference(&after).filter(|guid| !meant.contains(*guid)) {
        let name = seen.switches.get(&guid).map_or_else(String::new, |switch| switch.name.clone());
        objections.push(Objection::Cut { guid, name });
    }
    objections
}

/// Which one port fits, where no other can.
fn one_port(expected: &Expected, pattern: &Pattern) -> Option<(Guid, Option<PortNum>)> {
    // A switch's ports all have the GUID of its port 0.
    let of_adapter = |guid: &Guid| !expected.switches.contains_key(guid);
    match (pattern.port_guid.filter(of_adapter), pattern.node_guid, pattern.port) {
        (Some(guid), ..) => Some((guid, None)),
        (None, Some(guid), Some(port)) => Some((guid, Some(port))),
        _ => None,
    }
}

/// The configuration of which a fabric, as it is, differs in nothing. Ports that are down are left out, unless
/// `spares` says how they shall be.
pub fn learn(seen: &Seen, mode: Mode, spares: Option<Mode>) -> Expected {
    let mut expected = Expected::default();
    for (&guid, switch) in &seen.switches {
        let mut learnt = ExpectedSwitch { name: switch.name.clone(), ..ExpectedSwitch::default() };
        for (num, port) in switch.ports() {
            let entry = match (port.link, &port.neighbour) {
                (LinkState::Disabled, _) => {
                    Some(ExpectedPort { mode: Mode::Disabled, ..ExpectedPort::default() })
                }
                (LinkState::Up, Some(neighbour)) => Some(ExpectedPort {
                    mode,
                    neighbour: Some(Pattern {
                        node_guid: Some(neighbour.node_guid),
                        port: Some(neighbour.port),
                        ..Pattern::default()
                    }),
                    width: port.rate.map(|rate| rate.width),
                    speed: port.rate.map(|rate| rate.speed),
                }),
                _ => spares.map(|mode| ExpectedPort { mode, ..ExpectedPort::default() }),
            };
            learnt.ports.extend(entry.map(|entry| (num, entry)));
        }
        expected.switches.insert(guid, learnt);
    }
    expected
}
