//! What was before a change, by the names of today, and what is wanted now.

use std::collections::BTreeMap;

use super::AddressPlan;
use super::balanced::NextHops;
use super::engine::Former;
use super::shortest::Shortest;
use crate::{ForwardingTable, Guid, Lid, NodeIndex, PortNum, Topology};

/// The tables as they were, found by the names of today.
pub(super) struct Known<'a> {
    topology: &'a Topology,
    plan: &'a AddressPlan,
    /// By switch.
    tables: Vec<Option<&'a ForwardingTable>>,
    ports: BTreeMap<Guid, Lid>,
}

impl<'a> Known<'a> {
    pub(super) fn new(topology: &'a Topology, plan: &'a AddressPlan, former: Former<'a>) -> Self {
        let Former { topology: before, addresses, routing } = former;
        let was = former_switches(topology, before);
        let table = |was: Option<NodeIndex>| was.map(|was| &routing.tables[was.index()]);
        let ports = addresses.iter().map(|(port, base, _)| (before.port(port).guid, base));
        let tables = was.into_iter().map(table).collect();
        Self { topology, plan, tables, ports: ports.collect() }
    }

    /// What an address was.
    pub(super) fn lid(&self, lid: Lid) -> Option<Lid> {
        let (port, offset) = self.plan.addresses().owner(lid)?;
        let base = self.ports.get(&self.topology.port(port).guid)?;
        Some(Lid(base.0.checked_add(offset)?))
    }

    /// By which port a switch led to an address that was.
    pub(super) fn port(&self, at: NodeIndex, former: Option<Lid>) -> PortNum {
        let known = self.tables[at.index()].zip(former);
        known.map_or(PortNum::NONE, |(table, lid)| table.get(lid))
    }
}

/// By switch: the same before.
pub(super) fn former_switches(topology: &Topology, before: &Topology) -> Vec<Option<NodeIndex>> {
    let switches: BTreeMap<Guid, NodeIndex> =
        before.switches().map(|switch| (before.node(switch).guid, switch)).collect();
    topology.switches().map(|it| switches.get(&topology.node(it).guid).copied()).collect()
}

/// The next hops to a switch that are wanted.
pub(super) struct Near {
    /// The nearest switch first.
    pub(super) order: Vec<NodeIndex>,
    pub(super) ports: Vec<Vec<PortNum>>,
}

impl Near {
    pub(super) fn new(topology: &Topology, shortest: &mut Shortest, to: NodeIndex) -> Self {
        let mut near = Self { order: Vec::new(), ports: vec![Vec::new(); topology.switch_count()] };
        shortest.find(topology, to, &|_| true, &mut |switch, ports| {
            near.order.push(switch);
            near.ports[switch.index()].extend_from_slice(ports);
        });
        near
    }

    pub(super) fn has(&self, at: NodeIndex, port: PortNum) -> bool {
        self.ports[at.index()].contains(&port)
    }
}
