//! Managers that elect the master by an order of their own, by SMInfo alone and in sessions.

use snin_emulator::Fault;
use snin_mad::{SmInfo, SmKey, SmState};
use snin_mastership::Report as MastershipReport;
use snin_protocol::Time;
use snin_sm_core::Report;
use snin_sm_database::config::Config;

use crate::subnet::{Subnet, config};

const LOW: u8 = 8;

fn electing(priority: u8) -> Config {
    Config { election: Some(LOW), ..config(priority) }
}

/// By what managers speak, beside SMInfo.
#[derive(Clone, Copy, PartialEq, Debug)]
enum By {
    Nothing,
    /// Each has sessions with the others.
    Sessions,
}

/// Three managers, the first of which has the lowest GUID.
fn three(by: By) -> Subnet {
    let mut subnet = Subnet::new("clos:6,3,4");
    for (host, priority) in [("host0", 1), ("host9", 2), ("host17", 3)] {
        subnet.seat(host, electing(priority));
    }
    (0..3).for_each(|n| subnet.start(n));
    if by == By::Sessions {
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            subnet.call(from, to);
        }
    }
    subnet
}

fn masters(subnet: &Subnet) -> Vec<usize> {
    let states = subnet.states();
    let is = |n: &usize| !subnet.seats[*n].dead && states[*n] == SmState::Master;
    (0..states.len()).filter(is).collect()
}

/// Ports are INIT at first: the link alone counts. By SMInfo alone the operator's priority is not known: of equal
/// ones the lower GUID goes first.
#[test]
fn statements_10_36_and_39_a_cold_subnet_has_one_master() {
    for (by, master) in [(By::Nothing, 0), (By::Sessions, 2)] {
        let mut three = three(by);
        three.run(Time::secs(10));
        three.check(master);
        let shown = three.seats[master].manager.managers(three.now());
        assert_eq!(shown[0].priority, LOW + 1, "a foreign manager goes after it");
        for n in (0..3).filter(|&n| n != master) {
            let shown = three.seats[n].manager.managers(three.now());
            assert_eq!(shown[0].priority, LOW, "{by:?}: the election made {n} no master");
        }
    }
}

/// It would go before both others by the operator's priority, and its sessions live.
#[test]
fn statement_13_at_a_cold_start_a_manager_without_a_cable_goes_after_the_others() {
    let mut three = three(By::Sessions);
    let at = three.seats[2].at;
    three.strike(Fault::Cut(at));
    three.run(Time::secs(10));
    assert_eq!(masters(&three).iter().filter(|&&n| n != 2).collect::<Vec<_>>(), [&1]);
    three.strike(Fault::Restore(at));
    three.run(Time::secs(10));
    three.check(1);
}

#[test]
fn statements_12_and_39_when_the_master_is_killed_the_next_one_in_the_order_is() {
    for (by, first, then) in [(By::Nothing, 0, 1), (By::Sessions, 2, 1)] {
        let mut three = three(by);
        three.run(Time::secs(10));
        three.kill(first);
        three.run(Time::secs(10));
        assert_eq!(masters(&three), [then], "{by:?}");
        three.revive(first, electing(9), true);
        three.run(Time::secs(10));
        // The running master stays (statement 15), though the operator prefers the other one.
        assert_eq!(masters(&three), [then], "{by:?}");
        three.check(then);
    }
}

#[test]
fn a_foreign_manager_within_the_band_is_told_of_and_not_fought() {
    let mut three = three(By::Nothing);
    three.run(Time::secs(10));
    let info = SmInfo {
        sm_key: SmKey(1),
        priority: LOW + 4,
        state: SmState::Standby,
        ..SmInfo::default()
    };
    three.appoint("host5", info);
    three.run(Time::secs(15));
    let above = |report: &Report| match report {
        Report::Mastership(MastershipReport::AboveBand { priority, .. }) => *priority == LOW + 4,
        _ => false,
    };
    let told: usize =
        three.seats.iter().map(|seat| seat.reports.iter().filter(|r| above(r)).count()).sum();
    assert!(told >= 1, "no alarm");
    assert!(told <= 3, "told {told} times");
}

/// One that asks nothing itself, and before the next look at the fabric, which comes after 10 s.
#[test]
fn statement_36_a_manager_that_comes_later_is_learnt_by_its_trap() {
    let mut three = three(By::Nothing);
    three.run(Time::secs(12));
    let known = |subnet: &Subnet| subnet.seats[0].manager.managers(subnet.now()).len();
    assert_eq!(known(&three), 3);
    let (priority, state) = (LOW, SmState::Standby);
    three.appoint("host5", SmInfo { priority, state, ..SmInfo::default() });
    three.run(Time::secs(3));
    assert_eq!(known(&three), 4);
}

#[test]
fn statements_08_and_09_a_cut_cable_of_the_master_moves_mastership_and_its_return_nothing() {
    let mut three = three(By::Sessions);
    three.run(Time::secs(10));
    let at = three.seats[2].at;
    three.strike(Fault::Cut(at));
    three.run(Time::secs(15));
    assert_eq!(masters(&three).iter().filter(|&&n| n != 2).collect::<Vec<_>>(), [&1]);
    three.strike(Fault::Restore(at));
    three.run(Time::secs(20));
    three.check(1);
}
