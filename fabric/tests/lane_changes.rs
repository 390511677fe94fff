//! Cuts and repairs of fabrics whose routes are in lanes: while tables change, and as long as programs send with
//! the service level that they had, no lane has a circle of links that wait for each other.
#![allow(clippy::disallowed_macros, reason = "what is measured is printed")]

#[path = "support/circles.rs"]
mod circles;
#[path = "support/mixes.rs"]
mod mixes;
#[path = "support/walker.rs"]
mod walker;

use std::collections::BTreeSet;

use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Former, Order, Replaced, Replacing, Routing, RoutingOptions};
use snin_fabric::topology::TopologyBuilder;
use snin_fabric::{Guid, Lmc, NodeKind, PortIndex, Topology};

use mixes::{Change, State};
use walker::walk;

fn built(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

/// Cables between switches.
fn trunks(topology: &Topology) -> Vec<PortIndex> {
    let is_switch = |port: PortIndex| topology.is_switch(topology.port(port).node);
    let is_trunk = |&port: &PortIndex| {
        topology.peer(port).is_some_and(|peer| port < peer && is_switch(port) && is_switch(peer))
    };
    topology.ports().filter(is_trunk).collect()
}

/// The fabric without these cables, and without these switches and what is on them.
fn without(whole: &Topology, cut: &BTreeSet<PortIndex>, gone: &BTreeSet<Guid>) -> Topology {
    let is_gone = |node| {
        let switch = match whole.node(node).kind {
            NodeKind::Switch => Some(node),
            _ => whole.cables(node).next().map(|(_, peer)| whole.port(peer).node),
        };
        switch.is_none_or(|switch| gone.contains(&whole.node(switch).guid))
    };
    let mut builder = TopologyBuilder::new();
    let mut handles = Vec::new();
    for node in whole.nodes() {
        let own = whole.node(node);
        let add = || builder.add(own.kind, own.guid, own.ports.into(), &own.name).unwrap();
        handles.push((!is_gone(node)).then(add));
    }
    for port in whole.ports().filter(|port| !cut.contains(port)) {
        let Some(peer) = whole.peer(port).filter(|&peer| port < peer && !cut.contains(&peer))
        else {
            continue;
        };
        let end = |port| Some((handles[whole.port(port).node.index()]?, whole.num(port)));
        if let Some((one, other)) = end(port).zip(end(peer)) {
            builder.cable(one, other).unwrap();
        }
    }
    builder.build().unwrap()
}

/// Whether cables join all switches.
fn is_joined(topology: &Topology) -> bool {
    let mut met = BTreeSet::new();
    let mut next: Vec<_> = topology.switches().take(1).collect();
    while let Some(switch) = next.pop() {
        if met.insert(switch) {
            next.extend(topology.switch_links(switch).map(|(_, peer)| peer));
        }
    }
    met.len() == topology.switch_count()
}

fn routed(topology: &Topology, engine: Engine, lanes: u8, former: Option<State<'_>>) -> Routing {
    let order = former.iter().flat_map(|former| {
        let guid = |&switch| former.topology.node(switch).guid;
        former.routing.order().iter().map(guid).collect::<Vec<Guid>>()
    });
    let order: Vec<Guid> = order.collect();
    let former = former.map(|State { topology, routing }| Former {
        topology,
        addresses: routing.plan.addresses(),
        routing,
    });
    let order = if former.is_some() { Order::Former(&order) } else { Order::Best };
    let lmc = Lmc::new(0);
    let options = RoutingOptions { engine, lmc, lanes, former, order, ..RoutingOptions::default() };
    Routing::with(topology, &options).unwrap()
}

/// What came of some changes.
#[derive(Default, Debug)]
struct Tally {
    changes: usize,
    /// Too few lanes were left for shortest routes.
    up_down: usize,
    entries: usize,
    moved: usize,
    pairs: usize,
    /// Pairs of switches that have another lane.
    relevelled: usize,
    /// Changes that close a circle where entries are replaced as they come.
    entangled: usize,
    /// Addresses, by how their entries are replaced.
    anyhow: usize,
    downstream_first: usize,
    dropped_first: usize,
}

/// A fabric, its damage, and how it is routed.
struct Damaged {
    whole: Topology,
    cut: BTreeSet<PortIndex>,
    gone: BTreeSet<Guid>,
    topology: Topology,
    routing: Routing,
}

impl Damaged {
    /// Something is cut, or goes, or is there again; `false` where nothing is, or switches are apart then.
    fn change(&mut self, random: &mut ChaCha8Rng) -> bool {
        let (cut, gone) = (self.cut.clone(), self.gone.clone());
        let trunks = trunks(&self.whole);
        match random.random_range(0..10) {
            0..=4 => self.cut.extend(trunks.choose(random)),
            5..=6 => drop(self.cut.pop_first()),
            7 => {
                let switches = self.whole.switches().map(|it| self.whole.node(it).guid);
                self.gone.extend(switches.choose(random));
            }
            8 => drop(self.gone.pop_last()),
            _ => self.cut.extend(trunks.sample(random, 3)),
        }
        let less = without(&self.whole, &self.cut, &self.gone);
        let is_other = (&self.cut, &self.gone) != (&cut, &gone);
        if !is_other || !is_joined(&less) {
            (self.cut, self.gone) = (cut, gone);
            return false;
        }
        self.topology = less;
        true
    }
}

/// Some cables or switches go or come back, one change after the other. What is under way has no circle: by former
/// and new levels where all pairs keep theirs, else by the new ones of those that do not.
fn changes(recipe: &str, engine: Engine, most: u8, seed: u64, tally: &mut Tally) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let whole = built(recipe);
    let routing = routed(&whole, engine, most, None);
    assert_eq!(routing.engine, engine, "{recipe}");
    let (cut, gone, topology) = (BTreeSet::new(), BTreeSet::new(), whole.clone());
    let mut damaged = Damaged { whole, cut, gone, topology, routing };
    for _ in 0..6 {
        let former = damaged.topology.clone();
        if !damaged.change(&mut random) {
            continue;
        }
        tally.changes += 1;
        let name = format!("{recipe} by {engine}, seed {seed}, change {}", tally.changes);
        let before = State { topology: &former, routing: &damaged.routing };
        let mended = routed(&damaged.topology, engine, most, Some(before));
        judge(&name, before, State { topology: &damaged.topology, routing: &mended }, tally);
        let lanes = mended.lanes.as_ref().unwrap();
        assert!(lanes.count() <= most, "{name}: {} lanes", lanes.count());
        if mended.engine != engine {
            tally.up_down += 1;
            return;
        }
        damaged.routing = mended;
    }
}

fn judge(name: &str, before: State<'_>, after: State<'_>, tally: &mut Tally) {
    let State { topology, routing } = after;
    let addresses = routing.plan.addresses();
    for (_, to) in routing.hosts.iter() {
        for (_, from) in routing.hosts.iter() {
            addresses.of(to.port).for_each(|lid| drop(walk(topology, routing, from.switch, lid)));
        }
    }
    let change = Change::new(before, after);
    let lanes = routing.lanes.as_ref().unwrap();
    assert_eq!(change.relevelled(), lanes.changed().len(), "{name}");
    let held = |at, lid| change.held(at, lid);
    let replacing = Replaced { topology, addresses, routing, held: &held }.replacing();
    // Where all is in one lane, what does not go up and then down drops first: the manager's own rule.
    let Some(replacing) = replacing else { return };
    let of = |lid| replacing.get(&lid).copied().unwrap_or(Replacing::Anyhow);
    let circles = change.circles(of, change.relevelled() == 0);
    assert!(circles.iter().all(Vec::is_empty), "{name}: lanes {circles:?} have circles");
    tally.entangled += usize::from(change.circles(|_| Replacing::Anyhow, true) != [vec![], vec![]]);
    let count = |what| replacing.values().filter(|&&it| it == what).count();
    tally.anyhow += count(Replacing::Anyhow);
    tally.downstream_first += count(Replacing::DownstreamFirst);
    tally.dropped_first += count(Replacing::DroppedFirst);
    tally.relevelled += change.relevelled();
    tally.moved += change.moved();
    let switches = topology.switch_count();
    tally.pairs += switches * (switches - 1) / 2;
    tally.entries += switches * routing.hosts.len();
}

#[test]
fn no_mixture_of_entries_has_a_circle() {
    let mut entangled = 0;
    for (recipe, most) in [
        ("torus:6,6,2", 8),
        ("torus:5,4,3", 7),
        ("torus:8,1,1", 5),
        ("torus:3,3,1", 3),
        ("dragonfly:9,4,2", 8),
        ("dragonfly:9,4,2", 4),
        ("random:40,6,2", 6),
        ("random:40,6,2,3", 5),
        ("clos:8,4,2", 2),
    ] {
        for engine in [Engine::Lanes, Engine::DimensionOrder] {
            let mut tally = Tally::default();
            (1..=4).for_each(|seed| changes(recipe, engine, most, seed, &mut tally));
            println!("{recipe} by {engine}, at most {most} lanes: {tally:?}");
            assert!(tally.relevelled * 100 <= tally.pairs, "{recipe} by {engine}");
            assert!(
                tally.moved * 10 <= tally.entries || tally.entries < 5_000,
                "{recipe} by {engine}"
            );
            entangled += tally.entangled;
        }
    }
    // The judge finds circles where there are some.
    assert!(entangled > 0);
}
