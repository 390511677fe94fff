//! The subnet that this manager makes, and what it is made of.

use std::collections::BTreeMap;

use snin_fabric::Guid;
use snin_mad::PKey;

use super::Sweep;
use crate::merge::{Lineage, PortTable, Subnet};
use crate::partitions::Partitions;
use crate::planning::Saved;

impl Sweep {
    /// Which partition table each port is to hold.
    pub(super) fn partitions(&self) -> Partitions<'_> {
        let manager = self.own_guid().unwrap_or(Guid(0));
        Partitions { config: &self.config, lineage: &self.saved.lineage, manager }
    }

    /// The keys that this manager's settings name, in the numbers of now.
    pub(crate) fn configured_keys(&self) -> Vec<PKey> {
        self.partitions().configured()
    }

    /// Partition tables as they are to be, of every port that has an address or had one.
    pub(crate) fn port_tables(&self, saved: &Saved) -> BTreeMap<Guid, PortTable> {
        let partitions = self.partitions();
        let own = saved.lineage.speaks_for(partitions.manager).unwrap_or(partitions.manager);
        let table = |&port: &Guid| {
            let home = saved.lineage.tables.get(&port).map_or(own, |table| table.home);
            let block = partitions.block(port);
            let last = block.iter().rposition(|key| key.0 != 0).map_or(1, |last| last + 1);
            (port, PortTable { home, keys: block[..last].to_vec() })
        };
        saved.lids.keys().map(table).collect()
    }

    /// The lineage from the first write on: there is a subnet, and it is this manager's. The tables that settings
    /// say are noted, since another manager's say others.
    pub(super) fn lineage(&self, saved: &Saved) -> Lineage {
        let mut lineage = Lineage { untaken: true, ..saved.lineage.clone() };
        let Some(own) = self.own_guid() else { return lineage };
        if lineage.master.is_none() {
            let subnet = Subnet { name: own.to_string().into(), priority: self.config.priority };
            (lineage.master, lineage.subnets) = (Some(own), [(own, subnet)].into());
        }
        lineage.tables = self.port_tables(saved);
        lineage
    }
}
