//! Questions to a node, and writes to it.

use snin_fabric::PortNum;

use snin_sm_database::judgement::{LinkOrder, TestRequest};
use snin_sm_database::mad_address::LocalPort;
use snin_sm_database::qos_table::QosTableId;

/// A node's place in the [`Graph`](super::graph::Graph): its own for as long as the core lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    /// The first to be discovered: one at which the manager sits.
    pub(crate) const FIRST: Self = Self(0);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A port of a node.
pub(crate) type PortId = (NodeId, PortNum);

/// One SMP's purpose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Query {
    /// NodeInfo of the node that a local port belongs to.
    Own(LocalPort),
    /// NodeInfo of the node at the other end of this port's cable.
    Identify(PortId),
    /// NodeInfo of a neighbour that left earlier questions without an answer.
    Probe(PortId),
    /// NodeDescription.
    Describe(NodeId),
    /// SwitchInfo.
    ReadSwitch(NodeId),
    /// Clears PortStateChange.
    ClearChange(NodeId),
    /// PortInfo.
    ReadPort(NodeId, PortNum),
    /// A block of the partition table.
    ReadKeys(NodeId, PortNum, u16),
    /// A table of service levels or lanes.
    ReadQosTable(NodeId, PortNum, QosTableId),
    /// SMInfo of the manager at this port.
    ReadManager(NodeId, PortNum),
    /// A block of the forwarding table.
    ReadBlock(NodeId, u16),
    /// 16 ports wide, a block of the multicast forwarding table.
    ReadMasks(NodeId, u16, u8),
    /// A link is told to come up or to stay down.
    Order(NodeId, PortNum, LinkOrder),
    /// A port is told who is master now.
    Tell(NodeId, PortNum),
    /// The node behind a port is asked, while the port is tested.
    Trial(PortId, TestRequest),
    /// A step of the schedule.
    Step(u32),
}

impl Query {
    /// The step, if it is one.
    pub(crate) const fn step(self) -> Option<u32> {
        match self {
            Self::Step(id) => Some(id),
            _ => None,
        }
    }

    /// Whether it changes anything.
    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::Step(_) | Self::ClearChange(_) | Self::Order(..) | Self::Tell(..))
    }

    /// The port that the question is about, where it is one port: an end node answers for that port only
    /// along a path that ends there.
    pub(crate) const fn end(self) -> Option<PortId> {
        match self {
            Self::ReadPort(node, port)
            | Self::ReadKeys(node, port, _)
            | Self::ReadQosTable(node, port, _)
            | Self::ReadManager(node, port)
            | Self::Tell(node, port) => Some((node, port)),
            _ => None,
        }
    }

    /// Whose agent answers, where it is known beforehand.
    pub(crate) const fn agent(self) -> Option<NodeId> {
        match self {
            Self::Own(_) | Self::Identify(_) | Self::Probe(_) | Self::Step(_) => None,
            Self::Trial(..) => None,
            Self::Describe(node)
            | Self::ReadSwitch(node)
            | Self::ClearChange(node)
            | Self::ReadPort(node, _)
            | Self::ReadKeys(node, ..)
            | Self::ReadQosTable(node, ..)
            | Self::ReadManager(node, _)
            | Self::ReadBlock(node, _)
            | Self::ReadMasks(node, ..)
            | Self::Tell(node, ..)
            | Self::Order(node, ..) => Some(node),
        }
    }
}
