//! The identity of the node at the other end: new nodes, nodes that moved, and two that claim to be the same.

use snin_fabric::PortNum;
use snin_mad::NodeInfo;

use super::Survey;
use crate::graph::{Graph, Port, Trouble};
use crate::query::{NodeId, PortId, Query};

impl Survey {
    pub(super) fn identified(&mut self, graph: &mut Graph, via: Option<PortId>, info: &NodeInfo) {
        if via.is_some_and(|via| !graph.port(via).is_some_and(|port| port.is_up())) {
            return; // The cable went while the answer was on its way.
        }
        let Some(id) = graph.admit(info) else { return self.trouble(graph, via, Trouble::Mute) };
        let known = &graph.node(id).info;
        if (known.num_ports, known.node_type) != (info.num_ports, info.node_type) {
            if graph.node(id).seen == self.number || graph.is_own(id) {
                return self.trouble(graph, via, Trouble::Clash(info.node_guid));
            }
            graph.replace(id, info).into_iter().for_each(|end| self.identify(end));
        }
        let end = (id, info.local_port);
        let holder = match via {
            Some(via) if self.is_disputed(graph, via, end) => {
                return self.trouble(graph, Some(via), Trouble::Clash(info.node_guid));
            }
            _ if graph.node(id).is_switch() => None,
            via => graph.claim_port_guid(end, info.port_guid, via),
        };
        if let Some(via) = via {
            if let Some(holder) = holder {
                self.dispute(via, holder, graph);
                return self.trouble(graph, Some(via), Trouble::Clash(info.port_guid));
            }
            self.join(graph, via, end);
        }
        self.follow(graph, id, via, info);
    }

    /// The node there is none to be joined with.
    pub(super) fn trouble(&mut self, graph: &mut Graph, via: Option<PortId>, trouble: Trouble) {
        let Some(via) = via else { return };
        self.disconnect(graph, via);
        if let Some(port) = graph.port_mut(via) {
            self.clashes |= matches!(trouble, Trouble::Clash(_)) && port.trouble != Some(trouble);
            port.trouble = Some(trouble);
        }
    }

    /// Whether another node holds this end already, or may.
    fn is_disputed(&mut self, graph: &mut Graph, via: PortId, end: PortId) -> bool {
        if graph.node(via.0).contested {
            return false; // Its own ports' word holds.
        }
        let Some(link) = graph.link(end).filter(|link| link.to != via) else {
            // Only one cable is in the manager's one port, and it was met from that end.
            let own = graph.is_home(end) && graph.homes.is_single();
            return own && graph.link(end).is_none() && !graph.is_own(via.0);
        };
        let holder_up = graph.port(link.to).is_some_and(|port| port.is_up());
        if link.confirmed != self.number && !holder_up {
            return false; // It moved.
        }
        if link.confirmed != self.number {
            self.dispute(via, link.to, graph);
        } else if graph.node(end.0).is_switch() && !graph.node(end.0).contested {
            // Two switches with one GUID: which cables are whose, only their own ports can tell, and the
            // way to the one that is kept leads to itself.
            graph.node_mut(end.0).contested = true;
            let up = |&(_, port): &(PortNum, &Port)| port.is_up();
            let ports: Vec<PortNum> =
                graph.node(end.0).external().filter(up).map(|(num, _)| num).collect();
            for num in ports {
                self.forced.insert((end.0, num));
                self.identify((end.0, num));
            }
        }
        true
    }

    /// The newcomer at `via` waits until it is known who is at `holder`.
    fn dispute(&mut self, via: PortId, holder: PortId, graph: &Graph) {
        // A port of an end node cannot be asked; the one at the other end of its cable can.
        let asked = if graph.node(holder.0).is_switch() || graph.is_home(holder) {
            Some(holder)
        } else {
            graph.link(holder).map(|link| link.to)
        };
        let Some(asked) = asked.filter(|&asked| asked != via) else { return };
        if graph.link(asked).is_some_and(|link| link.confirmed != self.number) {
            self.disputes.push((via, asked));
            self.identify(asked);
        }
    }

    fn join(&mut self, graph: &mut Graph, via: PortId, end: PortId) {
        if graph.node(via.0).contested
            && let Some(link) = graph.link(via).filter(|link| link.to != end)
        {
            let guid = graph.node(via.0).guid();
            if let Some(port) = graph.port_mut(link.to) {
                port.trouble = Some(Trouble::Clash(guid));
            }
        }
        let moved = graph.link(end).is_some_and(|link| link.to != via)
            || graph.link(via).is_some_and(|link| link.to != end);
        let clashed = |end| {
            let trouble = graph.port(end).and_then(|port| port.trouble);
            matches!(trouble, Some(Trouble::Clash(_)))
        };
        self.distrusts |= clashed(via) || clashed(end);
        graph.connect(via, end, self.number);
        if moved {
            self.has_news = true;
            graph.retrace();
        }
    }

    /// Reads what is new about a node that was just met.
    fn follow(&mut self, graph: &mut Graph, id: NodeId, via: Option<PortId>, info: &NodeInfo) {
        let number = self.number;
        let is_own = graph.is_own(id);
        let node = graph.node_mut(id);
        let met_first = node.seen != number && (self.full || node.path.is_none());
        let was_known = node.path.is_some();
        node.seen = number;
        node.lost = false;
        // The answer names the port by which it was asked; the manager's own port stays its own.
        let own = (node.info.local_port, node.info.port_guid);
        node.info = info.clone();
        if is_own && via.is_some() {
            (node.info.local_port, node.info.port_guid) = own;
        }
        if node.path.is_none() {
            node.ports.iter_mut().for_each(|port| port.locked = None);
            // It is not known what became of it while it was out of reach.
            node.shaken = true;
            node.ports.iter_mut().for_each(|port| port.steady = false);
            graph.retrace_one(id);
        }
        if graph.node(id).is_switch() {
            if graph.node(id).is_locked() {
                self.verify(graph, id);
            } else if met_first {
                self.whole.insert(id);
                self.queue.extend([Query::ReadSwitch(id), Query::Describe(id)]);
            } else if !self.full && was_known {
                self.suspect(id);
                self.urgent.push_back(Query::ReadPort(id, info.local_port));
            }
            return;
        }
        if met_first || !self.full {
            self.queue.push_back(Query::Describe(id));
            graph.node_mut(id).ports.iter_mut().for_each(Port::forget_qos_tables);
        }
        let port = info.local_port;
        self.queue.extend([Query::ReadPort(id, port), Query::ReadKeys(id, port, 0)]);
        if let Some(via) = via {
            self.forget_keys(graph, via);
        }
    }
}
