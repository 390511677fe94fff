//! Cables that were there: a fabric is complete without them, as far as can be told, and somebody may miss them.

use std::collections::BTreeSet;

use super::Sweep;
use crate::graph::Graph;
use crate::query::PortId;
use crate::report::Missing;
use crate::target::Target;
use snin_sm_database::records::Place;

/// The most cables that are remembered.
const MOST: usize = 1 << 18;

/// Cables that were in use since everything was last looked at on demand, each by both its ends.
#[derive(Debug, Default)]
pub(super) struct Cables(BTreeSet<[Place; 2]>);

impl Cables {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Remembers every cable of a fabric that is in use.
    pub(super) fn note(&mut self, target: &Target) {
        let topology = &target.discovered.topology;
        let place = |port| (topology.node(topology.port(port).node).guid, topology.num(port));
        for port in topology.ports() {
            let Some(peer) = topology.peer(port).filter(|&peer| port < peer) else { continue };
            if self.0.len() < MOST {
                let (one, other) = (place(port), place(peer));
                self.0.insert([one.min(other), one.max(other)]);
            }
        }
    }
}

impl Sweep {
    /// Cables that were in use and are not any more. Not those of a switch that is gone, which is named itself;
    /// nor where another cable is now, nor where this manager keeps a link down.
    pub fn uncabled(&self) -> Vec<Missing> {
        let graph = &self.graph;
        let gone = |ends: &&[Place; 2]| {
            let known = ends.map(|(guid, num)| Some((graph.find(guid)?, num)));
            let [Some(one), Some(other)] = known else { return false };
            let free = |end: PortId| {
                graph.link(end).is_none() && !graph.withheld.contains(&end) && !is_named(graph, end)
            };
            free(one) && free(other)
        };
        let name = |(guid, num): Place| match graph.find(guid) {
            Some(id) => graph.port_name((id, num)),
            None => format!("{guid}/{num}"),
        };
        let cables = self.cables.0.iter().filter(gone);
        cables
            .map(|&[one, other]| Missing::Uncabled { one: name(one), other: name(other) })
            .collect()
    }
}

/// Whether the port's node is missed by name.
fn is_named(graph: &Graph, (id, _): PortId) -> bool {
    let node = graph.node(id);
    node.lost && node.path.is_none()
}
