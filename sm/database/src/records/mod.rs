//! The subnet database (SMDB): the one place where what is known of the subnet lives.
//!
//! It is a set of typed tables. Every record has a [`Stamp`], that of its last change; a record that did not
//! change keeps its stamp, however often it is written. Changes are appended to a log; a follower keeps
//! a cursor and asks for what came after it ([`Database::since`]). A record that is removed leaves a
//! tombstone for as long as its removal is in the log.
//!
//! The sweep writes what it found and programmed, once a stage; administration writes groups, members,
//! services, subscriptions. Ports are found by address and by GUID too.

mod kept;
mod kinds;
mod stamp;
mod table;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_fabric::{Guid, Lid};
use snin_protocol::Time;

pub use kept::{Kept, KeptRecord};
pub use kinds::{
    Aliases, Change, Group, Groups, Kind, Links, Manager, Managers, Member, MemberKey, Members,
    Node, Nodes, Pins, Place, Port, Ports, Programs, Service, ServiceKey, Services, Slice, Slices,
    Subscriber, Subscription, Subscriptions,
};
pub use stamp::{Clock, Stamp};
pub use table::Records;

pub use crate::programmed::Programmed;

use kinds::Tables;

/// Changes that the log holds. A follower that is further behind begins with a snapshot.
const LOG: usize = 1 << 16;

/// Everything that is known of a subnet.
#[derive(Debug)]
pub struct Database {
    tables: Tables,
    clock: Clock,
    log: VecDeque<(Change, Stamp)>,
    /// The number of the log's first change.
    first: u64,
    by_lid: BTreeMap<Lid, Place>,
    /// Further ports with a first address that another one has.
    clashes: BTreeMap<Lid, BTreeSet<Place>>,
    by_guid: BTreeMap<Guid, Place>,
    /// Services whose leases end.
    by_lease: BTreeSet<(Time, ServiceKey)>,
    /// Ports' own GUIDs.
    by_alias: BTreeMap<Guid, Guid>,
}

impl Database {
    /// An empty one, whose changes are stamped as made by `origin`.
    pub fn new(origin: Guid) -> Self {
        Self {
            tables: Tables::default(),
            clock: Clock::new(origin),
            log: VecDeque::new(),
            first: 0,
            by_lid: BTreeMap::new(),
            clashes: BTreeMap::new(),
            by_guid: BTreeMap::new(),
            by_lease: BTreeSet::new(),
            by_alias: BTreeMap::new(),
        }
    }

    /// The manager that makes the changes from now on.
    pub const fn set_origin(&mut self, origin: Guid) {
        self.clock.set_origin(origin);
    }

    /// Stamps are in the time of the epoch: what has to be added to `now` for that.
    pub const fn set_epoch(&mut self, epoch: Time) {
        self.clock.set_epoch(epoch);
    }

    /// What the clock of its stamps reads.
    pub fn clock(&self, now: Time) -> Time {
        self.clock.read(now)
    }

    /// The record, if there is one.
    pub fn get<K: Kind>(&self, key: &K::Key) -> Option<&K::Value> {
        K::table(&self.tables).get(key)
    }

    /// All records of a kind, in the order of their keys.
    pub fn all<K: Kind>(&self) -> &Records<K::Key, K::Value> {
        K::table(&self.tables)
    }

    /// The stamp of the record's last change, of its removal too.
    pub fn stamp<K: Kind>(&self, key: &K::Key) -> Option<Stamp> {
        K::table(&self.tables).stamp(key)
    }

    /// Writes a record; `false`, and no change, where it is as it was.
    pub fn put<K: Kind>(&mut self, key: K::Key, value: K::Value, now: Time) -> bool {
        if self.get::<K>(&key) == Some(&value) {
            return false;
        }
        K::index(self, &key, Some(&value));
        let stamp = self.clock.tick(now);
        K::table_mut(&mut self.tables).put(key.clone(), value, stamp);
        self.note(K::change(key), stamp);
        true
    }

    /// Removes a record; what it was.
    pub fn remove<K: Kind>(&mut self, key: &K::Key, now: Time) -> Option<K::Value> {
        self.get::<K>(key)?;
        K::index(self, key, None);
        let stamp = self.clock.tick(now);
        let old = K::table_mut(&mut self.tables).remove(key, stamp);
        self.note(K::change(key.clone()), stamp);
        old
    }

    /// Removes every record of a kind that `stays` does not name; their keys.
    pub fn retain<K: Kind>(&mut self, now: Time, stays: impl Fn(&K::Key) -> bool) -> Vec<K::Key> {
        let gone = self.all::<K>().iter().map(|(key, _)| key).filter(|key| !stays(key));
        let gone: Vec<K::Key> = gone.cloned().collect();
        for key in &gone {
            self.remove::<K>(key, now);
        }
        gone
    }

    fn note(&mut self, change: Change, stamp: Stamp) {
        self.log.push_back((change, stamp));
        if self.log.len() > LOG
            && let Some((old, stamp)) = self.log.pop_front()
        {
            self.first += 1;
            // A tombstone has done its duty.
            old.bury(&mut self.tables, stamp);
        }
    }

    /// Where the log ends: the cursor of a follower that has everything.
    pub fn cursor(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// What was changed from `cursor` on, in order; `None` where the log does not reach back so far.
    pub fn since(&self, cursor: u64) -> Option<impl Iterator<Item = &Change>> {
        let skipped = cursor.checked_sub(self.first)?;
        let skipped = usize::try_from(skipped).ok()?;
        Some(self.log.iter().skip(skipped).map(|(change, _)| change))
    }

    /// The port with an address: of a range any.
    pub fn by_lid(&self, lid: Lid) -> Option<(Place, &Port)> {
        let (_, &place) = self.by_lid.range(..=lid).next_back()?;
        let port = self.get::<Ports>(&place)?;
        port.holds(lid).then_some((place, port))
    }

    /// The addressed port with this GUID, or with this alias.
    pub fn by_guid(&self, guid: Guid) -> Option<(Place, &Port)> {
        // A port's own GUID goes before one that another port only asked for.
        let by_alias = || self.by_guid.get(self.by_alias.get(&guid)?);
        let &place = self.by_guid.get(&guid).or_else(by_alias)?;
        Some((place, self.get::<Ports>(&place)?))
    }

    /// Whether some port has this GUID, or is to have it once it is found.
    pub fn knows(&self, guid: Guid) -> bool {
        self.by_guid.contains_key(&guid) || self.by_alias.contains_key(&guid)
    }

    /// Every port that has an address of its own: those of adapters, and port 0 of switches.
    pub fn ends(&self) -> impl Iterator<Item = (Place, &Port)> {
        let end = |&place| Some((place, self.get::<Ports>(&place)?));
        self.by_lid.values().filter_map(end)
    }

    /// The service whose lease ends first, and when.
    pub fn first_lease(&self) -> Option<(Time, ServiceKey)> {
        self.by_lease.first().copied()
    }

    /// The ports of a node.
    pub fn ports_of(&self, node: Guid) -> impl Iterator<Item = (Place, &Port)> {
        let all = (node, snin_fabric::PortNum(0))..=(node, snin_fabric::PortNum(u8::MAX));
        self.all::<Ports>().range(all).map(|(&place, port)| (place, port))
    }
}

#[cfg(test)]
mod tests {
    use snin_fabric::{Lmc, PortNum};
    use snin_mad::PortInfo;

    use super::*;

    fn port(lid: u16, lmc: u8) -> Port {
        let lmc = Lmc::new(lmc).unwrap();
        let info = PortInfo { lid: Lid(lid), lmc, ..PortInfo::default() };
        Port { guid: Some(Guid(u64::from(lid) + 100)), ..Port::of(info, Lid(lid), lmc) }
    }

    #[test]
    fn what_does_not_change_keeps_its_stamp() {
        let mut database = Database::new(Guid(1));
        let place = (Guid(7), PortNum(1));
        assert!(database.put::<Ports>(place, port(4, 2), Time(10)));
        let first = database.stamp::<Ports>(&place).unwrap();
        assert!(!database.put::<Ports>(place, port(4, 2), Time(20)));
        assert_eq!(database.stamp::<Ports>(&place), Some(first));
        // The clock of the machine was set back: stamps go on all the same.
        assert!(database.put::<Ports>(place, port(8, 2), Time(5)));
        assert!(database.stamp::<Ports>(&place).unwrap() > first);
        assert_eq!(database.cursor(), 2);
    }

    #[test]
    fn ports_are_found_by_every_address_and_by_guid() {
        let mut database = Database::new(Guid(1));
        let (a, b) = ((Guid(7), PortNum(1)), (Guid(8), PortNum(1)));
        database.put::<Ports>(a, port(4, 2), Time(1));
        database.put::<Ports>(b, port(8, 0), Time(1));
        let found = |database: &Database, lid| database.by_lid(Lid(lid)).map(|(place, _)| place);
        assert_eq!(
            [3, 4, 7, 8, 9].map(|lid| found(&database, lid)),
            [None, Some(a), Some(a), Some(b), None]
        );
        assert_eq!(database.by_guid(Guid(104)).unwrap().0, a);
        database.put::<Ports>(a, port(16, 2), Time(2));
        assert_eq!([4, 19].map(|lid| found(&database, lid)), [None, Some(a)]);
        assert_eq!(database.by_guid(Guid(104)), None);
        // Two subnets that were just cabled together: the port that was there first is found, then and afterwards.
        let c = (Guid(9), PortNum(1));
        database.put::<Ports>(c, port(16, 2), Time(3));
        assert_eq!(found(&database, 16), Some(a));
        database.put::<Ports>(c, port(32, 2), Time(4));
        assert_eq!([16, 32].map(|lid| found(&database, lid)), [Some(a), Some(c)]);
        database.put::<Ports>(c, port(16, 2), Time(5));
        database.remove::<Ports>(&a, Time(6));
        assert_eq!(found(&database, 19), Some(c));
        database.remove::<Ports>(&c, Time(7));
        assert_eq!(found(&database, 19), None);
        assert_eq!(database.ends().count(), 1);
    }

    #[test]
    fn the_log_is_followed_by_a_cursor_and_does_not_grow() {
        let mut database = Database::new(Guid(1));
        let key = |n| (Guid(n), PortNum(1));
        for n in 0..10 {
            database.put::<Links>(key(n), key(n + 1), Time(n));
        }
        database.remove::<Links>(&key(3), Time(11));
        let seen: Vec<_> = database.since(8).unwrap().cloned().collect();
        assert_eq!(seen, [Change::Links(key(8)), Change::Links(key(9)), Change::Links(key(3))]);
        assert!(database.stamp::<Links>(&key(3)).is_some(), "a tombstone");
        for n in 0..2 * LOG as u64 {
            database.put::<Links>(key(1 << 40), key(n), Time(n));
        }
        assert!(database.since(8).is_none());
        assert_eq!(database.log.len(), LOG);
        assert!(database.stamp::<Links>(&key(3)).is_none(), "buried");
        assert!(database.get::<Links>(&key(4)).is_some());
    }
}
