//! What the records of a database look like in the result, by the numbers that are there.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::Guid;
use snin_mad::Gid;

use super::super::{Entry, Number, Snapshot};
use super::{Flat, bytes, shown};

pub(super) struct Image<'a> {
    of: &'a Snapshot,
    into: &'a Snapshot,
    /// First addresses, how many, and of which port.
    blocks: BTreeMap<u32, (u32, Guid)>,
    is_identity: bool,
}

impl<'a> Image<'a> {
    pub(super) fn of(of: &'a Snapshot, into: &'a Snapshot, wrong: &mut Vec<String>) -> Self {
        for number in of.partitions.keys().filter(|number| **number != 0x7FFF) {
            let known = into.were.contains_key(&(of.master, Number::Partition(*number)));
            if of.master != into.master && !known {
                wrong.push(format!("partition {number:#06x} of {}: it is nowhere", of.master));
            }
        }
        Self::new(of, into, false)
    }

    /// A database as it is.
    pub(super) fn identity(of: &'a Snapshot) -> Self {
        Self::new(of, of, true)
    }

    fn new(of: &'a Snapshot, into: &'a Snapshot, is_identity: bool) -> Self {
        let block = |(guid, entry): (&Guid, &Entry<_>)| {
            let (lid, lmc): (snin_fabric::Lid, snin_fabric::Lmc) = entry.value?;
            Some((u32::from(lid.0), (1 << lmc.bits(), *guid)))
        };
        let blocks = of.lids.iter().filter_map(block).collect();
        Self { of, into, blocks, is_identity }
    }

    fn was(&self, number: Number) -> Option<Number> {
        if self.is_identity || self.of.master == self.into.master {
            return None;
        }
        self.into.were.get(&(self.of.master, number)).copied()
    }

    fn p_key(&self, key: u16) -> u16 {
        match self.was(Number::Partition(key & 0x7FFF)) {
            Some(Number::Partition(now)) => now | key & 0x8000,
            _ => key,
        }
    }

    fn mgid(&self, mgid: &[u8]) -> [u8; 16] {
        let mut name = [0; 16];
        name.copy_from_slice(mgid);
        if let Some(Number::Group(now)) = self.was(Number::Group(Gid(name))) {
            return now.0;
        }
        // RFC 4391: ff1x:401b:PPPP:: and ff1x:601b:PPPP::.
        if name[0] == 0xFF && name[3] == 0x1B && (name[2] == 0x40 || name[2] == 0x60) {
            let key = self.p_key(u16::from(name[4]) << 8 | u16::from(name[5]));
            (name[4], name[5]) = ((key >> 8) as u8, key as u8);
        }
        name
    }

    fn guid(&self, guid: u64) -> u64 {
        match self.was(Number::Alias(Guid(guid))) {
            Some(Number::Alias(now)) => now.0,
            _ => guid,
        }
    }

    fn gid(&self, gid: &[u8]) -> [u8; 16] {
        let mut name = [0; 16];
        name.copy_from_slice(gid);
        if name == [0; 16] {
            return name;
        }
        if name[0] == 0xFF {
            return self.mgid(gid);
        }
        let half = |at: usize| u64::from_be_bytes(std::array::from_fn(|n| name[at + n]));
        let (mut prefix, guid) = (half(0), self.guid(half(8)));
        if prefix == self.of.prefix.0 {
            prefix = self.into.prefix.0;
        }
        let mut now = [0; 16];
        now[..8].copy_from_slice(&prefix.to_be_bytes());
        now[8..].copy_from_slice(&guid.to_be_bytes());
        now
    }

    /// The port at an address, and which of its addresses it is.
    fn owner(&self, lid: u16) -> Option<(Guid, u32)> {
        let (first, (many, guid)) = self.blocks.range(..=u32::from(lid)).next_back()?;
        let offset = u32::from(lid) - first;
        (offset < *many).then_some((*guid, offset))
    }

    /// The first address of a port now, and how many it has.
    fn now(&self, guid: Guid) -> Option<(u16, u8)> {
        let (lid, lmc) = self.into.lids.get(&guid)?.value?;
        Some((lid.0, lmc.bits()))
    }

    fn lid(&self, lid: u16) -> Option<u16> {
        let (guid, offset) = self.owner(lid)?;
        let (first, bits) = self.now(guid)?;
        Some(first + (offset % (1 << bits)) as u16)
    }

    /// The bytes of an InformInfo.
    fn inform(&self, data: &mut [u8]) {
        let gid = self.gid(&data[..16]);
        data[..16].copy_from_slice(&gid);
        let at = |data: &[u8], at: usize| u16::from(data[at]) << 8 | u16::from(data[at + 1]);
        let (begin, end) = (at(data, 16), at(data, 18));
        if begin == 0xFFFF || begin == 0 || self.is_identity {
            return;
        }
        let one = self.owner(begin).zip(self.owner(end.max(begin)));
        let moved = match one {
            Some(((a, _), (b, _))) if a == b => self.lid(begin).zip(self.lid(end.max(begin))),
            _ => None,
        };
        let (first, last) = match moved {
            Some((first, _)) if end < begin => (first, end),
            Some(moved) => moved,
            None if self.of.master == self.into.master => return,
            None => (0xFFFF, 0xFFFF),
        };
        data[16..18].copy_from_slice(&first.to_be_bytes());
        data[18..20].copy_from_slice(&last.to_be_bytes());
    }

    fn port(&self, port: &crate::records::Port) -> Vec<u8> {
        let mut info = bytes(&port.info);
        let prefix = u64::from_be_bytes(std::array::from_fn(|n| info[8 + n]));
        if prefix == self.of.prefix.0 {
            info[8..16].copy_from_slice(&self.into.prefix.0.to_be_bytes());
        }
        let at = |info: &[u8], at: usize| u16::from(info[at]) << 8 | u16::from(info[at + 1]);
        // The port's own first address and LMC, and its manager's address.
        if let Some((first, bits)) = self.owner(at(&info, 16)).and_then(|(guid, _)| self.now(guid))
        {
            info[16..18].copy_from_slice(&first.to_be_bytes());
            info[34] = info[34] & !7 | bits;
        }
        let manager = at(&info, 18);
        if self.owner(manager).is_some_and(|(guid, offset)| guid == self.of.master && offset == 0)
            && let Some((first, _)) = self.now(self.into.master)
        {
            info[18..20].copy_from_slice(&first.to_be_bytes());
        }
        info.extend(port.guid.map_or(0, |guid| guid.0).to_be_bytes());
        let mut range = |lid: u16, lmc: u8| {
            let now = self.owner(lid).and_then(|(guid, _)| self.now(guid));
            let (first, bits) = now.unwrap_or((lid, lmc));
            info.extend(first.to_be_bytes());
            info.push(bits);
        };
        range(port.base.0, port.lmc.bits());
        if let Some((lid, lmc)) = port.assigned {
            range(lid.0, lmc.bits());
        }
        for key in port.keys.as_flattened() {
            info.extend(self.p_key(key.0).to_be_bytes());
        }
        info
    }

    /// Which groups have one address, for every address, by their names now.
    pub(super) fn groups_of_one_address(&self) -> Vec<BTreeSet<[u8; 16]>> {
        let mut groups: BTreeMap<u16, BTreeSet<[u8; 16]>> = BTreeMap::new();
        for (mgid, entry) in &self.of.groups {
            if let Some(group) = &entry.value {
                groups.entry(group.record.mlid.0).or_default().insert(self.mgid(&mgid.0));
            }
        }
        groups.into_values().collect()
    }

    pub(super) fn records(&self) -> Vec<Flat> {
        let mut all = Vec::new();
        let mut add = |table, key: String, value: Option<Vec<u8>>, stamp| {
            all.push(Flat { table, key, value, stamp });
        };
        let of = self.of;
        for (guid, entry) in &of.nodes {
            let value = entry.value.as_ref().map(|node| {
                let mut data = node.name.as_bytes().to_vec();
                data.extend(bytes(&node.info));
                data.extend(node.switch.iter().flat_map(bytes));
                data
            });
            add("node", guid.to_string(), value, entry.stamp);
        }
        for ((node, num), entry) in &of.ports {
            let value = entry.value.as_ref().map(|port| self.port(port));
            add("port", format!("{node} {num}"), value, entry.stamp);
        }
        for ((node, num), entry) in &of.links {
            let value = entry.value.map(|(node, num)| format!("{node} {num}").into_bytes());
            add("link", format!("{node} {num}"), value, entry.stamp);
        }
        for (guid, entry) in &of.lids {
            // Which addresses: the map itself; that they are unique and stay is judged elsewhere.
            add("lid", guid.to_string(), entry.value.map(|_| Vec::new()), entry.stamp);
        }
        for (number, entry) in &of.partitions {
            let value = entry
                .value
                .as_ref()
                .map(|partition| format!("{:?} {}", partition.name, partition.common).into_bytes());
            add("partition", format!("{:#06x}", self.p_key(*number)), value, entry.stamp);
        }
        for (guid, entry) in &of.tables {
            let value = entry.value.as_ref().map(|table| {
                let mut data = table.home.0.to_be_bytes().to_vec();
                data.extend(table.keys.iter().flat_map(|key| self.p_key(key.0).to_be_bytes()));
                data
            });
            add("table", guid.to_string(), value, entry.stamp);
        }
        self.hosts(&mut add);
        self.subscriptions(&mut add);
        all
    }

    /// Groups, members, services, aliases.
    fn hosts(
        &self,
        add: &mut impl FnMut(&'static str, String, Option<Vec<u8>>, crate::records::Stamp),
    ) {
        for (mgid, entry) in &self.of.groups {
            let name = self.mgid(&mgid.0);
            let value = entry.value.as_ref().map(|group| {
                let mut data = bytes(&group.record);
                let own = self.mgid(&data[..16]);
                data[..16].copy_from_slice(&own);
                let member = self.gid(&data[16..32]);
                data[16..32].copy_from_slice(&member);
                // The address is compared with nothing: that no two groups share it is judged elsewhere.
                data[36..38].fill(0);
                let key = self.p_key(u16::from(data[40]) << 8 | u16::from(data[41]));
                data[40..42].copy_from_slice(&key.to_be_bytes());
                data.push(group.permanent.into());
                data
            });
            add("group", shown(&name), value, entry.stamp);
        }
        for ((mgid, guid), entry) in &self.of.members {
            let value = entry.value.as_ref().map(|member| {
                let mut data = self.gid(&member.port_gid.0).to_vec();
                data.extend([member.state.0, member.proxy.into()]);
                data
            });
            let key = format!("{} {:#018x}", shown(&self.mgid(&mgid.0)), self.guid(guid.0));
            add("member", key, value, entry.stamp);
        }
        for ((id, gid, p_key), entry) in &self.of.services {
            let id = match self.was(Number::Service(*id)) {
                Some(Number::Service(now)) => now,
                _ => *id,
            };
            let (gid, p_key) = (self.gid(&gid.0), self.p_key(*p_key));
            let value = entry.value.as_ref().map(|service| {
                let mut data = bytes(&service.record);
                data[..8].copy_from_slice(&id.to_be_bytes());
                let offered = self.gid(&data[8..24]);
                data[8..24].copy_from_slice(&offered);
                let key = self.p_key(u16::from(data[24]) << 8 | u16::from(data[25]));
                data[24..26].copy_from_slice(&key.to_be_bytes());
                data.extend(service.until.map_or(0, |until| until.0).to_be_bytes());
                data
            });
            add("service", format!("{id:#x} {} {p_key:#x}", shown(&gid)), value, entry.stamp);
        }
        for ((port, place), entry) in &self.of.aliases {
            let value = entry.value.map(|alias| self.guid(alias.0).to_be_bytes().to_vec());
            add("alias", format!("{port} {place}"), value, entry.stamp);
        }
    }

    fn subscriptions(
        &self,
        add: &mut impl FnMut(&'static str, String, Option<Vec<u8>>, crate::records::Stamp),
    ) {
        for (subscriber, entry) in &self.of.subscriptions {
            let port = self.guid(subscriber.port.0);
            // An address that is no port's here may be a port's there: the port's own takes its place.
            let of_port = || {
                let first =
                    self.of.lids.get(&subscriber.port).and_then(|_| self.now(subscriber.port));
                first.map(|(first, _)| first)
            };
            let lid = match self.lid(subscriber.lid.0) {
                Some(lid) => lid,
                None if self.of.master == self.into.master => subscriber.lid.0,
                None => of_port().unwrap_or(0),
            };
            let mut to = subscriber.to.to_vec();
            self.inform(&mut to);
            let value = entry.value.as_ref().map(|subscription| {
                let mut data = bytes(&subscription.info);
                self.inform(&mut data);
                data.extend([subscription.sl, subscription.trusted.into()]);
                data
            });
            let key = format!("{port:#018x} {lid} {} {to:02x?}", subscriber.qp);
            add("subscription", key, value, entry.stamp);
        }
    }
}
