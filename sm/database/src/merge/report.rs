//! The report of a merge's changes.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use snin_fabric::{Guid, Lid};

use super::map::Map;
use super::snapshot::Snapshot;

/// Everything that differs from what the subnets had.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Report {
    /// The master of the subnet whose numbers stay.
    pub survivor: Guid,
    /// The name that its operator gave it.
    pub name: String,
    /// The masters of the others, in the order in which they were absorbed.
    pub absorbed: Vec<Guid>,
    /// Clocks that ran ahead.
    pub ahead: Vec<Ahead>,
    /// Things that have another number now.
    pub renumbered: Vec<Renumbered>,
    /// Records that gave way to another of the same key.
    pub replaced: Vec<Replaced>,
    /// Subscriptions to a range of addresses that is a range no more: they are told of all.
    pub widened: Vec<Widened>,
    /// Whose software may name by number what has another number now.
    pub tell: Vec<Tell>,
}

/// A clock that ran ahead.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Ahead {
    /// Whose.
    pub manager: Guid,
    /// By how many nanoseconds, at least: its stamps were set back by as many.
    pub nanos: u64,
}

/// A thing with a new number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Renumbered {
    /// The subnet, by its master.
    pub subnet: Guid,
    /// `partition`, `lid`, `group`, `mlid`, `service`, `alias` or `prefix`.
    pub kind: &'static str,
    /// What has it, where the number alone does not say so.
    pub of: String,
    /// The number there.
    pub from: String,
    /// The number now.
    pub to: String,
}

/// A record that gave way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Replaced {
    /// The table.
    pub table: &'static str,
    /// The record's key, as it is now.
    pub key: String,
    /// What counts; `-`: it is deleted.
    pub kept: String,
    /// Nanoseconds of the epoch, and who made the change.
    pub kept_at: (u64, Guid),
    /// What gave way; `-`: that it was deleted.
    pub lost: String,
    /// Nanoseconds of the epoch, and who made the change.
    pub lost_at: (u64, Guid),
    /// Whether the clocks say which was later. Where not, the later stamp counts all the same.
    pub ordered: bool,
}

/// A subscription that is told of more.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Widened {
    /// Whose.
    pub port: Guid,
    /// The addresses that were meant.
    pub from: (Lid, Lid),
}

/// A port whose admin has to be told.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Tell {
    /// The port.
    pub port: Guid,
    /// Its node's name.
    pub node: String,
    /// What has another number.
    pub kind: &'static str,
    /// The number there.
    pub from: String,
    /// The number now.
    pub to: String,
    /// What shows that it is used there.
    pub because: Vec<String>,
}

impl Report {
    pub(super) fn of(survivor: &Snapshot, ahead: &BTreeMap<Guid, u64>) -> Self {
        let ahead = ahead.iter().map(|(&manager, &nanos)| Ahead { manager, nanos });
        Self {
            survivor: survivor.master,
            name: survivor.own().map_or_else(String::new, |subnet| subnet.name.to_string()),
            ahead: ahead.collect(),
            ..Self::default()
        }
    }

    /// What a subnet that is absorbed gives up.
    pub(super) fn note(&mut self, absorbed: &Snapshot, map: &Map) {
        let subnet = absorbed.master;
        self.absorbed.push(subnet);
        let mut note = |kind, of: String, from: String, to: String| {
            if from != to {
                self.renumbered.push(Renumbered { subnet, kind, of, from, to });
            }
        };
        for (from, to) in &map.partitions {
            let name = absorbed.partitions.get(from).and_then(|entry| entry.value.as_ref());
            let name = name.and_then(|partition| partition.name.as_deref()).unwrap_or_default();
            note("partition", name.to_owned(), format!("{from:#06x}"), format!("{to:#06x}"));
        }
        for (guid, entry) in &absorbed.lids {
            let Some(had) = entry.value else { continue };
            let has = map.range(had);
            note("lid", guid.to_string(), had.0.to_string(), has.0.to_string());
            note("lmc", guid.to_string(), had.1.to_string(), has.1.to_string());
        }
        for (mgid, entry) in &absorbed.groups {
            let name = map.mgid(*mgid);
            note("group", String::new(), mgid.to_string(), name.to_string());
            let Some(group) = &entry.value else { continue };
            let (had, has) = (group.record.mlid, map.mlids.get(&name).copied());
            let has = has.unwrap_or(had);
            note("mlid", name.to_string(), format!("{:#06x}", had.0), format!("{:#06x}", has.0));
        }
        for (from, to) in &map.services {
            note("service", String::new(), format!("{from:#018x}"), format!("{to:#018x}"));
        }
        for (from, to) in &map.aliases {
            note("alias", String::new(), from.to_string(), to.to_string());
        }
        if let Some((from, to)) = map.prefix {
            note("prefix", String::new(), from.to_string(), to.to_string());
        }
    }

    pub(super) fn sort(&mut self) {
        self.renumbered.sort();
        self.replaced.sort();
        self.widened.sort();
        self.widened.dedup();
        self.tell.sort();
    }

    /// Records of which two clocks could not say which is later.
    pub fn unordered(&self) -> impl Iterator<Item = &Replaced> {
        self.replaced.iter().filter(|replaced| !replaced.ordered)
    }
}

/// For people: a line a change.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { survivor, name, .. } = self;
        writeln!(f, "the numbers of {name} ({survivor}) stay")?;
        for Ahead { manager, nanos } in &self.ahead {
            let seconds = *nanos as f64 / 1e9;
            writeln!(
                f,
                "clock: that of {manager} is {seconds:.0} s ahead: its stamps were set back"
            )?;
        }
        for Renumbered { subnet, kind, of, from, to } in &self.renumbered {
            let of = if of.is_empty() { String::new() } else { format!(" of {of}") };
            writeln!(f, "{kind}{of}: {from} -> {to} (subnet {subnet})")?;
        }
        for replaced in &self.replaced {
            let Replaced { table, key, kept, lost, kept_at, lost_at, ordered } = replaced;
            let how = if *ordered { "later" } else { "NOT ORDERED by the clocks" };
            let (kept, lost) = (format_args!("{kept:.60}"), format_args!("{lost:.60}"));
            writeln!(
                f,
                "{table} {key}: {kept} of {} at {} counts, {lost} of {} at {} does not: {how}",
                kept_at.1, kept_at.0, lost_at.1, lost_at.0
            )?;
        }
        for Widened { port, from: (begin, end) } in &self.widened {
            writeln!(
                f,
                "subscription of {port}: LIDs {begin} to {end} are no range any more: all"
            )?;
        }
        for Tell { port, node, kind, from, to, because } in &self.tell {
            writeln!(f, "tell {node} ({port}): {kind} {from} is {to} now: {}", because.join(", "))?;
        }
        Ok(())
    }
}
