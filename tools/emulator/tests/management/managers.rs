//! Managers at ports: who can sit where, and what reaches them.

use snin_emulator::{AttachError, Config, Emulator, Fault};
use snin_fabric::{Lid, Lmc, PortIndex};
use snin_mad::port::Capabilities;
use snin_mad::{
    Attribute, Class, DrPath, Header, Mad, Method, NodeInfo, PortInfo, Route, SmInfo, SmState, Smp,
    Status,
};
use snin_protocol::Time;

use crate::support::Lab;

#[test]
fn a_client_sits_at_an_end_port_and_alone() {
    let mut lab = Lab::new("clos:2,2,2");
    let [switch, port0, host] = [lab.port("leaf0", 1), lab.port("leaf0", 0), lab.port("host1", 0)];
    let beyond = PortIndex(lab.topology.port_count() as u32);
    let mut attach = |port| lab.emulator.attach(port);
    assert_eq!(attach(switch), Err(AttachError::NoEndPort(switch)));
    assert_eq!(attach(host), Err(AttachError::NoEndPort(host)));
    assert_eq!(attach(beyond), Err(AttachError::NoSuchPort(beyond)));
    assert_eq!(attach(lab.home), Err(AttachError::Taken(lab.home)));
    assert!(attach(port0).is_ok());
    lab.emulator.detach(lab.client);
    assert!(lab.emulator.attach(lab.home).is_ok());
}

fn sm_info() -> SmInfo {
    let guid = snin_fabric::Guid(7);
    SmInfo { guid, priority: 5, state: SmState::Standby, ..SmInfo::default() }
}

/// Answers what comes for the second manager, a SMInfo.
fn answer(lab: &mut Lab, other: snin_emulator::ClientId) -> usize {
    let mut answered = 0;
    while let Some(received) = lab.emulator.poll(other) {
        let mut mad: Mad = received.mad;
        mad.put(&sm_info());
        mad.answer(Status::OK);
        let now = lab.emulator.now();
        lab.emulator.send(other, &mad, received.slid, now);
        answered += 1;
    }
    answered
}

#[test]
fn sm_info_is_for_the_manager_where_there_is_one() {
    let mut lab = Lab::new("clos:2,2,2");
    let port = lab.port("host3", 1);
    let other = lab.emulator.attach(port).unwrap();
    let refused = lab.get::<SmInfo>("host3", 0).status();
    assert_eq!(refused, Some(Status::BAD_METHOD_ATTRIBUTE), "a client that is no manager");
    lab.emulator.set_manager(other, true);
    assert!(lab.get::<PortInfo>("host3", 1).value().capabilities.has(Capabilities::SM));
    // Along directed routes, and as one that ends by LID.
    let all = [lab.route("host3"), lab.route("host3")];
    for route in all {
        lab.send(&Smp::get(SmInfo::ID, 0, route).mad(), Lid::NONE);
        lab.wait(Time::millis(1));
        assert_eq!(answer(&mut lab, other), 1);
        lab.wait(Time::millis(1));
        let received = lab.received();
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].mad.attribute::<SmInfo>().unwrap(), sm_info());
    }
    // All else is still the agent's.
    lab.get::<NodeInfo>("host3", 0).value();
    assert_eq!(answer(&mut lab, other), 0);
    lab.emulator.set_manager(other, false);
    assert_eq!(lab.get::<SmInfo>("host3", 0).status(), Some(Status::BAD_METHOD_ATTRIBUTE));
}

/// Other classes are for the client of a port; over active links only.
#[test]
fn other_classes_are_for_the_client() {
    let mut lab = Lab::new("clos:1,1,2");
    lab.address("host0", 1, Lid(1), Lmc::ZERO).value();
    lab.address("host1", 1, Lid(2), Lmc::ZERO).value();
    lab.forward("leaf0", &[(1, 1), (2, 2)]);
    lab.activate("host0", 1);
    lab.activate("host1", 1);
    let port = lab.port("host1", 1);
    let other = lab.emulator.attach(port).unwrap();
    let mut mad = Mad::ZERO;
    Header::edit(&mut mad.0)
        .base_version(1)
        .class(Class::Administration)
        .class_version(2)
        .method(Method::GetTable);
    lab.send(&mad, Lid(2));
    lab.wait(Time::millis(1));
    let received = lab.emulator.poll(other).expect("the query");
    assert_eq!((received.slid, received.port, received.mad.clone()), (Lid(1), port, mad.clone()));
    let now = lab.emulator.now();
    lab.emulator.send(other, &mad, received.slid, now);
    lab.wait(Time::millis(1));
    assert_eq!(lab.received().len(), 1);
}

/// A manager within a switch, at its port 0.
#[test]
fn a_switch_may_have_the_manager() {
    let topology = Lab::new("clos:2,2,2").topology;
    let mut emulator = Emulator::new(&topology, Config::default());
    let leaf = crate::support::node(&topology, "leaf0");
    let client = emulator.attach(topology.port0(leaf)).unwrap();
    for (path, ports) in [(&[][..], 4), (&[1][..], 1), (&[3][..], 2), (&[3, 2][..], 4)] {
        let route = Route::directed(DrPath::new(path).unwrap());
        emulator.send(client, &Smp::get(NodeInfo::ID, 0, route).mad(), Lid::NONE, emulator.now());
        emulator.advance(emulator.now() + Time::millis(1));
        let answer = emulator.poll(client).unwrap_or_else(|| panic!("{path:?}"));
        assert_eq!(answer.mad.attribute::<NodeInfo>().unwrap().num_ports, ports, "{path:?}");
    }
}

#[test]
fn an_inbox_that_nobody_empties_is_full_once() {
    let mut lab = Lab::with("clos:2,2,2", Config { inbox: 3, ..Config::default() });
    for _ in 0..5 {
        lab.send(&Smp::get(NodeInfo::ID, 0, lab.route("leaf0")).mad(), Lid::NONE);
    }
    lab.wait(Time::millis(1));
    assert_eq!(lab.received().len(), 3);
    assert_eq!(lab.emulator.stats().inbox_full, 2);
}

#[test]
fn client_reregister_is_counted_and_reads_as_zero() {
    let mut lab = Lab::new("clos:2,2,2");
    let port = lab.port("host1", 1);
    lab.address("host1", 1, Lid(3), Lmc::ZERO).value();
    assert_eq!(lab.emulator.fabric().reregistrations(port), 0);
    let answer = lab.change_port("host1", 1, |info| info.client_reregister = true).value();
    assert!(answer.client_reregister);
    assert!(!lab.get::<PortInfo>("host1", 1).value().client_reregister);
    assert_eq!(lab.emulator.fabric().reregistrations(port), 1);
}

/// Where a node that lost power had a manager, there is none until it says so again.
#[test]
fn a_manager_goes_with_its_node() {
    let mut lab = Lab::new("clos:2,2,2");
    let port = lab.port("host3", 1);
    let other = lab.emulator.attach(port).unwrap();
    lab.emulator.set_manager(other, true);
    let host = lab.node("host3");
    lab.emulator.inject(Fault::Reboot(host, Time::millis(1)), Time::ZERO);
    lab.wait(Time::millis(10));
    assert!(!lab.get::<PortInfo>("host3", 1).value().capabilities.has(Capabilities::SM));
    lab.emulator.set_manager(other, true);
    assert!(lab.get::<PortInfo>("host3", 1).value().capabilities.has(Capabilities::SM));
}
