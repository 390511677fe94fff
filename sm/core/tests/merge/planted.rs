//! The checker finds every occurrence that a merge could miss.

use snin_fabric::{Guid, Lid};
use snin_mad::sa::{InformInfo, Record as _};
use snin_mad::{Gid, PKey, Table as _};
use snin_sm_database::merge::check::check;
use snin_sm_database::merge::{Number, Snapshot, merge};

use crate::offline::{both, rules};
use crate::two::ip;

type Plant = (&'static str, fn(&mut Snapshot, &Snapshot) -> Option<()>);

fn of_south(guid: Guid) -> bool {
    guid.0 >> 52 == 0x02A
}

/// The number that the absorbed partition got.
fn renumbered(one: &Snapshot) -> u16 {
    let partition = |(was, is): (&(Guid, Number), &Number)| match (was.1, is) {
        (Number::Partition(0x10), Number::Partition(now)) if *now != 0x10 => Some(*now),
        _ => None,
    };
    one.were.iter().find_map(partition).expect("a partition got a new number")
}

/// A group of it.
fn group(one: &Snapshot) -> Gid {
    ip(renumbered(one), 1)
}

/// One occurrence each is as it was in the absorbed database.
const PLANTS: [Plant; 21] = [
    ("a P_Key in a port's table", |one, south| {
        let (place, old) = south.ports.iter().find_map(|(place, entry)| {
            let keys = &entry.value.as_ref()?.keys;
            (!keys.is_empty()).then(|| (*place, keys.clone()))
        })?;
        one.ports.get_mut(&place)?.value.as_mut()?.keys = old;
        Some(())
    }),
    ("a port's address", |one, south| {
        let old = south.ports.iter().find(|(place, _)| of_south(place.0))?;
        one.ports.get_mut(old.0)?.value.as_mut()?.base = old.1.value.as_ref()?.base;
        Some(())
    }),
    ("the address in a PortInfo", |one, south| {
        let old = south.ports.iter().next()?;
        one.ports.get_mut(old.0)?.value.as_mut()?.info.lid = old.1.value.as_ref()?.info.lid;
        Some(())
    }),
    ("the manager's address in a PortInfo", |one, south| {
        // The surviving manager's own first address may be the same number: an address that no port has.
        let old = south.ports.iter().next()?;
        one.ports.get_mut(old.0)?.value.as_mut()?.info.master_sm_lid = Lid(0xBFFF);
        Some(())
    }),
    ("a given address", |one, south| {
        let (guid, entry) = south.lids.iter().next()?;
        one.lids.get_mut(guid)?.value = entry.value;
        Some(())
    }),
    ("the P_Key of a group", |one, _| {
        let new = renumbered(one);
        let group = one.groups.values_mut().filter_map(|entry| entry.value.as_mut());
        group.filter(|group| group.record.p_key.base() == new).last()?.record.p_key = PKey(0x8010);
        Some(())
    }),
    ("the P_Key in a group's name, in the key", |one, _| {
        let entry = one.groups.remove(&group(one))?;
        one.groups.insert(ip(0x10, 2), entry).is_none().then_some(())
    }),
    ("the P_Key in a group's name, in the record", |one, _| {
        one.groups.get_mut(&group(one))?.value.as_mut()?.record.mgid = ip(0x10, 1);
        Some(())
    }),
    ("a group's address", |one, _| {
        let theirs = one.groups.get(&ip(0x10, 1))?.value.as_ref()?.record.mlid;
        one.groups.get_mut(&group(one))?.value.as_mut()?.record.mlid = theirs;
        Some(())
    }),
    ("the P_Key in a member's group", |one, _| {
        let key = *one.members.keys().find(|key| key.0 == group(one))?;
        let entry = one.members.remove(&key)?;
        one.members.insert((ip(0x10, 1), key.1), entry);
        Some(())
    }),
    ("a made up name of a group", |one, south| {
        let made = |gid: &&Gid| gid.0[2..4] == [0xA0, 0x1B];
        let old = *south.groups.keys().find(made)?;
        let new = *one.groups.keys().rfind(made)?;
        let key = *one.members.keys().find(|key| key.0 == new)?;
        let entry = one.members.remove(&key)?;
        one.members.insert((old, key.1), entry);
        Some(())
    }),
    ("the P_Key of a service", |one, _| {
        let key = *one.services.keys().find(|(.., key)| key & 0x7FFF == renumbered(one))?;
        let entry = one.services.remove(&key)?;
        one.services.insert((key.0, key.1, 0x8010), entry);
        Some(())
    }),
    ("the P_Key in a service's record", |one, _| {
        let key = *one.services.keys().find(|(.., key)| key & 0x7FFF == renumbered(one))?;
        one.services.get_mut(&key)?.value.as_mut()?.record.p_key = PKey(0x8010);
        Some(())
    }),
    ("a subscriber's address", |one, south| {
        let old = south.subscriptions.keys().next()?.lid;
        let key = one.subscriptions.keys().find(|key| of_south(key.port))?.clone();
        let entry = one.subscriptions.remove(&key)?;
        one.subscriptions.insert(snin_sm_database::records::Subscriber { lid: old, ..key }, entry);
        Some(())
    }),
    ("an address of which notices are wanted", |one, south| {
        let old = south.subscriptions.values().find_map(|entry| {
            let lid = entry.value.as_ref()?.info.lid_begin;
            (1..0xC000).contains(&lid.0).then_some(lid)
        })?;
        let own = one.subscriptions.iter_mut().filter(|(key, _)| of_south(key.port));
        let mut own = own.filter_map(|(_, entry)| entry.value.as_mut());
        own.find(|own| (1..0xC000).contains(&own.info.lid_begin.0))?.info.lid_begin = old;
        Some(())
    }),
    ("the same in what distinguishes subscriptions", |one, _| {
        let near = |key: &&snin_sm_database::records::Subscriber| {
            let info = InformInfo::parse(&key.to).unwrap();
            of_south(key.port) && (1..0xC000).contains(&info.lid_begin.0)
        };
        let key = one.subscriptions.keys().find(near)?.clone();
        let entry = one.subscriptions.remove(&key)?;
        let info = InformInfo::parse(&key.to).unwrap();
        let to = InformInfo { lid_begin: Lid(info.lid_begin.0 + 2), ..info }.bytes();
        one.subscriptions.insert(snin_sm_database::records::Subscriber { to, ..key }, entry);
        Some(())
    }),
    ("a record that is lost", |one, _| {
        let key = *one.members.keys().find(|key| of_south(key.1))?;
        one.members.remove(&key).map(|_| ())
    }),
    ("a record from nowhere", |one, _| {
        let entry = one.links.values().next()?.clone();
        one.links.insert((Guid(1), snin_fabric::PortNum(1)), entry);
        Some(())
    }),
    ("a deletion that is forgotten", |one, _| {
        one.members.values_mut().find(|entry| entry.value.is_some())?.value = None;
        Some(())
    }),
    ("a stranger's partition", |one, south| {
        let was = (south.master, Number::Partition(0x10));
        one.were.insert(was, Number::Partition(0x10));
        Some(())
    }),
    ("the wrong survivor", |one, south| {
        one.master = south.master;
        Some(())
    }),
];

#[test]
fn every_planted_fault_is_found() {
    let before = both();
    let right = merge(&before, &rules()).unwrap().snapshot;
    assert_eq!(check(&before, &rules(), &right), Vec::<String>::new());
    for (what, plant) in PLANTS {
        let mut one = right.clone();
        plant(&mut one, &before[1]).unwrap_or_else(|| panic!("{what}: nothing to plant it in"));
        assert_ne!(one, right, "{what}");
        let found = check(&before, &rules(), &one);
        assert!(!found.is_empty(), "{what}");
        println!("{what}: {}", found[0]);
    }
}
