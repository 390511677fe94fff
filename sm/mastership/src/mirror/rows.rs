//! The database as lines: the tables that are mirrored, in the form of a
//! [snapshot's file](snin_sm_database::merge::write()).

use std::collections::BTreeMap;
use std::sync::Arc;

use snin_fabric::{Guid, Lmc};
use snin_mad::MKey;
use snin_protocol::Time;

use snin_sm_database::keys::KeySecret;
use snin_sm_database::merge::file::{line, record};
use snin_sm_database::merge::row::{Lids, Row};
use snin_sm_database::merge::words::{Fields, octets, unoctets};
use snin_sm_database::merge::{Entry, Gathering, Snapshot};
use snin_sm_database::records::{
    Aliases, Change, Database, Groups, Kind, Links, Members, Nodes, Ports, Programmed, Programs,
    Services, Stamp, Subscriptions,
};
use snin_sm_database::saved::Saved;

/// The tables that have checksums, in their order.
pub(super) const TABLES: [&str; 10] = [
    "nodes",
    "ports",
    "links",
    "groups",
    "members",
    "services",
    "subscriptions",
    "aliases",
    "addresses and trees",
    "sums of forwarding tables",
];
/// Addresses, trees and sums of tables have no stamps.
const NO_STAMP: Stamp = Stamp { time: Time::ZERO, count: 0, origin: Guid(0) };

/// How records are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Telling {
    /// What has to be added to leases' ends to have the time of the epoch.
    pub(super) epoch: Time,
    /// Whether M_Keys, and what they follow from, are told.
    pub(super) secrets: bool,
    /// The operator's key of this manager's ports; 0: none.
    pub(super) given: MKey,
}

/// A table of the database that is mirrored.
trait Mirrored: Row + Kind<Key = <Self as Row>::Key, Value = <Self as Row>::Value> {
    /// The record as another manager is told it.
    fn told(value: &<Self as Row>::Value, _telling: Telling) -> <Self as Row>::Value {
        value.clone()
    }

    /// The record as this manager has it.
    fn heard(value: <Self as Row>::Value, _epoch: Time) -> <Self as Row>::Value {
        value
    }
}

impl Mirrored for Nodes {}
impl Mirrored for Links {}
impl Mirrored for Groups {}
impl Mirrored for Members {}
impl Mirrored for Subscriptions {}
impl Mirrored for Aliases {}

impl Mirrored for Ports {
    fn told(value: &<Self as Row>::Value, telling: Telling) -> <Self as Row>::Value {
        let mut value = value.clone();
        if !telling.secrets {
            value.info.m_key = MKey(0);
        }
        value
    }
}

impl Mirrored for Services {
    fn told(value: &<Self as Row>::Value, telling: Telling) -> <Self as Row>::Value {
        let mut value = value.clone();
        value.until = value.until.map(|until| until + telling.epoch);
        value
    }

    fn heard(mut value: <Self as Row>::Value, epoch: Time) -> <Self as Row>::Value {
        value.until = value.until.map(|until| until - epoch.min(until));
        value
    }
}

fn row<M: Mirrored>(
    key: &<M as Row>::Key,
    value: Option<&<M as Row>::Value>,
    stamp: Stamp,
    telling: Telling,
) -> String {
    line::<M>(key, value.map(|value| M::told(value, telling)).as_ref(), stamp)
}

fn current<M: Mirrored>(
    database: &Database,
    key: &<M as Row>::Key,
    telling: Telling,
) -> Option<String> {
    let stamp = database.stamp::<M>(key)?;
    Some(row::<M>(key, database.get::<M>(key), stamp, telling))
}

/// The record that was changed, as it is now; none where it is not mirrored, or forgotten.
pub(super) fn changed(database: &Database, change: &Change, telling: Telling) -> Option<String> {
    match change {
        Change::Nodes(key) => current::<Nodes>(database, key, telling),
        Change::Ports(key) => current::<Ports>(database, key, telling),
        Change::Links(key) => current::<Links>(database, key, telling),
        Change::Groups(key) => current::<Groups>(database, key, telling),
        Change::Members(key) => current::<Members>(database, key, telling),
        Change::Services(key) => current::<Services>(database, key, telling),
        Change::Subscriptions(key) => current::<Subscriptions>(database, key, telling),
        Change::Aliases(key) => current::<Aliases>(database, key, telling),
        Change::Programs(key) => Some(programs(*key, database.get::<Programs>(key))),
        _ => None,
    }
}

/// `tables GUID LINEAR MULTICAST LANES`: what a node's tables come to, as far as all of them is known.
fn programs(guid: Guid, programmed: Option<&Programmed>) -> String {
    let sum = |sum: Option<u64>| sum.map_or_else(|| "none".to_owned(), |sum| format!("{sum:#x}"));
    let Programmed { linear, multicast, lanes } = programmed.copied().unwrap_or_default();
    format!("tables {guid} {} {} {}\n", sum(linear), sum(multicast), sum(lanes))
}

fn sum(words: &mut Fields<'_>) -> Option<Option<u64>> {
    match words.peek()? {
        "none" => words.word().map(|_| None),
        _ => words.number().map(Some),
    }
}

fn each<M: Mirrored>(database: &Database, telling: Telling, take: &mut dyn FnMut(&str)) {
    for (key, value, stamp) in database.all::<M>().entries().filter(|(_, value, _)| value.is_some())
    {
        take(&row::<M>(key, value, stamp, telling));
    }
}

/// Every line of a table, by its place in [`TABLES`].
pub(super) fn table(
    number: usize,
    database: &Database,
    saved: &Saved,
    telling: Telling,
    take: &mut dyn FnMut(&str),
) {
    match number {
        0 => each::<Nodes>(database, telling, take),
        1 => each::<Ports>(database, telling, take),
        2 => each::<Links>(database, telling, take),
        3 => each::<Groups>(database, telling, take),
        4 => each::<Members>(database, telling, take),
        5 => each::<Services>(database, telling, take),
        6 => each::<Subscriptions>(database, telling, take),
        7 => each::<Aliases>(database, telling, take),
        8 => saved_since(&Saved::default(), saved, telling).iter().for_each(|line| take(line)),
        9 => {
            let all = database.all::<Programs>().iter();
            all.for_each(|(&guid, programmed)| take(&programs(guid, Some(programmed))));
        }
        _ => {}
    }
}

/// Number of a table's records, and the sum of their lines' hashes (FNV-1a), in any order.
pub(super) fn checksum(
    number: usize,
    database: &Database,
    saved: &Saved,
    telling: Telling,
) -> (u64, u64) {
    let (mut records, mut sum) = (0_u64, 0_u64);
    // What M_Keys follow from may have been told or not.
    let telling = Telling { secrets: telling.secrets && number != 8, ..telling };
    table(number, database, saved, telling, &mut |line| {
        records += 1;
        sum = sum.wrapping_add(hash(line));
    });
    (records, sum)
}

/// FNV-1a.
pub(super) fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    text.bytes().fold(0xCBF2_9CE4_8422_2325, step)
}

/// What has changed of addresses, trees and the secret.
pub(super) fn saved_since(before: &Saved, now: &Saved, telling: Telling) -> Vec<String> {
    let mut lines = Vec::new();
    for (guid, block) in &now.lids {
        if before.lids.get(guid) != Some(block) {
            lines.push(line::<Lids>(guid, Some(block), NO_STAMP));
        }
    }
    for guid in before.lids.keys().filter(|guid| !now.lids.contains_key(guid)) {
        lines.push(line::<Lids>(guid, None, NO_STAMP));
    }
    if let Some(lmc) = now.lmc.filter(|lmc| before.lmc != Some(*lmc)) {
        lines.push(format!("lmc {lmc}\n"));
    }
    if before.trees != now.trees {
        let trees = now.trees.iter();
        lines.extend(trees.map(|((root, plane), place)| format!("tree {root} {plane} {place}\n")));
    }
    if before.lineage != now.lineage {
        now.lineage.lines(&mut |line| lines.push(line.to_owned()));
    }
    if let Some(keys) = now.keys.as_ref().filter(|keys| before.keys.as_ref() != Some(keys))
        && telling.secrets
    {
        lines.push(format!("secret {} {}\n", octets(&keys.secret), keys.generation));
    }
    if before.former_keys != now.former_keys && telling.secrets {
        let former = now.former_keys.iter();
        lines.extend(
            former.map(|keys| format!("former {} {}\n", octets(&keys.secret), keys.generation)),
        );
    }
    lines
}

/// What parts had in them, until it is taken over.
#[derive(Debug)]
pub(super) struct Gathered {
    snapshot: Snapshot,
    saved: Saved,
    programs: BTreeMap<Guid, Programmed>,
    lineage: Gathering,
}

impl Gathered {
    pub(super) fn new() -> Self {
        let snapshot = Snapshot::new(Guid(0), "", 0);
        Self {
            snapshot,
            saved: Saved::default(),
            lineage: Gathering::default(),
            programs: BTreeMap::new(),
        }
    }

    /// Takes lines; how many were of no use. A table that this version does not have is passed over: the other
    /// manager may be of a later one.
    pub(super) fn take(&mut self, lines: &[u8]) -> usize {
        let text = String::from_utf8_lossy(lines);
        text.lines().filter(|line| self.line(line).is_none()).count()
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let mut words = Fields::new(line);
        match words.word()? {
            "lmc" => self.saved.lmc = Some(Lmc::new(words.decimal()?.try_into().ok()?)?),
            "tree" => {
                let (root, plane, place) = (words.guid()?, words.decimal()?, words.decimal()?);
                let key = (root, plane.try_into().ok()?);
                self.saved.trees.insert(key, place.try_into().ok()?);
            }
            kind @ ("secret" | "former") => {
                let secret = unoctets(words.word()?)?.try_into().ok()?;
                let generation = words.decimal()?.try_into().ok()?;
                let keys = KeySecret { secret, generation };
                match kind {
                    "secret" => self.saved.keys = Some(keys),
                    _ => self.saved.former_keys.push(keys),
                }
            }
            "tables" => {
                let guid = words.guid()?;
                let (linear, multicast) = (sum(&mut words)?, sum(&mut words)?);
                // An earlier version does not tell of lanes.
                let lanes = if words.peek().is_some() { sum(&mut words)? } else { None };
                self.programs.insert(guid, Programmed { linear, multicast, lanes });
            }
            kind if self.lineage.take(kind, &mut words).is_some() => {}
            kind => drop(record(kind, &mut words, &mut self.snapshot)?),
        }
        words.end()
    }

    /// Puts it into the database; how many records that changed. `whole`: what is not in it goes.
    pub(super) fn apply(
        mut self,
        database: &mut Database,
        saved: &mut Arc<Saved>,
        whole: bool,
        epoch: Time,
        now: Time,
    ) -> usize {
        let programs = std::mem::take(&mut self.programs);
        if whole {
            database.retain::<Programs>(now, |guid| programs.contains_key(guid));
        }
        for (guid, programmed) in programs {
            match programmed == Programmed::default() {
                true => drop(database.remove::<Programs>(&guid, now)),
                false => drop(database.put::<Programs>(guid, programmed, now)),
            }
        }
        let snapshot = &mut self.snapshot;
        let changed = put::<Nodes>(snapshot, database, whole, epoch, now)
            + put::<Ports>(snapshot, database, whole, epoch, now)
            + put::<Links>(snapshot, database, whole, epoch, now)
            + put_said(snapshot, database, whole, epoch, now);
        changed + self.save(saved, whole)
    }

    /// All parts are there: the database of another subnet, and what the keys of its ports follow from.
    pub(super) fn into_estate(self) -> Option<(Snapshot, Vec<KeySecret>)> {
        let Self { snapshot: records, lineage, saved, .. } = self;
        let keys = saved.keys.into_iter().chain(saved.former_keys).collect();
        let lineage = lineage.done();
        let master = lineage.master?;
        let named = lineage.subnets.get(&master);
        let (name, priority) = named.map_or(("", 0), |subnet| (&*subnet.name, subnet.priority));
        let bare = Snapshot::new(master, name, priority);
        let (subnets, prefix) = (bare.subnets, bare.prefix);
        let mut snapshot = Snapshot { master, subnets, prefix, ..records };
        lineage.fill(&mut snapshot);
        let ports = snapshot.ports.values().filter_map(|entry| entry.value.as_ref());
        let prefixes = ports.filter(|port| port.guid.is_some()).map(|port| port.info.gid_prefix);
        if let Some(prefix) = prefixes.max().filter(|prefix| prefix.0 != 0) {
            snapshot.prefix = prefix;
        }
        snapshot.complete();
        Some((snapshot, keys))
    }

    fn save(self, saved: &mut Arc<Saved>, whole: bool) -> usize {
        let mut new = (**saved).clone();
        if whole {
            new.lids.clear();
        }
        for (guid, Entry { value, .. }) in self.snapshot.lids {
            match value {
                Some(block) => new.lids.insert(guid, block),
                None => new.lids.remove(&guid),
            };
        }
        if whole {
            new.lineage = self.lineage.done();
        } else if !self.lineage.is_empty() {
            new.lineage.extend(self.lineage.done());
        }
        new.lmc = self.saved.lmc.or(new.lmc);
        new.keys = self.saved.keys.or(new.keys);
        new.hold_former(self.saved.former_keys);
        // They are told all or not at all.
        if whole || !self.saved.trees.is_empty() {
            new.trees = self.saved.trees;
        }
        let changed = usize::from(new != **saved);
        if changed > 0 {
            *saved = Arc::new(new);
        }
        changed
    }
}

/// Puts what hosts said into the database.
pub fn put_said(
    gathered: &mut Snapshot,
    database: &mut Database,
    whole: bool,
    epoch: Time,
    now: Time,
) -> usize {
    put::<Groups>(gathered, database, whole, epoch, now)
        + put::<Members>(gathered, database, whole, epoch, now)
        + put::<Services>(gathered, database, whole, epoch, now)
        + put::<Subscriptions>(gathered, database, whole, epoch, now)
        + put::<Aliases>(gathered, database, whole, epoch, now)
}

fn put<M: Mirrored>(
    gathered: &mut Snapshot,
    database: &mut Database,
    whole: bool,
    epoch: Time,
    now: Time,
) -> usize {
    let table = std::mem::take(<M as Row>::table_mut(gathered));
    let mut changed = 0;
    if whole {
        let stays = |key: &<M as Row>::Key| table.get(key).is_some_and(|its| its.value.is_some());
        changed += database.retain::<M>(now, stays).len();
    }
    for (key, Entry { value, stamp }) in table {
        let value = value.map(|value| M::heard(value, epoch));
        if database.get::<M>(&key) == value.as_ref() && database.stamp::<M>(&key) == Some(stamp) {
            continue;
        }
        changed += 1;
        database.set::<M>(key, value, Some(stamp));
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of another version, later or earlier: what this one does not know is passed over.
    #[test]
    fn what_this_version_does_not_know_is_passed_over() {
        let mut gathered = Gathered::new();
        let lines = "comet 0x7 1\ntables 0x7 0x1 none\nlmc 1 2\ntables 0x8 0x1 none 0x3\nlmc 2\n";
        assert_eq!(gathered.take(lines.as_bytes()), 2, "the comet, and an LMC of two words");
        let known = gathered.programs.values().map(|its| (its.linear, its.lanes));
        assert_eq!(known.collect::<Vec<_>>(), [(Some(1), None), (Some(1), Some(3))]);
        assert_eq!(gathered.saved.lmc, Lmc::new(2));
    }
}
