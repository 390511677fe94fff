//! Ours hand over to each other: one writes at a time, and the subnet is served all the while.

use snin_mad::SmState;
use snin_mastership::Report as MastershipReport;
use snin_mastership::control::{Control, Outcome};
use snin_protocol::Time;
use snin_sm_core::{Event, Report};

use crate::subnet::{Subnet, config};

fn three() -> Subnet {
    let mut subnet = Subnet::new("clos:6,3,4");
    for (host, priority) in [("host0", 3), ("host9", 5), ("host17", 1)] {
        subnet.seat(host, config(priority));
    }
    subnet
}

/// Writes of one are not mixed with another's: each begins when the last has ended.
#[track_caller]
fn writes_in_turn(subnet: &Subnet, expected: &[usize]) {
    let mut turns: Vec<usize> = subnet.written.iter().map(|write| write.by).collect();
    turns.dedup();
    assert_eq!(turns, expected);
}

#[test]
fn whoever_goes_before_is_handed_over_to() {
    let mut subnet = three();
    subnet.start(0);
    subnet.run(Time::secs(1));
    subnet.check(0);
    subnet.start(1);
    subnet.run(Time::secs(3));
    subnet.check(1);
    subnet.start(2);
    subnet.run(Time::secs(3));
    subnet.check(1);
    writes_in_turn(&subnet, &[0, 1]);
    // By the operator's wish, in both directions and at any time.
    for (n, priority, master) in [(2, 9, 2), (2, 0, 1), (0, 6, 0), (1, 7, 1)] {
        let now = subnet.now();
        subnet.seats[n].manager.handle(Event::Priority(priority), now);
        subnet.run(Time::secs(3));
        subnet.check(master);
    }
    writes_in_turn(&subnet, &[0, 1, 2, 1, 0, 1]);
}

#[test]
fn the_operator_disables_and_enables_a_standby() {
    let mut subnet = three();
    for n in 0..3 {
        subnet.start(n);
    }
    subnet.run(Time::secs(5));
    subnet.check(1);
    let (guid, stranger) = (subnet.guid(0), snin_fabric::Guid(77));
    let instruct = |subnet: &mut Subnet, by: usize, to, control| {
        let now = subnet.now();
        subnet.seats[by].reports.clear();
        subnet.seats[by].manager.handle(Event::Instruct { to, control }, now);
        subnet.run(Time::secs(1));
        subnet.seats[by].reports.iter().find_map(|report| match report {
            Report::Mastership(MastershipReport::Instructed { outcome, .. }) => Some(*outcome),
            _ => None,
        })
    };
    assert_eq!(instruct(&mut subnet, 1, guid, Control::Disable), Some(Outcome::Taken));
    assert_eq!(subnet.states()[0], SmState::NotActive);
    assert_eq!(instruct(&mut subnet, 1, guid, Control::Disable), Some(Outcome::Refused));
    assert_eq!(instruct(&mut subnet, 1, stranger, Control::Disable), Some(Outcome::Unknown));
    assert_eq!(instruct(&mut subnet, 2, guid, Control::Standby), Some(Outcome::NotMaster));
    // The first in line does nothing: the last one takes over.
    subnet.kill(1);
    subnet.run(Time::secs(5));
    assert_eq!(subnet.states(), [SmState::NotActive, SmState::Master, SmState::Master]);
    assert_eq!(instruct(&mut subnet, 2, guid, Control::Standby), Some(Outcome::Taken));
    subnet.run(Time::secs(3));
    // It goes before, now that it may.
    subnet.check(0);
    subnet.kill(2);
    let dead = subnet.guid(1);
    assert_eq!(instruct(&mut subnet, 0, dead, Control::Discover), Some(Outcome::Unanswered));
}

#[test]
fn who_is_what_and_why() {
    let mut subnet = three();
    for n in 0..3 {
        subnet.start(n);
    }
    subnet.run(Time::secs(5));
    let now = subnet.now();
    for n in 0..3 {
        let managers = subnet.seats[n].manager.managers(now);
        assert_eq!(managers.len(), 3, "{managers:?}");
        assert!(managers[0].own && !managers[0].why.is_empty(), "{managers:?}");
        let master: Vec<_> =
            managers.iter().filter(|manager| manager.state == Some(SmState::Master)).collect();
        assert_eq!(master.len(), 1, "{managers:?}");
        assert_eq!(master[0].guid, subnet.guid(1));
    }
}
