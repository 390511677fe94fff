//! Recognition begins with a [`Topology`]: what was discovered as the planners want to have it.

use std::collections::BTreeMap;

use snin_fabric::topology::{Handle, TopologyBuilder, TopologyError};
use snin_fabric::{NodeIndex, NodeKind, PortIndex, Topology};

use crate::failures::Failures;
use crate::graph::Graph;
use crate::query::{NodeId, PortId};

/// A topology and whose node is whose.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Discovered {
    pub(crate) topology: Topology,
    /// By node of the topology.
    ids: Vec<NodeId>,
    /// By node of the graph.
    nodes: BTreeMap<NodeId, NodeIndex>,
}

impl Discovered {
    /// Every node that is managed, and every cable that is up at both ends and leads to a port that takes
    /// writes.
    /// Cables that configuration withholds are left out, and so are switches that have no others.
    /// A cable between switches that did not come up twice is left out too, until it has.
    pub(crate) fn of(graph: &Graph, failures: &Failures) -> Result<Self, TopologyError> {
        let mut builder = TopologyBuilder::new();
        let mut handles: BTreeMap<NodeId, Handle> = BTreeMap::new();
        for (id, node) in graph.managed().filter(|&(id, _)| !is_withheld(graph, id)) {
            let info = &node.info;
            let label = node.label();
            let handle = builder.add(node.kind, node.guid(), info.num_ports.into(), &label)?;
            let entry = builder.node_mut(handle);
            entry.system_image = info.system_image_guid;
            entry.vendor = info.vendor_id.0;
            entry.device = info.device_id.0.into();
            entry.enhanced_port0 =
                node.switch.as_ref().is_some_and(|switch| switch.enhanced_port_zero);
            for (num, port) in node.external() {
                if let Some(guid) = port.guid.filter(|_| node.kind != NodeKind::Switch) {
                    builder.set_port_guid(handle, num, guid)?;
                }
                if let Some(rate) = port.info.as_ref().and_then(|info| info.rate(None)) {
                    builder.set_rate(handle, num, rate)?;
                }
            }
            handles.insert(id, handle);
        }
        for (&id, &handle) in &handles {
            for (num, _) in graph.node(id).external() {
                let Some(link) = graph.link((id, num)).filter(|link| (id, num) <= link.to) else {
                    continue;
                };
                let locked = |end: PortId| !graph.is_home(end) && graph.is_locked(end);
                let fails = |end: PortId| graph.is_trunk(end) && failures.count(end) > 1;
                let withheld = |end: PortId| graph.withheld.contains(&end);
                let left_out = |&end: &PortId| locked(end) || fails(end) || withheld(end);
                if [(id, num), link.to].iter().any(left_out) {
                    continue;
                }
                if let Some(&other) = handles.get(&link.to.0) {
                    builder.cable((handle, num), (other, link.to.1))?;
                }
            }
        }
        let topology = builder.build()?;
        let mut nodes = BTreeMap::new();
        let mut ids = Vec::with_capacity(topology.node_count());
        for index in topology.nodes() {
            // Every node of the topology came from the graph, by its GUID.
            let id = graph.find(topology.node(index).guid).unwrap_or(NodeId::FIRST);
            nodes.insert(id, index);
            ids.push(id);
        }
        Ok(Self { topology, ids, nodes })
    }

    pub(crate) fn id(&self, node: NodeIndex) -> NodeId {
        self.ids[node.index()]
    }

    /// The port as the graph knows it.
    pub(crate) fn end(&self, port: PortIndex) -> PortId {
        (self.id(self.topology.port(port).node), self.topology.num(port))
    }

    pub(crate) fn index(&self, node: NodeId) -> Option<NodeIndex> {
        self.nodes.get(&node).copied()
    }

    pub(crate) fn port(&self, (node, num): PortId) -> Option<PortIndex> {
        self.topology.port_of(self.index(node)?, num)
    }

    /// The port that is addressed at this node: port 0 of a switch, the local one of anything else.
    pub(crate) fn own_port(&self, graph: &Graph) -> Option<PortIndex> {
        self.port(graph.own_end())
    }
}

/// Whether a switch has cables, and all of them are withheld: it is as if it were gone.
fn is_withheld(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let ports = node.external().map(|(num, _)| (id, num));
    let mut cabled = ports.filter_map(|end| Some([end, graph.link(end)?.to])).peekable();
    let is_withheld = |ends: [PortId; 2]| ends.iter().any(|end| graph.withheld.contains(end));
    node.is_switch() && !graph.is_own(id) && cabled.peek().is_some() && cabled.all(is_withheld)
}
