//! Faults: cables, power, agents.

use snin_emulator::{Config, Emulator, Fault, Health};
use snin_fabric::generate::Recipe;
use snin_fabric::{Guid, Lid, Lmc, PortIndex};
use snin_mad::{Attribute, MKey};
use snin_mad::{LinearForwarding, NodeInfo, PortInfo, PortState, Smp, SwitchInfo};
use snin_protocol::Time;

use crate::support::{Answer, Lab};

#[test]
fn a_cut_cable_is_down_at_both_ends_until_restored() {
    let mut lab = Lab::new("clos:2,2,2");
    let cable = lab.port("spine0", 1);
    let fabric = |lab: &Lab| lab.emulator.fabric().live_topology().cable_count();
    assert_eq!(fabric(&lab), 8);
    lab.emulator.inject(Fault::Cut(cable), Time::millis(1));
    lab.emulator.inject(Fault::Restore(cable), Time::millis(101));
    lab.emulator.advance(Time::millis(100));
    assert_eq!([lab.state("leaf0", 3), lab.state("spine0", 1)], [PortState::Down; 2]);
    assert_eq!(fabric(&lab), 7);
    // The node behind it is reached the other way, and the port itself from there.
    assert_eq!(lab.path("spine0").to_string(), "0,1,4,2,3");
    assert_eq!(lab.get::<PortInfo>("spine0", 1).value().state, PortState::Down);
    lab.emulator.advance(Time::millis(200));
    assert_eq!([lab.state("leaf0", 3), lab.state("spine0", 1)], [PortState::Initialize; 2]);
    assert_eq!(fabric(&lab), 8);
    // What was written is still there: only power takes it away.
    assert_eq!(lab.path("spine0").to_string(), "0,1,3");
}

/// A MAD on the cable when it is cut does not arrive.
#[test]
fn what_is_on_a_cable_is_lost_with_it() {
    let mut lab =
        Lab::with("clos:2,2,2", Config { link_latency: Time::millis(1), ..Config::default() });
    lab.send(&Smp::get(NodeInfo::ID, 0, lab.route("leaf0")).mad(), Lid::NONE);
    lab.emulator.inject(Fault::Bounce(lab.home), Time(500_000));
    lab.wait(Time::secs(1));
    assert!(lab.received().is_empty());
    assert_eq!(lab.emulator.stats().link_down, 1);
}

#[test]
fn a_switch_comes_back_empty() {
    let mut lab = Lab::new("clos:2,2,2");
    lab.address("leaf1", 0, Lid(4), Lmc::ZERO).value();
    lab.activate("leaf1", 1);
    lab.activate("leaf1", 3);
    lab.forward("leaf1", &[(4, 0), (5, 1)]);
    let port0 = lab.port("leaf1", 0);
    lab.emulator.protect(port0, MKey(9), 3, 0);
    let leaf = lab.node("leaf1");
    let now = lab.emulator.now();
    lab.emulator.inject(Fault::Reboot(leaf, Time::millis(20)), now + Time::millis(1));
    lab.wait(Time::millis(10));
    let dark = |lab: &Lab| {
        !lab.emulator.fabric().is_powered(leaf)
            && (1..=4).all(|num| lab.state("leaf1", num) == PortState::Down)
            && lab.state("host2", 1) == PortState::Down
            && lab.state("spine0", 2) == PortState::Down
    };
    assert!(dark(&lab));
    lab.wait(Time::millis(20));
    assert!((1..=4).all(|num| lab.state("leaf1", num) == PortState::Initialize));
    assert_eq!(lab.state("host2", 1), PortState::Initialize);
    let info: PortInfo = lab.get("leaf1", 0).value();
    assert_eq!((info.lid, info.m_key, info.m_key_protect), (Lid(0), MKey(0), 0));
    assert_eq!(lab.get::<SwitchInfo>("leaf1", 0).value().linear_fdb_top, Lid(0));
    assert_eq!(lab.get("leaf1", 0), Answer::Value(LinearForwarding::EMPTY));
    // Its neighbours remember that something happened.
    assert!(lab.get::<SwitchInfo>("spine0", 0).value().port_state_change);
}

/// What an agent had before it when the power went is not answered in its next life.
#[test]
fn a_reboot_loses_what_waits_at_the_agent() {
    let mut lab =
        Lab::with("clos:2,2,2", Config { agent_latency: Time::millis(50), ..Config::default() });
    let mad = Smp::get(NodeInfo::ID, 0, lab.route("leaf1")).mad();
    lab.send(&mad, Lid::NONE);
    lab.emulator.inject(Fault::Reboot(lab.node("leaf1"), Time::millis(1)), Time::millis(10));
    lab.wait(Time::secs(1));
    assert!(lab.received().is_empty());
    assert_eq!((lab.emulator.stats().dead, lab.emulator.under_way()), (1, 0));
}

/// A node that is switched off stays off, although an earlier reboot would have ended in the meantime.
#[test]
fn the_last_loss_of_power_counts() {
    let mut lab = Lab::new("clos:2,2,2");
    let leaf = lab.node("leaf1");
    lab.emulator.inject(Fault::Reboot(leaf, Time::millis(20)), Time::millis(1));
    lab.emulator.inject(Fault::PowerOff(leaf), Time::millis(10));
    lab.wait(Time::secs(1));
    assert!(!lab.emulator.fabric().is_powered(leaf));
}

#[test]
fn switches_may_come_up_one_by_one() {
    let mut lab = Lab::new("clos:2,2,2");
    let names = ["leaf1", "spine0", "spine1"];
    for name in names {
        lab.emulator.inject(Fault::PowerOff(lab.node(name)), Time::ZERO);
    }
    lab.wait(Time::millis(1));
    assert_eq!(lab.get::<NodeInfo>("leaf0", 0).status(), Some(snin_mad::Status::OK));
    let reached = |lab: &Lab| {
        let routes = lab.emulator.fabric().routes_from(lab.home);
        routes.iter().filter(|route| route.is_some()).count()
    };
    // leaf0 and its two hosts; then spine1; then leaf1 with its hosts; then spine0.
    assert_eq!(reached(&lab), 3);
    for (name, nodes) in [("spine1", 4), ("leaf1", 7), ("spine0", 8)] {
        lab.emulator.inject(Fault::PowerOn(lab.node(name)), Time::ZERO);
        lab.wait(Time::millis(10));
        assert_eq!(reached(&lab), nodes, "{name}");
    }
}

#[test]
fn agents_may_be_slow_or_dead_while_packets_pass() {
    let mut lab = Lab::new("clos:2,2,2");
    let leaf = lab.node("leaf0");
    lab.emulator.inject(Fault::Agent(leaf, Health::Dead), Time::ZERO);
    assert_eq!(lab.get::<NodeInfo>("leaf0", 0), Answer::Silence);
    lab.get::<NodeInfo>("spine0", 0).value();
    assert_eq!(lab.emulator.stats().dead, 1);
    lab.emulator.inject(Fault::Agent(leaf, Health::Slow(Time::millis(7))), Time::ZERO);
    let begin = lab.emulator.now();
    lab.get::<NodeInfo>("leaf0", 0).value();
    assert_eq!(lab.emulator.now() - begin, Time::millis(7) + Time(500));
    lab.emulator.inject(Fault::Agent(leaf, Health::Well), Time::ZERO);
    let begin = lab.emulator.now();
    lab.get::<NodeInfo>("leaf0", 0).value();
    assert_eq!(lab.emulator.now() - begin, Time::micros(10) + Time(500));
}

#[test]
fn an_agent_has_room_for_so_many() {
    let mut lab = Lab::with("clos:2,2,2", Config { agent_queue: 4, ..Config::default() });
    for _ in 0..10 {
        lab.send(&Smp::get(NodeInfo::ID, 0, lab.route("leaf0")).mad(), Lid::NONE);
    }
    lab.wait(Time::millis(10));
    assert_eq!(lab.received().len(), 4);
    assert_eq!(lab.emulator.stats().agent_full, 6);
    assert_eq!(lab.emulator.fabric().counters(lab.port("leaf0", 1)).vl15_dropped, 6);
}

#[test]
fn two_nodes_may_claim_one_guid() {
    let mut lab = Lab::new("clos:2,2,2");
    let guid = lab.topology.node(lab.node("spine0")).guid;
    lab.emulator.inject(Fault::NodeGuid(lab.node("spine1"), guid), Time::ZERO);
    lab.wait(Time(1));
    for name in ["spine0", "spine1"] {
        assert_eq!(lab.get::<NodeInfo>(name, 0).value().node_guid, guid);
    }
    assert_ne!(guid, Guid(0));
}

/// What a restarted manager finds: everything as another left it.
#[test]
fn a_configured_fabric_works_at_once() {
    use snin_fabric::routing::{Engine, Routing};
    let topology = "clos:4,2,3".parse::<Recipe>().unwrap().build().unwrap();
    let lmc = Lmc::new(1).unwrap();
    let routing = Routing::compute(&topology, Engine::Trees, Some(lmc));
    let routing = routing.unwrap_or_else(|error| panic!("{error}"));
    let mut emulator = Emulator::new(&topology, Config::default());
    let addresses = routing.plan.addresses();
    emulator.configure(addresses, &routing.tables, Lid(1));
    let fabric = emulator.fabric();
    assert_eq!(fabric.addresses().as_ref(), Ok(addresses));
    assert!(fabric.all_links(PortState::Active));
    assert_eq!(fabric.tables(), routing.tables);
    let home = topology.ports().find(|&port| addresses.lmc(port) == lmc).expect("a host");
    let client = emulator.attach(home).unwrap();
    let lids: Vec<Lid> = addresses.iter().flat_map(|(port, ..)| addresses.of(port)).collect();
    for &lid in &lids {
        let mad = Smp::get(NodeInfo::ID, 0, snin_mad::Route::Lid).mad();
        emulator.send(client, &mad, lid, emulator.now());
    }
    emulator.advance(Time::secs(1));
    let answers = std::iter::from_fn(|| emulator.poll(client)).count();
    assert_eq!(answers, lids.len());
}

#[test]
#[should_panic(expected = "no such port")]
fn a_fault_where_there_is_nothing_is_a_mistake() {
    let mut lab = Lab::new("clos:2,2,2");
    lab.emulator.inject(Fault::Cut(PortIndex(u32::MAX)), Time::ZERO);
}
