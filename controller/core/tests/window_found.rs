//! Grants on tables of another manager: from each leaf an address leads along another tree, and tables change.
//! Routes are walked here, entry by entry.

mod window_support;

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
    AgentMessage, Ask, Change, Confirm, ControllerMessage, FromAgent, Grant, Hello, Request,
    UnusablePair, ViewChange,
};
use snin_protocol::view::{Assembly, FromManager, ViewError, frames};
use snin_protocol::{ConnectionNumber, Session, Term, Time};
use window_support::fabric::Fabric;
use window_support::life::Life;

/// A fabric as a manager that only reads says it.
struct Read(PlannedView);

impl Deref for Read {
    type Target = PlannedView;

    fn deref(&self) -> &PlannedView {
        &self.0
    }
}

impl Read {
    /// Two stages whose leaves lead address `n` of a host along tree `n + shift of the leaf`.
    fn shifted(recipe: &str, version: u64, shift: impl Fn(usize) -> usize) -> Self {
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
        Self(PlannedView { version, topology, routing, unusable: BTreeSet::new() })
    }

    /// What a controller makes of what is said of it.
    fn told(&self) -> Result<Arc<dyn View>, ViewError> {
        let said = frames(&self.0, &Placement::new(Vec::new(), &self.routing.plan))?;
        let FromManager::Begin(begin) = &said[0] else { panic!("{said:?}") };
        let mut assembly = Assembly::new(begin.clone());
        for frame in &said[1..] {
            let FromManager::Part(part) = frame else { panic!("{frame:?}") };
            assembly.add(part)?;
        }
        Ok(Arc::new(assembly.finish(self.version)?))
    }

    fn ports(&self) -> Vec<Guid> {
        let port = |port: PortIndex| self.topology.port(port).guid;
        self.routing.hosts.iter().map(|(_, host)| port(host.port)).collect()
    }

    /// The links between switches on the way to an address; the way ends at the host.
    fn walk(&self, from: HostId, to: HostId, lid: Lid) -> Vec<(NodeIndex, PortNum)> {
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
            assert!(links.len() < 4, "{lid} goes round");
            at = next;
        }
    }
}

fn says(core: &mut Core, from: Guid, body: AgentMessage, now: Time) {
    let message = FromAgent { session: Session(1), body };
    core.handle(Event::Received { from, message }, now);
}

/// Every host asks for the host in its place on the next leaf.
fn ask_all(core: &mut Core, ports: &[Guid], a_leaf: usize) {
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
fn run(core: &mut Core, windows: usize) -> BTreeMap<Guid, Grant> {
    let mut held = BTreeMap::new();
    let end = core.next_deadline().unwrap() + Life::config().window * windows as u64;
    while let Some(now) = core.next_deadline().filter(|&now| now < end) {
        core.handle_deadline(now);
        let mut confirmed = Vec::new();
        while let Some(output) = core.poll_output() {
            let Output::Send { to, message } = output else { continue };
            let ControllerMessage::Lease(lease) = message.body else { continue };
            confirmed.push((to, lease.sequence));
            held.remove(&to);
            held.extend(lease.grants.last().map(|&grant| (to, grant)));
        }
        for (from, sequence) in confirmed {
            says(core, from, AgentMessage::Confirm(Confirm { sequence }), now);
        }
    }
    held
}

/// All that is granted arrives, along links of its own, and along the tree that is said.
fn assert_apart(read: &Read, held: &BTreeMap<Guid, Grant>, a_leaf: usize) {
    let (ports, mut owned) = (read.ports(), BTreeSet::new());
    for (place, port) in ports.iter().enumerate() {
        let Some(grant) = held.get(port) else { continue };
        let to = (place + a_leaf) % ports.len();
        let links = read.walk(HostId(place as u32), HostId(to as u32), grant.dlid.0);
        let (leaf, out) = links[0];
        assert_eq!(read.routing.forest.up(leaf, grant.tree), Some(out), "{grant:?}");
        for link in links {
            assert!(owned.insert(link), "{link:?} has two owners, {grant:?} is one");
        }
    }
}

#[test]
fn grants_follow_tables_that_lead_otherwise_from_every_leaf() {
    let (recipe, a_leaf) = ("clos:4,4,4", 4);
    let before = Read::shifted(recipe, 1, |leaf| leaf);
    let told = before.told().unwrap();
    assert_eq!(told.routing().engine, Engine::Found);
    assert_eq!(told.routing().tables, before.routing.tables);
    let ports = before.ports();
    let mut core = Core::new(Life::config(), told, Time::ZERO).unwrap();
    ask_all(&mut core, &ports, a_leaf);
    let held = run(&mut core, 12);
    assert_eq!(held.len(), ports.len(), "each pair has every tree");
    assert_apart(&before, &held, a_leaf);

    // While they change nothing is granted, and nothing is refused.
    let switches: BTreeSet<NodeIndex> =
        before.routing.hosts.iter().map(|(_, host)| host.switch).collect();
    let name = |&switch: &NodeIndex| before.topology.node(switch).guid;
    let unusable = switches.iter().flat_map(|switch| {
        (0..4).map(|tree| UnusablePair { switch: name(switch), tree: TreeId(tree) })
    });
    let pause = ViewChange { version: 2, unusable: unusable.collect() };
    let now = core.next_deadline().unwrap();
    core.handle(Event::Unusable(pause), now);
    assert_eq!(run(&mut core, 12), BTreeMap::new());
    let cut_short = core.metrics().cut_short;
    assert_eq!(cut_short, ports.len() as u64, "all were stopped");

    // The second leaf's routes have moved.
    let after = Read::shifted(recipe, 3, |leaf| leaf + usize::from(leaf == 1));
    let now = core.next_deadline().unwrap();
    core.handle(Event::View(after.told().unwrap()), now);
    let later = run(&mut core, 12);
    assert_eq!(later.len(), ports.len());
    assert_apart(&after, &later, a_leaf);

    // The third leaf's routes move without a pause: what went there is given anew, and the rest stays.
    let last = Read::shifted(recipe, 4, |leaf| leaf + usize::from(leaf == 1 || leaf == 2));
    let now = core.next_deadline().unwrap();
    core.handle(Event::View(last.told().unwrap()), now);
    let latest = run(&mut core, 12);
    assert_eq!(latest.len(), ports.len());
    assert_apart(&last, &latest, a_leaf);
    assert_eq!(core.metrics().cut_short - cut_short, a_leaf as u64);
    let of_third = 2 * a_leaf..3 * a_leaf;
    for (place, port) in ports.iter().enumerate().filter(|(place, _)| !of_third.contains(place)) {
        assert_eq!(latest[port].dlid, later[port].dlid, "host {place} had to move");
    }
}

/// With one way a pair there is admission alone, and what does not arrive is refused.
#[test]
fn what_leads_nowhere_is_never_granted() {
    let mut read = Read::shifted("clos:4,4,4", 1, |leaf| leaf);
    let ports = read.ports();
    // The first leaf drops every address of host 4, and sends host 5's to a spine that sends them back.
    let clos = read.routing.shape.as_ref().unwrap();
    let (leaf, spine) = (clos.leaves[0], clos.roots[0]);
    let lids = |read: &Read, host: u32| {
        let port = read.routing.hosts.get(HostId(host)).unwrap().port;
        read.routing.plan.addresses().of(port).collect::<Vec<Lid>>()
    };
    let up = read.routing.forest.up(leaf, TreeId(0)).unwrap();
    let peer = read.topology.peer(read.topology.port_of(leaf, up).unwrap()).unwrap();
    assert_eq!(read.topology.port(peer).node, spine);
    let back = read.topology.num(peer);
    let (dropped, looped) = (lids(&read, 4), lids(&read, 5));
    for &lid in &dropped {
        read.0.routing.tables[leaf.index()].set(lid, PortNum::NONE);
    }
    for &lid in &looped {
        read.0.routing.tables[leaf.index()].set(lid, up);
        read.0.routing.tables[spine.index()].set(lid, back);
    }
    let mut core = Core::new(Life::config(), read.told().unwrap(), Time::ZERO).unwrap();
    ask_all(&mut core, &ports, 4);
    let held = run(&mut core, 12);
    assert_apart(&read, &held, 4);
    assert_eq!(held.len(), ports.len() - 2);
    assert!(!held.contains_key(&ports[0]) && !held.contains_key(&ports[1]));
}
