//! What managers' settings call partitions decides in a live merge whether two of one number are one.

use std::collections::BTreeSet;

use snin_sm_core::Report;
use snin_sm_database::merge::Number;

use crate::live::{Live, named};

/// Of one name they are one, and keep the number; the name goes over in sessions.
#[test]
fn partitions_of_one_name_stay_one() {
    let mut live = Live::with(2, |n| named(n, "storage"));
    live.plug(0);
    live.settle(0, 2);
    let lineage = &live.subnet.seats[0].saved.lineage;
    let south = live.subnet.guid(1);
    assert_eq!(lineage.were.get(&(south, Number::Partition(0x10))), Some(&Number::Partition(0x10)));
    assert_eq!(live.partitions(), BTreeSet::from([0x10]));
    // Both managers know what it is called.
    for n in 0..2 {
        let names = &live.subnet.seats[n].saved.lineage.names;
        assert_eq!(names.get(&0x10).map(|name| &**name), Some("storage"), "{n}");
    }
}

/// Of two names they are two: the other one's number and its name are in the report.
#[test]
fn partitions_of_two_names_are_two() {
    let mut live = Live::with(2, |n| named(n, ["storage", "compute"][n]));
    live.plug(0);
    live.settle(0, 2);
    live.judge();
    let south = live.subnet.guid(1);
    let lineage = &live.subnet.seats[0].saved.lineage;
    let new = lineage.were.get(&(south, Number::Partition(0x10)));
    let Some(&Number::Partition(new)) = new.filter(|is| **is != Number::Partition(0x10)) else {
        panic!("{lineage:?}");
    };
    let names: Vec<(u16, &str)> =
        lineage.names.iter().map(|(number, name)| (*number, &**name)).collect();
    assert_eq!(BTreeSet::from_iter(names), BTreeSet::from([(0x10, "storage"), (new, "compute")]));
    assert_eq!(live.partitions(), BTreeSet::from([0x10, new]));
    let told = live.subnet.seats[0].reports.iter().any(|report| match report {
        Report::Joined(report) => {
            report.renumbered.iter().any(|one| (one.kind, &*one.of) == ("partition", "compute"))
        }
        _ => false,
    });
    assert!(told, "the report has the name");
}
