//! Which partition table each port is to hold, by all that has a say in it.

use std::borrow::Cow;

use snin_fabric::Guid;
use snin_mad::{Gid, PKey};

use crate::config::Config;
use crate::merge::{Lineage, Number};
use crate::partitions::{Index, Layout, Partitions, Subject, key_in_name, lay_out, renamed};

/// Everything that has a say in what partition tables are to be: the operator's file, in the numbers of now, and
/// the tables with which ports came from other subnets.
#[derive(Clone, Copy)]
pub struct PartitionPlan<'a> {
    /// The operator's file, and whether a port may have both keys of a partition.
    pub config: &'a Config,
    /// What numbers became, and the tables.
    pub lineage: &'a Lineage,
    /// The manager's own port.
    pub manager: Guid,
}

impl<'a> PartitionPlan<'a> {
    /// The operator's file, in the numbers of now.
    pub fn configured(self) -> Cow<'a, Partitions> {
        let said = &self.config.partitions;
        if self.lineage.were.is_empty() {
            return Cow::Borrowed(said);
        }
        Cow::Owned(said.renumbered(|number| self.partition(number), |mgid| self.group(mgid)))
    }

    fn partition(self, number: u16) -> u16 {
        match self.lineage.now(self.manager, Number::Partition(number)) {
            Number::Partition(now) => now,
            _ => number,
        }
    }

    fn group(self, mgid: Gid) -> Gid {
        match (self.lineage.now(self.manager, Number::Group(mgid)), key_in_name(mgid)) {
            (Number::Group(now), _) if now != mgid => now,
            (_, Some(key)) => renamed(mgid, PKey(key.0 & 0x8000 | self.partition(key.base()))),
            _ => mgid,
        }
    }

    /// Keys that ports have which came from other subnets.
    pub fn brought(self) -> impl Iterator<Item = PKey> + 'a {
        let tables = self.lineage.tables.keys();
        let tables = tables.filter_map(move |&port| self.lineage.table(self.manager, port));
        tables.flatten().copied().filter(|key| key.base() != 0)
    }

    /// Whether any two ports may not talk: else there is nothing for switches to check.
    pub fn keeps_apart(self) -> bool {
        self.config.partitions.keeps_apart() || self.brought().any(|key| key != PKey::DEFAULT)
    }

    /// A port's table, of `room` places, that holds `held`.
    pub fn layout(self, index: &Index<'_>, port: Subject, held: &[PKey], room: usize) -> Layout {
        match self.lineage.table(self.manager, port.guid) {
            Some(keys) => Layout::as_it_came(keys, room),
            None => {
                lay_out(&index.of(port, self.config.both_keys), held, room, self.config.both_keys)
            }
        }
    }
}
