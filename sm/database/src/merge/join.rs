//! The records of an absorbed subnet, renumbered, among those of the surviving one: the later of two counts.

use std::collections::btree_map;

use super::Rules;
use super::map::{Map, Renumber};
use super::report::{Replaced, Report};
use super::row::each_row;
use super::snapshot::{DEFAULT_PARTITION, Entry, Number, Snapshot};
use crate::partitions::key_in_name;
use crate::records::Stamp;

pub(super) fn join(
    into: &mut Snapshot,
    absorbed: Snapshot,
    map: &Map,
    rules: &Rules,
    report: &mut Report,
) {
    remember(into, &absorbed, map);
    into.clock = into.clock.max(absorbed.clock);
    for (guid, subnet) in &absorbed.subnets {
        into.subnets.entry(*guid).or_insert_with(|| subnet.clone());
    }
    let mut joined = Joining { into, absorbed, map, rules, report };
    let joined = &mut joined;
    each_row!(table(joined));
}

struct Joining<'a> {
    into: &'a mut Snapshot,
    absorbed: Snapshot,
    map: &'a Map,
    rules: &'a Rules,
    report: &'a mut Report,
}

fn table<R: Renumber>(joining: &mut Joining<'_>) {
    for (key, Entry { value, stamp }) in std::mem::take(R::table_mut(&mut joining.absorbed)) {
        let value = value.map(|value| R::value(joining.map, &key, value));
        let key = R::key(joining.map, &key);
        let entry = Entry { value, stamp };
        match R::table_mut(joining.into).entry(key.clone()) {
            btree_map::Entry::Vacant(place) => {
                place.insert(entry);
            }
            btree_map::Entry::Occupied(mut place) if *place.get() != entry => {
                let comes_later = order::<R>(&entry) > order::<R>(place.get());
                let other = if comes_later { place.insert(entry) } else { entry };
                let kept = place.get();
                if other.value != kept.value {
                    let replaced = replaced::<R>(&key, kept, &other, joining.rules, joining.report);
                    joining.report.replaced.push(replaced);
                }
            }
            btree_map::Entry::Occupied(_) => {}
        }
    }
}

/// Of two entries of one stamp the value decides, so that every order of databases gives the same.
fn order<R: Renumber>(entry: &Entry<R::Value>) -> (Stamp, Option<String>) {
    (entry.stamp, entry.value.as_ref().map(R::write_value))
}

fn replaced<R: Renumber>(
    key: &R::Key,
    kept: &Entry<R::Value>,
    lost: &Entry<R::Value>,
    rules: &Rules,
    report: &Report,
) -> Replaced {
    let said = |entry: &Entry<R::Value>| {
        entry.value.as_ref().map_or_else(|| "-".to_owned(), R::write_value)
    };
    let at = |entry: &Entry<R::Value>| (entry.stamp.time.0, entry.stamp.origin);
    let (kept_at, lost_at) = (at(kept), at(lost));
    let is_right = |stamp: &Stamp| !report.ahead.iter().any(|ahead| ahead.manager == stamp.origin);
    let apart = kept_at.0.saturating_sub(lost_at.0) > rules.tolerance.0;
    let by_clock = apart && is_right(&kept.stamp) && is_right(&lost.stamp);
    Replaced {
        table: R::NAME,
        key: R::write_key(key),
        kept: said(kept),
        kept_at,
        lost: said(lost),
        lost_at,
        // One manager's own stamps are always in order.
        ordered: by_clock || kept_at.1 == lost_at.1 && kept.stamp != lost.stamp,
    }
}

/// What the absorbed subnet's things are now: another merge with it, or with a copy, finds them.
fn remember(into: &mut Snapshot, absorbed: &Snapshot, map: &Map) {
    let now = |number: &Number| match *number {
        Number::Partition(number) => Number::Partition(map.partition(number)),
        Number::Group(mgid) => Number::Group(map.mgid(mgid)),
        Number::Service(id) => Number::Service(map.services.get(&id).copied().unwrap_or(id)),
        Number::Alias(guid) => Number::Alias(map.guid(guid)),
    };
    for (identity, is) in &absorbed.were {
        if identity.0 != into.master {
            into.were.entry(*identity).or_insert_with(|| now(is));
        }
    }
    if absorbed.master == into.master {
        return;
    }
    let partitions = absorbed.partitions.keys().filter(|number| **number != DEFAULT_PARTITION);
    let mut own: Vec<Number> = partitions.map(|number| Number::Partition(*number)).collect();
    // What a name of IP means follows from its partition.
    let by_name = |mgid: &&snin_mad::Gid| {
        key_in_name(**mgid).is_none() || map.mgid(**mgid) != map.name(**mgid)
    };
    own.extend(absorbed.groups.keys().filter(by_name).map(|mgid| Number::Group(*mgid)));
    own.extend(absorbed.services.keys().map(|(id, ..)| Number::Service(*id)));
    own.extend(map.aliases.keys().map(|guid| Number::Alias(*guid)));
    for number in own {
        into.were.entry((absorbed.master, number)).or_insert_with(|| now(&number));
    }
}
