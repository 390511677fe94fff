//! What the numbers of an absorbed subnet become, applied to every record.

use std::collections::BTreeMap;

use snin_fabric::{Guid, Lid, Lmc};
use snin_mad::sa::{ANY_LID, InformInfo, Record as _};
use snin_mad::{Gid, GidPrefix, PKey, Table as _};

use super::row::{Lids, Partitions, Row, Tables};
use super::snapshot::{Partition, PortTable};
use crate::partitions::{key_in_name, renamed};
use crate::records::{
    Aliases, Group, Groups, Links, Member, MemberKey, Members, Node, Nodes, Place, Port, Ports,
    Service, ServiceKey, Services, Subscriber, Subscription, Subscriptions,
};

/// New numbers by old ones. What is not in it stays.
#[derive(Debug, Default)]
pub(super) struct Map {
    /// By the 15 bits of the P_Key.
    pub(super) partitions: BTreeMap<u16, u16>,
    /// First addresses: how many there were, the new first one, how many there are.
    pub(super) lids: BTreeMap<Lid, (Lmc, Lid, Lmc)>,
    /// Names of groups whose P_Key is mapped already.
    pub(super) groups: BTreeMap<Gid, Gid>,
    /// Addresses of groups by the group's new name.
    pub(super) mlids: BTreeMap<Gid, Lid>,
    pub(super) services: BTreeMap<u64, u64>,
    pub(super) aliases: BTreeMap<Guid, Guid>,
    /// First addresses by port, as they are now.
    pub(super) of_ports: BTreeMap<Guid, Lid>,
    pub(super) prefix: Option<(GidPrefix, GidPrefix)>,
    /// It is of the same subnet: a number means the same.
    pub(super) is_copy: bool,
    /// The address of the absorbed master, and that of the surviving one.
    pub(super) manager: Option<(Lid, Lid)>,
}

impl Map {
    pub(super) fn partition(&self, number: u16) -> u16 {
        self.partitions.get(&number).copied().unwrap_or(number)
    }

    pub(super) fn p_key(&self, key: PKey) -> PKey {
        PKey(key.0 & 0x8000 | self.partition(key.base()))
    }

    /// A group's name with its P_Key mapped.
    pub(super) fn name(&self, mgid: Gid) -> Gid {
        key_in_name(mgid).map_or(mgid, |key| renamed(mgid, self.p_key(key)))
    }

    pub(super) fn mgid(&self, mgid: Gid) -> Gid {
        let name = self.name(mgid);
        self.groups.get(&name).copied().unwrap_or(name)
    }

    pub(super) fn guid(&self, guid: Guid) -> Guid {
        self.aliases.get(&guid).copied().unwrap_or(guid)
    }

    /// A port's GID, or a group's.
    pub(super) fn gid(&self, gid: Gid) -> Gid {
        if gid == Gid::default() {
            return gid;
        }
        if gid.0[0] == 0xFF {
            return self.mgid(gid);
        }
        let prefix = match self.prefix {
            Some((old, new)) if gid.prefix() == old => new,
            _ => gid.prefix(),
        };
        Gid::new(prefix, self.guid(gid.guid()))
    }

    /// The block that an address is in: its first one then, how many, the first one now, how many.
    fn block(&self, lid: Lid) -> Option<(Lid, Lmc, Lid, Lmc)> {
        let (&old, &(lmc, new, now)) = self.lids.range(..=lid).next_back()?;
        (lid.index() < old.index() + lmc.addresses()).then_some((old, lmc, new, now))
    }

    pub(super) fn lid(&self, lid: Lid) -> Lid {
        match self.block(lid) {
            Some((old, _, new, now)) => {
                let offset = (lid.0 - old.0) & (now.addresses() as u16 - 1);
                Lid(new.0 + offset)
            }
            None => lid,
        }
    }

    /// A port's first address and their number.
    pub(super) fn range(&self, (lid, lmc): (Lid, Lmc)) -> (Lid, Lmc) {
        match self.lids.get(&lid) {
            Some(&(_, new, now)) => (new, now),
            None => (self.lid(lid), lmc),
        }
    }

    /// A range of addresses of which notices are wanted: within one port's it follows the port; else it becomes
    /// all there are, so that nothing is missed.
    pub(super) fn wanted(&self, begin: Lid, end: Lid) -> (Lid, Lid) {
        if begin == ANY_LID || begin == Lid::NONE || self.is_copy {
            return (begin, end);
        }
        let last = end.max(begin);
        match self.block(begin) {
            Some((old, lmc, ..)) if last.index() < old.index() + lmc.addresses() => {
                let (first, last) = (self.lid(begin), self.lid(last));
                (first, if end < begin { end } else { last })
            }
            _ => (ANY_LID, ANY_LID),
        }
    }

    fn info(&self, info: &InformInfo) -> InformInfo {
        let (lid_begin, lid_end) = self.wanted(info.lid_begin, info.lid_end);
        InformInfo { gid: self.gid(info.gid), lid_begin, lid_end, ..info.clone() }
    }
}

/// A table whose records can be renumbered. Every occurrence of a number is named here and nowhere else.
pub(super) trait Renumber: Row {
    fn key(map: &Map, key: &Self::Key) -> Self::Key;
    fn value(map: &Map, key: &Self::Key, value: Self::Value) -> Self::Value;
}

impl Renumber for Nodes {
    fn key(_: &Map, key: &Guid) -> Guid {
        *key
    }

    fn value(_: &Map, _: &Guid, value: Node) -> Node {
        value
    }
}

impl Renumber for Ports {
    fn key(_: &Map, key: &Place) -> Place {
        *key
    }

    fn value(map: &Map, _: &Place, mut port: Port) -> Port {
        let held = (port.info.lid, port.info.lmc);
        // A switch's port that is not its port 0 has no address of its own; the field means nothing.
        if held.0 != Lid::NONE {
            (port.info.lid, port.info.lmc) = map.range(held);
        }
        port.info.master_sm_lid = match map.manager {
            Some((old, new)) if port.info.master_sm_lid == old => new,
            _ => port.info.master_sm_lid,
        };
        if let Some((old, new)) = map.prefix
            && port.info.gid_prefix == old
        {
            port.info.gid_prefix = new;
        }
        if port.base != Lid::NONE {
            (port.base, port.lmc) = map.range((port.base, port.lmc));
        }
        port.assigned = port.assigned.map(|assigned| map.range(assigned));
        for key in port.keys.as_flattened_mut() {
            *key = map.p_key(*key);
        }
        port
    }
}

impl Renumber for Links {
    fn key(_: &Map, key: &Place) -> Place {
        *key
    }

    fn value(_: &Map, _: &Place, value: Place) -> Place {
        value
    }
}

impl Renumber for Lids {
    fn key(_: &Map, key: &Guid) -> Guid {
        *key
    }

    fn value(map: &Map, _: &Guid, value: (Lid, Lmc)) -> (Lid, Lmc) {
        map.range(value)
    }
}

impl Renumber for Partitions {
    fn key(map: &Map, key: &u16) -> u16 {
        map.partition(*key)
    }

    fn value(_: &Map, _: &u16, value: Partition) -> Partition {
        value
    }
}

impl Renumber for Tables {
    fn key(_: &Map, key: &Guid) -> Guid {
        *key
    }

    fn value(map: &Map, _: &Guid, mut table: PortTable) -> PortTable {
        for key in &mut table.keys {
            *key = map.p_key(*key);
        }
        table
    }
}

impl Renumber for Groups {
    fn key(map: &Map, key: &Gid) -> Gid {
        map.mgid(*key)
    }

    fn value(map: &Map, key: &Gid, mut group: Group) -> Group {
        let record = &mut group.record;
        record.mgid = map.mgid(*key);
        record.p_key = map.p_key(record.p_key);
        record.port_gid = map.gid(record.port_gid);
        record.mlid = map.mlids.get(&record.mgid).copied().unwrap_or(record.mlid);
        group
    }
}

impl Renumber for Members {
    fn key(map: &Map, (mgid, guid): &MemberKey) -> MemberKey {
        (map.mgid(*mgid), map.guid(*guid))
    }

    fn value(map: &Map, _: &MemberKey, value: Member) -> Member {
        Member { port_gid: map.gid(value.port_gid), ..value }
    }
}

impl Renumber for Services {
    fn key(map: &Map, (id, gid, key): &ServiceKey) -> ServiceKey {
        let id = map.services.get(id).copied().unwrap_or(*id);
        (id, map.gid(*gid), map.p_key(PKey(*key)).0)
    }

    fn value(map: &Map, (id, ..): &ServiceKey, mut service: Service) -> Service {
        let record = &mut service.record;
        record.id = map.services.get(id).copied().unwrap_or(record.id);
        record.gid = map.gid(record.gid);
        record.p_key = map.p_key(record.p_key);
        service
    }
}

impl Renumber for Subscriptions {
    fn key(map: &Map, key: &Subscriber) -> Subscriber {
        // A key that is none was refused when it was read.
        let to = InformInfo::parse(&key.to).map_or(key.to, |info| map.info(&info).bytes());
        // An address that is no port's is not kept: another port may have it now.
        let lid = match map.block(key.lid) {
            Some(_) => map.lid(key.lid),
            None if map.is_copy => key.lid,
            None => map.of_ports.get(&key.port).copied().unwrap_or(Lid::NONE),
        };
        Subscriber { port: map.guid(key.port), lid, qp: key.qp, to }
    }

    fn value(map: &Map, _: &Subscriber, value: Subscription) -> Subscription {
        Subscription { info: map.info(&value.info), ..value }
    }
}

impl Renumber for Aliases {
    fn key(_: &Map, key: &(Guid, u16)) -> (Guid, u16) {
        *key
    }

    fn value(map: &Map, _: &(Guid, u16), value: Guid) -> Guid {
        map.guid(value)
    }
}
