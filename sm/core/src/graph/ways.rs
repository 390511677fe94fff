//! The ways of SMPs: the shortest one to every node, and the one that a question takes.

use std::collections::VecDeque;

use snin_fabric::PortNum;
use snin_mad::DrPath;

use super::{Graph, Port};
use crate::query::{NodeId, PortId, Query};

impl Graph {
    /// The node that answers a question, as far as it is known.
    pub(crate) fn agent(&self, query: Query) -> Option<NodeId> {
        match query {
            Query::Identify(Some(via)) => self.link(via).map(|link| link.to.0),
            _ => query.agent(),
        }
    }

    /// The way of an SMP.
    pub(crate) fn path(&self, query: Query) -> Option<DrPath> {
        match query {
            Query::Identify(None) => Some(DrPath::HERE),
            Query::Identify(Some((node, port)))
            | Query::Probe((node, port))
            | Query::Trial((node, port), _) => {
                self.node(node).path.filter(|_| self.leads_on(node))?.then(port)
            }
            _ => match query.end() {
                Some(end) => self.path_to(end),
                None => self.node(query.agent()?).path,
            },
        }
    }

    /// The way of an SMP that is about one port. A switch answers for all of its ports; an end node takes
    /// writes to a port, and finds its partition table, only by that port (IBA 14.2.5.6, 14.2.5.7).
    pub(crate) fn path_to(&self, (id, port): PortId) -> Option<DrPath> {
        let node = self.node(id);
        if node.is_switch() || (id, port) == self.own_end() {
            return node.path;
        }
        let (before, out) = self.link((id, port))?.to;
        self.node(before).path.filter(|_| self.leads_on(before))?.then(out)
    }

    /// The port at which the manager sits, of a switch port 0.
    pub(crate) fn own_end(&self) -> PortId {
        self.guard((NodeId::OWN, self.node(NodeId::OWN).info.local_port))
    }

    /// Whether ways go on from the node to its neighbours.
    fn leads_on(&self, id: NodeId) -> bool {
        let node = self.node(id);
        id == NodeId::OWN || node.is_switch() && !node.is_locked()
    }

    /// The ports that the way to a question's node leaves by, the nearest first.
    pub(crate) fn way(&self, query: Query) -> Vec<PortId> {
        let mut way = Vec::new();
        let mut at = NodeId::OWN;
        for &port in self.path(query).as_ref().map_or(&[][..], DrPath::ports) {
            let end = (at, PortNum(port));
            way.push(end);
            let Some(link) = self.link(end) else { break };
            at = link.to.0;
        }
        way
    }

    /// Whether a question's SMP gets to its end along this path, for all that is known of cables.
    pub(crate) fn leads(&self, query: Query, path: &DrPath) -> bool {
        // Which node is behind the last port is the question.
        let beyond = matches!(query, Query::Identify(_) | Query::Probe(_) | Query::Trial(..));
        let known = path.hops().saturating_sub(usize::from(beyond));
        let mut at = NodeId::OWN;
        path.ports()[..known].iter().all(|&port| {
            let next = self.link((at, PortNum(port))).map(|link| link.to.0);
            at = next.unwrap_or(at);
            next.is_some()
        })
    }

    /// Finds the shortest way to every node anew, over the links that are left.
    pub(crate) fn retrace(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.path = None);
        let Some(own) = self.nodes.first_mut() else { return };
        own.path = Some(DrPath::HERE);
        let local = own.info.local_port;
        let mut queue = VecDeque::from([NodeId::OWN]);
        while let Some(id) = queue.pop_front() {
            let node = self.node(id);
            let Some(path) = node.path else { continue };
            if !self.leads_on(id) {
                continue;
            }
            let only = (!node.is_switch()).then_some(local);
            let ways: Vec<(PortNum, NodeId)> = node
                .external()
                .filter(|&(num, _)| only.is_none_or(|only| only == num))
                .filter_map(|(num, port)| Some((num, port.link?.to.0)))
                .collect();
            for (num, next) in ways {
                if self.node(next).path.is_none()
                    && let Some(path) = path.then(num)
                {
                    self.node_mut(next).path = Some(path);
                    queue.push_back(next);
                }
            }
        }
    }

    /// Finds a way to a node that was just joined to others.
    pub(crate) fn retrace_one(&mut self, id: NodeId) {
        if id == NodeId::OWN {
            self.node_mut(id).path = Some(DrPath::HERE);
            return;
        }
        let over = |(_, port): (PortNum, &Port)| {
            let (node, num) = port.link?.to;
            self.node(node).path.filter(|_| self.leads_on(node))?.then(num)
        };
        let path = self.node(id).external().filter_map(over).min();
        self.node_mut(id).path = path;
    }
}

#[cfg(test)]
mod tests {
    use snin_fabric::Guid;
    use snin_mad::{NodeInfo, NodeType};

    use super::*;

    fn node(graph: &mut Graph, guid: u64, node_type: NodeType, ports: u8) -> NodeId {
        let info = NodeInfo {
            node_type,
            num_ports: ports,
            node_guid: Guid(guid),
            port_guid: Guid(guid),
            local_port: PortNum(1),
            ..NodeInfo::default()
        };
        graph.admit(&info).unwrap()
    }

    #[test]
    fn ways_are_shortest_and_lead_through_switches_only() {
        let mut graph = Graph::default();
        let own = node(&mut graph, 1, NodeType::ChannelAdapter, 1);
        let [a, b] = [2, 3].map(|guid| node(&mut graph, guid, NodeType::Switch, 4));
        let two_ports = node(&mut graph, 4, NodeType::ChannelAdapter, 2);
        let far = node(&mut graph, 5, NodeType::Switch, 4);
        let join = |graph: &mut Graph, x: NodeId, p: u8, y: NodeId, q: u8| {
            graph.connect((x, PortNum(p)), (y, PortNum(q)), 1);
        };
        join(&mut graph, own, 1, a, 1);
        join(&mut graph, a, 2, b, 1);
        join(&mut graph, b, 2, two_ports, 1);
        join(&mut graph, far, 1, two_ports, 2);
        graph.retrace();
        assert_eq!(graph.node(two_ports).path, DrPath::new(&[1, 2, 2]));
        assert_eq!(graph.node(far).path, None, "no way through an adapter");

        // A cable that moves takes the place of the one that was there.
        join(&mut graph, a, 2, far, 3);
        graph.retrace();
        assert_eq!(graph.node(far).path, DrPath::new(&[1, 2]));
        assert_eq!(graph.node(b).path, None);
        assert!(graph.link((b, PortNum(1))).is_none());
        assert_eq!(graph.isolate(far).len(), 2);
    }
}
