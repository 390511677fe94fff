//! What a manager's database came from: the subnets that are in it, and what their things were there.
//!
//! It is stored with addresses and trees, before the first write that depends on it, and told to standbys.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use snin_fabric::Guid;
use snin_mad::PKey;
use snin_protocol::Time;

use super::file::{head, past};
use super::row::{Row, Tables};
use super::words::{Fields, text};
use super::{Entry, Number, Partition, PortTable, Snapshot, Subnet};
use crate::records::Stamp;

/// The most lines of the text form.
const MOST_LINES: usize = 1 << 20;

/// See the module's documentation.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Lineage {
    /// The first master of the subnet, by its port: whose numbers these are. `None`: the subnet never had one.
    pub master: Option<Guid>,
    /// The subnets that are in it, the own one too.
    pub subnets: BTreeMap<Guid, Subnet>,
    /// By how many nanoseconds the stamps of a manager were set back.
    pub ahead: BTreeMap<Guid, u64>,
    /// What the things of merged subnets were there, and what they are here.
    pub were: BTreeMap<(Guid, Number), Number>,
    /// The partition tables of ports, by GUID, as the settings of managers said them last.
    pub tables: BTreeMap<Guid, PortTable>,
    /// What the settings of managers last called partitions, by their numbers here.
    pub names: BTreeMap<u16, Box<str>>,
    /// This manager was master with this database, and no other has all of it: the next master has to.
    pub untaken: bool,
    /// Switches of subnets that were joined, until all is written: a silent host behind them may have an address
    /// still that means another port now.
    pub unwritten: BTreeSet<Guid>,
}

impl Lineage {
    /// The subnet for which the settings of a manager speak: its own one, where it made one.
    pub fn speaks_for(&self, manager: Guid) -> Option<Guid> {
        if self.subnets.contains_key(&manager) { Some(manager) } else { self.master }
    }

    /// What a thing is now that a manager's settings name.
    pub fn now(&self, manager: Guid, number: Number) -> Number {
        let was = self.speaks_for(manager).map(|home| (home, number));
        was.and_then(|was| self.were.get(&was)).copied().unwrap_or(number)
    }

    /// The partition table of a port whose own manager's settings do not say it: the one that it came with.
    pub fn table(&self, manager: Guid, port: Guid) -> Option<&[PKey]> {
        let table = self.tables.get(&port)?;
        (Some(table.home) != self.speaks_for(manager)).then_some(&*table.keys)
    }

    /// Adds what it says to a snapshot.
    pub fn fill(&self, snapshot: &mut Snapshot) {
        for (guid, subnet) in &self.subnets {
            snapshot.subnets.entry(*guid).or_insert_with(|| subnet.clone());
        }
        snapshot.ahead.clone_from(&self.ahead);
        snapshot.were.clone_from(&self.were);
        let stamp = Stamp { time: Time::ZERO, count: 0, origin: snapshot.master };
        for (&number, name) in &self.names {
            let value = Some(Partition { name: Some(name.clone()), common: false });
            snapshot.partitions.insert(number, Entry { value, stamp });
        }
        for (&port, table) in &self.tables {
            snapshot.note_table(port, table.clone());
        }
    }

    /// What a merged database came from.
    pub fn of(merged: &Snapshot) -> Self {
        let table = |(guid, entry): (&Guid, &Entry<PortTable>)| Some((*guid, entry.value.clone()?));
        let name = |(number, entry): (&u16, &Entry<Partition>)| {
            Some((*number, entry.value.clone()?.name?))
        };
        Self {
            names: merged.partitions.iter().filter_map(name).collect(),
            master: Some(merged.master),
            subnets: merged.subnets.clone(),
            ahead: merged.ahead.clone(),
            were: merged.were.clone(),
            tables: merged.tables.iter().filter_map(table).collect(),
            untaken: true,
            unwritten: BTreeSet::new(),
        }
    }

    /// Adds what was told of it later. That it is not taken, or not written, is not told.
    pub fn extend(&mut self, later: Self) {
        self.master = later.master.or(self.master);
        self.subnets.extend(later.subnets);
        self.ahead.extend(later.ahead);
        self.were.extend(later.were);
        self.tables.extend(later.tables);
        self.names.extend(later.names);
    }

    /// Its lines, but for what only the manager itself has to know.
    pub fn lines(&self, take: &mut dyn FnMut(&str)) {
        if let Some(master) = self.master {
            take(&format!("founder {master}\n"));
        }
        past(&self.subnets, &self.ahead, &self.were, take);
        for (number, name) in &self.names {
            take(&format!("named {number:#06x} {}\n", text(name)));
        }
        for (guid, PortTable { home, keys }) in &self.tables {
            let table = PortTable { home: *home, keys: keys.clone() };
            take(&format!("keys {} {}\n", Tables::write_key(guid), Tables::write_value(&table)));
        }
    }

    /// As a file.
    pub fn write(&self) -> String {
        let mut text = String::new();
        self.lines(&mut |line| text.push_str(line));
        if self.untaken {
            text.push_str("untaken\n");
        }
        for switch in &self.unwritten {
            text.push_str(&format!("unwritten {switch}\n"));
        }
        text
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// The number of a line that is not understood, from 1, and the line.
    pub fn read(text: &str) -> Result<Self, (usize, String)> {
        let mut gathered = Gathering::default();
        for (number, line) in text.lines().enumerate() {
            let mut words = Fields::new(line);
            let known = match words.word() {
                Some("untaken") => {
                    gathered.untaken = true;
                    Some(())
                }
                Some("unwritten") => words.guid().map(|switch| {
                    gathered.unwritten.insert(switch);
                }),
                Some(kind) => gathered.take(kind, &mut words),
                None => Some(()),
            };
            if number >= MOST_LINES || known.and_then(|()| words.end()).is_none() {
                return Err((number + 1, line.to_owned()));
            }
        }
        Ok(gathered.done())
    }
}

/// A lineage whose lines come one after the other.
#[derive(Debug)]
pub struct Gathering {
    snapshot: Snapshot,
    founder: Option<Guid>,
    untaken: bool,
    unwritten: BTreeSet<Guid>,
}

impl Default for Gathering {
    fn default() -> Self {
        let mut snapshot = Snapshot::new(Guid(0), "", 0);
        snapshot.subnets.clear();
        Self { snapshot, founder: None, untaken: false, unwritten: BTreeSet::new() }
    }
}

impl Gathering {
    /// Takes a line that begins with `kind`; `None` where it is none of a lineage.
    pub fn take(&mut self, kind: &str, words: &mut Fields<'_>) -> Option<()> {
        match kind {
            "founder" => self.founder = Some(words.guid()?),
            "subnet" | "ahead" | "was" => drop(head(kind, words, &mut self.snapshot)?),
            "keys" => {
                let (guid, table) = (Tables::read_key(words)?, Tables::read_value(words)?);
                let stamp = Stamp { time: Time::ZERO, count: 0, origin: table.home };
                self.snapshot.tables.insert(guid, Entry { value: Some(table), stamp });
            }
            "named" => {
                let number = u16::try_from(words.number()?).ok()?;
                let name = Some(words.text()?);
                let value = Some(Partition { name, common: false });
                let stamp = Stamp { time: Time::ZERO, count: 0, origin: Guid(0) };
                self.snapshot.partitions.insert(number, Entry { value, stamp });
            }
            _ => return None,
        }
        Some(())
    }

    /// Whether no line has come.
    pub fn is_empty(&self) -> bool {
        self.founder.is_none()
    }

    /// What the lines said.
    pub fn done(self) -> Lineage {
        let lineage = Lineage::of(&self.snapshot);
        let Self { founder, untaken, unwritten, .. } = self;
        Lineage { master: founder, untaken, unwritten, ..lineage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage() -> Lineage {
        let (north, south) = (Guid(0x11), Guid(0x22));
        let subnet = |name: &str| Subnet { name: name.into(), priority: 3 };
        let table = PortTable { home: south, keys: vec![PKey(0xFFFF), PKey(0), PKey(0x8011)] };
        Lineage {
            master: Some(north),
            subnets: [(north, subnet("north")), (south, subnet("the south"))].into(),
            ahead: [(south, 7)].into(),
            were: [((south, Number::Partition(0x10)), Number::Partition(0x11))].into(),
            tables: [(Guid(0x99), table)].into(),
            names: [(0x11, "the south's own".into())].into(),
            untaken: true,
            unwritten: [Guid(0x33), Guid(0x44)].into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for lineage in [lineage(), Lineage::default()] {
            assert_eq!(Lineage::read(&lineage.write()), Ok(lineage));
        }
        let wrong = Lineage::read("founder 0x11\nkeys 0x99 0x22 65536\n");
        assert_eq!(wrong, Err((2, "keys 0x99 0x22 65536".to_owned())));
        assert!(Lineage::read("founder 0x11 more\n").is_err());
    }

    #[test]
    fn settings_speak_for_the_subnet_of_their_manager() {
        let lineage = lineage();
        let [one, other] = [0x10, 0x11].map(Number::Partition);
        // The south's manager still says 0x10, and means 0x11.
        assert_eq!(lineage.now(Guid(0x22), one), other);
        assert_eq!(lineage.now(Guid(0x22), other), other);
        // So does no other manager.
        for manager in [Guid(0x11), Guid(0x33)] {
            assert_eq!(lineage.now(manager, one), one);
            assert_eq!(lineage.table(manager, Guid(0x99)).unwrap().len(), 3);
        }
        assert_eq!(lineage.table(Guid(0x22), Guid(0x99)), None);
    }
}
