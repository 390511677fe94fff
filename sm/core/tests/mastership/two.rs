//! Two of our managers in one subnet, one of which stands still for a while; and one that is not ours.

use snin_emulator::Fault;
use snin_fabric::PortIndex;
use snin_mad::notice::LocalChangeDetails;
use snin_mad::{Attribute, Method, Notice, SmInfo, SmState, Smp, Trap};
use snin_protocol::Time;

use crate::subnet::{Subnet, config, port};

/// Neither has begun yet. The first has priority 5, the second 1.
fn two() -> Subnet {
    let mut subnet = Subnet::new("clos:6,3,4");
    subnet.seat("host0", config(5));
    subnet.seat("host13", config(1));
    subnet
}

#[test]
fn a_senior_that_stood_still_is_the_only_master_again() {
    let mut two = two();
    two.start(0);
    two.run(Time::secs(1));
    two.start(1);
    two.run(Time::secs(3));
    two.check(0);
    assert_eq!(two.writes_by(1, Time::ZERO), 0);
    for still in [1, 3, 10, 13, 60] {
        two.stop(0, true);
        two.run(Time::secs(still));
        assert_eq!(two.states()[1] == SmState::Master, still > 2, "after {still} s");
        two.stop(0, false);
        two.run(Time::secs(5));
        two.check(0);
    }
}

#[test]
fn a_junior_that_stood_still_yields() {
    let mut two = two();
    two.start(1);
    two.run(Time::secs(1));
    two.check(1);
    two.stop(1, true);
    two.start(0);
    two.run(Time::secs(13));
    assert_eq!(two.states()[0], SmState::Master);
    two.stop(1, false);
    two.run(Time::secs(5));
    two.check(0);
}

/// A standby asks the master whether it is there, and its own port who that is, and nothing else of anybody.
#[test]
fn a_standby_polls_and_sweeps_nothing() {
    let mut two = two();
    two.start(0);
    two.run(Time::secs(1));
    two.start(1);
    two.run(Time::secs(1));
    let count = |two: &Subnet| {
        let metrics = two.seats[1].manager.metrics();
        (metrics.smps(), metrics.full_sweeps, metrics.light_sweeps)
    };
    let before = count(&two);
    two.run(Time::secs(30));
    let after = count(&two);
    // Four times a second: by either way, the own port, and an answer to the master's own question.
    assert!((475..=485).contains(&(after.0 - before.0)), "{}", after.0 - before.0);
    assert_eq!((after.1, after.2), (before.1, 0));
}

/// Whichever cable between switches is cut, one way of the polls is whole: no failover.
#[test]
fn a_cut_cable_is_no_failover() {
    let mut two = two();
    two.start(0);
    two.run(Time::secs(2));
    two.start(1);
    two.run(Time::secs(2));
    two.check(0);
    let topology = &two.topology;
    let trunks = topology.switches().flat_map(|switch| topology.cables(switch));
    let joins = |&(_, peer): &(_, PortIndex)| topology.is_switch(topology.port(peer).node);
    let trunks: Vec<PortIndex> = trunks.filter(joins).map(|(port, _)| port).collect();
    let _ = [two.told(0), two.told(1)];
    for cut in trunks {
        two.strike(Fault::Cut(cut));
        two.run(Time::secs(3));
        assert_eq!((two.told(0), two.told(1)), (vec![], vec![]), "{cut:?}");
        two.strike(Fault::Restore(cut));
        two.run(Time::secs(1));
    }
    two.run(Time::secs(15));
    two.check(0);
}

#[test]
fn two_that_begin_at_once_end_as_one_master() {
    let mut two = two();
    two.start(0);
    two.start(1);
    two.run(Time::secs(12));
    two.check(0);
}

/// Polls are 250 ms apart. A trap of another manager's port has that port looked at, the manager too.
#[test]
fn a_trap_of_a_known_managers_port_has_it_asked_at_once() {
    let asked = |two: &Subnet| {
        let sent = &two.seats[0].sent;
        sent.get(&(SmInfo::ID, Method::Get)).copied().unwrap_or(0)
    };
    let trapped = |host: &str, phase: u64| {
        let mut two = two();
        two.start(0);
        two.run(Time::secs(1));
        two.start(1);
        two.run(Time::secs(3) + Time::millis(phase));
        two.check(0);
        let at = port(&two.topology, host, 1);
        let other = two.seats.iter().find(|seat| seat.at == at).map(|seat| seat.client);
        let client = other.unwrap_or_else(|| two.emulator.attach(at).unwrap());
        let lid = two.emulator.fabric().port_info(at).lid;
        let details = LocalChangeDetails { lid, other_local_changes: true, ..Default::default() };
        let notice = Notice::generic(&Trap::LocalChange(details), 4, lid);
        let mad = Smp::trap().mad().with(&notice);
        let (before, now) = (asked(&two), two.now());
        let master = two.seats[0].manager.view().unwrap().manager();
        two.emulator.send(client, &mad, master, now);
        two.run(Time::millis(1));
        asked(&two) > before
    };
    for phase in [20, 70, 120, 170, 220] {
        assert!(trapped("host13", phase), "{phase} ms after a poll");
        assert!(!trapped("host5", phase), "no manager is there");
    }
}
