//! The databases of two managers that knew nothing of each other, with all numbers in common.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::Guid;
use snin_mad::sa::{JoinState, McMemberRecord};
use snin_mad::{Gid, Method};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::merge::check::check;
use snin_sm_database::merge::{MergeError, Rules, Snapshot, merge, read, write};

use crate::subnet::{Subnet, config};
use crate::two::{NOW, database, fabric, ip, live};

pub(crate) fn both() -> [Snapshot; 2] {
    [database("200", "north", 5, Time::ZERO), database("2a0", "south", 3, Time::secs(60))]
}

pub(crate) fn rules() -> Rules {
    Rules::at(Time::secs(NOW + 3_600))
}

/// Which ports can talk to which: those with a P_Key in common that one of them has as a full member.
fn pairs(of: &Snapshot) -> BTreeSet<(Guid, Guid, usize)> {
    let ports: Vec<(Guid, Vec<u16>)> = of
        .ports
        .values()
        .filter_map(|entry| entry.value.as_ref())
        .filter_map(|port| Some((port.guid?, port.partitions().map(|key| key.0).collect())))
        .collect();
    let mut pairs = BTreeSet::new();
    for (a, own) in &ports {
        for (b, others) in ports.iter().filter(|(b, _)| a < b) {
            let meet =
                |x: &&u16| others.iter().any(|y| **x & 0x7FFF == y & 0x7FFF && (**x | y) >= 0x8000);
            let in_common = own.iter().filter(meet).count();
            if in_common > 0 {
                pairs.insert((*a, *b, in_common));
            }
        }
    }
    pairs
}

#[test]
fn two_subnets_with_all_numbers_in_common_become_one() {
    let before = both();
    let [north, south] = &before;
    // One P_Key, all LIDs, a multicast group, a made up one, a service in common.
    assert!(north.partitions.contains_key(&0x10) && south.partitions.contains_key(&0x10));
    let lids = |of: &Snapshot| -> BTreeSet<u16> {
        of.lids.values().filter_map(|entry| entry.value).map(|(lid, _)| lid.0).collect()
    };
    assert_eq!(lids(north), lids(south));
    assert_eq!(north.lids.len(), 12 + 6);
    let in_common = |gid: &&Gid| south.groups.contains_key(gid);
    assert_eq!(north.groups.keys().filter(in_common).count(), 7);

    let merged = merge(&before, &rules()).unwrap();
    let (one, report) = (&merged.snapshot, &merged.report);
    assert_eq!(check(&before, &rules(), one), Vec::<String>::new());
    assert_eq!((one.master, report.absorbed.as_slice()), (north.master, &[south.master][..]));
    // The survivor's records are as they were.
    for (place, entry) in &north.ports {
        assert_eq!(one.ports.get(place), Some(entry));
    }
    assert_eq!(lids(one).len(), 2 * 18);
    // 0x10 of the south is another partition: tables, groups, IP's names, services, all of them.
    let new = one.were[&(south.master, snin_sm_database::merge::Number::Partition(0x10))];
    let snin_sm_database::merge::Number::Partition(new) = new else { panic!("{new:?}") };
    assert!(new != 0x10 && !north.partitions.contains_key(&new));
    let group = one.groups[&ip(new, 1)].value.as_ref().unwrap();
    assert_eq!(group.record.p_key.0, new | 0x8000);
    assert_eq!(group.record.mgid, ip(new, 1));
    // The group of the default partition is one, with the members of both.
    let members = |of: &Snapshot, mgid| of.members.keys().filter(|key| key.0 == mgid).count();
    assert_eq!(members(one, ip(0xFFFF, 1)), 6);
    assert_eq!((members(one, ip(0x10, 1)), members(one, ip(new, 1))), (3, 3));
    assert_eq!(one.groups.len(), north.groups.len() + south.groups.len() - 2);
    // Every pair that shared a partition does so now, and no other - but in the default partition, which is
    // the same everywhere.
    let count = |of: &Snapshot| -> BTreeMap<(Guid, Guid), usize> {
        pairs(of).into_iter().map(|(a, b, many)| ((a, b), many)).collect()
    };
    let (all, own): (_, Vec<_>) = (count(one), before.iter().map(count).collect());
    for (pair, many) in &all {
        let before = own.iter().find_map(|own| own.get(pair)).copied();
        assert_eq!(before.unwrap_or(1), *many, "{pair:?}");
    }
    assert_eq!(all.len(), 36 * 35 / 2);
    // The ports to be told: every port of the renamed partition, and those with an IP interface by that.
    let told = report.tell.iter().filter(|tell| tell.kind == "partition").count();
    assert_eq!(told, 18);
    let by_ip = |tell: &&snin_sm_database::merge::Tell| {
        tell.because.iter().any(|because| because.starts_with("an IP interface"))
    };
    assert_eq!(report.tell.iter().filter(by_ip).count(), 3);
    assert!(report.tell.iter().any(|tell| tell.kind == "service"), "{report}");
    assert!(report.ahead.is_empty());
}

#[test]
fn the_order_makes_no_difference_and_again_changes_nothing() {
    let [north, south] = both();
    let one = merge(&[north.clone(), south.clone()], &rules()).unwrap();
    assert_eq!(merge(&[south.clone(), north.clone()], &rules()).unwrap(), one);
    let known = one.snapshot.clone();
    for again in
        [vec![], vec![north.clone()], vec![south.clone()], vec![south.clone(), north.clone()]]
    {
        let all = [vec![known.clone()], again].concat();
        let twice = merge(&all, &rules()).unwrap();
        assert_eq!(twice.snapshot, known);
        assert_eq!(
            twice.report.renumbered.iter().filter(|new| new.subnet == north.master).count(),
            0
        );
    }
    // The other one is kept where the operator says so.
    let keep = Rules { keep: Some(south.master), ..rules() };
    let other = merge(&[north.clone(), south.clone()], &keep).unwrap().snapshot;
    assert_eq!(other.master, south.master);
    assert_eq!(check(&[north.clone(), south.clone()], &keep, &other), Vec::<String>::new());
    assert!(south.ports.iter().all(|(place, entry)| other.ports.get(place) == Some(entry)));
    let nobody = Rules { keep: Some(Guid(9)), ..rules() };
    assert_eq!(merge(std::slice::from_ref(&north), &nobody), Err(MergeError::Keep(Guid(9))));
    // What the operator declares the same keeps its number.
    let common = Rules { common: [0x10].into(), ..rules() };
    let one = merge(&[north.clone(), south.clone()], &common).unwrap();
    assert!(one.report.renumbered.iter().all(|new| new.kind != "partition"), "{}", one.report);
    assert_eq!(check(&[north, south], &common, &one.snapshot), Vec::<String>::new());
}

#[test]
fn a_file_holds_all_of_it() {
    let [north, south] = both();
    let one = merge(&[north.clone(), south], &rules()).unwrap().snapshot;
    for snapshot in [north, one] {
        let file = write(&snapshot, true);
        assert_eq!(read(&file).unwrap(), snapshot);
        // Half a file is none.
        let half = &file[..file.len() / 2];
        let half = &half[..half.rfind('\n').unwrap() + 1];
        assert!(read(half).unwrap_err().what.ends_with("the file is not whole"));
        let told = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(
            told(&file.replace("snin-smdb 1", "snin-smdb 2")),
            "1: version 1 is read: `snin-smdb 2`"
        );
        assert_eq!(told("GUID"), "1: no subnet database (expected `snin-smdb 1`)");
    }
}

/// A manager that starts anew has the stamps of what was kept and of what was deleted.
#[test]
fn stamps_and_deletions_survive_a_restart() {
    let config = Config { partitions: crate::partitions("ten"), ..config() };
    let mut subnet = Subnet::of(fabric("clos:4,2,3", "200"), config.clone());
    live(&mut subnet);
    let gone = McMemberRecord {
        mgid: ip(0x10, 1),
        port_gid: subnet.gid(2),
        join_state: JoinState::FULL,
        ..McMemberRecord::default()
    };
    subnet.member(2, Method::Delete, &gone, &[0, 1, 16]).unwrap();
    let of = |subnet: &Subnet| subnet.manager.snapshot("north", subnet.now()).unwrap();
    let before = of(&subnet);
    let key = (ip(0x10, 1), subnet.guid(2));
    assert_eq!(before.members[&key].value, None);
    let subnet = subnet.restarted(config);
    let after = of(&subnet);
    assert_eq!(after.members, before.members);
    assert_eq!(after.groups, before.groups);
    assert_eq!(after.services, before.services);
    assert_eq!(after.subscriptions, before.subscriptions);
    // What it changes now is later.
    let last = before.members.values().map(|entry| entry.stamp).max();
    assert!(after.ports.values().all(|entry| Some(entry.stamp) > last));
}
