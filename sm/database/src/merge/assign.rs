//! Which numbers of an absorbed subnet stay, and what the others become.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::{Guid, Lid, Lmc};
use snin_mad::Gid;

use super::map::Map;
use super::seen::Seen;
use super::snapshot::{DEFAULT_PARTITION, Entry, Number, Snapshot};
use super::taken::Taken;
use super::{Full, Rules};
use crate::records::Group;

/// Looks at what survives and at what is absorbed into it.
pub(super) struct Assign<'a> {
    pub(super) rules: &'a Rules,
    pub(super) survivor: &'a Snapshot,
    pub(super) absorbed: &'a Snapshot,
    /// Every number that any of the databases uses, and those that were given since.
    pub(super) taken: &'a mut Taken,
}

impl Assign<'_> {
    pub(super) fn map(mut self) -> Result<Map, Full> {
        let mut map = Map::default();
        if self.absorbed.master == self.survivor.master {
            // Two copies of one subnet's database: a number means the same in both.
            map.is_copy = true;
            self.lids(&mut map)?;
            self.mlids(&mut map)?;
            return Ok(map);
        }
        self.partitions(&mut map)?;
        self.lids(&mut map)?;
        self.aliases(&mut map);
        self.names(&mut map)?;
        self.mlids(&mut map)?;
        self.services(&mut map);
        let (old, new) = (self.absorbed.prefix, self.survivor.prefix);
        map.prefix = (old != new).then_some((old, new));
        let lid = |of: &Snapshot| of.lids.get(&of.master).and_then(|entry| entry.value);
        if let (Some((old, _)), Some((new, _))) = (lid(self.absorbed), lid(self.survivor)) {
            map.manager = Some((old, new));
        }
        Ok(map)
    }

    /// What something of the absorbed subnet is in the surviving one, where both know it.
    fn known(&self, number: Number) -> Option<Number> {
        let (survivor, absorbed) = (self.survivor, self.absorbed);
        let was = absorbed.were.iter().filter(|(_, is)| **is == number).map(|(was, _)| *was);
        let mut all = std::iter::once((absorbed.master, number)).chain(was);
        all.find_map(|identity| match survivor.were.get(&identity) {
            Some(is) => Some(*is),
            None => (identity.0 == survivor.master).then_some(identity.1),
        })
    }

    fn partitions(&mut self, map: &mut Map) -> Result<(), Full> {
        let mut seen = Vec::new();
        for &number in self.absorbed.partitions.keys() {
            if number == DEFAULT_PARTITION {
                continue;
            }
            let known = self.known(Number::Partition(number));
            let mut own = Seen::of(self.absorbed, number);
            let same = match known {
                Some(Number::Partition(known)) => Some(known),
                _ => self.taken.same_partition(&own, &self.rules.common),
            };
            let to = match same {
                Some(same) => same,
                None if !self.survivor.partitions.contains_key(&number) => number,
                None => self.taken.new_partition(number, self.absorbed.master)?,
            };
            if to != number {
                map.partitions.insert(number, to);
            }
            own.now = to;
            seen.push(own);
        }
        self.taken.see(seen);
        Ok(())
    }

    fn lids(&mut self, map: &mut Map) -> Result<(), Full> {
        let held = |of: &Snapshot, guid: &Guid| of.lids.get(guid).and_then(|entry| entry.value);
        let blocks = self.survivor.lids.values().filter_map(|entry| entry.value);
        let mut used = super::taken::Blocks::default();
        blocks.for_each(|block| used.take(block));
        // Reports to a subscriber whose address is no port's must not reach another port.
        let subscribers = self.survivor.subscriptions.keys();
        subscribers.for_each(|subscriber| used.take((subscriber.lid, Lmc::ZERO)));
        for (guid, entry) in &self.absorbed.lids {
            let Some((lid, lmc)) = entry.value else { continue };
            let to = match held(self.survivor, guid) {
                Some(theirs) => theirs,
                None if used.is_free((lid, lmc)) => (lid, lmc),
                None => (self.taken.new_lids(lmc)?, lmc),
            };
            used.take(to);
            map.lids.insert(lid, (lmc, to.0, to.1));
            map.of_ports.insert(*guid, to.0);
        }
        Ok(())
    }

    fn aliases(&mut self, map: &mut Map) {
        let live = |of: &Snapshot| -> BTreeMap<Guid, (Guid, u16)> {
            let live = of.aliases.iter().filter_map(|(key, entry)| Some((entry.value?, *key)));
            live.collect()
        };
        let theirs = live(self.survivor);
        for (alias, key) in live(self.absorbed) {
            let to = match self.known(Number::Alias(alias)) {
                Some(Number::Alias(known)) => known,
                _ if theirs.get(&alias).is_some_and(|other| *other != key) => {
                    self.taken.new_alias(alias, self.absorbed.master)
                }
                _ => alias,
            };
            if to != alias {
                map.aliases.insert(alias, to);
            }
        }
    }

    /// Groups of one name that are not the same.
    fn names(&mut self, map: &mut Map) -> Result<(), Full> {
        for (&mgid, entry) in &self.absorbed.groups {
            let name = map.name(mgid);
            let known = match self.known(Number::Group(mgid)) {
                Some(Number::Group(known)) => Some(known),
                _ => None,
            };
            let to = match (known, self.survivor.groups.get(&name)) {
                (Some(known), _) => known,
                (None, Some(other)) if !same_group(map, mgid, entry, other) => {
                    self.taken.new_group(name)?
                }
                _ => name,
            };
            if to != name {
                map.groups.insert(name, to);
            }
        }
        Ok(())
    }

    fn mlids(&mut self, map: &mut Map) -> Result<(), Full> {
        let live = |of: &'_ Snapshot| -> Vec<(Gid, Lid)> {
            let live = of.groups.iter();
            live.filter_map(|(mgid, entry)| Some((*mgid, entry.value.as_ref()?.record.mlid)))
                .collect()
        };
        // A group that was deleted meanwhile, and is made again, has its address back.
        let theirs = self.taken.given();
        for (mgid, mlid) in live(self.survivor) {
            theirs.entry(mgid).or_insert(mlid);
        }
        let theirs = theirs.clone();
        let used: BTreeSet<Lid> = theirs.values().copied().collect();
        let mut moved: BTreeMap<Lid, Lid> = BTreeMap::new();
        for (mgid, mlid) in live(self.absorbed) {
            let name = map.mgid(mgid);
            let to = match theirs.get(&name) {
                Some(theirs) => *theirs,
                None if !used.contains(&mlid) => mlid,
                // Groups that shared an address still do.
                None => match moved.get(&mlid) {
                    Some(to) => *to,
                    None => self.taken.new_mlid()?,
                },
            };
            if !theirs.contains_key(&name) && to != mlid {
                moved.insert(mlid, to);
            }
            map.mlids.insert(name, to);
        }
        Ok(())
    }

    /// One ServiceID under different names, in one partition, is two services.
    fn services(&mut self, map: &mut Map) {
        let names = |of: &'_ Snapshot, map: &Map| {
            let mut names: BTreeMap<u64, BTreeSet<(u16, [u8; 64])>> = BTreeMap::new();
            for ((id, _, key), entry) in &of.services {
                let names = names.entry(*id).or_default();
                if let Some(service) = &entry.value {
                    let partition = map.partition(key & 0x7FFF);
                    names.insert((partition, service.record.name.0));
                }
            }
            names
        };
        let theirs = names(self.survivor, &Map::default());
        for (id, own) in names(self.absorbed, map) {
            let to = match self.known(Number::Service(id)) {
                Some(Number::Service(known)) => known,
                _ => match theirs.get(&id) {
                    Some(theirs) if clash(&own, theirs) => {
                        self.taken.new_service(id, self.absorbed.master)
                    }
                    _ => id,
                },
            };
            if to != id {
                map.services.insert(id, to);
            }
        }
    }
}

/// Whether some partition has both, and no name of it is in both.
fn clash(own: &BTreeSet<(u16, [u8; 64])>, theirs: &BTreeSet<(u16, [u8; 64])>) -> bool {
    let partitions: BTreeSet<u16> = own.iter().map(|(partition, _)| *partition).collect();
    let shared = |partition: &u16| theirs.iter().any(|(other, _)| other == partition);
    partitions.iter().filter(|partition| shared(partition)).any(|partition| {
        own.iter().filter(|(other, _)| other == partition).all(|name| !theirs.contains(name))
    })
}

/// Whether two groups of one name are one: in one partition, and not named by a manager, whose counter says
/// nothing elsewhere.
fn same_group(map: &Map, mgid: Gid, own: &Entry<Group>, other: &Entry<Group>) -> bool {
    let partition = |key: snin_mad::PKey| map.p_key(key).base();
    let by_manager = mgid.0[2..4] == [0xA0, 0x1B];
    match (&own.value, &other.value) {
        _ if by_manager => false,
        (Some(own), Some(other)) => partition(own.record.p_key) == other.record.p_key.base(),
        _ => true,
    }
}
