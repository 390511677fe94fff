//! A subnet that was found, and of which nothing else is known: its manager is dead, or none of ours.
//!
//! Its ports have addresses and partition tables that another manager gave them, and numbers mean what they mean
//! there. So discovery makes a database of what it sees, and that database is merged.

use std::collections::BTreeMap;

use snin_fabric::{Guid, Lid};
use snin_mad::port::Capabilities;
use snin_protocol::Time;

use super::Sweep;
use super::commit::addressing;
use snin_sm_database::merge::{Entry, PortTable, Snapshot};
use snin_sm_database::records::{Node, Port, Stamp};

impl Sweep {
    /// Ports with addresses that this manager did not give, where switches are among them: a single host that was
    /// moved here is no subnet.
    pub fn strangers(&self) -> Option<Snapshot> {
        // Before there is a subnet of its own, a manager takes what it finds for it.
        self.saved.lineage.master?;
        let mut found = Snapshot::new(Guid(0), "", 0);
        found.subnets.clear();
        let mut has_switch = false;
        for (id, node) in self.graph.managed() {
            for (num, port) in (0..).map(snin_fabric::PortNum).zip(&node.ports) {
                let Some((guid, base, _)) = addressing(num, node, port) else { continue };
                let is_known = |guid: Guid| self.saved.lids.contains_key(&guid);
                if base == Lid::NONE || guid.is_none_or(is_known) {
                    continue;
                }
                let Some(record) = self.port_record((id, num), node, port) else { continue };
                has_switch |= node.is_switch();
                let name = node.name.clone().unwrap_or_default();
                let of = Node { info: node.info.clone(), name, switch: node.switch.clone() };
                found.nodes.insert(node.guid(), entry(of));
                found.ports.insert((node.guid(), num), entry(record));
            }
        }
        has_switch.then(|| named(found))
    }
}

/// What discovery sees has no stamp of any manager.
const fn entry<V>(value: V) -> Entry<V> {
    let stamp = Stamp { time: Time::ZERO, count: 0, origin: Guid(0) };
    Entry { value: Some(value), stamp }
}

/// Found ports as the subnet of the manager that most of them name.
fn named(mut found: Snapshot) -> Snapshot {
    let mut ends: BTreeMap<Guid, Port> = BTreeMap::new();
    for port in found.ports.values().filter_map(|entry| entry.value.clone()) {
        ends.extend(port.guid.map(|guid| (guid, port)));
    }
    let mut votes: BTreeMap<Lid, usize> = BTreeMap::new();
    for port in ends.values() {
        *votes.entry(port.info.master_sm_lid).or_default() += 1;
    }
    let manager = votes.into_iter().max_by_key(|(_, votes)| *votes).map(|(lid, _)| lid);
    let is_its = |(_, port): &(&Guid, &Port)| manager.is_some_and(|lid| port.holds(lid));
    // Its port may have another address by now.
    let is_manager = |(_, port): &(&Guid, &Port)| port.info.capabilities.has(Capabilities::SM);
    let first = ends.iter().find(is_its).or_else(|| ends.iter().find(is_manager));
    let first = first.or_else(|| ends.iter().next());
    if let Some((&master, port)) = first {
        let prefix = port.info.gid_prefix;
        let subnets = Snapshot::new(master, &master.to_string(), 0).subnets;
        (found.master, found.prefix, found.subnets) = (master, prefix, subnets);
    }
    for (guid, port) in ends {
        if !port.keys.is_empty() {
            let keys = port.keys.as_flattened().to_vec();
            found.note_table(guid, PortTable::new(found.master, keys));
        }
    }
    found.complete();
    found
}
