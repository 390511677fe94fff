//! Several subnet databases become one.
//!
//! Two subnets that are cabled together have numbers in common: LIDs, P_Keys, MLIDs, names that managers made
//! up. [`merge`] is one pure function of any number of [`Snapshot`]s, the same in every order:
//!
//! 1. One subnet survives with its numbers: the one that is to be kept, else the one whose master has the highest
//!    priority, and of these the lowest GUID.
//! 2. Clocks that ran ahead are noticed, and their stamps set back.
//! 3. Of every other, in that order, what has a number that means something else in what survives gets a new one,
//!    at every occurrence. What is the same keeps the survivor's: the port of one GUID, the default partition, a
//!    partition that the operator declared common, one of the same name, one without a name and with the same
//!    ports, and all that an earlier merge renumbered.
//! 4. Of two records of one key the later counts, deletions too; of one time, the one of the higher origin.
//! 5. What was changed, replaced, could not be ordered, and who has to be told is in the [`Report`].
//!
//! [`check`] judges the result and shares no code with it.

mod assign;
pub mod check;
mod clocks;
pub mod file;
mod join;
mod lineage;
mod map;
mod report;
pub mod row;
mod seen;
mod snapshot;
mod taken;
mod tell;
pub mod words;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::{Guid, Lid};
use snin_protocol::Time;

pub use file::{BadFile, read, write};

pub use lineage::{Gathering, Lineage};
pub use report::{Ahead, Renumbered, Replaced, Report, Tell, Widened};
pub use snapshot::{
    DEFAULT_PARTITION, Entry, Number, Partition, PortTable, Snapshot, Subnet, Table,
};

use assign::Assign;
use taken::Taken;

/// What the operator says of a merge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The subnet whose numbers stay, by the GUID of its master.
    pub keep: Option<Guid>,
    /// Partitions that are the same wherever they have this number, by the 15 bits of their P_Key.
    pub common: BTreeSet<u16>,
    /// The time of the epoch.
    pub now: Time,
    /// What a clock may be ahead, and within what two clocks do not order changes.
    pub tolerance: Time,
}

impl Rules {
    /// At a time, with clocks that are right to a second.
    pub const fn at(now: Time) -> Self {
        Self { keep: None, common: BTreeSet::new(), now, tolerance: Time::secs(1) }
    }
}

/// One database of all, and what that changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Merged {
    /// The database.
    pub snapshot: Snapshot,
    /// What differs from what the subnets had.
    pub report: Report,
}

/// All numbers of a kind are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no {0} are left")]
pub struct Full(pub &'static str);

/// Databases that cannot be merged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MergeError {
    /// There is none.
    #[error("no database")]
    None,
    /// The one to be kept is not there.
    #[error("no subnet {0} is among them")]
    Keep(Guid),
    /// A database that contradicts itself.
    #[error("the database of {subnet}: {what}")]
    Contradiction {
        /// Its master.
        subnet: Guid,
        /// What is there twice.
        what: String,
    },
    /// There are too few numbers for both.
    #[error(transparent)]
    Full(#[from] Full),
}

/// Merges databases. The result is the same in every order.
///
/// # Errors
/// When one contradicts itself, or there are not enough numbers.
pub fn merge(databases: &[Snapshot], rules: &Rules) -> Result<Merged, MergeError> {
    let ahead = clocks::ahead(databases, rules.now, rules.tolerance);
    let mut databases = databases.to_vec();
    for database in &mut databases {
        clocks::set_back(database, &ahead);
        consistent(database)?;
    }
    if let Some(keep) = rules.keep
        && !databases.iter().any(|database| database.master == keep)
    {
        return Err(MergeError::Keep(keep));
    }
    databases.sort_by_cached_key(|database| rank(database, rules));
    databases.dedup();
    let mut taken = Taken::of(&databases);
    let mut databases = databases.into_iter();
    let mut snapshot = databases.next().ok_or(MergeError::None)?;
    let numbers = snapshot.partitions.keys().filter(|number| **number != DEFAULT_PARTITION);
    taken.see(numbers.map(|number| seen::Seen::of(&snapshot, *number)));
    let mut report = Report::of(&snapshot, &ahead);
    for absorbed in databases {
        let assign = Assign { rules, survivor: &snapshot, absorbed: &absorbed, taken: &mut taken };
        let map = assign.map()?;
        report.note(&absorbed, &map);
        tell::tell(&absorbed, &map, &mut report);
        join::join(&mut snapshot, absorbed, &map, rules, &mut report);
    }
    report.sort();
    Ok(Merged { snapshot, report })
}

type Rank = (bool, Reverse<u8>, Guid, Reverse<usize>, Reverse<Time>, String);

/// The least survives. Of copies of one database the one that knows more does.
fn rank(database: &Snapshot, rules: &Rules) -> Rank {
    let priority = database.own().map_or(0, |subnet| subnet.priority);
    (
        rules.keep != Some(database.master),
        Reverse(priority),
        database.master,
        Reverse(database.subnets.len()),
        Reverse(database.clock),
        write(database, true),
    )
}

/// Whether every number means one thing.
fn consistent(database: &Snapshot) -> Result<(), MergeError> {
    let twice = |what: String| Err(MergeError::Contradiction { subnet: database.master, what });
    let mut ends: BTreeMap<Lid, (usize, Guid)> = BTreeMap::new();
    for (guid, entry) in &database.lids {
        let Some((lid, lmc)) = entry.value else { continue };
        let end = lid.index() + lmc.addresses();
        let before = ends.range(..Lid(end.min(0xFFFF) as u16)).next_back();
        if let Some((_, (_, other))) = before.filter(|(_, (other, _))| *other > lid.index()) {
            return twice(format!("{guid} and {other} both have LID {lid}"));
        }
        ends.insert(lid, (end, *guid));
    }
    let mut guids: BTreeSet<Guid> = database.lids.keys().copied().collect();
    guids.extend(database.nodes.keys());
    for alias in database.aliases.values().filter_map(|entry| entry.value) {
        if !guids.insert(alias) {
            return twice(format!("the alias {alias} is there twice"));
        }
    }
    Ok(())
}
