//! The subnet that this manager makes, and what it is made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use snin_fabric::{Guid, Lid};

use super::Sweep;
use crate::events::Output;
use crate::keyring::Keyring;
use crate::partitioning::{key_plans, key_tables};
use snin_sm_database::keys::KeyPolicy;
use snin_sm_database::merge::{Lineage, Number, PortTable, Subnet};
use snin_sm_database::partition_plan::PartitionPlan;
use snin_sm_database::saved::Saved;

impl Sweep {
    /// Which partition table each port is to hold.
    pub(crate) fn partitions(&self) -> PartitionPlan<'_> {
        let manager = self.own_guid().unwrap_or(Guid(0));
        PartitionPlan { config: &self.config, lineage: &self.saved.lineage, manager }
    }

    /// From now on tables are read as the partitions need it.
    pub(super) fn note_partitions(&mut self) {
        self.graph.key_tables = key_tables(self.partitions());
    }

    /// Whether M_Keys are generated, so that [`Event::RotateKeys`](crate::events::Event::RotateKeys) changes them.
    pub fn generates_keys(&self) -> bool {
        self.config.m_key_policy != KeyPolicy::Given
    }

    /// The address of this manager, once it gave itself one.
    pub(super) fn manager(&self) -> Option<Lid> {
        Some(self.publishing.manager()).filter(|&lid| lid != Lid::NONE)
    }

    /// Every port gets another key. What the keys follow from is stored before the first is written.
    pub(super) fn rotate_keys(&mut self) {
        let Some(secret) = self.graph.keyring.rotate().cloned() else { return };
        self.saved = Arc::new(Saved { keys: Some(secret), ..(*self.saved).clone() });
        self.outputs.push_back(Output::Save(self.saved.clone()));
        self.pending.learnt = true;
        self.interrupt();
    }

    /// Another manager gave these addresses and trees, and its keys follow from this.
    pub fn adopt(&mut self, saved: Arc<Saved>) {
        let all = |saved: &Saved| (saved.keys.clone(), saved.former_keys.clone());
        if all(&saved) != all(&self.saved)
            && let Ok(keyring) = Keyring::new(&self.config, &saved)
        {
            self.graph.keyring = keyring;
        }
        self.saved = saved;
        self.note_partitions();
        self.outputs.push_back(Output::Save(self.saved.clone()));
    }

    /// Partition tables as they are to be, of every port that has an address; of absent ones as they were.
    pub fn port_tables(&self, saved: &Saved) -> BTreeMap<Guid, PortTable> {
        let plan = self.partitions();
        let own = saved.lineage.speaks_for(plan.manager).unwrap_or(plan.manager);
        let mut tables = saved.lineage.tables.clone();
        for (port, keys) in key_plans(plan, &self.graph) {
            let home = tables.get(&port).map_or(own, |table| table.home);
            tables.insert(port, PortTable::new(home, keys));
        }
        tables.retain(|port, _| saved.lids.contains_key(port));
        tables
    }

    /// What this manager's settings call partitions, by their numbers now.
    pub fn partition_names(&self) -> BTreeMap<u16, Box<str>> {
        let (lineage, own) = (&self.saved.lineage, self.own_guid().unwrap_or(Guid(0)));
        let now = |number| match lineage.now(own, Number::Partition(number)) {
            Number::Partition(now) => now,
            _ => number,
        };
        let names = self.config.partitions.names();
        names.map(|(number, name)| (now(number), name.into())).collect()
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
        lineage.names.extend(self.partition_names());
        lineage.tables = self.port_tables(saved);
        lineage
    }
}
