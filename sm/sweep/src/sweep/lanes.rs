//! Tables of service levels and lanes that only requests to administration need: they are read when they are asked
//! for, some at a time, so that no repair waits for all of them.

use std::collections::BTreeMap;

use snin_fabric::Guid;

use super::{Stage, Sweep};
use crate::graph::Graph;
use crate::qos_tables;
use crate::query::{NodeId, Query};
use crate::survey::Survey;

/// So many are read in one survey; what came meanwhile has its turn then.
const CHUNK: usize = 1_024;

/// Nodes whose tables are to be read, and how many of each were asked for. A table is asked for once a request,
/// also if no answer comes, so that the reading ends.
pub(super) type Wanted = BTreeMap<NodeId, usize>;

impl Sweep {
    /// Reads what these nodes, or every node, have and was never read.
    pub fn read_lanes(&mut self, nodes: Vec<Option<Guid>>, now: snin_protocol::Time) {
        if nodes.is_empty() {
            return;
        }
        let all = nodes.contains(&None);
        let nodes = if all { vec![None] } else { nodes };
        let ids: Vec<NodeId> = nodes.iter().flat_map(|&node| self.nodes_asked(node)).collect();
        for id in ids {
            self.pending.lanes.entry(id).or_insert(0);
        }
        self.advance(now);
    }

    /// Whether some of it is still to be read.
    pub fn reads_lanes(&self) -> bool {
        let now = matches!(&self.stage, Stage::Survey(survey) if survey.has_demands());
        now || !self.pending.lanes.is_empty()
    }

    /// Nodes that are out of reach have nothing that could be read.
    pub(super) fn nodes_asked(&self, node: Option<Guid>) -> impl Iterator<Item = NodeId> + use<'_> {
        let one = node.map(|guid| self.graph.find(guid));
        let one = one.map(|id| id.filter(|&id| self.graph.node(id).path.is_some()));
        let all = one.is_none().then(|| self.graph.managed().map(|(id, _)| id));
        one.flatten().into_iter().chain(all.into_iter().flatten())
    }

    /// The next survey's share.
    pub(super) fn demand_lanes(&self, survey: &mut Survey, mut wanted: Wanted) -> Wanted {
        let mut room = CHUNK;
        while let Some(mut node) = wanted.first_entry() {
            let mut tables = every(&self.graph, *node.key()).skip(*node.get());
            while room > 0
                && let Some((query, is_unread)) = tables.next()
            {
                *node.get_mut() += 1;
                if is_unread {
                    survey.demand(query);
                    room -= 1;
                }
            }
            if tables.next().is_some() {
                break;
            }
            node.remove();
        }
        wanted
    }
}

/// Questions for all of a node's tables that there is a way to, and whether they were never read.
pub(super) fn every(graph: &Graph, id: NodeId) -> impl Iterator<Item = (Query, bool)> + use<'_> {
    let ports = (0..graph.node(id).ports.len() as u8).map(snin_fabric::PortNum);
    ports.flat_map(move |num| {
        let end = (id, num);
        let port = graph.port(end).filter(|_| graph.path_to(end).is_some());
        let is_unread =
            move |table: &_| port.is_some_and(|port| !port.qos_tables.contains_key(table));
        let tables = qos_tables::every(graph, end).into_iter();
        tables.map(move |table| (Query::ReadQosTable(id, num, table), is_unread(&table)))
    })
}
