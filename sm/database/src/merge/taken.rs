//! Numbers that are in use anywhere, and the next free ones.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::{Guid, Lid, Lmc, Mlid};
use snin_mad::{Gid, NodeType};

use super::Full;
use super::seen::Seen;
use super::snapshot::{DEFAULT_PARTITION, Number, Snapshot};

/// Addresses of ports.
#[derive(Debug)]
pub(super) struct Blocks(Vec<bool>);

impl Default for Blocks {
    fn default() -> Self {
        Self(vec![false; Lid::MAX_UNICAST.index() + 1])
    }
}

impl Blocks {
    fn slice(&self, (lid, lmc): (Lid, Lmc)) -> Option<&[bool]> {
        self.0.get(lid.index()..lid.index() + lmc.addresses())
    }

    pub(super) fn is_free(&self, block: (Lid, Lmc)) -> bool {
        block.0 != Lid::NONE
            && self.slice(block).is_some_and(|block| block.iter().all(|taken| !taken))
    }

    pub(super) fn take(&mut self, (lid, lmc): (Lid, Lmc)) {
        let block = self.0.get_mut(lid.index()..lid.index() + lmc.addresses());
        block.into_iter().flatten().for_each(|taken| *taken = true);
    }
}

/// Every number that some database uses or used.
#[derive(Debug, Default)]
pub(super) struct Taken {
    partitions: BTreeSet<u16>,
    lids: Blocks,
    mlids: BTreeSet<Lid>,
    groups: BTreeSet<Gid>,
    services: BTreeSet<u64>,
    guids: BTreeSet<Guid>,
    /// Partitions of all that survives.
    seen: Vec<Seen>,
    /// Addresses of groups that survive.
    given: BTreeMap<Gid, Lid>,
    /// The highest address that every switch forwards, and that of groups.
    most: Option<Lid>,
    most_mlid: Option<Lid>,
}

fn lower(most: &mut Option<Lid>, to: Lid) {
    *most = Some(most.map_or(to, |most| most.min(to)));
}

impl Taken {
    pub(super) fn of(databases: &[Snapshot]) -> Self {
        let mut taken = Self::default();
        databases.iter().for_each(|database| taken.note(database));
        taken
    }

    fn note(&mut self, database: &Snapshot) {
        self.partitions.extend(database.partitions.keys());
        let blocks = database.lids.values().filter_map(|entry| entry.value);
        blocks.for_each(|block| self.lids.take(block));
        for subscriber in database.subscriptions.keys() {
            self.lids.take((subscriber.lid, Lmc::ZERO));
        }
        for (mgid, entry) in &database.groups {
            self.groups.insert(*mgid);
            self.mlids.extend(entry.value.iter().map(|group| group.record.mlid));
        }
        self.groups.extend(database.members.keys().map(|(mgid, _)| *mgid));
        self.services.extend(database.services.keys().map(|(id, ..)| *id));
        self.guids.extend(database.aliases.values().filter_map(|entry| entry.value));
        self.guids.extend(database.lids.keys());
        self.guids.extend(database.nodes.keys());
        for ((_, was), is) in &database.were {
            for number in [was, is] {
                match number {
                    Number::Partition(number) => self.partitions.insert(*number),
                    Number::Group(mgid) => self.groups.insert(*mgid),
                    Number::Service(id) => self.services.insert(*id),
                    Number::Alias(guid) => self.guids.insert(*guid),
                };
            }
        }
        for node in database.nodes.values().filter_map(|entry| entry.value.as_ref()) {
            let Some(switch) = &node.switch else { continue };
            if node.info.node_type == NodeType::Switch && switch.linear_fdb_cap > 0 {
                lower(&mut self.most, Lid(switch.linear_fdb_cap - 1));
            }
            if switch.multicast_fdb_cap > 0 {
                let last = 0xC000_u16.saturating_add(switch.multicast_fdb_cap - 1).min(0xFFFE);
                lower(&mut self.most_mlid, Lid(last));
            }
        }
    }

    /// Partitions that are in the result now.
    pub(super) fn see(&mut self, partitions: impl IntoIterator<Item = Seen>) {
        self.seen.extend(partitions);
    }

    /// The number of the partition that this one is.
    pub(super) fn same_partition(&self, own: &Seen, common: &BTreeSet<u16>) -> Option<u16> {
        self.seen.iter().find(|seen| seen.is(own, common)).map(|seen| seen.now)
    }

    pub(super) fn given(&mut self) -> &mut BTreeMap<Gid, Lid> {
        &mut self.given
    }

    /// Where a partition of a subnet goes follows from its number there: who is joined in which order makes no
    /// difference, as long as that place is free.
    pub(super) fn new_partition(&mut self, old: u16, home: Guid) -> Result<u16, Full> {
        let mixed = (home.0 ^ u64::from(old) << 48).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        let first = 1 + (mixed % u64::from(DEFAULT_PARTITION - 1)) as u16;
        let free = |number: &u16| !self.partitions.contains(number);
        let free = (first..DEFAULT_PARTITION).chain(1..first).find(free).ok_or(Full("P_Keys"))?;
        self.partitions.insert(free);
        Ok(free)
    }

    pub(super) fn new_lids(&mut self, lmc: Lmc) -> Result<Lid, Full> {
        let most = self.most.unwrap_or(Lid::MAX_UNICAST).min(Lid::MAX_UNICAST).index();
        let size = lmc.addresses();
        let mut blocks = (size..=most + 1 - size.min(most)).step_by(size);
        let free =
            blocks.find(|&lid| lid + size - 1 <= most && self.lids.is_free((Lid(lid as u16), lmc)));
        let free = Lid(free.ok_or(Full("LIDs"))? as u16);
        self.lids.take((free, lmc));
        Ok(free)
    }

    pub(super) fn new_mlid(&mut self) -> Result<Lid, Full> {
        let most = self.most_mlid.unwrap_or(Mlid::MAX.lid()).0;
        let free = (Mlid::MIN.lid().0..=most).map(Lid).find(|lid| !self.mlids.contains(lid));
        let free = free.ok_or(Full("MLIDs"))?;
        self.mlids.insert(free);
        Ok(free)
    }

    /// A name as a manager gives it, with the reach of the old one.
    pub(super) fn new_group(&mut self, old: Gid) -> Result<Gid, Full> {
        let mut name = old;
        (name.0[0], name.0[2], name.0[3]) = (0xFF, 0xA0, 0x1B);
        for number in 0..=u32::from(u16::MAX) {
            name.0[12..16].copy_from_slice(&number.to_be_bytes());
            if self.groups.insert(name) {
                return Ok(name);
            }
        }
        Err(Full("names of multicast groups"))
    }

    /// An id that a system may give itself (the first byte is 2, as annex A3 has it).
    pub(super) fn new_service(&mut self, old: u64, home: Guid) -> u64 {
        let mut id = 0x02 << 56 | (old ^ home.0.rotate_left(16)) & 0x00FF_FFFF_FFFF_FFFF;
        while !self.services.insert(id) {
            id = 0x02 << 56 | (id + 1) & 0x00FF_FFFF_FFFF_FFFF;
        }
        id
    }

    /// A GUID that no vendor gives: with the bit of local administration.
    pub(super) fn new_alias(&mut self, old: Guid, home: Guid) -> Guid {
        let mut guid = old.0 ^ home.0.rotate_left(16) | 0x02 << 56;
        while !self.guids.insert(Guid(guid)) {
            guid = guid.wrapping_add(1) | 0x02 << 56;
        }
        Guid(guid)
    }
}
