//! The ways of SMPs: the shortest one to every node, and the one that a question takes.

use std::collections::VecDeque;

use snin_fabric::{Lid, PortNum};

use super::{Graph, Port};
use crate::query::{NodeId, PortId, Query};
use snin_sm_database::directed_route::DirectedRoute;
use snin_sm_database::mad_address::LocalPort;

/// The most switches that a packet is followed through.
const MOST_HOPS: usize = 64;

impl Graph {
    /// The node that answers a question, as far as it is known.
    pub(crate) fn agent(&self, query: Query) -> Option<NodeId> {
        match query {
            Query::Identify(via) => self.link(via).map(|link| link.to.0),
            _ => query.agent(),
        }
    }

    /// The way of an SMP.
    pub(crate) fn path(&self, query: Query) -> Option<DirectedRoute> {
        match query {
            Query::Own(port) => Some(DirectedRoute::here(port)),
            Query::Identify(end) | Query::Probe(end) | Query::Trial(end, _) => self.out_by(end),
            _ => match query.end() {
                Some(end) => self.path_to(end),
                None => self.node(query.agent()?).path,
            },
        }
    }

    /// The way of an SMP that is about one port. A switch answers for all of its ports; an end node takes
    /// writes to a port, and finds its partition table, only by that port (IBA 14.2.5.6, 14.2.5.7).
    pub(crate) fn path_to(&self, end: PortId) -> Option<DirectedRoute> {
        let node = self.node(end.0);
        if node.is_switch() {
            return node.path;
        }
        match self.homes.at(end) {
            Some(port) => Some(DirectedRoute::here(port)),
            None => self.out_by(self.link(end)?.to),
        }
    }

    /// The way that leaves a node by a port: ways lead through switches that take writes, and begin at the
    /// manager's own ports.
    fn out_by(&self, end: PortId) -> Option<DirectedRoute> {
        let (id, out) = end;
        let node = self.node(id);
        if !node.is_switch() {
            return self.homes.at(end).and_then(|port| DirectedRoute::here(port).then(out));
        }
        node.path.filter(|_| !node.is_locked() || self.is_own(id))?.then(out)
    }

    /// The ports that the way to a question's node leaves by, the nearest first.
    pub(crate) fn way(&self, query: Query) -> Vec<PortId> {
        let mut way = Vec::new();
        let Some(route) = self.path(query) else { return way };
        let Some((mut at, _)) = self.homes.end(route.from) else { return way };
        for &port in route.path.ports() {
            let end = (at, PortNum(port));
            way.push(end);
            let Some(link) = self.link(end) else { break };
            at = link.to.0;
        }
        way
    }

    /// The ports that a packet to `lid` leaves by, the first at this manager's own port: as the tables lead that
    /// are in force, for all that is known of them.
    pub(crate) fn forwarding_path(&self, from: LocalPort, lid: Lid) -> Vec<PortId> {
        let mut path = Vec::new();
        let Some((mut node, mut out)) = self.homes.end(from) else { return path };
        while path.len() < MOST_HOPS {
            if self.node(node).is_switch() {
                out = PortNum(self.node(node).shadow.forwards(lid));
                if matches!(out, PortNum::ZERO | PortNum::NONE) {
                    break;
                }
            }
            path.push((node, out));
            match self.link((node, out)) {
                Some(link) if self.node(link.to.0).is_switch() => node = link.to.0,
                _ => break,
            }
        }
        path
    }

    /// Whether a question's SMP gets to its end along this way, for all that is known of cables.
    pub(crate) fn leads(&self, query: Query, route: &DirectedRoute) -> bool {
        // Which node is behind the last port is the question.
        let beyond = matches!(query, Query::Identify(_) | Query::Probe(_) | Query::Trial(..));
        let known = route.hops().saturating_sub(usize::from(beyond));
        let Some((mut at, _)) = self.homes.end(route.from) else { return false };
        route.path.ports()[..known].iter().all(|&port| {
            let next = self.link((at, PortNum(port))).map(|link| link.to.0);
            at = next.unwrap_or(at);
            next.is_some()
        })
    }

    /// Finds the shortest way to every node anew, over the links that are left, from whichever own port is nearer.
    pub(crate) fn retrace(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.path = None);
        let homes: Vec<(NodeId, DirectedRoute)> =
            self.homes.known().map(|(port, (id, _))| (id, DirectedRoute::here(port))).collect();
        let mut queue = VecDeque::new();
        for (id, here) in homes {
            if self.node(id).path.is_none() {
                self.node_mut(id).path = Some(here);
                queue.push_back(id);
            }
        }
        while let Some(id) = queue.pop_front() {
            let links = self.node(id).external();
            let ways: Vec<(PortNum, NodeId)> =
                links.filter_map(|(num, port)| Some((num, port.link?.to.0))).collect();
            for (num, next) in ways {
                if self.node(next).path.is_none()
                    && let Some(route) = self.out_by((id, num))
                {
                    self.node_mut(next).path = Some(route);
                    queue.push_back(next);
                }
            }
        }
    }

    /// Finds a way to a node that was just joined to others.
    pub(crate) fn retrace_one(&mut self, id: NodeId) {
        let home = self.homes.known().find(|(_, (node, _))| *node == id);
        let over = |(_, port): (PortNum, &Port)| self.out_by(port.link?.to);
        let path = match home {
            Some((port, _)) => Some(DirectedRoute::here(port)),
            None => self.node(id).external().filter_map(over).min(),
        };
        self.node_mut(id).path = path;
    }
}

#[cfg(test)]
mod tests {
    use snin_fabric::Guid;
    use snin_mad::{DrPath, NodeInfo, NodeType};

    use super::*;
    use crate::graph::homes::Homes;
    use snin_sm_database::mad_address::LocalPort;

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
        graph.homes.settle(LocalPort(0), (own, PortNum(1)));
        let route =
            |ports: &[u8]| Some(DirectedRoute { path: DrPath::new(ports)?, from: LocalPort(0) });
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
        assert_eq!(graph.node(two_ports).path, route(&[1, 2, 2]));
        assert_eq!(graph.node(far).path, None, "no way through an adapter");

        // A cable that moves takes the place of the one that was there.
        join(&mut graph, a, 2, far, 3);
        graph.retrace();
        assert_eq!(graph.node(far).path, route(&[1, 2]));
        assert_eq!(graph.node(b).path, None);
        assert!(graph.link((b, PortNum(1))).is_none());
        assert_eq!(graph.isolate(far).len(), 2);
    }

    #[test]
    fn each_node_is_reached_from_the_nearer_of_two_own_ports() {
        let mut graph = Graph { homes: Homes::new(2), ..Graph::default() };
        let own = node(&mut graph, 1, NodeType::ChannelAdapter, 2);
        let [a, b, c] = [2, 3, 4].map(|guid| node(&mut graph, guid, NodeType::Switch, 4));
        let join = |graph: &mut Graph, x: NodeId, p: u8, y: NodeId, q: u8| {
            graph.connect((x, PortNum(p)), (y, PortNum(q)), 1);
        };
        for (x, p, y, q) in [(own, 1, a, 1), (a, 2, b, 1), (b, 2, c, 1), (own, 2, c, 2)] {
            join(&mut graph, x, p, y, q);
        }
        let path =
            |graph: &Graph, id| graph.node(id).path.map(|route| (route.from.0, route.hops()));
        (0..2).for_each(|n| graph.homes.settle(LocalPort(n), (own, PortNum(n as u8 + 1))));
        graph.retrace();
        assert_eq!(
            [a, b, c].map(|id| path(&graph, id)),
            [Some((0, 1)), Some((0, 2)), Some((1, 1))]
        );
        graph.disconnect((own, PortNum(1)));
        graph.retrace();
        assert_eq!(
            [a, b, c].map(|id| path(&graph, id)),
            [Some((1, 3)), Some((1, 2)), Some((1, 1))]
        );
    }
}
