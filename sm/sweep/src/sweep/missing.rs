//! Reasons why a fabric is not complete.

use std::collections::BTreeSet;

use super::Sweep;
use crate::partitioning;
use crate::query::PortId;
use crate::report::Missing;
use crate::target::Target;
use snin_sm_database::mad_address::LocalPort;

impl Sweep {
    /// What keeps the fabric from being complete, by name.
    pub fn missing(&self) -> Vec<Missing> {
        let mut missing = BTreeSet::new();
        for (end, failure) in self.failures.iter() {
            let (name, what) = (self.graph.end_name(end), failure.what);
            missing.insert(match failure.silent {
                true => Missing::Unconfirmed { name, what },
                false => Missing::Refused { name, what },
            });
        }
        // Without any cable the manager is cut off, and nothing else need be named.
        let homes =
            || self.graph.homes.known().filter(|(_, (id, _))| !self.graph.node(*id).is_switch());
        let cut = |&(_, end): &(LocalPort, PortId)| {
            self.graph.port(end).is_some_and(|port| port.info.is_some() && !port.is_up())
        };
        let alone = homes().next().is_some() && homes().all(|home| cut(&home));
        let names = homes().filter(cut).map(|(_, end)| self.graph.port_name(end));
        missing.extend(names.map(Missing::NoCable));
        missing.extend(self.leave.rivals.iter().cloned());
        missing.extend(self.graph.unread(alone));
        if let Some(target) = &self.target {
            self.unserved(target, &mut missing);
        }
        missing.into_iter().collect()
    }

    fn unserved(&self, target: &Target, missing: &mut BTreeSet<Missing>) {
        let topology = &target.discovered.topology;
        let name = |node| topology.node(node).name.to_string();
        for &port in &target.without {
            let node = topology.port(port).node;
            missing.insert(Missing::NoAddress { name: name(node), port: topology.num(port) });
        }
        let unserved = self.serving.plan.iter().flat_map(|plan| plan.unserved());
        missing.extend(unserved.map(|&(mlid, guid)| Missing::Unserved { mlid, guid }));
        partitioning::short(&self.graph, target, self.partitions(), missing);
        for pair in &target.routing.unreachable {
            let (from, to) = (name(pair.from), name(pair.to));
            missing.insert(Missing::NoRoute { from, to });
        }
        for switch in topology.switches() {
            let info = self.graph.node(target.discovered.id(switch)).switch.as_ref();
            let needed = target.addresses.top().0.saturating_add(1);
            if let Some(capacity) = info.map(|i| i.linear_fdb_cap).filter(|&cap| cap < needed) {
                missing.insert(Missing::SmallTable { name: name(switch), capacity, needed });
            }
        }
    }
}
