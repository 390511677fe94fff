//! The tables of the database, and their records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use snin_fabric::{Guid, Lid, Lmc, PortNum};
use snin_mad::sa::{InformInfo, JoinState, McMemberRecord, ServiceRecord};
use snin_mad::{Gid, NodeInfo, PKey, PortInfo, PortState, SmInfo, SwitchInfo};
use snin_protocol::Time;

use super::{Database, Records, Stamp};
use crate::partitions::Block;
use crate::programmed::Programmed;
use crate::qos_table::{QosTable, QosTableId};

/// A port: its node's GUID and its number there.
pub type Place = (Guid, PortNum);

/// One kind of record.
pub trait Kind {
    /// What a record is found by.
    type Key: Ord + Clone + 'static;
    /// The type of its values.
    type Value: PartialEq + 'static;

    #[doc(hidden)]
    fn table(tables: &Tables) -> &Records<Self::Key, Self::Value>;
    #[doc(hidden)]
    fn table_mut(tables: &mut Tables) -> &mut Records<Self::Key, Self::Value>;
    #[doc(hidden)]
    fn change(key: Self::Key) -> Change;
    /// The record will be `new`, or is removed: the indexes follow.
    #[doc(hidden)]
    fn index(_database: &mut Database, _key: &Self::Key, _new: Option<&Self::Value>) {}
}

macro_rules! kinds {
    ($($(#[$meta:meta])* $field:ident: $kind:ident($key:ty => $value:ty) $(index $index:path)?;)*) => {
        #[doc(hidden)]
        #[derive(Debug, Default)]
        pub struct Tables {
            $($field: Records<$key, $value>,)*
        }

        /// A record that was written or removed: which, not what it is now.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Change {
            $($(#[$meta])* $kind($key),)*
        }

        impl Change {
            /// Forgets the tombstone with this stamp.
            pub(super) fn bury(&self, tables: &mut Tables, stamp: Stamp) {
                match self {
                    $(Self::$kind(key) => tables.$field.bury(key, stamp),)*
                }
            }
        }

        $(
            $(#[$meta])*
            #[derive(Debug)]
            pub struct $kind;

            impl Kind for $kind {
                type Key = $key;
                type Value = $value;

                fn table(tables: &Tables) -> &Records<$key, $value> {
                    &tables.$field
                }

                fn table_mut(tables: &mut Tables) -> &mut Records<$key, $value> {
                    &mut tables.$field
                }

                fn change(key: $key) -> Change {
                    Change::$kind(key)
                }

                $(fn index(database: &mut Database, key: &$key, new: Option<&$value>) {
                    $index(database, key, new);
                })?
            }
        )*
    };
}

kinds! {
    /// Switches, adapters, routers.
    nodes: Nodes(Guid => Node);
    /// Their ports.
    ports: Ports(Place => Port) index index_port;
    /// Cables: from either end the other.
    links: Links(Place => Place);
    /// What the tables of switches come to.
    programs: Programs(Guid => Programmed);
    /// Subnet managers, by their port's GUID.
    managers: Managers(Guid => Manager);
    /// Multicast groups.
    groups: Groups(Gid => Group);
    /// The members of groups.
    members: Members(MemberKey => Member);
    /// Services that ports offer.
    services: Services(ServiceKey => Service) index index_lease;
    /// The subscribers, and what they want to be told of.
    subscriptions: Subscriptions(Subscriber => Subscription);
    /// Further GUIDs of ports, by the port's own and the entry's number.
    aliases: Aliases((Guid, u16) => Guid) index index_alias;
    /// Which of a port's addresses the controller pinned for which sender, by the GUIDs of both ports.
    pins: Pins((Guid, Guid) => Lid);
    /// Which job's slice a port is in.
    slices: Slices(Guid => Slice);
}

impl Tables {
    /// How many records have to survive a restart.
    pub(super) const fn kept_len(&self) -> usize {
        self.groups.len()
            + self.members.len()
            + self.services.len()
            + self.subscriptions.len()
            + self.aliases.len()
    }
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its own description, as its first port gives it.
    pub info: NodeInfo,
    /// NodeDescription.
    pub name: Box<str>,
    /// What it says of itself as a switch.
    pub switch: Option<SwitchInfo>,
}

/// A port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its GUID, if it has one of its own.
    pub guid: Option<Guid>,
    /// As it was last read or written.
    pub info: PortInfo,
    /// By which it is reached: its own first address, or its switch's.
    pub base: Lid,
    /// 2 to this addresses from there on.
    pub lmc: Lmc,
    /// Which it shall have, where it is managed.
    pub assigned: Option<(Lid, Lmc)>,
    /// Its partition table as far as it was read, from its first block on.
    pub keys: Vec<Block>,
    /// Its tables of service levels and lanes, as far as they are managed.
    pub qos_tables: BTreeMap<QosTableId, QosTable>,
}

/// A subnet manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manager {
    /// Its port.
    pub place: Place,
    /// What it says of itself.
    pub info: SmInfo,
}

/// A multicast group: what all its members have in common. The record's port and join state are zero.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Group {
    /// As it is shown.
    #[serde(with = "snin_mad::sa::serde")]
    pub record: McMemberRecord,
    /// It stays when its last member leaves.
    pub permanent: bool,
}

/// A port's place in a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slice {
    /// The job.
    pub job: u64,
    /// By which of its addresses the port is reached in the slice.
    pub lid: Lid,
}

/// A group and a port's GUID.
pub type MemberKey = (Gid, Guid);

/// A port in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// The port's GID, as it joined.
    pub port_gid: Gid,
    /// What it is in the group.
    pub state: JoinState,
    /// Another port joined in its place.
    pub proxy: bool,
}

/// Service, port, partition.
pub type ServiceKey = (u64, Gid, u16);

/// A service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Service {
    /// As it was registered.
    #[serde(with = "snin_mad::sa::serde")]
    pub record: ServiceRecord,
    /// When its lease ends.
    pub until: Option<Time>,
}

/// A subscriber's port and address, and what it subscribed to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Subscriber {
    /// The port's GUID.
    pub port: Guid,
    /// Reports go to this address.
    pub lid: Lid,
    /// ... and queue pair.
    pub qp: u32,
    /// The fields of its InformInfo that distinguish subscriptions, as bytes.
    #[serde(with = "octets")]
    pub to: [u8; 40],
}

/// A subscription.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Subscription {
    /// To what.
    #[serde(with = "snin_mad::sa::serde")]
    pub info: InformInfo,
    /// With what reports are sent.
    pub sl: u8,
    /// Whether security traps may be told.
    pub trusted: bool,
}

impl Port {
    /// One of which nothing but its PortInfo is known.
    pub fn of(info: PortInfo, base: Lid, lmc: Lmc) -> Self {
        let qos_tables = BTreeMap::new();
        Self { guid: None, info, base, lmc, assigned: None, keys: Vec::new(), qos_tables }
    }

    /// Whether it has this address.
    pub fn holds(&self, lid: Lid) -> bool {
        self.base != Lid::NONE
            && (self.base.index()..self.base.index() + self.lmc.addresses()).contains(&lid.index())
    }

    /// Whether data passes.
    pub const fn is_active(&self) -> bool {
        matches!(self.info.state, PortState::Active | PortState::ActiveDefer)
    }

    /// The partitions that it is in: without empty entries.
    pub fn partitions(&self) -> impl Iterator<Item = PKey> + '_ {
        self.keys.as_flattened().iter().copied().filter(|key| key.base() != 0)
    }
}

/// Ports with an address of their own are found by it and by their GUID: of a switch only port 0.
fn index_port(database: &mut Database, place: &Place, new: Option<&Port>) {
    if let Some(old) = database.tables.ports.get(place) {
        let (lid, guid) = (old.base, old.guid);
        let stays = new.is_some_and(|new| new.base == lid && new.guid.is_some());
        if !stays {
            release(database, lid, place);
        }
        if let Some(guid) = guid
            && database.by_guid.get(&guid) == Some(place)
        {
            database.by_guid.remove(&guid);
        }
    }
    // A port without a GUID of its own is of a switch, and not its port 0.
    if let Some(new) = new
        && let Some(guid) = new.guid.filter(|_| new.base != Lid::NONE)
    {
        // Two ports have one address where two subnets were just cabled together: the first is found by it.
        let holder = *database.by_lid.entry(new.base).or_insert(*place);
        if holder != *place {
            database.clashes.entry(new.base).or_default().insert(*place);
        }
        database.by_guid.insert(guid, *place);
    }
}

/// A port has the address no more: another one that has it too is found by it from now on.
fn release(database: &mut Database, lid: Lid, place: &Place) {
    let mut others = database.clashes.remove(&lid).unwrap_or_default();
    others.remove(place);
    if database.by_lid.get(&lid) == Some(place) {
        database.by_lid.remove(&lid);
        if let Some(next) = others.pop_first() {
            database.by_lid.insert(lid, next);
        }
    }
    if !others.is_empty() {
        database.clashes.insert(lid, others);
    }
}

/// Services by the end of their leases.
fn index_lease(database: &mut Database, key: &ServiceKey, new: Option<&Service>) {
    if let Some(old) = database.tables.services.get(key).and_then(|service| service.until) {
        database.by_lease.remove(&(old, *key));
    }
    database.by_lease.extend(new.and_then(|service| service.until).map(|until| (until, *key)));
}

/// An alias leads to the port that has it, wherever that is, and also before it is found.
fn index_alias(database: &mut Database, key: &(Guid, u16), new: Option<&Guid>) {
    if let Some(old) = database.tables.aliases.get(key).copied() {
        database.by_alias.remove(&old);
    }
    if let Some(&alias) = new {
        database.by_alias.insert(alias, key.0);
    }
}

/// Arrays longer than serde knows.
mod octets {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<const N: usize, S: Serializer>(
        octets: &[u8; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        octets.as_slice().serialize(serializer)
    }

    pub(super) fn deserialize<'de, const N: usize, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u8; N], D::Error> {
        let octets = Vec::<u8>::deserialize(deserializer)?;
        octets.try_into().map_err(|_| D::Error::custom("another length"))
    }
}
