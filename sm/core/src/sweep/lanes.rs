//! Tables of service levels and lanes that only requests to administration need: they are read when they are asked
//! for, some at a time, so that no repair waits for all of them.

use std::collections::BTreeSet;

use snin_fabric::Guid;

use super::{Stage, Sweep};
use crate::graph::Graph;
use crate::qos_tables;
use crate::query::{NodeId, Query};
use crate::survey::Survey;

/// So many are read in one survey; what came meanwhile has its turn then.
const CHUNK: usize = 1_024;

impl Sweep {
    /// Whether the node, or some node, has tables that were never read.
    pub(crate) fn has_unread_lanes(&self, node: Option<Guid>) -> bool {
        self.nodes_asked(node).any(|id| unread(&self.graph, id).next().is_some())
    }

    /// Reads what the node, or every node, has and was never read.
    pub(crate) fn read_lanes(&mut self, node: Option<Guid>, now: snin_protocol::Time) {
        let ids: BTreeSet<NodeId> = self.nodes_asked(node).collect();
        self.pending.lanes.extend(ids);
        self.advance(now);
    }

    /// Whether some of it is still to be read.
    pub(crate) fn reads_lanes(&self) -> bool {
        let now = matches!(&self.stage, Stage::Survey(survey) if survey.has_demands());
        now || !self.pending.lanes.is_empty()
    }

    fn nodes_asked(&self, node: Option<Guid>) -> impl Iterator<Item = NodeId> + use<'_> {
        let one = node.map(|guid| self.graph.find(guid));
        let all = one.is_none().then(|| self.graph.managed().map(|(id, _)| id));
        one.flatten().into_iter().chain(all.into_iter().flatten())
    }

    /// The next survey's share.
    pub(super) fn demand_lanes(
        &self,
        survey: &mut Survey,
        mut wanted: BTreeSet<NodeId>,
    ) -> BTreeSet<NodeId> {
        let mut room = CHUNK;
        while let Some(&id) = wanted.first() {
            let some: Vec<Query> = unread(&self.graph, id).take(room).collect();
            room -= some.len();
            some.into_iter().for_each(|query| survey.demand(query));
            if room == 0 {
                break;
            }
            wanted.pop_first();
        }
        wanted
    }
}

/// Questions for a node's tables that were never read.
fn unread(graph: &Graph, id: NodeId) -> impl Iterator<Item = Query> + use<'_> {
    let ports = (0..graph.node(id).ports.len() as u8).map(snin_fabric::PortNum);
    ports.flat_map(move |num| {
        let port = graph.port((id, num));
        let tables = qos_tables::every(graph, (id, num)).into_iter();
        let unread = move |table: &_| port.is_some_and(|port| !port.qos_tables.contains_key(table));
        tables.filter(unread).map(move |table| Query::ReadQosTable(id, num, table))
    })
}
