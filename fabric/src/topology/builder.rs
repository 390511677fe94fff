//! Makes a [`Topology`]: nodes and cables in any order in, the canonical order out.

use super::{MAX_NODES, MAX_PORTS, NO_PEER, Node, NodeIndex, NodeKind, Port, Topology};
use crate::{Guid, Lid, LinkRate, Lmc, PortNum, printable};
use std::collections::BTreeMap;

/// A node within its builder, in order of [`TopologyBuilder::add`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Handle(u32);

impl Handle {
    /// How many nodes were added before this one.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why nodes and cables make no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// More nodes than [`MAX_NODES`].
    #[error("more than {MAX_NODES} nodes")]
    TooManyNodes,
    /// A port count outside 1..=[`MAX_PORTS`].
    #[error("node `{name}` has {ports} ports (1 to {MAX_PORTS} are possible)")]
    PortCount {
        /// The node.
        name: String,
        /// What it claims.
        ports: u64,
    },
    /// Two nodes, or ports of two nodes, with one GUID.
    #[error("GUID {guid} belongs to both `{first}` and `{second}`")]
    DuplicateGuid {
        /// The GUID.
        guid: Guid,
        /// The node that had it first.
        first: String,
        /// The node that has it too.
        second: String,
    },
    /// A port the node does not have.
    #[error("port {port} is beyond the {ports} ports of `{name}`")]
    NoSuchPort {
        /// The node.
        name: String,
        /// Its port count.
        ports: u8,
        /// The port asked for.
        port: u64,
    },
    /// Two cables in one port.
    #[error("port {port} of `{name}` has more than one cable")]
    PortTaken {
        /// The node.
        name: String,
        /// The port.
        port: PortNum,
    },
}

struct Draft {
    node: Node,
    ports: Vec<Port>,
    peers: Vec<Option<(Handle, PortNum)>>,
}

/// Collects nodes and cables; [`build`](Self::build) sorts and freezes them.
#[derive(Default)]
pub struct TopologyBuilder {
    drafts: Vec<Draft>,
    guids: BTreeMap<Guid, Handle>,
}

impl TopologyBuilder {
    /// No nodes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node whose external ports have the GUIDs `guid + 1`, `guid + 2` ... (adapters, routers) or
    /// the node's own (switches); [`set_port_guid`](Self::set_port_guid) changes that. In its name, what must
    /// not reach a terminal is replaced: see [`printable`].
    pub fn add(
        &mut self,
        kind: NodeKind,
        guid: Guid,
        ports: u64,
        name: &str,
    ) -> Result<Handle, TopologyError> {
        if self.drafts.len() >= MAX_NODES {
            return Err(TopologyError::TooManyNodes);
        }
        let name = printable(name);
        let Some(count) = u8::try_from(ports).ok().filter(|p| (1..=MAX_PORTS).contains(p)) else {
            return Err(TopologyError::PortCount { name: name.into_owned(), ports });
        };
        let handle = Handle(self.drafts.len() as u32);
        let port_guid = |num: u8| match kind {
            NodeKind::Switch => guid,
            NodeKind::Adapter | NodeKind::Router => Guid(guid.0.wrapping_add(u64::from(num))),
        };
        let port = |num| Port {
            guid: port_guid(num),
            node: NodeIndex(0),
            lid: Lid::NONE,
            lmc: Lmc::ZERO,
            rate: None,
            loopback: false,
            peer: NO_PEER,
        };
        let node = Node {
            kind,
            guid,
            system_image: Guid(0),
            vendor: 0,
            device: 0,
            name: name.into(),
            ports: count,
            enhanced_port0: false,
            first_port: 0,
        };
        let draft = Draft {
            node,
            ports: (0..=count).map(port).collect(),
            peers: vec![None; usize::from(count) + 1],
        };
        self.drafts.push(draft);
        self.claim_guid(guid, handle)?;
        Ok(handle)
    }

    /// Everything of a node but its kind, GUID and ports may be set after the fact.
    pub fn node_mut(&mut self, handle: Handle) -> &mut Node {
        &mut self.drafts[handle.index()].node
    }

    /// Number of nodes so far.
    pub fn len(&self) -> usize {
        self.drafts.len()
    }

    /// True before the first node.
    pub fn is_empty(&self) -> bool {
        self.drafts.is_empty()
    }

    /// Sets PortGUID.
    pub fn set_port_guid(
        &mut self,
        handle: Handle,
        port: PortNum,
        guid: Guid,
    ) -> Result<(), TopologyError> {
        self.port_mut(handle, u64::from(port.0))?.guid = guid;
        Ok(())
    }

    /// Sets the address and LMC of a port (port 0 of a switch).
    pub fn set_address(
        &mut self,
        handle: Handle,
        port: PortNum,
        lid: Lid,
        lmc: Lmc,
    ) -> Result<(), TopologyError> {
        let port = self.port_mut(handle, u64::from(port.0))?;
        (port.lid, port.lmc) = (lid, lmc);
        Ok(())
    }

    /// Sets width and speed of a port.
    pub fn set_rate(
        &mut self,
        handle: Handle,
        port: PortNum,
        rate: LinkRate,
    ) -> Result<(), TopologyError> {
        self.port_mut(handle, u64::from(port.0))?.rate = Some(rate);
        Ok(())
    }

    /// Checks that a node has a port, giving its number as a type.
    pub fn check_port(&self, handle: Handle, port: u64) -> Result<PortNum, TopologyError> {
        let node = &self.drafts[handle.index()].node;
        match u8::try_from(port) {
            Ok(num) if num <= node.ports => Ok(PortNum(num)),
            _ => Err(TopologyError::NoSuchPort {
                name: node.name.to_string(),
                ports: node.ports,
                port,
            }),
        }
    }

    /// Joins two ports by a cable; a port to itself by a loopback plug.
    pub fn cable(
        &mut self,
        a: (Handle, PortNum),
        b: (Handle, PortNum),
    ) -> Result<(), TopologyError> {
        if a == b {
            self.port_mut(a.0, u64::from(a.1.0))?.loopback = true;
            return Ok(());
        }
        for ((end, port), other) in [(a, b), (b, a)] {
            self.check_port(end, u64::from(port.0))?;
            let draft = &mut self.drafts[end.index()];
            let peer = &mut draft.peers[port.index()];
            if peer.is_some() {
                let name = draft.node.name.to_string();
                return Err(TopologyError::PortTaken { name, port });
            }
            *peer = Some(other);
        }
        Ok(())
    }

    /// Sorts the nodes, numbers the ports, joins the cables.
    pub fn build(mut self) -> Result<Topology, TopologyError> {
        self.check_port_guids()?;
        let mut order: Vec<u32> = (0..self.drafts.len() as u32).collect();
        order.sort_by_key(|&i| {
            let node = &self.drafts[i as usize].node;
            (node.kind, node.guid)
        });
        let mut next_port = 0;
        for &i in &order {
            let node = &mut self.drafts[i as usize].node;
            node.first_port = next_port;
            next_port += u32::from(node.ports) + 1;
        }
        let mut ports = Vec::with_capacity(next_port as usize);
        for (index, &i) in order.iter().enumerate() {
            let draft = &self.drafts[i as usize];
            for (port, peer) in draft.ports.iter().zip(&draft.peers) {
                let peer = peer.map_or(NO_PEER, |(node, num)| {
                    self.drafts[node.index()].node.first_port + u32::from(num.0)
                });
                ports.push(Port { node: NodeIndex(index as u32), peer, ..*port });
            }
        }
        let is_switch = |draft: &&Draft| draft.node.kind == NodeKind::Switch;
        let switches = self.drafts.iter().filter(is_switch).count() as u32;
        let mut drafts: Vec<Option<Node>> = self.drafts.into_iter().map(|d| Some(d.node)).collect();
        let nodes = order.iter().filter_map(|&i| drafts[i as usize].take()).collect();
        Ok(Topology { nodes, ports: ports.into(), switches })
    }

    fn port_mut(&mut self, handle: Handle, port: u64) -> Result<&mut Port, TopologyError> {
        let num = self.check_port(handle, port)?;
        Ok(&mut self.drafts[handle.index()].ports[num.index()])
    }

    /// Remembers whose GUID this is; a node may use its own GUID for a port too.
    fn claim_guid(&mut self, guid: Guid, handle: Handle) -> Result<(), TopologyError> {
        match self.guids.insert(guid, handle) {
            Some(first) if first != handle => Err(TopologyError::DuplicateGuid {
                guid,
                first: self.drafts[first.index()].node.name.to_string(),
                second: self.drafts[handle.index()].node.name.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Port GUIDs of adapters and routers are unique within the fabric, those of cabled ports at least:
    /// an unused second port may carry anything.
    fn check_port_guids(&mut self) -> Result<(), TopologyError> {
        for i in 0..self.drafts.len() {
            if self.drafts[i].node.kind == NodeKind::Switch {
                continue;
            }
            let draft = &self.drafts[i];
            let cabled = (1..draft.ports.len()).filter(|&num| draft.peers[num].is_some());
            let guids: Vec<Guid> = cabled.map(|num| draft.ports[num].guid).collect();
            for (n, &guid) in guids.iter().enumerate() {
                if guids[..n].contains(&guid) {
                    let name = self.drafts[i].node.name.to_string();
                    let (first, second) = (name.clone(), name);
                    return Err(TopologyError::DuplicateGuid { guid, first, second });
                }
                self.claim_guid(guid, Handle(i as u32))?;
            }
        }
        Ok(())
    }
}
