//! Judges a merge by its inputs and its result alone.
//!
//! It shares nothing with the merge but the types of a snapshot. It takes the maps of numbers from the result
//! itself - which LID a GUID has there, what a thing was - and applies them to the bytes of every input record,
//! at the places that the specification gives. Of all records that come to one key the latest has to be in the
//! result, byte for byte, and nothing else may be there. So an occurrence that was missed, a record that was
//! lost, one from nowhere, and a deletion that was forgotten are found; and two things with one number.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::Guid;
use snin_mad::{Gid, Table};

use super::{Number, Rules, Snapshot};
use crate::records::Stamp;

mod image;
mod numbers;

use image::Image;

/// Findings that are told.
const MOST: usize = 100;

/// A record as text and bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Flat {
    table: &'static str,
    key: String,
    value: Option<Vec<u8>>,
    stamp: Stamp,
}

/// What is wrong with a merge of these databases; nothing, where all is right.
pub fn check(before: &[Snapshot], rules: &Rules, merged: &Snapshot) -> Vec<String> {
    let mut wrong = Vec::new();
    survivor(before, rules, merged, &mut wrong);
    numbers::unique(merged, &mut wrong);
    let mut candidates: BTreeMap<(&'static str, String), Vec<Flat>> = BTreeMap::new();
    let mut shared: BTreeSet<BTreeSet<[u8; 16]>> = BTreeSet::new();
    for database in before {
        let image = Image::of(database, merged, &mut wrong);
        shared.extend(image.groups_of_one_address());
        for mut flat in image.records() {
            flat.stamp = corrected(database, merged, flat.stamp);
            candidates.entry((flat.table, flat.key.clone())).or_default().push(flat);
        }
    }
    let is = Image::identity(merged).records();
    let mut there: BTreeSet<(&'static str, String)> = BTreeSet::new();
    for flat in is {
        let key = (flat.table, flat.key.clone());
        match candidates.get(&key) {
            None => wrong.push(format!("{} {}: from nowhere", key.0, key.1)),
            Some(all) => judge(&flat, all, &mut wrong),
        }
        there.insert(key);
    }
    let lost = candidates.keys().filter(|key| !there.contains(*key));
    wrong.extend(lost.map(|(table, key)| format!("{table} {key}: lost")));
    addresses_apart(merged, &shared, &mut wrong);
    partitions_apart(before, rules, merged, &mut wrong);
    wrong.truncate(MOST);
    wrong
}

/// The right one survived, and its numbers stayed.
fn survivor(before: &[Snapshot], rules: &Rules, merged: &Snapshot, wrong: &mut Vec<String>) {
    let mut best: Option<(u8, u64)> = None;
    for database in before {
        let priority = database.subnets.get(&database.master).map_or(0, |subnet| subnet.priority);
        let own = (priority, u64::MAX - database.master.0);
        best = best.max(Some(own));
    }
    let best = best.map(|(_, guid)| Guid(u64::MAX - guid));
    if Some(merged.master) != rules.keep.or(best) {
        wrong.push(format!("{} survives: wrong", merged.master));
    }
    let own = before.iter().filter(|database| database.master == merged.master);
    let copies = own.clone().count();
    // Of two copies of one subnet the newer has the say: either's numbers are right.
    for database in own.filter(|_| copies == 1) {
        for (guid, entry) in &database.lids {
            let now = merged.lids.get(guid).and_then(|entry| entry.value);
            if entry.value.is_some() && now != entry.value {
                wrong.push(format!("the survivor's LID of {guid} has changed"));
            }
        }
        for (mgid, entry) in &database.groups {
            let mlid = |group: &crate::records::Group| group.record.mlid;
            let was = entry.value.as_ref().map(mlid);
            let now = merged.groups.get(mgid).and_then(|entry| entry.value.as_ref()).map(mlid);
            if let (Some(was), Some(now)) = (was, now)
                && was != now
            {
                wrong.push(format!("the survivor's MLID of {mgid} has changed"));
            }
        }
    }
}

/// The stamp as the result has it: clocks that ran ahead were set back.
fn corrected(database: &Snapshot, merged: &Snapshot, stamp: Stamp) -> Stamp {
    let of = |of: &Snapshot| of.ahead.get(&stamp.origin).copied().unwrap_or(0);
    let mut back = stamp;
    back.time.0 = stamp.time.0.saturating_sub(of(merged).saturating_sub(of(database)));
    back
}

/// Groups have one address only where they had in some database.
fn addresses_apart(
    merged: &Snapshot,
    shared: &BTreeSet<BTreeSet<[u8; 16]>>,
    wrong: &mut Vec<String>,
) {
    for together in Image::identity(merged).groups_of_one_address() {
        if together.len() > 1 && !shared.iter().any(|before| before.is_superset(&together)) {
            let names: Vec<String> = together.iter().map(|name| shown(name)).collect();
            wrong.push(format!("{} have one MLID", names.join(" and ")));
        }
    }
}

/// The record is the latest of those that came to its key.
fn judge(flat: &Flat, all: &[Flat], wrong: &mut Vec<String>) {
    let Some(latest) = all.iter().map(|other| other.stamp).max() else { return };
    let name = format!("{} {}", flat.table, flat.key);
    if flat.stamp != latest {
        return wrong.push(format!("{name}: a later record was dropped"));
    }
    let mut of_it = all.iter().filter(|other| other.stamp == latest);
    if of_it.any(|other| other.value == flat.value) {
        return;
    }
    let what = all.iter().find(|other| other.stamp == latest).map(|other| &other.value);
    wrong.push(match (&flat.value, what) {
        (Some(_), Some(None)) => format!("{name}: it was deleted, and is there again"),
        (None, _) => format!("{name}: it is gone, and nobody deleted it"),
        (Some(is), Some(Some(expected))) => {
            let at = is.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(is.len());
            format!("{name}: byte {at} is not what it should be: a number was missed")
        }
        (Some(_), None) => format!("{name}: from nowhere"),
    });
}

/// Partitions of one number now were the same before.
fn partitions_apart(
    before: &[Snapshot],
    rules: &Rules,
    merged: &Snapshot,
    wrong: &mut Vec<String>,
) {
    let mut now: BTreeMap<u16, Vec<(usize, u16)>> = BTreeMap::new();
    for (n, database) in before.iter().enumerate() {
        for &number in database.partitions.keys().filter(|number| **number != 0x7FFF) {
            let is = match merged.were.get(&(database.master, Number::Partition(number))) {
                Some(Number::Partition(is)) => *is,
                _ => number,
            };
            now.entry(is).or_default().push((n, number));
        }
    }
    for (is, mut left) in now {
        // All have to be reached from the first by what makes two the same.
        let Some(first) = left.pop() else { continue };
        let mut reached = vec![first];
        while let Some(place) = left
            .iter()
            .position(|other| reached.iter().any(|known| same(before, rules, *known, *other)))
        {
            reached.push(left.swap_remove(place));
        }
        if let Some((n, number)) = left.first() {
            let of = before[*n].master;
            wrong.push(format!("partition {is:#06x} has {number:#06x} of {of} in it, a stranger"));
        }
    }
}

fn same(before: &[Snapshot], rules: &Rules, a: (usize, u16), b: (usize, u16)) -> bool {
    let (one, other) = (&before[a.0], &before[b.0]);
    if one.master == other.master && a.1 == b.1 {
        return true;
    }
    let is_known = |of: &Snapshot, here: u16, home: &Snapshot, there: u16| {
        let is = of.were.get(&(home.master, Number::Partition(there)));
        is == Some(&Number::Partition(here))
    };
    if is_known(one, a.1, other, b.1) || is_known(other, b.1, one, a.1) {
        return true;
    }
    // A third one that both absorbed.
    let third = one.were.iter().filter(|(_, is)| **is == Number::Partition(a.1));
    for ((home, was), _) in third {
        let by_other = other.were.get(&(*home, *was)) == Some(&Number::Partition(b.1));
        if by_other || *home == other.master && *was == Number::Partition(b.1) {
            return true;
        }
    }
    let record = |of: &Snapshot, number| {
        of.partitions.get(&number).and_then(|entry| entry.value.clone()).unwrap_or_default()
    };
    let (p, q) = (record(one, a.1), record(other, b.1));
    if a.1 == b.1 && (rules.common.contains(&a.1) || p.common && q.common) {
        return true;
    }
    let was = |of: &Snapshot, number: u16| -> BTreeSet<u16> {
        let mut numbers: BTreeSet<u16> = [number].into();
        for ((_, was), is) in &of.were {
            if let (Number::Partition(was), Number::Partition(is)) = (was, is)
                && *is == number
            {
                numbers.insert(*was);
            }
        }
        numbers
    };
    let numbers_meet = !was(one, a.1).is_disjoint(&was(other, b.1));
    let holders = |of: &Snapshot, number: u16| -> BTreeSet<(u64, u8, u16)> {
        let mut holders = BTreeSet::new();
        for ((node, port), entry) in &of.ports {
            let keys = entry.value.iter().flat_map(|port| port.keys.as_flattened());
            let held =
                keys.filter(|key| key.0 & 0x7FFF == number).fold(0, |held, key| held | key.0);
            if held != 0 {
                holders.insert((node.0, port.0, held & 0x8000));
            }
        }
        holders
    };
    numbers_meet
        && match (p.name, q.name) {
            (Some(p), Some(q)) => p == q,
            (None, None) => holders(one, a.1) == holders(other, b.1),
            _ => false,
        }
}

/// The bytes of a structure.
fn bytes<T: Table>(value: &T) -> Vec<u8> {
    let mut data = T::ZERO;
    value.emit(&mut data);
    data.as_ref().to_vec()
}

/// What a GID looks like to a person.
fn shown(gid: &[u8]) -> String {
    let mut whole = [0; 16];
    whole.iter_mut().zip(gid).for_each(|(to, from)| *to = *from);
    Gid(whole).to_string()
}
