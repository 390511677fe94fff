//! The operator's expectation of a fabric: which switches, and what is behind each of their ports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use snin_fabric::{Guid, PortNum, Speed, Width};
use snin_protocol::Time;

use snin_sm_database::records::Place;
use snin_sm_database::seen::Neighbour;

/// The expected configuration. Switches and ports that are not in it are left as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// Switches by GUID.
    pub switches: BTreeMap<Guid, ExpectedSwitch>,
    /// What a port in the state [`Mode::Test`] has to pass.
    pub tests: Tests,
}

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedSwitch {
    /// Its name, for people.
    pub name: String,
    /// Its ports, as far as anything is expected of them.
    pub ports: BTreeMap<PortNum, ExpectedPort>,
}

/// A switch's port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedPort {
    /// How it shall be.
    pub mode: Mode,
    /// The neighbour that shall be behind it; none: any may.
    pub neighbour: Option<Pattern>,
    /// Lanes that its link has to have at least.
    pub width: Option<Width>,
    /// The speed that its link has to have at least.
    pub speed: Option<Speed>,
}

/// How a port shall be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Its link is enabled.
    #[default]
    Enabled,
    /// Its link is disabled.
    Disabled,
    /// Its link is enabled, and is used when it has passed the tests.
    Test,
    /// As [`Mode::Test`]; the switch's ports of this mode come into use together, when the last was tested.
    PhaseIn,
    /// Traffic is moved away, then its link is disabled.
    PhaseOut,
    /// As [`Mode::PhaseOut`]; its link rests in the state that needs the least power when it is down.
    Off,
}

impl Mode {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::Test => "test",
            Self::PhaseIn => "phase-in",
            Self::PhaseOut => "phase-out",
            Self::Off => "off",
        }
    }

    /// Every mode.
    pub const ALL: [Self; 6] =
        [Self::Enabled, Self::Disabled, Self::Test, Self::PhaseIn, Self::PhaseOut, Self::Off];

    /// Whether a port has to pass the tests before it is used.
    pub const fn is_tested(self) -> bool {
        matches!(self, Self::Test | Self::PhaseIn)
    }

    /// Whether traffic leaves the port before its link is disabled.
    pub const fn leaves(self) -> bool {
        matches!(self, Self::PhaseOut | Self::Off)
    }

    /// Whether its link is to be down.
    pub const fn is_down(self) -> bool {
        self.leaves() || matches!(self, Self::Disabled)
    }
}

/// The expected neighbour of a port: all that is given has to agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// The GUID of the port at the other end.
    pub port_guid: Option<Guid>,
    /// The GUID of its node.
    pub node_guid: Option<Guid>,
    /// The GUID of the unit that the node is part of (SystemImageGUID): what InfiniBand has for a serial number.
    pub system_guid: Option<Guid>,
    /// The node's description; `*` stands for any text, `?` for one character.
    pub name: Option<String>,
    /// The vendor of the node.
    pub vendor: Option<u32>,
    /// The kind of device, as its vendor numbers them.
    pub device: Option<u32>,
    /// The number of the port at the other end.
    pub port: Option<PortNum>,
}

impl Pattern {
    /// Whether this is who is expected.
    pub fn fits(&self, neighbour: &Neighbour) -> bool {
        fn same<T: PartialEq>(wanted: Option<T>, is: T) -> bool {
            wanted.is_none_or(|wanted| wanted == is)
        }
        same(self.port_guid, neighbour.port_guid)
            && same(self.node_guid, neighbour.node_guid)
            && same(self.system_guid, neighbour.system_guid)
            && same(self.vendor, neighbour.vendor)
            && same(self.device, neighbour.device)
            && same(self.port, neighbour.port)
            && self.name.as_deref().is_none_or(|name| fits(name, &neighbour.name))
    }

    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `name="host3" port_guid=0x...`: what is given.
impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let guid = |guid: Option<Guid>| guid.map(|guid| guid.to_string());
        let number = |number: Option<u32>| number.map(|number| format!("{number:#x}"));
        let parts = [
            ("name", self.name.clone()),
            ("node_guid", guid(self.node_guid)),
            ("port_guid", guid(self.port_guid)),
            ("system_guid", guid(self.system_guid)),
            ("vendor", number(self.vendor)),
            ("device", number(self.device)),
            ("port", self.port.map(|port| port.to_string())),
        ];
        let mut given = parts.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        if let Some((key, value)) = given.next() {
            write!(f, "{key} {value}")?;
        }
        given.try_for_each(|(key, value)| write!(f, ", {key} {value}"))
    }
}

/// Whether a name fits a pattern with `*` and `?`.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last star was, and where what it stands for ends.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    (p, n) = (at + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// What a port has to pass before it is used. Link presence with width and speed is always looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tests {
    /// Whether who is behind the port is looked at.
    pub miswire: bool,
    /// How good the link has to be; none: it is not measured.
    pub quality: Option<Quality>,
    /// Who at the other end has to answer a request as is expected; none: that is not asked.
    pub application: Option<Application>,
    /// A test that lasts longer has failed.
    pub timer: Time,
    /// Ports that are tested side by side.
    pub at_once: u32,
    /// How often a link is reset, and its port tested again, before the port has failed.
    pub resets: u32,
}

/// Who answers at the other end of a link under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Application {
    /// The node, with the description that discovery heard.
    Node,
    /// Its agent, with a message to another host; a switch as [`Application::Node`]. That takes an ACTIVE link, so
    /// errors have to be counted too.
    Agent,
}

impl Application {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Agent => "agent",
        }
    }
}

/// How good a link has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quality {
    /// It has to stay up, and as fast as is required, for so long.
    pub lasts: Time,
    /// So many MADs cross it meanwhile.
    pub mads: u32,
    /// So many of them, and of the messages, may be lost.
    pub lost: u32,
    /// So many messages the agent behind the port, if there is one, sends while errors are counted.
    pub messages: u32,
    /// By so many may the error counters of either end rise, together, while as many MADs cross the link again
    /// once the port is ACTIVE: before, it has no address at which counters could be asked for. None: they are not
    /// looked at.
    pub errors: Option<u32>,
}

impl Default for Quality {
    fn default() -> Self {
        Self { lasts: Time::secs(1), mads: 100, lost: 0, messages: 0, errors: Some(0) }
    }
}

impl Default for Tests {
    fn default() -> Self {
        let quality = Some(Quality::default());
        let (timer, at_once, resets) = (Time::secs(30), 1_000, 0);
        let application = Some(Application::Node);
        Self { miswire: true, quality, application, timer, at_once, resets }
    }
}

impl Expected {
    /// What is expected of a port.
    pub fn port(&self, (switch, port): Place) -> Option<&ExpectedPort> {
        self.switches.get(&switch)?.ports.get(&port)
    }

    /// `leaf3/20`: the name of a port, by its switch's name or else GUID.
    pub fn port_name(&self, (switch, port): Place) -> String {
        match self.switches.get(&switch).filter(|switch| !switch.name.is_empty()) {
            Some(named) => format!("{}/{port}", named.name),
            None => format!("{switch}/{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name) in [
            ("host3", "host3"),
            ("host*", "host"),
            ("host?", "host3"),
            ("*3 HCA-*", "host3 HCA-1"),
            ("*", ""),
            ("a*b*c", "aXbYbZc"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("host", "host3"), ("host?", "host"), ("a*b", "abc"), ("", "a")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn all_that_is_given_has_to_agree() {
        let neighbour = Neighbour {
            node_guid: Guid(1),
            port_guid: Guid(2),
            system_guid: Guid(3),
            name: "host3".to_owned(),
            vendor: 4,
            device: 5,
            port: PortNum(1),
            is_switch: false,
        };
        let pattern =
            Pattern { name: Some("host*".to_owned()), vendor: Some(4), ..Pattern::default() };
        assert!(Pattern::default().fits(&neighbour) && pattern.fits(&neighbour));
        assert!(!Pattern { port_guid: Some(Guid(9)), ..pattern.clone() }.fits(&neighbour));
        assert!(!Pattern { port: Some(PortNum(2)), ..pattern }.fits(&neighbour));
    }
}
