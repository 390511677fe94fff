//! A user's events of an emulated fabric: `cut leaf3/20 @2s`, `phase-out spine1 @window 30`.

use std::str::FromStr;

use snin_emulator::Fault;
use snin_fabric::{Guid, NodeIndex, PortIndex, PortNum, Topology};
use snin_protocol::Time;

/// How long a node that reboots is away.
pub(super) const REBOOT: Time = Time::millis(500);

const FORM: &str = "expected cut|restore NODE/PORT @TIME, reboot|off|on NODE @TIME or \
                    phase-out|phase-in SWITCH @TIME (or @window N)";

/// Something that happens at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioEvent {
    /// As the user wrote it.
    pub text: String,
    /// When.
    pub at: When,
    verb: Verb,
    place: String,
}

/// When it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// So long after the start.
    Time(Time),
    /// In the middle of what a window, counted from 1, simulates.
    Window(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verb {
    Cut,
    Restore,
    Reboot,
    Off,
    On,
    PhaseOut,
    PhaseIn,
}

/// What an event does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// Something goes wrong, or right again.
    Fault(Fault),
    /// An operator has traffic moved away from all ports of a switch, and their links disabled.
    PhaseOut(NodeIndex),
    /// An operator has them tested, and used again.
    PhaseIn(NodeIndex),
}

impl From<Fault> for Act {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl FromStr for ScenarioEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}`: {FORM}");
        let (what, at) = text.rsplit_once('@').ok_or_else(form)?;
        let (verb, place) = what.trim().split_once(' ').ok_or_else(form)?;
        let verb = match verb {
            "cut" => Verb::Cut,
            "restore" => Verb::Restore,
            "reboot" => Verb::Reboot,
            "off" => Verb::Off,
            "on" => Verb::On,
            "phase-out" => Verb::PhaseOut,
            "phase-in" => Verb::PhaseIn,
            _ => return Err(form()),
        };
        let at = match at.trim().strip_prefix("window ") {
            Some(number) => {
                let number = number.trim().parse().ok().filter(|&number| number > 0);
                When::Window(number.ok_or_else(form)?)
            }
            None => When::Time(time(at)?),
        };
        Ok(Self { text: text.to_owned(), at, verb, place: place.trim().to_owned() })
    }
}

impl ScenarioEvent {
    /// What it does to this fabric.
    ///
    /// # Errors
    /// When the fabric has no such node or port.
    pub fn act(&self, topology: &Topology) -> Result<Act, String> {
        let node = || self.node(topology, &self.place);
        Ok(match self.verb {
            Verb::Cut => Fault::Cut(self.cable(topology)?).into(),
            Verb::Restore => Fault::Restore(self.cable(topology)?).into(),
            Verb::Reboot => Fault::Reboot(node()?, REBOOT).into(),
            Verb::Off => Fault::PowerOff(node()?).into(),
            Verb::On => Fault::PowerOn(node()?).into(),
            Verb::PhaseOut => Act::PhaseOut(self.switch(topology)?),
            Verb::PhaseIn => Act::PhaseIn(self.switch(topology)?),
        })
    }

    /// Whether it comes about in a run of so many windows, each so long.
    ///
    /// # Errors
    /// When the run is over before.
    pub fn within(&self, windows: u32, window: Time) -> Result<(), String> {
        let end = window * u64::from(windows);
        match self.at {
            When::Window(number) if number > windows => {
                Err(format!("`{}`: the run has only {windows} windows (--windows)", self.text))
            }
            When::Time(at) if at >= end => Err(format!(
                "`{}`: the run ends at {end}, after {windows} windows (--windows)",
                self.text
            )),
            _ => Ok(()),
        }
    }

    fn cable(&self, topology: &Topology) -> Result<PortIndex, String> {
        let form = || format!("`{}`: `{}` is no NODE/PORT", self.text, self.place);
        let (name, port) = self.place.rsplit_once('/').ok_or_else(form)?;
        let node = self.node(topology, name)?;
        let num: u8 = port.parse().map_err(|_| form())?;
        let mut cabled = topology.cables(node).map(|(port, _)| port);
        cabled.find(|&port| topology.num(port) == PortNum(num)).ok_or_else(|| {
            let cabled = topology.cables(node).map(|(port, _)| topology.num(port));
            let (text, cabled) = (&self.text, ranges(cabled));
            format!("`{text}`: {name} has no cable at port {num}; it has cables at {cabled}")
        })
    }

    fn switch(&self, topology: &Topology) -> Result<NodeIndex, String> {
        let node = self.node(topology, &self.place)?;
        let is_switch = topology.is_switch(node);
        is_switch
            .then_some(node)
            .ok_or_else(|| format!("`{}`: {} is no switch", self.text, self.place))
    }

    /// By NodeDescription or GUID.
    fn node(&self, topology: &Topology, name: &str) -> Result<NodeIndex, String> {
        let named = |&node: &NodeIndex| &*topology.node(node).name == name;
        let guid: Option<Guid> = name.parse().ok();
        let mut found = topology.nodes().filter(named);
        match (found.next(), found.next()) {
            (Some(node), None) => Ok(node),
            (Some(_), Some(_)) => Err(format!("`{}`: two nodes `{name}`, give a GUID", self.text)),
            // With or without 0x; where a node is called so, that counts.
            (None, _) => topology
                .nodes()
                .find(|&node| Some(topology.node(node).guid) == guid)
                .ok_or_else(|| format!("`{}`: no node `{name}`", self.text)),
        }
    }
}

/// `1-4, 7`, of numbers that rise.
fn ranges(numbers: impl Iterator<Item = PortNum>) -> String {
    let numbers: Vec<u8> = numbers.map(|number| number.0).collect();
    let runs = numbers.chunk_by(|&a, &b| a + 1 == b);
    let range = |run: &[u8]| match run {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    };
    let ranges: Vec<String> = runs.map(range).collect();
    if ranges.is_empty() { "none".to_owned() } else { ranges.join(", ") }
}

/// `2s`, `1.5ms`, `10us`, `250ns`.
pub fn time(text: &str) -> Result<Time, String> {
    let text = text.trim();
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let parsed = units.iter().find_map(|(unit, nanoseconds)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        (0.0..1e9).contains(&number).then(|| Time((number * nanoseconds) as u64))
    });
    parsed.ok_or_else(|| format!("`{text}` is no time (expected 2s, 1.5ms, 10us or 250ns)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use snin_fabric::generate::Recipe;

    #[test]
    fn times_have_units() {
        assert_eq!(time("2s"), Ok(Time::secs(2)));
        assert_eq!(time("1.5 ms"), Ok(Time::micros(1500)));
        assert_eq!(time("250ns"), Ok(Time(250)));
        for bad in ["2", "s", "-1s", "1e300s", "2h", "NaNs"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn happenings_name_nodes_and_ports_of_the_fabric() {
        let fabric = "clos:2,2,1".parse::<Recipe>().unwrap().build().unwrap();
        let act = |text: &str| text.parse::<ScenarioEvent>()?.act(&fabric);
        assert!(matches!(act("cut leaf1/3 @2s"), Ok(Act::Fault(Fault::Cut(_)))));
        assert!(matches!(act("phase-out spine0 @2s"), Ok(Act::PhaseOut(_))));
        let at = |text: &str| text.parse::<ScenarioEvent>().map(|happening| happening.at);
        assert_eq!(at("cut leaf1/3 @window 30"), Ok(When::Window(30)));
        assert_eq!(at("cut leaf1/3 @1.5ms"), Ok(When::Time(Time::micros(1500))));
        assert!(matches!(
            act("reboot 0x0200020000000100 @1ms"),
            Ok(Act::Fault(Fault::Reboot(NodeIndex(3), _)))
        ));
        for bad in [
            "cut leaf1/3",
            "cut leaf1/3 @window 0",
            "cut leaf1/3 @window",
            "burn leaf1 @1s",
            "cut leaf1 @1s",
            "cut leaf1/9 @1s",
            "cut leaf1/0 @1s",
            "cut leaf9/1 @1s",
            "off nobody @1s",
            "cut leaf1/3 @soon",
            "phase-out leaf1/3 @1s",
        ] {
            assert!(act(bad).is_err(), "{bad}");
        }
        let named = act("cut leaf1/9 @1s").unwrap_err();
        assert!(named.ends_with("leaf1 has no cable at port 9; it has cables at 1-3"), "{named}");
    }

    #[test]
    fn ports_are_named_in_ranges() {
        let ranges = |numbers: &[u8]| ranges(numbers.iter().copied().map(PortNum));
        assert_eq!(ranges(&[1, 2, 3, 5, 9, 10]), "1-3, 5, 9-10");
        assert_eq!(ranges(&[]), "none");
    }
}
