//! What goes wrong: it comes up all the same, or what is missing is said by name.

use snin_emulator::{Config as Hardware, Fault, Health, Noise};
use snin_fabric::{Guid, Lid, Lmc, NodeIndex};
use snin_mad::notice::LinkStateDetails;
use snin_mad::{Notice, Smp, Trap};
use snin_protocol::Time;
use snin_sm_database::mad_address::LocalPort;
use snin_sweep::{Event, Missing, Report};

use crate::odd::meshed;
use crate::support::{Lab, config, fabric};

#[test]
fn one_of_a_hundred_mads_lost() {
    for seed in 0..4 {
        let noise = Noise::drop_percent(1);
        let hardware = Hardware { seed, noise, ..Hardware::default() };
        let mut lab = Lab::of(fabric("clos:8,4,8"), hardware, config(2));
        let took = lab.bring_up();
        println!("seed {seed}: {took}, {:?}", lab.sweep.metrics());
        lab.run(Time::secs(11));
        lab.settle();
        lab.check();
        assert_eq!(lab.missing(), []);
        assert!(lab.sweep.metrics().retries > 0);
    }
}

#[test]
fn noise_of_every_kind() {
    for seed in 0..20 {
        let noise = Noise { drop: 5_000, duplicate: 20_000, reorder: 50_000, corrupt: 0 };
        let hardware = Hardware { seed, noise, ..Hardware::default() };
        let mut lab = Lab::of(fabric("clos:4,2,4"), hardware, config(1));
        lab.bring_up();
        lab.run(Time::secs(11));
        lab.settle();
        lab.check();
        assert_eq!(lab.missing(), []);
    }
}

#[test]
fn a_switch_rebooted_at_any_moment_of_the_bring_up() {
    for switch in ["leaf1", "spine0"] {
        for moment in 0..60 {
            let mut lab = Lab::new("clos:4,2,4", 2);
            let switch = lab.node(switch);
            let at = Time::micros(moment * 40);
            lab.emulator.inject(Fault::Reboot(switch, Time::micros(700)), at);
            lab.start();
            lab.run(Time::millis(100));
            lab.settle();
            lab.run(Time::secs(22));
            lab.settle();
            assert_eq!(lab.missing(), [], "rebooted at {at}");
            lab.check();
        }
    }
}

/// What the neighbours of a dead switch say may be lost on a way over it, and is repeated much later only.
#[test]
fn a_dead_switch_is_gone_before_its_neighbours_repeat_what_they_said() {
    let mut lab = Lab::of(meshed(), Hardware::default(), config(0));
    lab.bring_up();
    let [hub, d] = ["hub", "d"].map(|name| lab.node(name));
    let home = lab.emulator.fabric().addresses().unwrap().base(lab.port("host0", 1)).unwrap();
    let port = lab.emulator.fabric().table(d).get(home);
    assert_eq!(lab.topology.peer_node(lab.topology.port_of(d, port).unwrap()), Some(hub));
    lab.strike(Fault::PowerOff(hub));
    lab.run(Time::millis(5));
    assert_eq!(lab.view().topology().switch_count(), 4);
    lab.check();
}

#[test]
fn an_agent_that_never_answers() {
    for name in ["host5", "leaf2", "spine1"] {
        let mut lab = Lab::new("clos:4,2,4", 1);
        let dead = lab.node(name);
        lab.strike(Fault::Agent(dead, Health::Dead));
        lab.start();
        lab.settle();
        let missing = lab.missing();
        let mute = |m: &Missing| matches!(m, Missing::Mute(_));
        assert!(!missing.is_empty() && missing.iter().all(mute), "{missing:?}");
        println!("{name}: {}", missing[0]);
        assert!(lab.view().topology().node_count() < lab.topology.node_count());
        // It comes to its senses.
        lab.strike(Fault::Agent(dead, Health::Well));
        lab.run(Time::secs(22));
        lab.settle();
        assert_eq!(lab.missing(), []);
        lab.check();
    }
}

#[test]
fn an_agent_that_dies_and_its_switch_lives_on() {
    for name in ["leaf2", "spine1"] {
        let mut lab = Lab::new("clos:4,2,4", 1);
        lab.bring_up();
        let dead = lab.node(name);
        lab.strike(Fault::Agent(dead, Health::Dead));
        lab.run(Time::secs(25));
        lab.settle();
        let lost = |m: &Missing| matches!(m, Missing::Lost { name: lost, .. } if lost == name);
        assert!(lab.missing().iter().any(lost), "{:?}", lab.missing());
        lab.strike(Fault::Agent(dead, Health::Well));
        lab.run(Time::secs(25));
        lab.settle();
        assert_eq!(lab.missing(), []);
        lab.check();
    }
}

#[test]
fn a_guid_that_two_nodes_have() {
    for (one, other) in
        [("host3", "host9"), ("leaf1", "leaf2"), ("spine0", "spine1"), ("host0", "host7")]
    {
        let mut lab = Lab::new("clos:4,2,4", 1);
        let (kept, twin) = (lab.node(one), lab.node(other));
        let guid = lab.topology.node(kept).guid;
        lab.strike(Fault::NodeGuid(twin, guid));
        lab.start();
        lab.settle();
        let missing = lab.missing();
        let named = |m: &Missing| matches!(m, Missing::DuplicateGuid { guid: g, .. } if *g == guid);
        assert!(missing.iter().any(named), "{one} and {other}: {missing:?}");
        println!("{one} and {other}: {}", missing[0]);
        // The operator puts it right.
        let own = lab.topology.node(twin).guid;
        lab.strike(Fault::NodeGuid(twin, own));
        lab.run(Time::secs(32));
        lab.settle();
        assert_eq!(lab.missing(), [], "{one} and {other}");
        lab.check();
    }
}

#[test]
fn switches_that_come_up_one_by_one_end_as_all_at_once() {
    let mut at_once = Lab::new("clos:5,3,3", 2);
    at_once.bring_up();
    for order in [[0, 5, 1, 6, 2, 7, 3, 4], [7, 6, 5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5, 6, 7]] {
        let topology = fabric("clos:5,3,3");
        let mut lab = Lab::of(topology.clone(), Hardware::default(), config(2));
        // Addresses as given before: else who comes first is served first.
        lab.remember(&at_once.saved);
        for switch in topology.switches().skip(1) {
            lab.strike(Fault::PowerOff(switch));
        }
        lab.start();
        for n in order {
            lab.strike(Fault::PowerOn(NodeIndex(n)));
            lab.run(Time::millis(30));
        }
        lab.run(Time::secs(11));
        lab.settle();
        lab.check();
        assert_eq!(lab.missing(), []);
        let tables = |lab: &Lab| lab.emulator.fabric().tables();
        assert!(tables(&lab) == tables(&at_once), "{order:?}");
    }
}

#[test]
fn addresses_that_ports_hold_stay_where_they_can() {
    let mut lab = Lab::new("clos:4,2,4", 2);
    let lmc = Lmc::new(2).unwrap();
    let hold = |lab: &mut Lab, name: &str, lid: u16, lmc: Lmc| {
        let port = lab.port(name, 1);
        lab.emulator.address(port, Lid(lid), lmc);
        port
    };
    let kept = hold(&mut lab, "host2", 400, lmc);
    let twins = [hold(&mut lab, "host3", 800, lmc), hold(&mut lab, "host4", 800, lmc)];
    let crooked = hold(&mut lab, "host5", 403, Lmc::ZERO);
    let foreign = hold(&mut lab, "host6", 1024, Lmc::new(5).unwrap());
    lab.bring_up();
    lab.check();
    let base = |port| lab.emulator.fabric().port_info(port).lid;
    assert_eq!((base(kept), base(foreign)), (Lid(400), Lid(1024)));
    assert_eq!(twins.iter().filter(|&&port| base(port) == Lid(800)).count(), 1);
    assert!(base(crooked).0 % 4 == 0);
}

#[test]
fn a_fabric_that_another_manager_left_behind() {
    // Tables of another engine, whose routes need not respect any ranks.
    for recipe in ["clos:5,3,3", "fattree:4"] {
        let topology = fabric(recipe);
        use snin_fabric::routing::{Engine, Routing};
        let other = Routing::compute(&topology, Engine::MinHop, Some(Lmc::ZERO)).unwrap();
        let mut lab = Lab::of(topology, Hardware::default(), config(0));
        lab.emulator.configure(other.plan.addresses(), &other.tables, Lid(1));
        lab.bring_up();
        lab.check();
        assert_eq!(lab.missing(), []);
    }
}

#[test]
fn a_node_exchanged_for_another() {
    let mut lab = Lab::new("clos:4,2,4", 1);
    lab.bring_up();
    let host = lab.node("host7");
    let cable = lab.port("host7", 1);
    lab.strike(Fault::Cut(cable));
    lab.run(Time::millis(20));
    lab.settle();
    lab.strike(Fault::NodeGuid(host, Guid(0x7777)));
    lab.strike(Fault::Restore(cable));
    lab.run(Time::millis(20));
    lab.settle();
    assert_eq!(lab.missing(), []);
    let view = lab.view().topology();
    assert!(view.nodes().any(|node| view.node(node).guid == Guid(0x7777)));
    let gone = lab.topology.node(host).guid;
    assert!(view.nodes().all(|node| view.node(node).guid != gone));
}

#[test]
fn too_many_addresses_are_said_with_numbers() {
    let mut hardware = Hardware::default();
    hardware.switch.linear_fdb_cap = 64;
    let mut lab = Lab::of(fabric("clos:4,2,6"), hardware, config(2));
    lab.bring_up();
    let missing = lab.missing();
    let without = missing.iter().filter(|m| matches!(m, Missing::NoAddress { .. })).count();
    // 64 entries: 6 switches below 8, 14 blocks of 4 above.
    assert_eq!(without, 24 - 14, "{missing:?}");
}

/// Every switch sends traps faster than it can be asked: what is broken is repaired all the same.
#[test]
fn traps_that_never_end_keep_no_repair_waiting() {
    let mut lab = Lab::new("clos:6,4,4", 1);
    lab.bring_up();
    let issuers: Vec<Lid> = lab
        .topology
        .switches()
        .map(|switch| lab.view().addresses().base(lab.topology.port0(switch)).unwrap())
        .collect();
    lab.strike(Fault::Cut(lab.port("leaf3", 5)));
    lab.reports.clear();
    let (begin, is_up) = (lab.now(), |report: &Report| matches!(report, Report::Ready { .. }));
    while !lab.reports.iter().any(is_up) {
        assert!(lab.now() < begin + Time::millis(100), "{:?}", lab.sweep.metrics());
        for &lid in &issuers {
            let trap = Trap::LinkStateChange(LinkStateDetails { lid });
            let bytes = Smp::trap().mad().with(&Notice::generic(&trap, 2, lid)).0;
            let now = lab.now();
            lab.sweep.handle(Event::Mad { port: LocalPort(0), source: lid, bytes: &bytes }, now);
        }
        lab.run(Time::micros(20));
    }
    assert!(lab.sweep.metrics().local_probes > 1);
    lab.settle();
    lab.check();
}
