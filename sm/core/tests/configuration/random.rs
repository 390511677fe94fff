//! Random configurations, faults and consent: nothing is disabled without consent, nor what is connected as it is
//! expected to be, nor the last way to a switch.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use snin_configuration::{Expected, Instruction, Limits, Mode, Quality, Tests};
use snin_emulator::{Fabric, Fault, Write};
use snin_fabric::{Guid, NodeIndex, PortIndex, PortNum, Topology};
use snin_mad::{Attribute as _, PhysicalState, PortInfo, PortState};
use snin_protocol::Time;
use snin_sm_database::judgement::Consent;
use snin_sm_database::records::Place;

use crate::lab::{Lab, expect, fabric, granted, planned};

/// What was decided by what was discovered a moment ago is excused for so long.
const GRACE: Time = Time::secs(3);

/// What the judge knows; it shares no code with the manager.
struct Truth {
    expected: Expected,
    /// Since when there is consent, or is none.
    consent: (bool, Time),
    /// When something last happened to a cable.
    shaken: Time,
    home: NodeIndex,
    /// Ports that an operator wants left by traffic.
    leaving: BTreeSet<Place>,
    /// Ports whose links count errors: they may fail a test of their quality.
    noisy: BTreeSet<PortIndex>,
    disables: u32,
    /// Disabled ports whose write cut nothing, or only what was meant to go, until they are enabled.
    uncut: BTreeSet<PortIndex>,
}

/// Runs `target` for as many seeds as `SNIN_CONFIGURATIONS` says, from `SNIN_SEED` on.
fn for_seeds(otherwise: u64, target: impl Fn(u64) -> u32) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("SNIN_SEED").unwrap_or(0);
    let count = number("SNIN_CONFIGURATIONS").unwrap_or(otherwise);
    let mut disables = 0;
    for seed in first..first + count {
        println!("SNIN_SEED={seed}");
        disables += u64::from(target(seed));
    }
    assert!(count < 10 || disables > 0, "nothing was ever disabled: nothing was judged");
}

fn reached(topology: &Topology, home: NodeIndex) -> BTreeSet<NodeIndex> {
    let (mut reached, mut queue) = (BTreeSet::from([home]), vec![home]);
    while let Some(node) = queue.pop() {
        if node != home && !topology.is_switch(node) {
            continue;
        }
        for (_, peer) in topology.cables(node) {
            let next = topology.port(peer).node;
            if reached.insert(next) {
                queue.push(next);
            }
        }
    }
    reached
}

/// With `SNIN_STORY` it is told what happens: to see why a seed fails.
fn story(what: impl FnOnce() -> String) {
    if std::env::var_os("SNIN_STORY").is_some() {
        println!("{}", what());
    }
}

fn judge(truth: &mut Truth, fabric: &Fabric, write: &Write) {
    if write.attribute != PortInfo::ID {
        return;
    }
    let topology = fabric.topology();
    let num = PortNum(write.modifier as u8);
    let Some(port) = topology.port_of(write.node, num).filter(|_| topology.is_switch(write.node))
    else {
        return;
    };
    story(|| {
        let (name, now) = (topology.port_name(port), fabric.port_info(port).physical_state);
        format!("{} {name} is told {now:?}, was {:?}", write.at, write.disables)
    });
    let Some(before) = write.disables else {
        if fabric.port_info(port).physical_state != PhysicalState::Disabled {
            truth.uncut.remove(&port);
        }
        return;
    };
    truth.disables += 1;
    let name = topology.port_name(port);
    let (consents, since) = truth.consent;
    assert!(consents || write.at < since + GRACE, "{name} disabled without consent");
    let peer = topology.peer(port);
    let ends = || [Some(port), peer].into_iter().flatten();
    let goes = ends().any(|end| truth.goes(topology, topology.port(end).node));
    let cuts = peer.is_some_and(|peer| truth.cuts(fabric, before, [port, peer]));
    if !cuts || goes {
        truth.uncut.insert(port);
    }
    if write.at < truth.shaken + GRACE {
        return;
    }
    let guid = topology.node(write.node).guid;
    let want = &truth.expected.switches[&guid].ports[&num];
    // A link that was down connected nothing: its cable was cut, or its other end is disabled.
    let is_right = peer.filter(|_| before != PortState::Down).is_some_and(|peer| {
        let node = topology.node(topology.port(peer).node).guid;
        let pattern = want.neighbour.as_ref();
        pattern.is_none_or(|pattern| {
            pattern.node_guid == Some(node) && pattern.port == Some(topology.num(peer))
        })
    });
    let leaves = ends().any(|end| truth.leaves(topology, end));
    let may_fail =
        truth.expected.tests.quality.is_some() && ends().any(|end| truth.noisy.contains(&end));
    assert!(
        want.mode == Mode::Disabled || leaves || may_fail || !is_right,
        "{name} is connected as it is expected to be"
    );
    assert!(!cuts || goes, "{name} was the last way to a switch");
    let ends = peer.map(|peer| [port, peer].map(|end| topology.port(end).node));
    assert!(
        ends.is_none_or(|ends| !ends.contains(&truth.home)),
        "{name} is the manager's own port"
    );
}

impl Truth {
    /// Whether traffic is to leave the port.
    fn leaves(&self, topology: &Topology, port: PortIndex) -> bool {
        let place = (topology.node(topology.port(port).node).guid, topology.num(port));
        let mode = self.expected.port(place).map(|port| port.mode);
        self.leaving.contains(&place) || matches!(mode, Some(Mode::PhaseOut | Mode::Off))
    }

    /// Whether no link of a switch is to stay: then it is meant to go.
    fn goes(&self, topology: &Topology, node: NodeIndex) -> bool {
        let guid = topology.node(node).guid;
        topology.is_switch(node)
            && self.expected.switches[&guid].ports.iter().all(|(&num, port)| {
                let end = topology.port_of(node, num).unwrap();
                let planned = port.neighbour.as_ref().and_then(|neighbour| {
                    let node = topology
                        .nodes()
                        .find(|&node| Some(topology.node(node).guid) == neighbour.node_guid)?;
                    topology.port_of(node, neighbour.port?)
                });
                let ends = [Some(end), topology.peer(end), planned].into_iter().flatten();
                port.mode == Mode::Disabled
                    || ends.into_iter().any(|end| self.leaves(topology, end))
            })
    }

    /// Whether a write, which disabled the first of a cable's ports, took the last way to a switch.
    ///
    /// A link that was down before was no way: its cable was cut, or its other end had been disabled. Where the
    /// other end's write cut something, within the grace, this end is judged for both.
    fn cuts(&self, fabric: &Fabric, before: PortState, [port, peer]: [PortIndex; 2]) -> bool {
        let topology = fabric.topology();
        let is_shut = fabric.port_info(peer).physical_state == PhysicalState::Disabled;
        if before == PortState::Down && (!is_shut || self.uncut.contains(&peer)) {
            return false;
        }
        // With the link, could more be reached?
        let without = reached(&fabric.live_topology().without_cables(&[port]), self.home);
        let ends = [port, peer].map(|end| topology.port(end).node);
        let reaches = ends.iter().any(|end| without.contains(end));
        reaches && ends.iter().any(|&end| topology.is_switch(end) && !without.contains(&end))
    }
}

fn run(seed: u64) -> u32 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let topology = fabric(["clos:3,2,2", "clos:4,3,2", "clos:2,1,3"][random.random_range(0..3)]);
    let mut expected = planned(&topology, Mode::Enabled);
    let quality = seed.is_multiple_of(4).then(|| Quality {
        lasts: Time::millis(20),
        mads: 5,
        lost: 5,
        messages: 0,
        errors: Some(20),
    });
    let resets = seed as u32 % 3;
    expected.tests = Tests { quality, application: None, resets, ..expected.tests };
    for port in expected.switches.values_mut().flat_map(|switch| switch.ports.values_mut()) {
        match random.random_range(0..20) {
            0 => port.mode = Mode::Disabled,
            1..6 => port.mode = Mode::Test,
            6 => port.neighbour.as_mut().unwrap().node_guid = Some(Guid(0xDEAD)),
            7 => port.mode = Mode::PhaseIn,
            8 => port.mode = [Mode::PhaseOut, Mode::Off][seed as usize % 2],
            _ => {}
        }
    }
    let mut lab =
        Lab::new(topology.clone(), Limits { writes: 1 + seed as u32 % 10, dry_run: false });
    let switches: Vec<PortIndex> = topology
        .ports()
        .filter(|&port| {
            topology.is_switch(topology.port(port).node) && topology.peer(port).is_some()
        })
        .collect();
    let adapters = topology.nodes().filter(|&node| !topology.is_switch(node));
    let home = adapters.into_iter().next().unwrap();
    let truth = Truth {
        expected: expected.clone(),
        consent: (false, Time::ZERO),
        shaken: Time::ZERO,
        home,
        leaving: BTreeSet::new(),
        noisy: BTreeSet::new(),
        disables: 0,
        uncut: BTreeSet::new(),
    };
    let truth = Rc::new(RefCell::new(truth));
    let judged = truth.clone();
    lab.emulator.watch(move |fabric, write| judge(&mut judged.borrow_mut(), fabric, write));
    lab.tell(expect(&expected));
    lab.start();
    for _ in 0..12 {
        let now = lab.now();
        let any = switches[random.random_range(0..switches.len())];
        let other = switches[random.random_range(0..switches.len())];
        let place = (topology.node(topology.port(any).node).guid, topology.num(any));
        let what = random.random_range(0..12);
        story(|| {
            let [any, other] = [any, other].map(|port| topology.port_name(port));
            format!("{now} {what} of {any} (or {other})")
        });
        match what {
            0 => {
                lab.tell(Instruction::Consent(Consent::Absent));
                truth.borrow_mut().consent = (false, now);
            }
            1 | 2 => {
                truth.borrow_mut().consent = (true, now);
                lab.tell(granted());
            }
            3 => lab.strike(Fault::Swap(any, other)),
            4 => lab.strike(Fault::Bounce(any)),
            5 => lab.strike(Fault::Cut(any)),
            6 => lab.strike(Fault::Restore(any)),
            7 => {
                truth.borrow_mut().leaving.insert(place);
                lab.tell(Instruction::PhaseOut(place, String::new()));
            }
            8 => {
                // A whole switch.
                for &num in expected.switches[&place.0].ports.keys() {
                    truth.borrow_mut().leaving.insert((place.0, num));
                    lab.tell(Instruction::PhaseOut((place.0, num), String::new()));
                }
            }
            9 => {
                for &num in expected.switches[&place.0].ports.keys() {
                    truth.borrow_mut().leaving.remove(&(place.0, num));
                    lab.tell(Instruction::PhaseIn((place.0, num)));
                }
            }
            10 => {
                truth.borrow_mut().noisy.insert(any);
                lab.strike(Fault::SymbolErrors(any, random.random_range(0..1_000_000)));
            }
            _ => {
                truth.borrow_mut().leaving.remove(&place);
                lab.tell(Instruction::Release(place));
            }
        }
        truth.borrow_mut().shaken = now;
        let until = now + Time::millis(random.random_range(1..6_000));
        while lab.now() < until {
            let step =
                if std::env::var_os("SNIN_STORY").is_some() { Time::millis(20) } else { until };
            lab.run(step.min(until - lab.now()));
            for report in lab.said.drain(..) {
                story(|| format!("{} {report}", lab.emulator.now()));
            }
        }
    }
    truth.borrow().disables
}

#[test]
fn enforcement_only_with_consent_and_never_a_cut_of_what_is_as_expected() {
    for_seeds(300, run);
}
