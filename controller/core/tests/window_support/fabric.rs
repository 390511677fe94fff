//! Fabrics for tests, and the way of a packet by their tables, worked out anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::view::{Pair, PlannedView};
use snin_fabric::{Dlid, Guid, PortIndex, PortNum, Topology};
use snin_protocol::message::UnusablePair;

/// A topology and what is routed on it.
#[derive(Clone, Debug)]
pub struct Fabric {
    pub topology: Topology,
    pub routing: Routing,
}

impl Fabric {
    pub fn new(topology: Topology) -> Self {
        let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
        Self { topology, routing }
    }

    pub fn generated(recipe: &str) -> Self {
        Self::new(recipe.parse::<Recipe>().unwrap().build().unwrap())
    }

    pub fn without(&self, cut: &BTreeSet<PortIndex>) -> Self {
        let cut: Vec<PortIndex> = cut.iter().copied().collect();
        Self::new(self.topology.without_cables(&cut))
    }

    pub fn view(&self, version: u64) -> Arc<PlannedView> {
        Arc::new(PlannedView::new(version, self.topology.clone(), self.routing.clone()))
    }

    pub fn ports(&self) -> Vec<Guid> {
        let port = |port: PortIndex| self.topology.port(port).guid;
        self.routing.hosts.iter().map(|(_, host)| port(host.port)).collect()
    }

    /// Pairs of a switch with hosts and a tree that does not cover it.
    pub fn uncovered(&self) -> BTreeSet<Pair> {
        let switches: BTreeSet<_> =
            self.routing.hosts.iter().map(|(_, host)| host.switch).collect();
        let trees = self.routing.forest.trees();
        let all = switches.into_iter().flat_map(|s| trees.iter().map(move |tree| (s, tree.id)));
        all.filter(|&(switch, tree)| !self.routing.forest.covers(switch, tree)).collect()
    }

    pub fn named(&self, pairs: &BTreeSet<Pair>) -> Vec<UnusablePair> {
        let name =
            |&(switch, tree): &Pair| UnusablePair { switch: self.topology.node(switch).guid, tree };
        pairs.iter().map(name).collect()
    }

    /// One end of every cable between switches.
    pub fn trunks(&self) -> Vec<PortIndex> {
        let topology = &self.topology;
        let ends = topology.switches().flat_map(|switch| topology.cables(switch));
        let trunk = |&(near, far): &(PortIndex, PortIndex)| {
            near < far && topology.is_switch(topology.port(far).node)
        };
        ends.filter(trunk).map(|(near, _)| near).collect()
    }
}

/// What forwards packets: cables never move in these tests, tables do.
pub struct Plant {
    topology: Topology,
    routing: Routing,
    port_of: BTreeMap<Guid, PortIndex>,
}

impl Plant {
    pub fn new(fabric: &Fabric) -> Self {
        let ports = fabric.routing.hosts.iter().map(|(_, host)| host.port);
        Self {
            topology: fabric.topology.clone(),
            routing: fabric.routing.clone(),
            port_of: ports.map(|port| (fabric.topology.port(port).guid, port)).collect(),
        }
    }

    pub fn write_tables(&mut self, fabric: &Fabric) {
        self.routing = fabric.routing.clone();
    }

    /// Every port that a packet leaves by, the source's own first; as far as it gets.
    pub fn links(&self, source: Guid, dlid: Dlid) -> Vec<PortIndex> {
        let mut links = vec![self.port_of[&source]];
        for _ in 0..10 {
            let last = links[links.len() - 1];
            let Some(node) = self.topology.peer_node(last) else { break };
            if !self.topology.is_switch(node) {
                break;
            }
            let out = self.routing.tables[node.index()].get(dlid.0);
            let port = self.topology.port_of(node, out).filter(|_| out != PortNum::ZERO);
            let Some(port) = port else { break };
            links.push(port);
        }
        links
    }

    /// Who gets what is sent to an address.
    pub fn destination(&self, source: Guid, dlid: Dlid) -> Option<Guid> {
        let peer = self.topology.peer(*self.links(source, dlid).last()?)?;
        Some(self.topology.port(peer).guid)
    }
}
