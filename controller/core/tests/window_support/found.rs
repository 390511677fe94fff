//! Tables of another manager: from each leaf an address leads along another tree. Routes are walked here, entry by
//! entry.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use snin_controller_core::Core;
use snin_controller_core::events::{Event, Output};
use snin_fabric::hosts::HostId;
use snin_fabric::routing::{Engine, Placement, Routing};
use snin_fabric::view::{PlannedView, View};
use snin_fabric::{Guid, Lid, Lmc, NodeIndex, PortIndex, PortNum, TreeId};
use snin_protocol::message::{
    AgentMessage, Ask, Change, Confirm, ControllerMessage, FromAgent, Grant, Hello, Lease, Request,
    UnusablePair, ViewChange,
};
use snin_protocol::view::{Assembly, FromManager, ViewError, frames};
use snin_protocol::{ConnectionNumber, Session, Term, Time};

use super::fabric::Fabric;
use super::life::Life;

/// A fabric as a manager that only reads says it.
pub struct Read(pub PlannedView);

impl Deref for Read {
    type Target = PlannedView;

    fn deref(&self) -> &PlannedView {
        &self.0
    }
}

impl Read {
    /// Two stages whose leaves lead address `n` of a host along tree `n + shift of the leaf`.
    pub fn shifted(recipe: &str, version: u64, shift: impl Fn(usize) -> usize) -> Self {
        let topology = Fabric::generated(recipe).topology;
        let ours = Routing::compute(&topology, Engine::Trees, Lmc::new(2)).unwrap();
        let (mut tables, trees) = (ours.tables.clone(), ours.forest.len());
        let clos = ours.shape.as_ref().unwrap();
        for (place, &leaf) in clos.leaves.iter().enumerate() {
            for (_, host) in ours.hosts.iter().filter(|(_, host)| host.switch != leaf) {
                for (n, lid) in ours.plan.addresses().of(host.port).enumerate() {
                    let tree = TreeId(((n + shift(place)) % trees) as u16);
                    tables[leaf.index()].set(lid, ours.forest.up(leaf, tree).unwrap());
                }
            }
        }
        let reported = topology.with_addresses(ours.plan.addresses());
        let routing = Routing::found(&reported, tables).unwrap();
        Self(PlannedView::new(version, topology, routing))
    }

    /// Any Clos whose tables are those that `snin-sm` would have written.
    pub fn ours(recipe: &str, version: u64) -> Self {
        let topology = Fabric::generated(recipe).topology;
        let ours = Routing::compute(&topology, Engine::Trees, None).unwrap();
        let reported = topology.with_addresses(ours.plan.addresses());
        let routing = Routing::found(&reported, ours.tables).unwrap();
        Self(PlannedView::new(version, topology, routing))
    }

    /// What a controller makes of what is said of it.
    pub fn told(&self) -> Result<Arc<dyn View>, ViewError> {
        let said = frames(&self.0, &Placement::new(Vec::new(), &self.routing.plan))?;
        let FromManager::Begin(begin) = &said[0] else { panic!("{said:?}") };
        let mut assembly = Assembly::new(begin.clone());
        for frame in &said[1..] {
            let FromManager::Part(part) = frame else { panic!("{frame:?}") };
            assembly.add(part)?;
        }
        Ok(Arc::new(assembly.finish(self.version)?))
    }

    /// No pair of a switch and a tree is usable: the tables are about to change.
    pub fn pause(&self, version: u64) -> ViewChange {
        let hosts = self.routing.hosts.iter();
        let switches: BTreeSet<NodeIndex> = hosts.map(|(_, host)| host.switch).collect();
        let trees = 0..self.routing.forest.len() as u16;
        let pair = |switch: NodeIndex, tree| UnusablePair {
            switch: self.topology.node(switch).guid,
            tree: TreeId(tree),
        };
        let all =
            switches.iter().flat_map(|&switch| trees.clone().map(move |tree| pair(switch, tree)));
        ViewChange { version, unusable: all.collect() }
    }

    pub fn ports(&self) -> Vec<Guid> {
        let port = |port: PortIndex| self.topology.port(port).guid;
        self.routing.hosts.iter().map(|(_, host)| port(host.port)).collect()
    }

    /// The links between switches on the way to an address; the way ends at the host.
    pub fn walk(&self, from: HostId, to: HostId, lid: Lid) -> Vec<(NodeIndex, PortNum)> {
        let [from, to] = [from, to].map(|host| *self.routing.hosts.get(host).unwrap());
        let (mut at, mut links) = (from.switch, Vec::new());
        loop {
            let out = self.routing.tables[at.index()].get(lid);
            let peer = self.topology.peer(self.topology.port_of(at, out).unwrap()).unwrap();
            let next = self.topology.port(peer).node;
            if !self.topology.is_switch(next) {
                assert_eq!(peer, to.port, "{lid} is another's");
                return links;
            }
            links.push((at, out));
            assert!(links.len() < 6, "{lid} goes round");
            at = next;
        }
    }
}

pub fn says(core: &mut Core, from: Guid, body: AgentMessage, now: Time) {
    let message = FromAgent { session: Session(1), body };
    core.handle(Event::Received { from, message }, now);
}

/// Every host asks for the host in its place on the next leaf.
pub fn ask_all(core: &mut Core, ports: &[Guid], a_leaf: usize) {
    let now = Time::micros(1);
    for (place, &from) in ports.iter().enumerate() {
        let request = Request {
            connection: ConnectionNumber(0),
            destination: ports[(place + a_leaf) % ports.len()],
            windows: 0,
            rate: 0,
            class: 0,
            pinned: false,
            tree: None,
        };
        says(core, from, AgentMessage::Hello(Hello { port: from, term: Term(0) }), now);
        let changes = vec![Change::Request(request)].into();
        says(core, from, AgentMessage::Ask(Ask { number: 1, changes }), now);
    }
}

/// What each agent was last granted, after so many windows in which all confirm at once.
pub fn run(core: &mut Core, windows: usize) -> BTreeMap<Guid, Grant> {
    let last = leases(core, windows).into_iter();
    last.filter_map(|(port, lease)| Some((port, *lease.grants.last()?))).collect()
}

/// The last lease of each agent, after so many windows in which all confirm at once.
pub fn leases(core: &mut Core, windows: usize) -> BTreeMap<Guid, Lease> {
    let mut held = BTreeMap::new();
    let end = core.next_deadline().unwrap() + Life::config().window * windows as u64;
    while let Some(now) = core.next_deadline().filter(|&now| now < end) {
        core.handle_deadline(now);
        let mut confirmed = Vec::new();
        while let Some(output) = core.poll_output() {
            let Output::Send { to, message } = output else { continue };
            let ControllerMessage::Lease(lease) = message.body else { continue };
            confirmed.push((to, lease.sequence));
            held.insert(to, lease);
        }
        for (from, sequence) in confirmed {
            says(core, from, AgentMessage::Confirm(Confirm { sequence }), now);
        }
    }
    held
}
