//! Nodes that are guarded by somebody else's key (IBA 14.2.4): taken over where they show it, as they do when its
//! lease ran out; left alone where they do not.

use super::Survey;
use crate::ask::{Ask, NodeId};
use crate::graph::Graph;

impl Survey {
    /// What guards a node was read: is that why it took no writes, or does it take them again?
    pub(super) fn key_read(&mut self, graph: &mut Graph, id: NodeId) {
        let hides = graph.hides_key(id);
        if graph.node(id).locked && !hides {
            self.unlock(graph, id);
        } else if self.barred.contains(&id) && !graph.node(id).locked {
            match graph.key(graph.guard(id)) {
                // From now on it is shown its own.
                Some(_) => self.urgent.push_back(Ask::ClearChange(id)),
                None if hides => {
                    graph.lock(id);
                    self.learnt = true;
                }
                None => self.lose(graph, id),
            }
        }
    }

    fn unlock(&mut self, graph: &mut Graph, id: NodeId) {
        graph.node_mut(id).locked = false;
        graph.retrace();
        self.learnt = true;
        if graph.node(id).is_switch() {
            self.whole.insert(id);
            self.queue.extend([Ask::ReadSwitch(id), Ask::Describe(id)]);
        }
    }
}
