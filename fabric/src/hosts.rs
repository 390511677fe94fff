//! Hosts: the ports that programs send from, numbered as patterns and plans number them.

use std::fmt;

use crate::{NodeIndex, NodeKind, PortIndex, PortNum, Topology};

/// A host port's number, from 0 by (leaf GUID, leaf port).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(pub u32);

impl HostId {
    /// As an index into tables by host.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A host port and where it hangs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// The adapter's port.
    pub port: PortIndex,
    /// The switch at the other end of its cable.
    pub switch: NodeIndex,
    /// That switch's port.
    pub switch_port: PortNum,
}

/// Every host port of a fabric. An adapter with two cabled ports is two hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hosts {
    hosts: Vec<Host>,
}

impl Hosts {
    /// Adapters on switches, aggregation nodes and routers are left out: they have addresses, but no agent asks
    /// for connections to them.
    pub fn of(topology: &Topology) -> Self {
        let host = |switch: NodeIndex| {
            topology.cables(switch).filter_map(move |(port, peer)| {
                let node = topology.port(peer).node;
                let adapter = topology.node(node).kind == NodeKind::Adapter;
                (adapter && !is_aggregation_node(topology, node)).then(|| Host {
                    port: peer,
                    switch,
                    switch_port: topology.num(port),
                })
            })
        };
        // Switches are in order of GUID, their cables in order of port.
        Self { hosts: topology.switches().flat_map(host).collect() }
    }

    /// Number of hosts.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// True when the fabric has no host.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The host with this number.
    pub fn get(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(id.index())
    }

    /// Every host in order of its number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (HostId, &Host)> {
        self.hosts.iter().enumerate().map(|(id, host)| (HostId(id as u32), host))
    }

    /// Number of hosts on each switch.
    pub fn per_switch(&self, topology: &Topology) -> Vec<usize> {
        let mut count = vec![0; topology.switch_count()];
        for host in &self.hosts {
            count[host.switch.index()] += 1;
        }
        count
    }
}

/// An adapter inside a switch that reduces collectives: it names itself so, or shares the
/// SystemImageGUID of the switch it hangs on.
pub fn is_aggregation_node(topology: &Topology, node: NodeIndex) -> bool {
    let adapter = topology.node(node);
    let built_in = || {
        topology.cables(node).any(|(_, peer)| {
            let switch = topology.node(topology.port(peer).node);
            switch.kind == NodeKind::Switch
                && switch.system_image.0 != 0
                && switch.system_image == adapter.system_image
        })
    };
    adapter.kind == NodeKind::Adapter && (adapter.name.contains("Aggregation Node") || built_in())
}
