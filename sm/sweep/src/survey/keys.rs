//! Ports that are guarded by another manager's key (IBA 14.2.4): taken over where they show it, as they do when
//! its lease ran out; left alone where they do not.

use super::Survey;
use crate::graph::{Graph, Lock};
use crate::query::{PortId, Query};

impl Survey {
    /// What guards a port was read: is that why it took no writes, or does it take them again?
    pub(super) fn key_read(&mut self, graph: &mut Graph, end: PortId) {
        let hides = graph.hides_key(end);
        let locked = graph.port(end).and_then(|port| port.locked);
        if locked == Some(Lock::Key) && !hides {
            self.unlock(graph, end);
        } else if self.barred.contains(&end.0) && locked.is_none() {
            match graph.key(end) {
                // From now on it is shown its own.
                Some(_) => self.urgent.push_back(Query::ClearChange(end.0)),
                None if hides => {
                    graph.lock(end, Lock::Key);
                    self.learnt = true;
                }
                None => self.lose(graph, end),
            }
        }
    }

    /// The port is written to again.
    pub(crate) fn unlock(&mut self, graph: &mut Graph, end: PortId) {
        if let Some(port) = graph.port_mut(end) {
            port.locked = None;
        }
        self.learnt = true;
        if graph.node(end.0).is_switch() {
            graph.retrace();
            self.whole.insert(end.0);
            self.queue.extend([Query::ReadSwitch(end.0), Query::Describe(end.0)]);
        }
    }
}
