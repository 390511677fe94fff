//! Statement 69: counters of both ends of a link that is tested. Statement 57: what malfunctions may be reset.

use std::collections::BTreeSet;

use snin_configuration::{Action, Limits, Mode, Quality, Tests};
use snin_emulator::Fault;
use snin_fabric::PortIndex;
use snin_protocol::Time;

use crate::lab::{Lab, expect, fabric, granted, planned, quick};

const OFTEN: u32 = 500_000;

/// A fabric that comes up with every port under test, after something went wrong.
fn tested(tests: Tests, go_wrong: impl FnOnce(&mut Lab)) -> Lab {
    let topology = fabric("clos:4,2,2");
    let mut lab = Lab::new(topology.clone(), Limits::default());
    go_wrong(&mut lab);
    lab.run(Time::millis(1));
    lab.tell(granted());
    let expected = planned(&topology, Mode::Test);
    lab.tell(expect(&snin_configuration::Expected { tests, ..expected }));
    lab.start();
    lab.run(Time::secs(4));
    lab
}

fn counting(errors: u32) -> Tests {
    let quality = quick().quality.map(|quality| Quality { errors: Some(errors), ..quality });
    Tests { quality, ..quick() }
}

fn far(lab: &Lab, port: PortIndex) -> PortIndex {
    lab.topology.peer(port).unwrap()
}

#[test]
fn statement_69_errors_at_either_end_fail_the_port_and_no_other() {
    let lab = tested(counting(0), |lab| {
        let (near, far) = (lab.port("leaf1", 1), far(lab, lab.port("leaf2", 1)));
        lab.strike(Fault::SymbolErrors(near, OFTEN));
        lab.strike(Fault::SymbolErrors(far, OFTEN));
    });
    let bad = BTreeSet::from(["leaf1/1".to_owned(), "leaf2/1".to_owned()]);
    assert_eq!(lab.disabled(), bad);
    for (at, end) in [("leaf1/1", "this end"), ("leaf2/1", "the other end")] {
        let (state, why) = lab.state(at);
        assert_eq!(state, "failed");
        let words = format!(" errors at {end} while 10 MADs crossed the link");
        assert!(why.ends_with(&words), "{at}: {why}");
    }
    lab.check_all_but(&bad);
    let passed =
        lab.manager.configuration().status().filter(|port| port.state.name() == "passed").count();
    assert_eq!(passed, lab.manager.configuration().status().count() - 2);
    // Four reads of each port under test.
    assert!(lab.manager.metrics().counters_read >= 4 * passed as u64 - 2);
}

#[test]
fn statement_69_fewer_errors_than_the_threshold_do_no_harm() {
    let lab = tested(counting(1_000), |lab| {
        lab.strike(Fault::SymbolErrors(lab.port("leaf1", 1), OFTEN));
    });
    assert_eq!(lab.disabled(), BTreeSet::new());
    assert!(lab.manager.configuration().status().all(|port| port.state.name() == "passed"));
    lab.check_all_but(&BTreeSet::new());
}

/// It finds them ACTIVE before it knows any address.
#[test]
fn statement_69_a_manager_that_starts_counts_at_ports_in_use_and_they_stay_so() {
    let mut lab = tested(counting(0), |_| ());
    let expected = lab.manager.configuration().expected().unwrap().clone();
    lab.replace_manager();
    lab.tell(granted());
    lab.tell(expect(&expected));
    lab.start();
    lab.run(Time::secs(3));
    assert_eq!(lab.disabled(), BTreeSet::new());
    let passed = |lab: &Lab| {
        let status = lab.manager.configuration().status();
        status.filter(|port| port.state.name() == "passed").count()
    };
    assert_eq!(passed(&lab), lab.manager.configuration().status().count());
    lab.check_all_but(&BTreeSet::new());
}

#[test]
fn statement_57_a_link_is_reset_so_often_and_no_more() {
    const RESETS: u32 = 2;
    let tests = Tests { resets: RESETS, ..quick() };
    let lab = tested(tests, |lab| {
        let host = lab.topology.peer_node(lab.port("leaf1", 1)).unwrap();
        lab.strike(Fault::Application(host, false));
    });
    let said = lab.said_of("leaf1/1");
    let of = |action: Action| said.iter().filter(|said| **said == action).count();
    assert_eq!((of(Action::Reset), of(Action::Fail)), (RESETS as usize, 1), "{said:?}");
    let port = lab.port("leaf1", 1);
    // And once by being disabled.
    assert_eq!(lab.emulator.fabric().counters(port).link_downed, u64::from(RESETS) + 1);
    assert_eq!(lab.manager.configuration().metrics().resets, u64::from(RESETS));
    lab.check_all_but(&lab.disabled());
    assert_eq!(lab.disabled().len(), 1);
}

#[test]
fn statement_57_what_is_well_after_a_reset_passes() {
    let tests = Tests { resets: 3, timer: Time::millis(400), ..quick() };
    let topology = fabric("clos:4,2,2");
    let mut lab = Lab::new(topology.clone(), Limits::default());
    let host = lab.topology.peer_node(lab.port("leaf1", 1)).unwrap();
    lab.strike(Fault::Application(host, false));
    lab.tell(granted());
    let expected = planned(&topology, Mode::Test);
    lab.tell(expect(&snin_configuration::Expected { tests, ..expected }));
    lab.start();
    while !lab.said_of("leaf1/1").contains(&Action::Reset) {
        lab.run(Time::millis(1));
        assert!(lab.now() < Time::secs(10));
    }
    lab.strike(Fault::Application(host, true));
    lab.run(Time::secs(3));
    assert_eq!(lab.state("leaf1/1").0, "passed");
    lab.check_all_but(&BTreeSet::new());
}
