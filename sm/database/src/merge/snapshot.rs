//! A subnet database as a value: what a merge takes and gives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use snin_fabric::{Guid, Lid, Lmc};
use snin_mad::{Gid, GidPrefix, PKey};
use snin_protocol::Time;

use crate::records::{
    Aliases, Database, Group, Groups, Kind, Links, Member, MemberKey, Members, Node, Nodes, Place,
    Port, Ports, Service, ServiceKey, Services, Stamp, Subscriber, Subscription, Subscriptions,
};

/// A record and when it was last changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry<V> {
    /// The record; none where it was deleted (a tombstone).
    pub value: Option<V>,
    /// Of the last change.
    pub stamp: Stamp,
}

/// Records by key, tombstones too.
pub type Table<K, V> = BTreeMap<K, Entry<V>>;

/// A subnet, as it was before any merge: whose numbers they were.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Subnet {
    /// The name that its operator gave it.
    pub name: Box<str>,
    /// The priority of its master.
    pub priority: u8,
}

/// A partition, by the 15 bits of its P_Key. Who is in it follows from the ports' tables.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Partition {
    /// Its name, where it has one.
    pub name: Option<Box<str>>,
    /// The operator says: a partition of this number elsewhere is the same.
    pub common: bool,
}

/// The partition table that a port is to hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortTable {
    /// The subnet whose managers' settings say so, by its first master.
    pub home: Guid,
    /// Its entries, empty ones too, in their order.
    pub keys: Vec<PKey>,
}

impl PortTable {
    /// A table without the empty entries at its end.
    pub fn new(home: Guid, mut keys: Vec<PKey>) -> Self {
        keys.truncate(keys.iter().rposition(|key| key.0 != 0).map_or(1, |last| last + 1));
        Self { home, keys }
    }
}

/// Something that has a number of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Number {
    /// A partition: 15 bits of its P_Key.
    Partition(u16),
    /// A multicast group: its MGID.
    Group(Gid),
    /// A service: its ServiceID.
    Service(u64),
    /// A further GUID of a port.
    Alias(Guid),
}

/// A subnet database at one time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The port GUID of the subnet's master: whose numbers these are.
    pub master: Guid,
    /// What the master's clock read when this was written.
    pub clock: Time,
    /// The upper half of the subnet's GIDs.
    pub prefix: GidPrefix,
    /// The subnets that are in it, by the GUID of their master: the own one, and all that were merged into it.
    pub subnets: BTreeMap<Guid, Subnet>,
    /// By how many nanoseconds the stamps of a manager were set back, since its clock ran ahead.
    pub ahead: BTreeMap<Guid, u64>,
    /// What the things of merged subnets were there, and what they are here.
    pub were: BTreeMap<(Guid, Number), Number>,
    /// Switches, adapters, routers.
    pub nodes: Table<Guid, Node>,
    /// Their ports.
    pub ports: Table<Place, Port>,
    /// Cables, from each end.
    pub links: Table<Place, Place>,
    /// First address and how many of every port, of absent ones too.
    pub lids: Table<Guid, (Lid, Lmc)>,
    /// Partitions.
    pub partitions: Table<u16, Partition>,
    /// Partition tables as ports are to hold them, of absent ports too, where that is known.
    pub tables: Table<Guid, PortTable>,
    /// Multicast groups.
    pub groups: Table<Gid, Group>,
    /// The members of groups.
    pub members: Table<MemberKey, Member>,
    /// Services. Leases end by the time of the epoch.
    pub services: Table<ServiceKey, Service>,
    /// Subscriptions.
    pub subscriptions: Table<Subscriber, Subscription>,
    /// Further GUIDs of ports.
    pub aliases: Table<(Guid, u16), Guid>,
}

/// The number of the default partition, which is the same everywhere (IBA 10.9.1.2).
pub const DEFAULT_PARTITION: u16 = 0x7FFF;

impl Snapshot {
    /// One without records.
    pub fn new(master: Guid, name: &str, priority: u8) -> Self {
        let subnet = Subnet { name: name.into(), priority };
        Self {
            master,
            clock: Time::ZERO,
            prefix: GidPrefix(0xFE80_0000_0000_0000),
            subnets: [(master, subnet)].into(),
            ahead: BTreeMap::new(),
            were: BTreeMap::new(),
            nodes: Table::new(),
            ports: Table::new(),
            links: Table::new(),
            lids: Table::new(),
            partitions: Table::new(),
            tables: Table::new(),
            groups: Table::new(),
            members: Table::new(),
            services: Table::new(),
            subscriptions: Table::new(),
            aliases: Table::new(),
        }
    }

    /// What its operator calls the subnet, and its master's priority.
    pub fn own(&self) -> Option<&Subnet> {
        self.subnets.get(&self.master)
    }

    /// Takes every record of a database, with its stamps. `epoch`: what has to be added to the database's times
    /// of leases to have the time of the epoch.
    pub fn fill(&mut self, database: &Database, epoch: Time) {
        self.nodes = table::<Nodes>(database);
        self.ports = table::<Ports>(database);
        self.links = table::<Links>(database);
        self.groups = table::<Groups>(database);
        self.members = table::<Members>(database);
        self.services = table::<Services>(database);
        self.subscriptions = table::<Subscriptions>(database);
        self.aliases = table::<Aliases>(database);
        for port in self.ports.values_mut().filter_map(|entry| entry.value.as_mut()) {
            // They follow from the configuration of the manager of the port.
            port.qos_tables.clear();
        }
        for service in self.services.values_mut().filter_map(|entry| entry.value.as_mut()) {
            service.until = service.until.map(|until| until + epoch);
        }
        self.complete();
    }

    /// The partition table that a port is to hold: of several the one that its own subnet says counts.
    pub fn note_table(&mut self, port: Guid, table: PortTable) {
        let said = u64::from(table.home == self.master);
        let stamp = Stamp { time: Time(said), count: 0, origin: table.home };
        self.tables.insert(port, Entry { value: Some(table), stamp });
    }

    /// Adds the records that follow from others: addresses of ports, partitions that are named. Who makes a
    /// snapshot by hand calls it; a database and a file are complete when they are read.
    pub fn complete(&mut self) {
        self.note_addresses();
        self.note_partitions();
    }

    /// The addresses that ports have, as records of their own: what a port has beats what it was given once.
    fn note_addresses(&mut self) {
        for entry in self.ports.values() {
            let Some(port) = &entry.value else { continue };
            let Some(guid) = port.guid.filter(|_| port.base != Lid::NONE) else { continue };
            let value = Some((port.base, port.lmc));
            if self.lids.get(&guid).is_none_or(|held| held.value != value) {
                self.lids.insert(guid, Entry { value, stamp: entry.stamp });
            }
        }
    }

    /// Every partition that a record names. One that no port is in may be named by a group.
    fn note_partitions(&mut self) {
        let mut found: BTreeMap<u16, Stamp> = BTreeMap::new();
        let mut note = |number: u16, stamp: Stamp| {
            if number != 0 {
                let last = found.entry(number).or_insert(stamp);
                *last = stamp.max(*last);
            }
        };
        for entry in self.ports.values() {
            let keys = entry.value.iter().flat_map(Port::partitions);
            keys.for_each(|key| note(key.base(), entry.stamp));
        }
        for entry in self.tables.values() {
            let keys = entry.value.iter().flat_map(|table| &table.keys);
            keys.for_each(|key| note(key.base(), entry.stamp));
        }
        for entry in self.groups.values() {
            if let Some(group) = &entry.value {
                note(group.record.p_key.base(), entry.stamp);
            }
        }
        for ((.., key), entry) in &self.services {
            note(key & 0x7FFF, entry.stamp);
        }
        for (number, stamp) in found {
            let value = Some(Partition::default());
            self.partitions.entry(number).or_insert(Entry { value, stamp });
        }
    }

    /// Ports of a partition: those whose table holds its key.
    pub fn in_partition(&self, number: u16) -> impl Iterator<Item = (Place, &Port)> {
        let live = |(&place, entry): (&Place, &'_ Entry<Port>)| (place, entry.value.is_some());
        let holds = move |port: &Port| port.partitions().any(|key| key.base() == number);
        self.ports.iter().filter(move |all| live(*all).1).filter_map(move |(&place, entry)| {
            entry.value.as_ref().filter(|port| holds(port)).map(|port| (place, port))
        })
    }

    /// How many records there are, tombstones included.
    pub fn len(&self) -> usize {
        self.nodes.len()
            + self.ports.len()
            + self.links.len()
            + self.lids.len()
            + self.partitions.len()
            + self.tables.len()
            + self.groups.len()
            + self.members.len()
            + self.services.len()
            + self.subscriptions.len()
            + self.aliases.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn table<K>(database: &Database) -> Table<K::Key, K::Value>
where
    K: Kind,
    K::Value: Clone,
{
    let all = database.all::<K>().entries();
    all.map(|(key, value, stamp)| (key.clone(), Entry { value: value.cloned(), stamp })).collect()
}
