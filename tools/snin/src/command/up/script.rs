//! What a script says: so many windows of random permutations, and what happens in which.
//!
//! ```text
//! # the demo
//! windows 60
//! seed 7
//! cut leaf1/3 @window 20
//! restore leaf1/3 @window 40
//! kill controller @window 30
//! stop controller @window 33
//! continue controller @window 36
//! phase-out spine2 @window 45
//! phase-in spine2 @window 50
//! restart opensm @window 55
//! ```
//!
//! Collectives come first, one after the other: `collective ring 64 4194304`, the kinds of `snin request
//! --collective`, of a grid or halo with its dimensions in place of the hosts; then the bytes that each host has
//! of its own.

use std::fmt::{self, Display};

use snin_emulator::{Fault, place};
use snin_fabric::Topology;
use snin_protocol::collective::{CollectiveKind, Dims};

const FORM: &str = "expected windows N, collective KIND HOSTS BYTES, seed N, messages N, bytes N, \
                    kill, stop or continue controller @window N, \
                    phase-out or phase-in SWITCH @window N, restart opensm @window N, \
                    or a fault such as cut leaf1/3 @window N";

/// What happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// The controller that leads is killed as by `kill -9`, and started again.
    Kill,
    /// The controller that leads, of several, stands still.
    Stop,
    /// Controllers that stand still go on.
    Continue,
    /// A fault of the emulated fabric.
    Fault(String),
    /// Traffic is moved away from a switch, and its links are disabled.
    PhaseOut(String),
    /// They are tested, and used again.
    PhaseIn(String),
    /// OpenSM, which keeps the subnet, is killed as by `kill -9`, and started again.
    Restart,
}

/// What hosts do together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CollectiveLine {
    pub(super) kind: CollectiveKind,
    pub(super) hosts: u32,
    /// Of its own that each has.
    pub(super) bytes: u64,
}

impl CollectiveLine {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let [kind, hosts, bytes] = words else { return Err(FORM.to_owned()) };
        let count = || hosts.parse().map_err(|_| format!("`{hosts}` is no number of hosts"));
        let dims = || hosts.parse::<Dims>();
        let (kind, hosts) = match *kind {
            "ring" => (CollectiveKind::Ring, count()?),
            "bidir" => (CollectiveKind::BidirectionalRing, count()?),
            "hd" => (CollectiveKind::HalvingDoubling, count()?),
            "alltoall" => (CollectiveKind::AllToAll, count()?),
            "grid" => (CollectiveKind::Grid(dims()?), dims()?.members()),
            "halo" => (CollectiveKind::Halo(dims()?), dims()?.members()),
            _ => {
                return Err(format!(
                    "`{kind}`: ring, bidir, hd, alltoall, grid or halo is possible"
                ));
            }
        };
        let bytes = bytes.parse().map_err(|_| format!("`{bytes}` is no number of bytes"))?;
        kind.phases(hosts).map_err(|error| error.to_string())?;
        Ok(Self { kind, hosts, bytes })
    }
}

impl Display for CollectiveLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} hosts", self.kind, self.hosts)
    }
}

/// See the module's documentation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Script {
    pub(super) windows: u32,
    pub(super) seed: u64,
    /// Messages of a connection.
    pub(super) messages: u32,
    /// Bytes of each; 0: a quarter of what a window carries, together.
    pub(super) bytes: u64,
    /// What hosts do together, one after the other, before the windows.
    pub(super) collectives: Vec<CollectiveLine>,
    /// With the windows, counted from 1, in their order.
    pub(super) acts: Vec<(u32, Act)>,
}

impl Script {
    /// Whether a switch is phased out or in, which the subnet's manager does.
    pub(super) fn has_phases(&self) -> bool {
        let is_phase = |act: &Act| matches!(act, Act::PhaseOut(_) | Act::PhaseIn(_));
        self.acts.iter().any(|(_, act)| is_phase(act))
    }

    /// Whether OpenSM is restarted, which has to be there.
    pub(super) fn restarts_opensm(&self) -> bool {
        self.acts.iter().any(|(_, act)| *act == Act::Restart)
    }

    /// Reads it; an error names file and line. `controllers`: how many there are.
    pub(super) fn parse(
        name: &str,
        text: &str,
        topology: &Topology,
        controllers: u8,
    ) -> Result<Self, String> {
        let mut script = Self {
            windows: 60,
            seed: 1,
            messages: 4,
            bytes: 0,
            collectives: Vec::new(),
            acts: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let read = script.line(line, topology);
                read.map_err(|why| format!("{name}:{}: `{line}`: {why}", number + 1))?;
            }
        }
        if let Some((window, _)) = script.acts.iter().find(|(window, _)| *window > script.windows) {
            return Err(format!("{name}: window {window}, but there are {}", script.windows));
        }
        if let Some((window, _)) = script.acts.iter().find(|(_, act)| *act == Act::Stop)
            && controllers < 2
        {
            let why = "stop controller takes --controllers 2, so that another one leads meanwhile";
            return Err(format!("{name}: window {window}: {why}"));
        }
        let ends = script.acts.iter().filter(|(_, act)| matches!(act, Act::Kill | Act::Stop));
        let mut ends: Vec<u32> = ends.map(|&(window, _)| window).collect();
        ends.sort_unstable();
        if let Some(twice) = ends.windows(2).find(|pair| pair[0] == pair[1])
            && controllers > 1
        {
            return Err(format!("{name}: window {}: one kill or stop a window", twice[0]));
        }
        script.acts.sort_by_key(|&(window, _)| window);
        Ok(script)
    }

    fn line(&mut self, line: &str, topology: &Topology) -> Result<(), String> {
        let form = || FORM.to_owned();
        if let Some((what, at)) = line.split_once('@') {
            let window = at.trim().strip_prefix("window ").and_then(|n| n.trim().parse().ok());
            let window = window.filter(|&window| window > 0).ok_or_else(form)?;
            let what = what.trim();
            let act = match what.split_once(' ') {
                Some(("kill", "controller")) => Act::Kill,
                Some(("stop", "controller")) => Act::Stop,
                Some(("continue", "controller")) => Act::Continue,
                Some(("restart", "opensm")) => Act::Restart,
                Some(("phase-out", name)) => Act::PhaseOut(switch(name, topology)?),
                Some(("phase-in", name)) => Act::PhaseIn(switch(name, topology)?),
                _ => {
                    Fault::said(what, topology)?;
                    Act::Fault(what.to_owned())
                }
            };
            self.acts.push((window, act));
            return Ok(());
        }
        if let ["collective", words @ ..] = line.split_whitespace().collect::<Vec<_>>().as_slice() {
            self.collectives.push(CollectiveLine::parse(words)?);
            return Ok(());
        }
        let (key, value) = line.split_once(' ').ok_or_else(form)?;
        let value: u64 = value.trim().parse().map_err(|_| form())?;
        let small = || u32::try_from(value).ok().filter(|&n| n > 0).ok_or_else(form);
        match key {
            "windows" => self.windows = u32::try_from(value).map_err(|_| form())?,
            "seed" => self.seed = value,
            "messages" => self.messages = small()?,
            "bytes" => self.bytes = value,
            _ => return Err(form()),
        }
        Ok(())
    }
}

fn switch(name: &str, topology: &Topology) -> Result<String, String> {
    let node = place::node(topology, name)?;
    let found = topology.is_switch(node).then(|| name.to_owned());
    found.ok_or_else(|| format!("{name} is no switch"))
}

#[cfg(test)]
mod tests {
    use snin_fabric::generate::Recipe;

    use super::*;

    fn parse(text: &str) -> Result<Script, String> {
        let topology = "clos:4,4,2".parse::<Recipe>().unwrap().build().unwrap();
        Script::parse("demo", text, &topology, 1).and_then(|script| {
            // Several controllers take the same scripts.
            Script::parse("demo", text, &topology, 2).map(|_| script)
        })
    }

    #[test]
    fn a_collective_has_its_hosts_or_its_dimensions() {
        let script = parse("windows 0\ncollective ring 4 9\ncollective halo 2x2 8\n").unwrap();
        let halo = CollectiveKind::Halo(Dims { x: 2, y: 2, z: 1 });
        let together = |kind, bytes| CollectiveLine { kind, hosts: 4, bytes };
        assert_eq!(script.windows, 0);
        assert_eq!(script.collectives, [together(CollectiveKind::Ring, 9), together(halo, 8)]);
    }

    #[test]
    fn a_script_is_read_in_the_order_of_its_windows() {
        let script = parse(
            "windows 9 # few\n\nrestore leaf1/3 @window 7\nkill controller @window 3\n\
                   phase-out spine1 @window 8\n",
        )
        .unwrap();
        let restore = Act::Fault("restore leaf1/3".to_owned());
        assert_eq!((script.windows, script.seed), (9, 1));
        assert_eq!(
            script.acts,
            [(3, Act::Kill), (7, restore), (8, Act::PhaseOut("spine1".to_owned()))]
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, why) in [
            ("windows", "demo:1: `windows`: expected windows N"),
            ("\nwindows -1", "demo:2: `windows -1`: expected"),
            (
                "cut leaf1/99 @window 1",
                "demo:1: `cut leaf1/99 @window 1`: leaf1 has no cable at port 99",
            ),
            ("phase-in host-0-0 @window 1", "demo:1: `phase-in host-0-0 @window 1`: "),
            ("kill manager @window 1", "demo:1: `kill manager @window 1`: expected"),
            (
                "stop controller @window 1",
                "demo: window 1: stop controller takes --controllers 2, so that another one leads meanwhile",
            ),
            (
                "kill controller @window 2\nkill controller @window 2",
                "demo: window 2: one kill or stop a window",
            ),
            ("windows 2\nkill controller @window 3", "demo: window 3, but there are 2"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
