//! A switch that may be gone. It says nothing itself, and what its neighbours say is lost where it comes by way of
//! it: until they repeat it, the manager would not know that their cables are off too.

use super::Survey;
use crate::graph::Graph;
use crate::query::{NodeId, PortId, Query};

impl Survey {
    /// A cable of a switch is off. At the first one another neighbour is asked whether its cable is too: that is
    /// one question for a cable that was cut. If it is, so are all others.
    pub(super) fn ask_neighbours(&mut self, graph: &Graph, switch: NodeId) {
        if !graph.node(switch).is_switch() {
            return;
        }
        let again = !self.cut_off.insert(switch);
        let ends = graph.node(switch).external().filter_map(|(_, port)| Some(port.link?.to));
        let ends: Vec<PortId> = ends.filter(|end| graph.node(end.0).is_switch()).collect();
        let around = |query: &Query| {
            graph.path(*query).is_some()
                && graph.way(*query).iter().all(|(node, _)| *node != switch)
        };
        let queries = ends.into_iter().map(|(node, port)| Query::ReadPort(node, port));
        let most = if again { usize::MAX } else { 1 };
        let queries: Vec<Query> = queries.filter(around).take(most).collect();
        for query in queries {
            if self.facing.insert(query) {
                self.urgent.push_back(query);
            }
        }
    }
}
