//! Directed routes over the cables that work now: for tests and benchmarks, which know the fabric.

use std::collections::VecDeque;

use snin_fabric::{NodeIndex, PortIndex, PortNum};
use snin_mad::{DrPath, PortState};

use crate::fabric::Fabric;

impl Fabric {
    /// The shortest directed route from end port `from` to every node, by node; `None` where no link that is
    /// up leads, or only over more than 63 hops.
    pub fn routes_from(&self, from: PortIndex) -> Vec<Option<DrPath>> {
        let mut routes = vec![None; self.nodes.len()];
        let start = self.ports[from.index()].node;
        routes[start as usize] = Some(DrPath::HERE);
        let mut open = VecDeque::from([start]);
        while let Some(node) = open.pop_front() {
            let is_switch = self.nodes[node as usize].is_switch();
            for port in self.ports_of(node) {
                // Only switches pass packets on; an adapter begins by its own port.
                if !is_switch && port != from.0 {
                    continue;
                }
                let Some(peer) = self.other_end(port) else {
                    continue;
                };
                let next = self.ports[peer as usize].node;
                let up = self.ports[port as usize].state() != PortState::Down;
                if up && routes[next as usize].is_none() {
                    let num = PortNum(self.ports[port as usize].num);
                    let route = routes[node as usize].and_then(|route: DrPath| route.then(num));
                    routes[next as usize] = route;
                    // The way goes on through switches only.
                    if route.is_some() && self.nodes[next as usize].is_switch() {
                        open.push_back(next);
                    }
                }
            }
        }
        routes
    }

    /// The shortest directed route from end port `from` to `to`.
    pub fn route(&self, from: PortIndex, to: NodeIndex) -> Option<DrPath> {
        self.routes_from(from)[to.index()]
    }
}
