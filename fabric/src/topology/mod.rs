//! A fabric's nodes, ports and cables: immutable, with dense indices.
//!
//! Nodes are in one canonical order - switches, adapters, routers, each by GUID - so that the same fabric
//! discovered in another order gives the same indices, and with them the same addresses and tables.
//! Switches come first: a switch's [`NodeIndex`] is also its index into any table by switch.

mod builder;

use std::ops::Range;

pub use builder::{Handle, TopologyBuilder, TopologyError};

use crate::addresses::AddressError;
use crate::{Addresses, Guid, Lid, LinkRate, Lmc, NodeIndex, PortIndex, PortNum};

/// Most nodes in a topology: well above a subnet's 49,151 addresses, small enough for 32-bit indices.
pub const MAX_NODES: usize = 1 << 18;
/// Most external ports of a node; 255 is "no port" in a forwarding table.
pub const MAX_PORTS: u8 = 254;

/// What NodeInfo:NodeType says (IBA 14.2.5.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NodeKind {
    /// Forwards by its linear forwarding table; its port 0 is its own management port.
    Switch,
    /// A channel adapter; its ports are end ports.
    Adapter,
    /// Joins subnets; within this one its ports are end ports.
    Router,
}

/// One switch, adapter or router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The kind of the node.
    pub kind: NodeKind,
    /// NodeGUID.
    pub guid: Guid,
    /// SystemImageGUID: chips of one chassis share it. 0 where the source did not say.
    pub system_image: Guid,
    /// VendorID, 0 where unknown.
    pub vendor: u32,
    /// DeviceID, 0 where unknown.
    pub device: u32,
    /// NodeDescription, or the name the source used.
    pub name: Box<str>,
    /// External ports, 1 to [`MAX_PORTS`].
    pub ports: u8,
    /// Switches only: port 0 is enhanced (IBA 14.2.5.4).
    pub enhanced_port0: bool,
    first_port: u32,
}

/// One port, port 0 of every node included (meaningless on adapters and routers).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port {
    /// PortGUID. On switches every port has the node's.
    pub guid: Guid,
    /// The node it belongs to.
    pub node: NodeIndex,
    /// The address the source reported, [`Lid::NONE`] where none. On switches at port 0.
    pub lid: Lid,
    /// LMC the source reported.
    pub lmc: Lmc,
    /// Width and speed where the source said.
    pub rate: Option<LinkRate>,
    /// A plug leads the port back to itself. That is no cable: [`Topology::peer`] knows of none.
    pub loopback: bool,
    peer: u32,
}

const NO_PEER: u32 = u32::MAX;

/// See the module's documentation. Made by [`TopologyBuilder`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    nodes: Box<[Node]>,
    ports: Box<[Port]>,
    switches: u32,
}

impl Topology {
    /// Number of switches; they are the nodes `0..switches`.
    pub const fn switch_count(&self) -> usize {
        self.switches as usize
    }

    /// Every switch, by GUID.
    pub fn switches(
        &self,
    ) -> impl DoubleEndedIterator<Item = NodeIndex> + ExactSizeIterator + use<> {
        (0..self.switches).map(NodeIndex)
    }

    /// Number of nodes.
    pub const fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Every node: switches, adapters, routers, each by GUID.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeIndex> + ExactSizeIterator + use<> {
        (0..self.nodes.len() as u32).map(NodeIndex)
    }

    /// Number of ports, port 0 of every node included.
    pub const fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// Every port, port 0 of every node included.
    pub fn ports(&self) -> impl ExactSizeIterator<Item = PortIndex> + use<> {
        (0..self.ports.len() as u32).map(PortIndex)
    }

    /// The node at `index`.
    pub fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index.index()]
    }

    /// True for switches.
    pub const fn is_switch(&self, index: NodeIndex) -> bool {
        index.0 < self.switches
    }

    /// The port at `index`.
    pub fn port(&self, index: PortIndex) -> &Port {
        &self.ports[index.index()]
    }

    /// The port `num` of `node`, if the node has it. Port 0 exists on every node.
    pub fn port_of(&self, node: NodeIndex, num: PortNum) -> Option<PortIndex> {
        let node = self.node(node);
        (num.0 <= node.ports).then(|| PortIndex(node.first_port + u32::from(num.0)))
    }

    /// The number of a port on its node.
    pub fn num(&self, index: PortIndex) -> PortNum {
        let first = self.node(self.port(index).node).first_port;
        PortNum((index.0 - first) as u8)
    }

    /// Port 0 of `node`: where a switch is addressed.
    pub fn port0(&self, node: NodeIndex) -> PortIndex {
        PortIndex(self.node(node).first_port)
    }

    /// The external ports of `node`, 1 upwards.
    pub fn external_ports(
        &self,
        node: NodeIndex,
    ) -> impl DoubleEndedIterator<Item = PortIndex> + ExactSizeIterator + use<> {
        let node = self.node(node);
        let range: Range<u32> = node.first_port + 1..node.first_port + 1 + u32::from(node.ports);
        range.map(PortIndex)
    }

    /// The other end of the cable in `index`, if there is one.
    pub fn peer(&self, index: PortIndex) -> Option<PortIndex> {
        let peer = self.port(index).peer;
        (peer != NO_PEER).then_some(PortIndex(peer))
    }

    /// The node at the other end of the cable in `index`.
    pub fn peer_node(&self, index: PortIndex) -> Option<NodeIndex> {
        self.peer(index).map(|peer| self.port(peer).node)
    }

    /// The cables of `node`: own port, port at the other end.
    pub fn cables(&self, node: NodeIndex) -> impl Iterator<Item = (PortIndex, PortIndex)> + '_ {
        self.external_ports(node).filter_map(|port| self.peer(port).map(|peer| (port, peer)))
    }

    /// The switch-to-switch cables of `switch`: own port number, the other switch.
    pub fn switch_links(
        &self,
        switch: NodeIndex,
    ) -> impl Iterator<Item = (PortNum, NodeIndex)> + '_ {
        self.cables(switch).filter_map(|(port, peer)| {
            let other = self.port(peer).node;
            self.is_switch(other).then(|| (self.num(port), other))
        })
    }

    /// Number of cables.
    pub fn cable_count(&self) -> usize {
        self.ports.iter().filter(|port| port.peer != NO_PEER).count() / 2
    }

    /// Name and port, as people point at them: `leaf3/20`.
    pub fn port_name(&self, index: PortIndex) -> String {
        format!("{}/{}", self.node(self.port(index).node).name, self.num(index))
    }

    /// The addresses that the source of this topology reported.
    ///
    /// # Errors
    /// The first port whose addresses are out of range, misaligned or taken.
    pub fn reported_addresses(&self) -> Result<Addresses, (PortIndex, AddressError)> {
        let mut addresses = Addresses::none(self.port_count());
        for index in self.ports() {
            let port = self.port(index);
            if port.lid != Lid::NONE {
                addresses.assign(index, port.lid, port.lmc).map_err(|error| (index, error))?;
            }
        }
        Ok(addresses)
    }

    /// A copy in which every port reports these addresses, and no other.
    pub fn with_addresses(&self, addresses: &Addresses) -> Self {
        let mut topology = self.clone();
        for port in self.ports() {
            let place = &mut topology.ports[port.index()];
            (place.lid, place.lmc) = match addresses.base(port) {
                Some(base) => (base, addresses.lmc(port)),
                None => (Lid::NONE, Lmc::ZERO),
            };
        }
        topology
    }

    /// A copy whose nodes have the names that `name` gives their GUIDs; others keep theirs.
    pub fn renamed<'a>(&self, name: impl Fn(Guid) -> Option<&'a str>) -> Self {
        let mut topology = self.clone();
        for node in &mut topology.nodes {
            if let Some(name) = name(node.guid) {
                node.name = name.into();
            }
        }
        topology
    }

    /// A copy without the given cables (either end names one). Used to plan for faults, and by tests.
    pub fn without_cables(&self, cut: &[PortIndex]) -> Self {
        let mut topology = self.clone();
        for &end in cut {
            if let Some(peer) = topology.peer(end) {
                topology.ports[end.index()].peer = NO_PEER;
                topology.ports[peer.index()].peer = NO_PEER;
            }
        }
        topology
    }

    /// A copy in which one more cable joins two ports that had none; the same where one of them has.
    pub fn with_cable(&self, a: PortIndex, b: PortIndex) -> Self {
        let mut topology = self.clone();
        if a != b && self.peer(a).is_none() && self.peer(b).is_none() {
            topology.ports[a.index()].peer = b.0;
            topology.ports[b.index()].peer = a.0;
        }
        topology
    }

    /// A copy in which two cables have changed places: what was behind `a` is behind `b` now, and the other way
    /// round. A port without a cable has none to give.
    pub fn with_swapped_cables(&self, a: PortIndex, b: PortIndex) -> Self {
        let mut topology = self.clone();
        let (behind_a, behind_b) = (self.peer(a), self.peer(b));
        if a == b || behind_a == Some(b) {
            return topology;
        }
        for (end, behind) in [(a, behind_b), (b, behind_a)] {
            topology.ports[end.index()].peer = behind.map_or(NO_PEER, |behind| behind.0);
            if let Some(behind) = behind {
                topology.ports[behind.index()].peer = end.0;
            }
        }
        topology
    }
}
