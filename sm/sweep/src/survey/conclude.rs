//! The end of a survey: what was not met is gone, and what only now is known to be missing is asked.

use snin_fabric::PortNum;

use super::Survey;
use crate::graph::Graph;
use crate::multicast::{Groups, unread};
use crate::qos_tables;
use crate::query::{NodeId, PortId, Query};
use snin_sm_database::qos_table::QosTableId;

impl Survey {
    /// When all is answered: what was not met any more is gone, and tables of switches that may have been
    /// reset are read again. `true` when there is nothing more to ask.
    pub(crate) fn conclude(&mut self, graph: &mut Graph, qos: bool, groups: &Groups) -> bool {
        if self.full {
            self.forget_unmet(graph);
        }
        graph.retrace();
        graph.miss_switches();
        let shaken: Vec<NodeId> =
            graph.managed().filter(|(_, node)| node.shaken).map(|(id, _)| id).collect();
        for id in shaken {
            let node = graph.node_mut(id);
            node.shaken = false;
            // A reset takes every port down. One that stayed ACTIVE proves that there was none.
            let steady = node.external().any(|(_, port)| port.steady);
            let fresh = node.mirrored == self.number;
            if let Some(info) = node.switch.clone().filter(|_| !steady && !fresh) {
                self.reread(graph, id, &info);
                self.queue.extend([
                    Query::ReadPort(id, PortNum::ZERO),
                    Query::ReadKeys(id, PortNum::ZERO, 0),
                ]);
            }
        }
        // Blocks whose writing was not acknowledged.
        let number = self.number;
        let silent = |id: &NodeId| self.aside.contains(id);
        let stale = graph.managed().filter(|(id, node)| node.mirrored != number && !silent(id));
        let blocks = stale.flat_map(|(id, node)| {
            node.shadow.unread_blocks().map(move |block| Query::ReadBlock(id, block))
        });
        self.queue.extend(blocks);
        let heard = |query: &Query| query.agent().is_none_or(|agent| !self.aside.contains(&agent));
        let masks: Vec<Query> = unread(graph, groups).into_iter().filter(heard).collect();
        self.queue.extend(masks);
        if qos {
            self.read_qos_tables(graph);
        }
        self.read_facing_keys(graph);
        self.ask_stranded(graph);
        self.is_done()
    }

    /// Tables of service levels and lanes that were not read: now it is known which ports are cabled.
    fn read_qos_tables(&mut self, graph: &Graph) {
        for (id, node) in graph.managed().filter(|(id, _)| !self.aside.contains(id)) {
            let ports = qos_tables::ports(graph, id).map(|(_, num)| num);
            let ports = ports.filter_map(|num| Some((num, node.ports.get(num.index())?)));
            for (num, port) in ports {
                let unread = |table: &QosTableId| !port.qos_tables.contains_key(table);
                let tables = qos_tables::tables(graph, (id, num)).into_iter().filter(unread);
                self.queue.extend(tables.map(|table| Query::ReadQosTable(id, num, table)));
            }
        }
    }

    /// Partition tables of switches' ports that face end ports: now it is known which these are.
    fn read_facing_keys(&mut self, graph: &Graph) {
        if !graph.key_tables.checked {
            return;
        }
        for (id, node) in graph.managed().filter(|(id, _)| !self.aside.contains(id)) {
            for (num, _) in node.external().filter(|(num, _)| graph.lacks_keys((id, *num))) {
                let query = Query::ReadKeys(id, num, 0);
                if self.facing.insert(query) {
                    self.queue.push_back(query);
                }
            }
        }
    }

    /// The port's partition table is worth nothing any more: it is read again where it is to be known.
    pub(super) fn forget_keys(&mut self, graph: &mut Graph, end: PortId) {
        if let Some(port) = graph.port_mut(end) {
            port.keys.clear();
        }
        self.facing.remove(&Query::ReadKeys(end.0, end.1, 0));
    }

    /// The way to a node may have been lost and found again before it was asked.
    fn ask_stranded(&mut self, graph: &Graph) {
        for (&query, again) in self.stranded.iter_mut().filter(|(_, again)| !**again) {
            *again = true;
            if graph.path(query).is_some() {
                self.queue.push_back(query);
            }
        }
    }

    fn forget_unmet(&mut self, graph: &mut Graph) {
        for id in graph.ids() {
            if graph.node(id).seen != self.number {
                graph.isolate(id);
            }
            for num in 0..graph.node(id).ports.len() as u8 {
                let end = (id, PortNum(num));
                if graph.link(end).is_some_and(|link| link.confirmed != self.number) {
                    graph.disconnect(end);
                }
            }
        }
    }
}
