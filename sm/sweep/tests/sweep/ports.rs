//! Ports of end nodes: each gets its own writes, and what one refuses is its own trouble.

use snin_emulator::{Config as Hardware, Fault};
use snin_fabric::NodeKind;
use snin_mad::PortState;
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sweep::Missing;

use crate::odd::{back_to_back, dual_ported};
use crate::support::{Lab, config, fabric};

#[test]
fn servers_with_both_ports_in_the_subnet_come_up_whole() {
    let topology = dual_ported();
    let adapters = topology.nodes().filter(|&n| topology.node(n).kind == NodeKind::Adapter);
    assert_eq!(adapters.count(), 144);
    for lmc in [0, 2] {
        let mut lab = Lab::of(topology.clone(), Hardware::default(), config(lmc));
        lab.bring_up();
        assert_eq!(lab.missing(), []);
        lab.check();
        assert_eq!((lab.view().routing().hosts.len(), lab.sweep.metrics().refused), (146, 0));
        // One of a server's ports loses its cable, and gets it back.
        let cable = lab.port("server1", 1);
        for fault in [Fault::Cut(cable), Fault::Restore(cable)] {
            lab.strike(fault);
            lab.run(Time::millis(20));
            lab.settle();
            lab.check();
            assert_eq!(lab.missing(), []);
        }
    }
}

#[test]
fn the_manager_may_sit_at_such_a_server() {
    for number in [1, 2] {
        let mut lab = Lab::of(dual_ported(), Hardware::default(), config(1));
        let home = lab.port("server0", number);
        lab.move_to(home);
        lab.bring_up();
        assert_eq!(lab.missing(), []);
        lab.check();
        let writes = lab.emulator.stats().writes;
        lab.run(Time::secs(25));
        lab.settle();
        assert_eq!(lab.emulator.stats().writes, writes);
    }
}

#[test]
fn two_adapters_back_to_back_get_addresses_and_become_active() {
    for lmc in [None, Some(2)] {
        let config = Config { lmc, ..Config::default() };
        let mut lab = Lab::of(back_to_back(), Hardware::default(), config);
        lab.bring_up();
        assert_eq!(lab.missing(), []);
        lab.check();
        for (name, number) in [("host0", 1), ("host1", 2)] {
            let info = lab.emulator.fabric().port_info(lab.port(name, number));
            assert_eq!(info.state, PortState::Active, "{name}");
            assert!(info.lid.0 != 0 && info.master_sm_lid.0 != 0, "{name}");
        }
    }
}

#[test]
fn a_port_without_a_cable_is_not_healthy() {
    let mut lab = Lab::of(back_to_back(), Hardware::default(), config(0));
    lab.strike(Fault::Cut(lab.port("host0", 1)));
    lab.bring_up();
    assert_eq!(lab.missing(), [Missing::NoCable("host0/1".to_owned())]);
    // A cable is plugged in.
    lab.strike(Fault::Restore(lab.port("host0", 1)));
    lab.run(Time::secs(11));
    lab.settle();
    assert_eq!(lab.missing(), []);
    lab.check();
}

fn refused(lab: &Lab) -> Vec<String> {
    let name = |missing| match missing {
        Missing::Refused { name, .. } => name,
        other => panic!("{other}"),
    };
    lab.missing().into_iter().map(name).collect()
}

/// One node refuses: the others are brought up, it is named, and tried again less and less often.
#[test]
fn what_one_port_refuses_is_no_other_ports_trouble() {
    for (name, number) in [("host5", 1), ("leaf1", 2), ("leaf2", 0), ("leaf1", 5)] {
        let mut lab = Lab::new("clos:4,2,4", 1);
        let port = lab.port(name, number);
        lab.strike(Fault::Refuse(port, true));
        let took = lab.bring_up();
        assert!(took < Time::millis(200), "{name}/{number}: {took}");
        assert_eq!(refused(&lab), [name], "{name}/{number}");
        let live = lab.emulator.fabric().live_topology();
        let up = |port| lab.emulator.fabric().port_state(port) == PortState::Active;
        let down = live.ports().filter(|&port| live.peer(port).is_some() && !up(port)).count();
        // Its own cable, or the switch and the four hosts that only it leads to.
        assert!(down <= if number == 0 { 12 } else { 2 }, "{name}/{number}: {down} ports are down");

        let refusals = |lab: &Lab| lab.sweep.metrics().refused;
        let before = refusals(&lab);
        lab.run(Time::secs(30));
        lab.settle();
        let early = refusals(&lab) - before;
        assert!((3..=12).contains(&early), "{name}/{number}: refused {early} times more");
        lab.run(Time::secs(1_000));
        lab.settle();
        let late = refusals(&lab) - before - early;
        assert!((8..=80).contains(&late), "{name}/{number}: refused {late} times more");
        lab.strike(Fault::Refuse(port, false));
        lab.run(Time::secs(70));
        lab.settle();
        assert_eq!(lab.missing(), [], "{name}/{number}");
        lab.check();
    }
}

/// A cable cut meanwhile is repaired as fast as ever.
#[test]
fn a_port_that_refuses_delays_no_repair() {
    let repair = |refuses: bool| {
        let mut lab = Lab::of(fabric("clos:6,4,4"), Hardware::default(), config(2));
        let port = lab.port("host9", 1);
        lab.strike(Fault::Refuse(port, refuses));
        lab.bring_up();
        lab.strike(Fault::Cut(lab.port("leaf3", 5)));
        let begin = lab.now();
        lab.run(Time::millis(1));
        lab.settle();
        lab.now() - begin
    };
    assert!(repair(true) <= repair(false) * 2);
}

/// A port takes what is written and its answers are lost, twice in a row: its cable is left out. When the port is
/// found as it is to be, nothing is left to be written, and tables lead over the cable again.
#[test]
fn a_cable_whose_ports_only_lost_their_answers_is_used_again() {
    let mut lab = Lab::new("clos:4,2,2", 1);
    lab.bring_up();
    let cable = lab.port("leaf3", 4);
    lab.strike_and_settle(&[Fault::Cut(cable)]);
    lab.unconfirmed = Some(4);
    lab.strike(Fault::Restore(cable));
    lab.run(Time::millis(20));
    lab.settle();
    assert!(!lab.missing().is_empty());
    let live = lab.emulator.fabric().live_topology();
    assert!(lab.view().topology().cable_count() < live.cable_count());
    lab.unconfirmed = None;
    // Long before the next sweep.
    lab.run(Time::secs(4));
    lab.settle();
    assert_eq!(lab.missing(), []);
    assert_eq!(lab.view().topology().cable_count(), live.cable_count());
    lab.check();
}
