//! Managers that die while their subnets become one.

use snin_protocol::Time;
use snin_sm_database::config::Config;

use crate::live::{Live, settings};
use crate::seats::config;

/// What both managers have stored does not depend on when either was killed.
#[test]
fn whenever_a_manager_dies_it_is_one_subnet_in_the_end() {
    let steps = if std::env::var_os("SNIN_MERGES").is_some() { 1 } else { 8 };
    let mut whole = Live::with(2, settings);
    whole.plug(0);
    whole.settle(0, 2);
    let numbers = whole.numbers(0);
    let mut stored = [0; 2];
    for dies in [0, 1] {
        for step in (0..60).step_by(steps) {
            let mut live = Live::with(2, settings);
            let before = [0, 1].map(|n| live.subnet.seats[n].saved.lids.clone());
            live.plug(0);
            live.subnet.run(Time::micros(step * 200));
            stored[live.subnet.seats[0].saved.lineage.subnets.len() - 1] += 1;
            live.subnet.kill(dies);
            live.subnet.run(Time::millis(300));
            live.subnet.revive(dies, settings(dies), true);
            live.subnet.call(0, 1);
            live.subnet.call(1, 0);
            live.settle(0, 2);
            live.judge();
            // The numbers of the one that survives are as they were. Where the first died before the other ceded,
            // the other took its fabric for as long as it was away.
            let saved = &live.subnet.seats[0].saved;
            let survivor = (0..2).find(|&n| saved.lineage.master == Some(live.subnet.guid(n)));
            let before = &before[survivor.expect("one of them")];
            for (guid, lids) in before {
                assert_eq!(saved.lids.get(guid), Some(lids), "{dies} died at {step}");
            }
            let found = live.numbers(0);
            let other: Vec<&String> =
                found.iter().filter(|line| !numbers.contains(line)).take(4).collect();
            assert!(dies == 0 || found == numbers, "{dies} died at {step}: {other:?}");
        }
    }
    println!("{} kills before the merge was stored, {} after", stored[0], stored[1]);
    assert!(stored.iter().all(|kills| *kills > 0), "{stored:?}");
}

/// A manager that is dead says nothing, and one of another make says little: partitions are read at the ports,
/// from every block of their tables, and pairs of ports that shared one do so still.
#[test]
fn partitions_of_a_dead_manager_are_read_from_every_block() {
    let many: String = (0x100..0x128).map(|key| format!("={key:#x} : ALL=full;")).collect();
    let many = format!("Default=0x7fff, ipoib : ALL=full; {many}");
    let settings = |n: usize| match n {
        0 => config(5),
        _ => Config { partitions: many.parse().unwrap(), ..config(4) },
    };
    let mut live = Live::with(2, settings);
    let before = live.partitions();
    assert_eq!(before.len(), 40);
    live.subnet.kill(1);
    live.plug(0);
    live.settle(0, 2);
    live.judge();
    assert_eq!(live.partitions().len(), 40);
}
