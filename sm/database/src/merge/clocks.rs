//! Clocks that ran ahead: noticed, and set back.
//!
//! No stamp that was made can be later than now. One that is shows by how much its maker's clock is ahead at
//! least. All stamps of that maker are set back by the most that is known, so that their order among themselves
//! stays, and the latest of them is no later than now. How far they were set back is kept with the database
//! ([`Snapshot::ahead`]): another merge with an older copy sets that back by as much.

use std::collections::BTreeMap;

use snin_fabric::Guid;
use snin_protocol::Time;

use super::row::{Row, each_row};
use super::snapshot::Snapshot;
use crate::records::Stamp;

/// By how much the stamps of every maker are to be set back, from what its clock read. `tolerance`: what a
/// clock may be ahead.
pub(super) fn ahead(databases: &[Snapshot], now: Time, tolerance: Time) -> BTreeMap<Guid, u64> {
    let mut latest: BTreeMap<Guid, u64> = BTreeMap::new();
    let mut ahead: BTreeMap<Guid, u64> = BTreeMap::new();
    for database in databases {
        for (&origin, &by) in &database.ahead {
            let most = ahead.entry(origin).or_default();
            *most = by.max(*most);
        }
        let back = |origin: &Guid| database.ahead.get(origin).copied().unwrap_or(0);
        let mut note = |origin: Guid, time: Time| {
            let read = time.0.saturating_add(back(&origin));
            let last = latest.entry(origin).or_default();
            *last = read.max(*last);
        };
        note(database.master, database.clock);
        for stamp in stamps(database) {
            note(stamp.origin, stamp.time);
        }
    }
    for (origin, read) in latest {
        let by = read.saturating_sub(now.0);
        if by > tolerance.0 {
            let most = ahead.entry(origin).or_default();
            *most = by.max(*most);
        }
    }
    ahead
}

/// Sets a database's stamps back, as far as they are not.
pub(super) fn set_back(database: &mut Snapshot, ahead: &BTreeMap<Guid, u64>) {
    let done = std::mem::take(&mut database.ahead);
    let left = |origin: Guid| {
        let by = ahead.get(&origin).copied().unwrap_or(0);
        by - done.get(&origin).copied().unwrap_or(0).min(by)
    };
    database.clock = Time(database.clock.0.saturating_sub(left(database.master)));
    let back = |stamp: &mut Stamp| {
        stamp.time = Time(stamp.time.0.saturating_sub(left(stamp.origin)));
    };
    each_row!(each(database, &back));
    database.ahead.clone_from(ahead);
}

fn each<R: Row>(database: &mut Snapshot, back: &impl Fn(&mut Stamp)) {
    R::table_mut(database).values_mut().for_each(|entry| back(&mut entry.stamp));
}

fn stamps(database: &Snapshot) -> Vec<Stamp> {
    fn all<R: Row>(database: &Snapshot, stamps: &mut Vec<Stamp>) {
        stamps.extend(R::table(database).values().map(|entry| entry.stamp));
    }
    let mut stamps = Vec::with_capacity(database.len());
    each_row!(all(database, &mut stamps));
    stamps
}
