//! Statements 69 and 70 with agents: what they send crosses the link, and their answer is the application's.

use std::collections::BTreeSet;

use snin_configuration::{Application, Expected, Limits, Mode, Quality, Tests};
use snin_fabric::Guid;
use snin_protocol::Time;

use crate::lab::{Lab, expect, fabric, granted, planned, quick};

const MESSAGES: u32 = 500;

/// Every port is tested; `prepare` says which agents there are.
fn tested(application: Application, messages: u32, prepare: impl FnOnce(&mut Lab)) -> Lab {
    let topology = fabric("clos:4,2,2");
    let mut lab = Lab::new(topology.clone(), Limits::default());
    prepare(&mut lab);
    let quality = quick().quality.map(|it| Quality { errors: Some(0), messages, ..it });
    let (application, timer) = (Some(application), Time::secs(30));
    let tests = Tests { quality, application, timer, ..quick() };
    lab.tell(granted());
    lab.tell(expect(&Expected { tests, ..planned(&topology, Mode::Test) }));
    lab.start();
    lab.run(Time::secs(4));
    lab
}

/// The port of the host behind a leaf's port.
fn host(lab: &Lab, leaf: &str, num: u8) -> Guid {
    let port = lab.topology.peer(lab.port(leaf, num)).unwrap();
    lab.topology.port(port).guid
}

fn hosts(lab: &Lab) -> BTreeSet<Guid> {
    let adapters = lab.topology.nodes().filter(|&node| !lab.topology.is_switch(node));
    let ports = adapters.flat_map(|node| lab.topology.cables(node));
    ports.map(|(port, _)| lab.topology.port(port).guid).collect()
}

#[test]
fn statement_69_messages_of_agents_cross_the_links_that_have_any() {
    let lab = tested(Application::Node, MESSAGES, |lab| {
        let (well, bad) = (host(lab, "leaf0", 2), host(lab, "leaf1", 1));
        lab.agents.extend([(well, 0), (bad, 20)]);
    });
    let asked: BTreeSet<Guid> = lab.messages.iter().map(|&(port, ..)| port).collect();
    assert_eq!(asked, hosts(&lab), "each host once, no switch");
    assert_eq!(lab.messages.len(), asked.len());
    assert!(lab.messages.iter().all(|&(_, count, active)| count == MESSAGES && active));
    let why = format!("20 of {MESSAGES} messages of its agent's did not arrive");
    assert_eq!(lab.state("leaf1/1"), ("failed", why));
    let bad = BTreeSet::from(["leaf1/1".to_owned()]);
    assert_eq!(lab.disabled(), bad, "ports without an agent pass");
    lab.check_all_but(&bad);
}

#[test]
fn statement_69_without_a_controller_ports_pass_when_patience_ends() {
    let mut lab = tested(Application::Node, MESSAGES, |lab| lab.controller = false);
    assert_eq!(lab.state("leaf0/2").0, "testing");
    // The ports are in use meanwhile.
    lab.check_all_but(&BTreeSet::new());
    lab.run(Time::secs(18));
    assert!(lab.manager.configuration().status().all(|port| port.state.name() == "passed"));
    assert_eq!(lab.disabled(), BTreeSet::new());
}

/// An answer to a question that was given up, or never put, changes nothing.
#[test]
fn statement_69_an_answer_that_is_late_is_dropped() {
    let mut lab = tested(Application::Node, MESSAGES, |lab| lab.controller = false);
    lab.run(Time::secs(18));
    let numbers = lab.messages.len() as u32;
    for number in 0..numbers + 9 {
        lab.handle(snin_sm_core::Event::LinkTested { number, arrived: Some(0) });
    }
    lab.run(Time::secs(1));
    assert!(lab.manager.configuration().status().all(|port| port.state.name() == "passed"));
}

#[test]
fn statement_70_the_agent_behind_the_port_has_to_answer() {
    let lab = tested(Application::Agent, 0, |lab| {
        let dead = host(lab, "leaf1", 1);
        let living = hosts(lab).into_iter().filter(|&port| port != dead);
        lab.agents = living.map(|port| (port, 0)).collect();
        let mute = host(lab, "leaf2", 1);
        lab.agents.insert(mute, 1);
    });
    let bad = BTreeSet::from(["leaf1/1".to_owned(), "leaf2/1".to_owned()]);
    assert_eq!(lab.disabled(), bad, "a switch answers for itself");
    lab.check_all_but(&bad);
    for at in &bad {
        assert_eq!(lab.state(at), ("failed", "the node does not answer as is expected".to_owned()));
    }
    assert!(lab.messages.iter().all(|&(_, count, active)| count == 1 && active));
}
