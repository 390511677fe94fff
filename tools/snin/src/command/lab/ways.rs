//! The fabric as static and ecmp see it, window by window.

use std::sync::Arc;

use snin_controller_core::plan::{Grant, Hop, Plan};
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::traffic::Demand;
use snin_fabric::{Dlid, ForwardingTable, PortIndex, PortNum, Topology};
use snin_lab::compare::Routed;
use snin_lab::world::{Sent, Window, World};

use super::Lab;

/// The fabric as the other ways see it. Cables that are down carry nothing, as those that break meanwhile.
pub(super) struct Ways {
    /// By D-mod-K, over the cables that were whole when a window began.
    pub(super) by_static: Routed,
    /// As the switches forwarded then.
    pub(super) by_trees: Routed,
    /// Cables that were down then.
    down: Vec<PortIndex>,
}

impl Ways {
    pub(super) fn of(lab: &Lab<'_>, world: &World<'_>) -> Self {
        let topology = Arc::new(lab.topology.clone());
        let whole = Arc::new(lab.routing.plan.addresses().clone());
        let tables = Arc::new(lab.routing.tables.clone());
        let by_trees = Routed { topology: topology.clone(), addresses: whole.clone(), tables };
        // Until it is routed by D-mod-K, which a fabric in parts cannot be.
        let by_static = by_trees.clone();
        let mut ways = Self { by_static, by_trees, down: Vec::new() };
        ways.route(lab, world);
        ways
    }

    /// A window begins.
    pub(super) fn follow(&mut self, lab: &Lab<'_>, world: &World<'_>) {
        let tables = world.tables();
        if self.down != world.down() || !Arc::ptr_eq(&self.by_trees.tables, &tables) {
            self.route(lab, world);
        }
    }

    fn route(&mut self, lab: &Lab<'_>, world: &World<'_>) {
        self.down = world.down();
        let live = lab.topology.without_cables(&self.down);
        // Where too much is missing to be called a Clos, the tables stay as they were.
        if let Ok(routing) = Routing::compute(&live, Engine::DModK, None) {
            self.by_static.addresses = Arc::new(routing.plan.addresses().clone());
            self.by_static.tables = Arc::new(routing.tables);
        }
        self.by_trees.addresses = Arc::new(world.addresses().clone());
        self.by_trees.tables = world.tables();
    }
}

/// What a window sent, as pictures of plans want it.
pub(super) fn drawn(
    topology: &Topology,
    tables: &[ForwardingTable],
    window: &Window,
) -> (Vec<Demand>, Plan) {
    let sent = &window.granted.sent;
    let demands = sent.iter().map(|sent| Demand::new(sent.source.0, sent.destination.0));
    let grant = |(demand, sent): (usize, &Sent)| {
        let (tree, dlid, path) = (sent.tree, Dlid(sent.lid), path(topology, tables, sent));
        Grant { demand, tree, dlid, path }
    };
    let grants = sent.iter().enumerate().map(grant).collect();
    (demands.collect(), Plan { grants, ..Plan::default() })
}

/// Every switch that a message passed, and by which port it left.
fn path(topology: &Topology, tables: &[ForwardingTable], sent: &Sent) -> Vec<Hop> {
    let mut path = Vec::new();
    let mut next = topology.peer_node(sent.port);
    while let Some(switch) = next.filter(|&node| topology.is_switch(node)) {
        let port = tables[switch.index()].get(sent.lid);
        path.push(Hop { switch, port });
        let out = topology.port_of(switch, port).filter(|_| port != PortNum::ZERO);
        next = out.filter(|_| path.len() <= tables.len()).and_then(|out| topology.peer_node(out));
    }
    path
}
