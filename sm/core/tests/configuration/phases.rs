//! Statement 62: ports that traffic leaves before their links are disabled, ports without power, and the way back.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use snin_configuration::{Action, Expected, Instruction, Limits, Mode};
use snin_emulator::Fault;
use snin_fabric::PortNum;
use snin_mad::port::LinkDownState;
use snin_mad::{Attribute as _, PhysicalState, PortInfo, PortState};
use snin_protocol::Time;

use crate::lab::{Lab, expect, fabric, granted, planned};

/// Each write that disabled a link, and whether packets were lost from then on.
type Seen = Rc<RefCell<Vec<(String, bool)>>>;

/// A fabric with its expected configuration enforced; at each write that disables a link it is written down
/// whether any host's packets to another are lost from then on.
fn watched(recipe: &str) -> (Lab, Expected, Seen) {
    let topology = fabric(recipe);
    let expected = planned(&topology, Mode::Enabled);
    let mut lab = Lab::new(topology, Limits::default());
    let seen: Seen = Rc::default();
    let notes = seen.clone();
    lab.emulator.watch(move |fabric, write| {
        if write.attribute != PortInfo::ID || write.disables.is_none() {
            return;
        }
        let topology = fabric.topology();
        let port = topology.port_of(write.node, PortNum(write.modifier as u8)).unwrap();
        // By now the link is down: a packet that is led over it is lost.
        let addresses = fabric.addresses().unwrap();
        let hosts: Vec<_> = addresses
            .iter()
            .filter(|&(host, ..)| !topology.is_switch(topology.port(host).node))
            .filter(|&(host, ..)| fabric.port_state(host) != PortState::Down)
            .collect();
        let led_over = hosts
            .iter()
            .any(|&(from, ..)| hosts.iter().any(|&(_, lid, _)| fabric.carry(from, lid).is_err()));
        notes.borrow_mut().push((topology.port_name(port), led_over));
    });
    lab.tell(granted());
    lab.tell(expect(&expected));
    lab.start();
    lab.run(Time::secs(3));
    (lab, expected, seen)
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Every expected port of a switch.
fn ports_of(lab: &Lab, switch: &str) -> Vec<(snin_fabric::Guid, PortNum)> {
    let place = lab.place(switch, 1);
    let expected = lab.manager.configuration().expected().unwrap();
    expected.switches[&place.0].ports.keys().map(|&num| (place.0, num)).collect()
}

#[test]
fn statement_62_a_spine_is_phased_out_when_no_table_leads_over_it_and_phased_in_as_a_whole() {
    let (mut lab, _, disabled) = watched("clos:4,3,2");
    let spine = ports_of(&lab, "spine0");
    assert_eq!(spine.len(), 4);
    for &place in &spine {
        lab.tell(Instruction::PhaseOut(place, "a new power supply".to_owned()));
    }
    lab.run(Time::secs(2));
    // The nearer ends: the farther ones could not be reached afterwards.
    let uplinks = ["leaf0/3", "leaf1/3", "leaf2/3", "leaf3/3"];
    assert_eq!(lab.disabled(), set(&uplinks));
    let found = disabled.borrow().clone();
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|(_, led_over)| !led_over), "{found:?}");
    assert_eq!(lab.state("spine0/1"), ("phased-out", "a new power supply".to_owned()));
    assert_eq!(lab.said_of("spine0/1"), [Action::PhaseOut]);
    assert_eq!(lab.said_of("leaf2/3"), [Action::Disable]);
    lab.check_all_but(&set(&["spine0/1", "spine0/2", "spine0/3", "spine0/4"]));
    let before = lab.writes.borrow().len();
    lab.run(Time::secs(3));
    assert_eq!(lab.writes.borrow().len(), before, "nothing more is done");

    // One cable is cut meanwhile: its port fails, and the others do not wait for it for ever.
    lab.strike(Fault::Cut(lab.port("leaf3", 3)));
    for &place in &spine {
        lab.tell(Instruction::PhaseIn(place));
    }
    lab.run(Time::secs(5));
    lab.check_all_but(&set(&["leaf3/3"]));
    assert_eq!(lab.state("spine0/1").0, "passed");
    assert!(lab.said_of("spine0/1").ends_with(&[Action::PhaseIn, Action::BeginTest, Action::Pass]));
    let (state, why) = lab.state("spine0/4");
    assert_eq!(
        (state, &*why),
        ("failed", "the test timer ran out while waiting for link presence")
    );
    lab.strike(Fault::Restore(lab.port("leaf3", 3)));
    lab.tell(Instruction::PhaseIn(spine[3]));
    lab.run(Time::secs(5));
    lab.check_all_but(&BTreeSet::new());
}

/// What the configuration says does the same as an operator's word; the last way to a leaf is left as it is.
#[test]
fn statement_62_phase_out_and_power_off_by_configuration_and_nothing_that_would_cut() {
    let (mut lab, mut expected, disabled) = watched("clos:4,2,2");
    let places =
        [("leaf1", 1, Mode::Off), ("leaf2", 3, Mode::PhaseOut), ("leaf2", 4, Mode::PhaseOut)];
    let mut to = |lab: &Lab, mode: Option<Mode>| {
        for (name, num, wanted) in places {
            let (guid, num) = lab.place(name, num);
            let port = expected.switches.get_mut(&guid).unwrap().ports.get_mut(&num).unwrap();
            port.mode = mode.unwrap_or(wanted);
        }
        expect(&expected)
    };
    let instruction = to(&lab, None);
    lab.tell(instruction);
    lab.run(Time::secs(2));
    // One of leaf 2's two uplinks stays, since nothing else leads there.
    let left: Vec<String> = lab.disabled().into_iter().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(left[0], "leaf1/1");
    assert!(disabled.borrow().iter().all(|(_, led_over)| !led_over), "{:?}", disabled.borrow());
    let kept = [("leaf2/3"), ("leaf2/4")].map(|at| lab.said_of(at).contains(&Action::Keep));
    assert!(kept.contains(&true), "{kept:?}");
    let info = |lab: &Lab| lab.emulator.fabric().port_info(lab.port("leaf1", 1));
    assert_eq!(info(&lab).physical_state, PhysicalState::Disabled);
    assert_eq!(info(&lab).link_down_default_state, LinkDownState::Sleep);
    let seen = lab.manager.seen();
    let differences =
        snin_configuration::differences(lab.manager.configuration().expected().unwrap(), &seen);
    assert_eq!(differences.len(), 2, "both ends of the one that was kept: {differences:?}");

    let instruction = to(&lab, Some(Mode::PhaseIn));
    lab.tell(instruction);
    lab.run(Time::secs(4));
    lab.check_all_but(&BTreeSet::new());
    assert_eq!(info(&lab).link_down_default_state, LinkDownState::Polling);
    assert_eq!(lab.state("leaf1/1").0, "passed");
}

/// While one port of a switch is under test, those that have passed are not used.
#[test]
fn statement_62_ports_that_are_phased_in_come_into_use_together() {
    let topology = fabric("clos:4,3,2");
    let mut expected = planned(&topology, Mode::Enabled);
    let mut lab = Lab::new(topology, Limits::default());
    let (spine, slow) = (lab.place("spine0", 1).0, lab.place("spine0", 4).1);
    let switch = expected.switches.get_mut(&spine).unwrap();
    switch.ports.values_mut().for_each(|port| port.mode = Mode::PhaseIn);
    // It is another that is expected there: its test waits for a node that does not answer.
    lab.strike(Fault::CableNoise(
        lab.port("spine0", slow.0),
        snin_emulator::Noise { drop: 400_000, ..snin_emulator::Noise::NONE },
    ));
    expected.tests.quality = Some(snin_configuration::Quality {
        lasts: Time::millis(900),
        mads: 9,
        lost: 9,
        messages: 0,
        errors: None,
    });
    lab.tell(granted());
    lab.tell(expect(&expected));
    lab.start();
    let mut together = 0;
    for _ in 0..300 {
        lab.run(Time::millis(10));
        let active = (1..=4).filter(|&num| {
            let port = lab.port("spine0", num);
            lab.emulator.fabric().port_state(port) == PortState::Active
        });
        let tested = (1..=4).filter(|num| lab.state(&format!("spine0/{num}")).0 == "testing");
        if active.count() > 0 {
            assert_eq!(tested.count(), 0);
            together += 1;
        }
    }
    assert!(together > 0);
    lab.check_all_but(&lab.disabled());
}
