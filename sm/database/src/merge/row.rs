//! The tables of a [`Snapshot`], each with its name in a file, its columns, and its numbers.

use snin_fabric::{Guid, Lid, Lmc, PortNum};
use snin_mad::sa::{InformInfo, JoinState, McMemberRecord, Record, ServiceRecord};
use snin_mad::tables::PARTITION_BLOCK;
use snin_mad::{Gid, NodeInfo, PKey, PortInfo, SwitchInfo, Table as _};
use snin_protocol::Time;

use super::snapshot::{Partition, PortTable, Snapshot, Table};
use super::words::{self, Fields, number, text};
use crate::partitions::blocks;
use crate::records::{
    Aliases, Group, Groups, Links, Member, MemberKey, Members, Node, Nodes, Place, Port, Ports,
    Service, ServiceKey, Services, Subscriber, Subscription, Subscriptions,
};

/// One table of a snapshot.
pub trait Row {
    /// By which a record is found, and by whose order lines are written.
    type Key: Ord + Clone;
    /// The rest of a record.
    type Value: Clone + PartialEq;
    /// What its lines begin with.
    const NAME: &'static str;

    /// This table of a snapshot.
    fn table(snapshot: &Snapshot) -> &Table<Self::Key, Self::Value>;
    /// The same, to be changed.
    fn table_mut(snapshot: &mut Snapshot) -> &mut Table<Self::Key, Self::Value>;
    /// The words of a key.
    fn write_key(key: &Self::Key) -> String;
    /// The words of a value.
    fn write_value(value: &Self::Value) -> String;
    /// Takes the words of a key; `None`: they are malformed.
    fn read_key(words: &mut Fields<'_>) -> Option<Self::Key>;
    /// Takes the words of a value; `None`: they are malformed.
    fn read_value(words: &mut Fields<'_>) -> Option<Self::Value>;
}

/// Addresses of ports.
pub struct Lids;
/// Partitions.
pub(crate) struct Partitions;
/// Partition tables.
pub(crate) struct Tables;

macro_rules! row {
    ($kind:ident, $name:literal, $field:ident: $key:ty => $value:ty) => {
        type Key = $key;
        type Value = $value;
        const NAME: &'static str = $name;

        fn table(snapshot: &Snapshot) -> &Table<$key, $value> {
            &snapshot.$field
        }

        fn table_mut(snapshot: &mut Snapshot) -> &mut Table<$key, $value> {
            &mut snapshot.$field
        }
    };
}

/// Calls a macro or function for every table, in the order of a file.
macro_rules! each_row {
    ($call:ident ( $($argument:expr),* )) => {
        $call::<$crate::records::Nodes>($($argument),*);
        $call::<$crate::records::Ports>($($argument),*);
        $call::<$crate::records::Links>($($argument),*);
        $call::<$crate::merge::row::Lids>($($argument),*);
        $call::<$crate::merge::row::Partitions>($($argument),*);
        $call::<$crate::merge::row::Tables>($($argument),*);
        $call::<$crate::records::Groups>($($argument),*);
        $call::<$crate::records::Members>($($argument),*);
        $call::<$crate::records::Services>($($argument),*);
        $call::<$crate::records::Subscriptions>($($argument),*);
        $call::<$crate::records::Aliases>($($argument),*);
    };
}
pub(super) use each_row;

impl Row for Nodes {
    row!(Nodes, "node", nodes: Guid => Node);

    fn write_key(key: &Guid) -> String {
        key.to_string()
    }

    fn write_value(node: &Node) -> String {
        let switch = node.switch.as_ref().map(words::structure);
        let switch = switch.unwrap_or_else(|| "none".to_owned());
        format!("{} {} {switch}", text(&node.name), words::structure(&node.info))
    }

    fn read_key(words: &mut Fields<'_>) -> Option<Guid> {
        words.guid()
    }

    fn read_value(words: &mut Fields<'_>) -> Option<Node> {
        let name = words.text()?;
        let info: NodeInfo = words.structure()?;
        let switch: Option<SwitchInfo> = match words.peek()? {
            "none" => words.word().map(|_| None)?,
            _ => Some(words.structure()?),
        };
        Some(Node { info, name, switch })
    }
}

fn place(place: &Place) -> String {
    format!("{} {}", place.0, place.1.0)
}

impl Row for Ports {
    row!(Ports, "port", ports: Place => Port);

    fn write_key(key: &Place) -> String {
        place(key)
    }

    fn write_value(port: &Port) -> String {
        let guid = port.guid.unwrap_or(Guid(0));
        let range = |(lid, lmc): (Lid, Lmc)| format!("{lid}/{lmc}");
        let assigned = port.assigned.map_or_else(|| "none".to_owned(), range);
        let keys = match &*port.keys {
            [] => "none".to_owned(),
            blocks => format!("{}/{}", key_list(blocks.as_flattened()), blocks.len()),
        };
        let base = range((port.base, port.lmc));
        format!("{guid} {base} {assigned} {keys} {}", words::structure(&port.info))
    }

    fn read_key(words: &mut Fields<'_>) -> Option<Place> {
        words.place()
    }

    fn read_value(words: &mut Fields<'_>) -> Option<Port> {
        let guid = Some(words.guid()?).filter(|guid| *guid != Guid(0));
        let (base, lmc) = range(words.word()?)?;
        let assigned = match words.word()? {
            "none" => None,
            assigned => Some(range(assigned)?),
        };
        let keys = match words.word()? {
            "none" => Vec::new(),
            keys => {
                let (keys, count) = keys.split_once('/')?;
                let (mut keys, count) = (read_key_list(keys)?, count.parse::<usize>().ok()?);
                // A block's number has 11 bits (IBA 14.2.5.7).
                let room = count * PARTITION_BLOCK;
                if count > 2_048 || keys.len() > room {
                    return None;
                }
                keys.resize(room, PKey(0));
                blocks(&keys).collect()
            }
        };
        let info: PortInfo = words.structure()?;
        Some(Port { guid, assigned, keys, ..Port::of(info, base, lmc) })
    }
}

/// The keys of a partition table without the empty ones at its end, but the first.
fn key_list(keys: &[PKey]) -> String {
    let last = keys.iter().rposition(|key| key.0 != 0).map_or(1, |last| last + 1);
    let keys: Vec<String> = keys.iter().take(last).map(PKey::to_string).collect();
    keys.join(",")
}

fn read_key_list(text: &str) -> Option<Vec<PKey>> {
    text.split(',').map(|key| Some(PKey(number(key)?.try_into().ok()?))).collect()
}

/// `LID/LMC`.
fn range(text: &str) -> Option<(Lid, Lmc)> {
    let (lid, lmc) = text.split_once('/')?;
    Some((Lid(lid.parse().ok()?), Lmc::new(lmc.parse().ok()?)?))
}

impl Row for Links {
    row!(Links, "link", links: Place => Place);

    fn write_key(key: &Place) -> String {
        place(key)
    }

    fn write_value(other: &Place) -> String {
        place(other)
    }

    fn read_key(words: &mut Fields<'_>) -> Option<Place> {
        words.place()
    }

    fn read_value(words: &mut Fields<'_>) -> Option<Place> {
        words.place()
    }
}

impl Row for Lids {
    row!(Lids, "lid", lids: Guid => (Lid, Lmc));

    fn write_key(key: &Guid) -> String {
        key.to_string()
    }

    fn write_value((lid, lmc): &(Lid, Lmc)) -> String {
        format!("{lid}/{lmc}")
    }

    fn read_key(words: &mut Fields<'_>) -> Option<Guid> {
        words.guid()
    }

    fn read_value(words: &mut Fields<'_>) -> Option<(Lid, Lmc)> {
        range(words.word()?).filter(|(lid, lmc)| {
            let block = lmc.addresses();
            lid.index() >= block
                && lid.index().is_multiple_of(block)
                && lid.index() + block - 1 <= Lid::MAX_UNICAST.index()
        })
    }
}

impl Row for Partitions {
    row!(Partitions, "partition", partitions: u16 => Partition);

    fn write_key(key: &u16) -> String {
        format!("{key:#06x}")
    }

    fn write_value(partition: &Partition) -> String {
        let kind = if partition.common { "common" } else { "own" };
        let name = partition
            .name
            .as_deref()
            .map_or_else(|| "none".to_owned(), |name| format!("name={}", text(name)));
        format!("{kind} {name}")
    }

    fn read_key(words: &mut Fields<'_>) -> Option<u16> {
        let number = u16::try_from(words.number()?).ok()?;
        (1..=0x7FFF).contains(&number).then_some(number)
    }

    fn read_value(words: &mut Fields<'_>) -> Option<Partition> {
        let common = match words.word()? {
            "common" => true,
            "own" => false,
            _ => return None,
        };
        let name = match words.word()? {
            "none" => None,
            name => Some(words::untext(name.strip_prefix("name=")?)?),
        };
        Some(Partition { name, common })
    }
}

impl Row for Tables {
    row!(Tables, "table", tables: Guid => PortTable);

    fn write_key(key: &Guid) -> String {
        key.to_string()
    }

    fn write_value(table: &PortTable) -> String {
        format!("{} {}", table.home, key_list(&table.keys))
    }

    fn read_key(words: &mut Fields<'_>) -> Option<Guid> {
        words.guid()
    }

    fn read_value(words: &mut Fields<'_>) -> Option<PortTable> {
        Some(PortTable { home: words.guid()?, keys: read_key_list(words.word()?)? })
    }
}

impl Row for Groups {
    row!(Groups, "group", groups: Gid => Group);

    fn write_key(key: &Gid) -> String {
        key.to_string()
    }

    fn write_value(group: &Group) -> String {
        let kind = if group.permanent { "permanent" } else { "transient" };
        format!("{kind} {}", words::structure(&group.record))
    }

    fn read_key(words: &mut Fields<'_>) -> Option<Gid> {
        words.gid()
    }

    fn read_value(words: &mut Fields<'_>) -> Option<Group> {
        let permanent = match words.word()? {
            "permanent" => true,
            "transient" => false,
            _ => return None,
        };
        let record: McMemberRecord = words.structure()?;
        Some(Group { record, permanent })
    }
}

impl Row for Members {
    row!(Members, "member", members: MemberKey => Member);

    fn write_key((mgid, guid): &MemberKey) -> String {
        format!("{mgid} {guid}")
    }

    fn write_value(member: &Member) -> String {
        let asked = if member.proxy { "proxy" } else { "self" };
        format!("{} {:#x} {asked}", member.port_gid, member.state.0)
    }

    fn read_key(words: &mut Fields<'_>) -> Option<MemberKey> {
        Some((words.gid()?, words.guid()?))
    }

    fn read_value(words: &mut Fields<'_>) -> Option<Member> {
        let port_gid = words.gid()?;
        let state = JoinState(u8::try_from(words.number()?).ok()?);
        let proxy = match words.word()? {
            "proxy" => true,
            "self" => false,
            _ => return None,
        };
        Some(Member { port_gid, state, proxy })
    }
}

impl Row for Services {
    row!(Services, "service", services: ServiceKey => Service);

    fn write_key((id, gid, key): &ServiceKey) -> String {
        format!("{id:#018x} {gid} {key:#06x}")
    }

    fn write_value(service: &Service) -> String {
        let until = service.until.map_or_else(|| "ever".to_owned(), |until| until.0.to_string());
        format!("{until} {}", words::octets(&service.record.bytes()))
    }

    fn read_key(words: &mut Fields<'_>) -> Option<ServiceKey> {
        Some((words.number()?, words.gid()?, u16::try_from(words.number()?).ok()?))
    }

    fn read_value(words: &mut Fields<'_>) -> Option<Service> {
        let until = match words.word()? {
            "ever" => None,
            nanos => Some(Time(nanos.parse().ok()?)),
        };
        let record: ServiceRecord = words.structure()?;
        Some(Service { record, until })
    }
}

impl Row for Subscriptions {
    row!(Subscriptions, "subscription", subscriptions: Subscriber => Subscription);

    fn write_key(key: &Subscriber) -> String {
        format!("{} {} {} {}", key.port, key.lid, key.qp, words::octets(&key.to))
    }

    fn write_value(subscription: &Subscription) -> String {
        let trust = if subscription.trusted { "trusted" } else { "plain" };
        format!("{} {trust} {}", subscription.sl, words::structure(&subscription.info))
    }

    fn read_key(words: &mut Fields<'_>) -> Option<Subscriber> {
        let (port, lid, qp) = (words.guid()?, words.decimal()?, words.decimal()?);
        let (lid, qp) = (Lid(u16::try_from(lid).ok()?), u32::try_from(qp).ok()?);
        let to: [u8; 40] = words::unoctets(words.word()?)?.try_into().ok()?;
        // What distinguishes subscriptions is taken apart when their numbers change.
        InformInfo::parse(&to).ok()?;
        Some(Subscriber { port, lid, qp, to })
    }

    fn read_value(words: &mut Fields<'_>) -> Option<Subscription> {
        let sl = u8::try_from(words.decimal()?).ok()?;
        let trusted = match words.word()? {
            "trusted" => true,
            "plain" => false,
            _ => return None,
        };
        let info: InformInfo = words.structure()?;
        Some(Subscription { info, sl, trusted })
    }
}

impl Row for Aliases {
    row!(Aliases, "alias", aliases: (Guid, u16) => Guid);

    fn write_key((port, entry): &(Guid, u16)) -> String {
        format!("{port} {entry}")
    }

    fn write_value(alias: &Guid) -> String {
        alias.to_string()
    }

    fn read_key(words: &mut Fields<'_>) -> Option<(Guid, u16)> {
        Some((words.guid()?, u16::try_from(words.decimal()?).ok()?))
    }

    fn read_value(words: &mut Fields<'_>) -> Option<Guid> {
        words.guid()
    }
}

impl Fields<'_> {
    fn place(&mut self) -> Option<Place> {
        Some((self.guid()?, PortNum(u8::try_from(self.decimal()?).ok()?)))
    }
}
