//! Statements 49 and 50: the events that a discovery follows from, and what waits for one that is under way.

use std::collections::BTreeSet;

use snin_configuration::{Action, Instruction, Mode};
use snin_emulator::{Fault, Health};
use snin_fabric::Guid;
use snin_mad::sa::{ComponentMask, PathRecord, SaRequest, SaStatus};
use snin_mad::{Gid, GidPrefix, Method, PortState, Status};
use snin_protocol::Time;
use snin_sm_core::Event;

use crate::lab::{Lab, managed, swap};

/// The number of a switch's trap that says that the state of a link has changed.
const LINK_STATE_CHANGE: u16 = 128;
const PREFIX: GidPrefix = GidPrefix(0xFE80_0000_0000_0000);

#[test]
fn statement_49_a_trap_of_a_switch_is_an_event() {
    let mut lab = managed("clos:4,2,2", Mode::Enabled);
    let traps = |lab: &Lab| {
        lab.manager.metrics().traps.get(&Some(LINK_STATE_CHANGE)).copied().unwrap_or_default()
    };
    let before = traps(&lab);
    lab.strike(swap(&lab));
    lab.run(Time::millis(500));
    assert!(traps(&lab) > before, "{:?}", lab.manager.metrics().traps);
    assert_eq!(lab.said_of("leaf1/1"), [Action::Fail]);
    assert_eq!(lab.said_of("leaf2/1"), [Action::Fail]);
}

#[test]
fn statement_50_an_action_waits_for_the_discovery_under_way() {
    let mut lab = managed("clos:4,2,2", Mode::Enabled);
    // In the middle of everything an operator wants a port out of use.
    lab.start();
    let place = lab.place("leaf3", 2);
    lab.tell(Instruction::Quarantine(place, "in the middle".to_owned()));
    assert_eq!(lab.disabled().len(), 0, "queued");
    lab.run(Time::secs(1));
    assert_eq!(lab.disabled(), BTreeSet::from(["leaf3/2".to_owned()]));
}

fn nodes(lab: &Lab) -> usize {
    lab.manager.view().unwrap().topology().nodes().count()
}

#[test]
fn statement_49_a_health_monitor_says_that_a_node_has_left_or_joined() {
    let [mut lab, mut unheard] = [(); 2].map(|()| managed("clos:4,2,2", Mode::Enabled));
    let host = lab.topology.peer_node(lab.port("leaf3", 2)).unwrap();
    let guid = lab.topology.node(host).guid;
    let all = nodes(&lab);
    // Its link stays up, so no switch tells. Between two sweeps by the timer.
    for lab in [&mut lab, &mut unheard] {
        lab.run(Time::millis(500));
        lab.strike(Fault::Agent(host, Health::Dead));
        lab.run(Time::millis(1));
    }
    let before = lab.manager.metrics().clone();
    for _ in 0..10_000 {
        lab.handle(Event::Health(guid));
    }
    while nodes(&lab) == all {
        lab.run(Time::millis(10));
        unheard.run(Time::millis(10));
        assert!(lab.now() < Time::secs(5));
    }
    assert_eq!((nodes(&lab), nodes(&unheard)), (all - 1, all));
    let after = lab.manager.metrics();
    assert_eq!(after.health_reports - before.health_reports, 10_000);
    let probes = after.local_probes - before.local_probes;
    assert!((1..10).contains(&probes), "{probes} looks");

    lab.strike(Fault::Agent(host, Health::Well));
    lab.handle(Event::Health(guid));
    lab.run(Time::secs(2));
    assert_eq!(nodes(&lab), all);
    // A node that was never there.
    let light = lab.manager.metrics().light_sweeps;
    lab.handle(Event::Health(Guid(0xDEAD)));
    lab.run(Time::millis(100));
    assert!(lab.manager.metrics().light_sweeps > light);
    lab.check_all_but(&BTreeSet::new());
}

fn path_to(lab: &Lab, guid: Guid, from: Guid, id: u64) -> snin_mad::Mad {
    let path = PathRecord {
        dgid: Gid::new(PREFIX, guid),
        sgid: Gid::new(PREFIX, from),
        numb_path: 1,
        ..PathRecord::default()
    };
    assert!(lab.manager.view().is_some());
    let mask = ComponentMask::of(&[2, 3, 12]);
    SaRequest::new(Method::Get, &path, mask).transaction(id).mad()
}

#[test]
fn statement_50_a_request_that_depends_on_a_discovery_waits_for_it_and_not_for_long() {
    let mut lab = managed("clos:4,2,2", Mode::Enabled);
    let port = |lab: &Lab, name: &str| {
        lab.topology.port(lab.topology.peer(lab.port(name, 2)).unwrap()).guid
    };
    let (from, to) = (port(&lab, "leaf0"), port(&lab, "leaf3"));
    let lid = lab.manager.database().by_guid(from).map(|(_, port)| port.base).unwrap();
    let host = lab.topology.peer_node(lab.port("leaf3", 2)).unwrap();
    lab.strike(Fault::PowerOff(host));
    // Between two sweeps by the timer.
    lab.run(Time::millis(2_500));
    lab.strike(Fault::PowerOn(host));
    // A trap tells; before that nothing is known of it, and the answer is at once that there is none.
    lab.ask(lid, &path_to(&lab, to, from, 1));
    let status = |lab: &Lab, id: u64| {
        let mine = |mad: &&snin_mad::Mad| mad.header().transaction_id().0 == id;
        lab.mail.iter().find(mine).map(|mad| SaRequest::parse(mad).unwrap().status)
    };
    assert_eq!(status(&lab, 1), Some(SaStatus::NO_RECORDS));
    let begun = (0..1_000).any(|_| {
        lab.run(Time::micros(100));
        let link = lab.emulator.fabric().port_state(lab.port("leaf3", 2));
        link != PortState::Down && !lab.manager.is_idle()
    });
    assert!(begun);
    lab.ask(lid, &path_to(&lab, to, from, 2));
    // What depends on nothing is answered.
    let known = port(&lab, "leaf2");
    lab.ask(lid, &path_to(&lab, known, from, 3));
    assert_eq!((status(&lab, 2), status(&lab, 3)), (None, Some(Status::OK)));
    assert_eq!(lab.manager.undiscovered(), 1);
    lab.run(Time::millis(400));
    assert_eq!(status(&lab, 2), Some(Status::OK), "the host was discovered meanwhile");

    // While discoveries never end, for half a second.
    for leaf in ["leaf1", "leaf2"] {
        let dead = lab.topology.port(lab.port(leaf, 1)).node;
        lab.strike(Fault::Agent(dead, Health::Dead));
    }
    lab.start();
    lab.run(Time::millis(5));
    let asked = lab.now();
    lab.ask(lid, &path_to(&lab, Guid(0xDEAD), from, 4));
    assert_eq!(status(&lab, 4), None);
    while status(&lab, 4).is_none() {
        lab.run(Time::millis(1));
        assert!(lab.now() < asked + Time::millis(502));
    }
    assert_eq!(status(&lab, 4), Some(SaStatus::NO_RECORDS));
}
