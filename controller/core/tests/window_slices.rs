//! Slices while traffic goes on: made, resized and deleted, cables cut, controllers replaced. A judge that shares
//! nothing with the controller looks at every window: no connection of a slice is outside the slice's links, and
//! no other connection is on them.

mod window_support;

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use snin_controller_core::events::GrantStatus;
use snin_controller_core::orders::{SliceError, SliceHosts, SliceRecord, TreeName};
use snin_fabric::routing::RoutingTree;
use snin_fabric::{Guid, Lid, NodeIndex, PortIndex, PortNum};
use snin_protocol::{ConnectionNumber, Time};
use window_support::fabric::Fabric;
use window_support::life::Life;
use window_support::orders::Orders as _;
use window_support::world::World;

/// A cable between switches, by its lower port.
type Cable = PortIndex;

/// A grant as it was given: who sends, its connection, the address and since when.
type Given = (Guid, ConnectionNumber, Lid, Time);

fn given(grant: &GrantStatus) -> Given {
    (grant.source, grant.connection, grant.dlid.0, grant.from)
}

fn records(world: &World) -> BTreeMap<String, SliceRecord> {
    let core = &world.core;
    let record = |owner: &str| Some((owner.to_owned(), core.slice_record(owner)?.clone()));
    core.slice_owners().filter_map(record).collect()
}

/// What the judge knows of slices, and since when.
#[derive(Default)]
struct Judge {
    slices: BTreeMap<String, SliceRecord>,
    /// When slices changed last.
    changed: Time,
    /// Where that moment is known to the judge: what was granted by then. Nothing but that may run out.
    before: Option<BTreeSet<Given>>,
    /// Grants inside slices and outside of them that were judged, and slices that were not whole.
    inside: u64,
    outside: u64,
    broken: u64,
}

impl Judge {
    /// Slices were changed just now: a grant that is given from now on heeds them.
    fn note(&mut self, world: &World) {
        let slices = records(world);
        if slices != self.slices {
            (self.slices, self.changed) = (slices, world.now);
            self.before = Some(world.core.grants().map(|grant| given(&grant)).collect());
        }
    }

    /// Judges everything that is granted. Grants of before a change run out: they are let be, but not longer.
    fn look(&mut self, world: &World, what: &str) {
        let core = &world.core;
        let slices = records(world);
        if slices != self.slices {
            (self.slices, self.changed, self.before) = (slices, world.now, None);
        }
        let config = &world.life.config;
        let settled = world.now > self.changed + config.longest_in_force() + config.window;
        let effective = self.changed + config.window;
        let is_new = |grant: &GrantStatus| {
            let after = self.before.as_ref().is_some_and(|before| !before.contains(&given(grant)));
            after || grant.from > effective
        };
        let judged: Vec<GrantStatus> =
            core.grants().filter(|grant| settled || is_new(grant)).collect();
        for grant in judged {
            self.judge(world, &grant, what);
        }
        self.broken += core.slices().iter().filter(|slice| !slice.whole).count() as u64;
        if settled {
            assert!(core.slices().iter().all(|slice| slice.foreign == 0), "{what}");
        }
    }

    fn judge(&mut self, world: &World, grant: &GrantStatus, what: &str) {
        let fabric = &world.fabric;
        let used = cables(fabric, grant);
        for (owner, slice) in &self.slices {
            let is_in = |port: &Guid| slice.hosts.contains(port);
            if is_in(&grant.source) && is_in(&grant.destination) {
                self.inside += 1;
                let own = cables_of(fabric, &world.whole, slice);
                let strays = used.iter().find(|cable| !own.contains(cable));
                assert_eq!(strays, None, "{what}: {owner}'s {grant:?} leaves its slice");
            } else {
                self.outside += 1;
                let own = cables_of(fabric, fabric, slice);
                let enters = used.iter().find(|cable| own.contains(cable));
                assert_eq!(enters, None, "{what}: {grant:?} is in {owner}'s slice");
            }
        }
    }
}

fn cable(fabric: &Fabric, out: PortIndex) -> Option<Cable> {
    let topology = &fabric.topology;
    let peer = topology.peer(out)?;
    let both = [out, peer].map(|port| topology.is_switch(topology.port(port).node));
    (both == [true, true]).then(|| out.min(peer))
}

/// Out of which port a switch sends what is for a LID.
fn out(fabric: &Fabric, switch: NodeIndex, lid: Lid) -> Option<PortIndex> {
    let port = fabric.routing.tables[switch.index()].get(lid);
    fabric.topology.port_of(switch, port).filter(|_| port != PortNum::ZERO)
}

/// Out of which ports of switches packets from a host go that are for a LID, by the tables.
fn way(fabric: &Fabric, source: Guid, lid: Lid) -> Vec<PortIndex> {
    let topology = &fabric.topology;
    let mut hosts = fabric.routing.hosts.iter().map(|(_, host)| host);
    let source = hosts.find(|host| topology.port(host.port).guid == source).unwrap();
    let mut switch = source.switch;
    let mut ports = Vec::new();
    for _ in 0..6 {
        let Some(port) = out(fabric, switch, lid) else { break };
        ports.push(port);
        let Some(next) = topology.peer_node(port).filter(|&node| topology.is_switch(node)) else {
            break;
        };
        switch = next;
    }
    ports
}

/// The cables between switches that a grant's packets use, by the tables.
fn cables(fabric: &Fabric, grant: &GrantStatus) -> BTreeSet<Cable> {
    let ports = way(fabric, grant.source, grant.dlid.0).into_iter();
    ports.filter_map(|port| cable(fabric, port)).collect()
}

/// The cables of a slice: of a leaf and a tree the first one that leads towards the tree's root, of a pod and a
/// core the second. Which leaves make a pod is said by a fabric: as it is, or when no cable is cut. Cuts may
/// part a pod, so that a core's cable is not reached from the leaf that names the pod. What the slice holds on
/// such a cable runs out, and until the cables are back others may have it.
fn cables_of(fabric: &Fabric, whole: &Fabric, slice: &SliceRecord) -> BTreeSet<Cable> {
    let first = slice.leaf.iter().map(|pair| (pair, 1));
    let second = slice.pod.iter().map(|pair| (pair, 2));
    let all = first.chain(second);
    all.filter_map(|(pair, hop)| towards_root(fabric, whole, pair, hop)).collect()
}

fn towards_root(
    fabric: &Fabric,
    whole: &Fabric,
    pair: &(Guid, TreeName),
    hop: usize,
) -> Option<Cable> {
    let (topology, routing) = (&fabric.topology, &fabric.routing);
    let leaf = switch(fabric, pair.0)?;
    let tree =
        routing.forest.trees().iter().find(|tree| {
            topology.node(tree.root).guid == pair.1.root && tree.plane == pair.1.plane
        })?;
    // The trees of a group share the first one, and some of them may be cut further up.
    let mut alike = routing
        .forest
        .trees()
        .iter()
        .filter(|other| other.id == tree.id || (hop == 1 && other.group == tree.group));
    // A pod is named by one of its leaves, which may be cut off from the switch in question.
    let leaves = if hop == 1 { vec![leaf] } else { pod_of(fabric, whole, pair.0) };
    alike.find_map(|tree| leaves.iter().find_map(|&leaf| along(fabric, leaf, tree, hop)))
}

fn switch(fabric: &Fabric, guid: Guid) -> Option<NodeIndex> {
    let topology = &fabric.topology;
    topology.switches().find(|&switch| topology.node(switch).guid == guid)
}

/// The leaves that have a switch in common with one in the fabric that says so.
fn pod_of(fabric: &Fabric, whole: &Fabric, leaf: Guid) -> Vec<NodeIndex> {
    let topology = &whole.topology;
    let above = |leaf: NodeIndex| -> BTreeSet<NodeIndex> {
        let far = topology.cables(leaf).map(|(_, far)| topology.port(far).node);
        far.filter(|&node| topology.is_switch(node)).collect()
    };
    let own = switch(whole, leaf).map(above).unwrap_or_default();
    let leaves: BTreeSet<NodeIndex> =
        whole.routing.hosts.iter().map(|(_, host)| host.switch).collect();
    let pod = leaves.into_iter().filter(|&other| !above(other).is_disjoint(&own));
    pod.filter_map(|leaf| switch(fabric, topology.node(leaf).guid)).collect()
}

/// A cable on the way from a leaf to the root of a tree.
fn along(fabric: &Fabric, leaf: NodeIndex, tree: &RoutingTree, hop: usize) -> Option<Cable> {
    let (topology, routing) = (&fabric.topology, &fabric.routing);
    // Any host so far away that packets to it go over the root. Where the tree does not cover both ends, packets
    // go along other cables than its own.
    let covers = |switch| routing.forest.covers(switch, tree.id);
    let mut hosts = routing.hosts.iter().filter(|(_, host)| covers(leaf) && covers(host.switch));
    hosts.find_map(|(_, host)| {
        let dlid = routing.plan.dlid(host.port, tree.id)?;
        let mut switch = leaf;
        let mut way = Vec::new();
        while switch != tree.root {
            let port = out(fabric, switch, dlid.0)?;
            way.push(cable(fabric, port)?);
            switch = topology.peer_node(port)?;
            if way.len() > 2 {
                return None;
            }
        }
        way.get(hop - 1).copied()
    })
}

const RECIPES: [&str; 5] = ["clos:4,4,2", "clos:6,4,3", "fattree:4", "clos:2,2,3,2", "clos:5,6,4"];

fn change(world: &mut World, rng: &mut ChaCha8Rng) {
    let owner = format!("job/{}", rng.random_range(0..4));
    let hosts = world.agents.len() as u32;
    let mut ports: Vec<Guid> = world.agents.iter().map(|agent| agent.port).collect();
    ports.shuffle(rng);
    ports.truncate(rng.random_range(2..=3));
    let count = SliceHosts::Count(rng.random_range(2..=hosts / 2));
    let wanted = if rng.random_bool(0.7) { count } else { SliceHosts::Ports(ports) };
    match rng.random_range(0..4) {
        0 => drop(world.core.delete_slice(&owner)),
        1 => drop(world.core.resize_slice(&owner, &wanted)),
        _ => drop(world.core.create_slice(&owner, &wanted)),
    }
}

#[test]
fn nobody_leaves_a_slice_and_nobody_enters() {
    let seeds = std::env::var("SNIN_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let mut seen = [0; 4];
    for seed in 0..seeds.unwrap_or(120) {
        let recipe = RECIPES[seed as usize % RECIPES.len()];
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let life = if seed % 3 == 0 { Life::crowded() } else { Life::hard() };
        let mut world = World::new(Fabric::generated(recipe), life, seed);
        let mut judge = Judge::default();
        for window in 0..60 {
            if rng.random_bool(0.08) {
                change(&mut world, &mut rng);
                judge.note(&world);
            }
            world.run(1);
            judge.look(&world, &format!("{recipe}, seed {seed}, window {window}"));
        }
        assert_eq!(world.checker.clashes.first(), None, "{recipe}, seed {seed}");
        assert_eq!(world.core.metrics().certificate_failures, 0, "{recipe}, seed {seed}");
        let counts = [judge.inside, judge.outside, judge.broken, world.takeovers];
        seen.iter_mut().zip(counts).for_each(|(seen, count)| *seen += count);
    }
    assert!(seen[0] > 500 && seen[1] > 5_000 && seen[3] > 20, "{seen:?}");
}

#[test]
fn whatever_a_slice_sends_has_its_links_though_others_want_them() {
    for (seed, recipe) in
        (0..).zip(["clos:4,4,4", "clos:6,4,4", "fattree:4", "clos:4,4,4", "fattree:6"])
    {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut world = World::new(Fabric::generated(recipe), Life::calm(), seed);
        world.run(10);
        let all = world.agents.len();
        // Every host sends before there is a slice.
        let around = |place: usize| (place + all / 2 + 1) % all;
        (0..all).for_each(|place| world.request(place, 0, around(place), 0));
        world.run(12);
        let wanted = SliceHosts::Count(all as u32 / 2);
        assert_eq!(world.core.create_slice("job/1", &wanted), Ok(true));
        assert_eq!(world.core.create_slice("job/1", &wanted), Ok(false), "it has it already");
        let hosts = world.core.slice("job/1").unwrap().hosts;
        let members: Vec<usize> =
            (0..all).filter(|&place| hosts.contains(&world.agents[place].port)).collect();
        for round in 1..5 {
            let mut to = members.clone();
            while members.iter().zip(&to).any(|(from, to)| from == to) {
                to.shuffle(&mut rng);
            }
            // Its hosts have better to do than to talk with others.
            for (&from, &to) in members.iter().zip(&to) {
                world.close(from, round - 1);
                world.request(from, round, to, 0);
            }
            for place in (0..all).filter(|place| !members.contains(place)) {
                let mut others = (0..all).filter(|to| !members.contains(to) && *to != place);
                let other = others.nth(rng.random_range(0..all - members.len() - 1)).unwrap();
                world.close(place, round - 1);
                world.request(place, round, other, 0);
            }
            world.run(20);
            for &from in &members {
                let flow = (world.agents[from].port, ConnectionNumber(round));
                assert!(world.checker.is_sending(flow), "{recipe}, round {round}: {from} waits");
            }
            let mut judge = Judge::default();
            judge.look(&world, recipe);
            judge.changed = Time::ZERO;
            judge.look(&world, recipe);
            assert!(judge.inside > 0);
        }
        assert_eq!(world.checker.clashes.first(), None);
    }
}

#[test]
fn what_is_not_possible_is_refused_and_nothing_changes() {
    let mut world = World::new(Fabric::generated("clos:4,4,2"), Life::calm(), 1);
    let core = &mut world.core;
    let told = |answer: Result<bool, SliceError>| answer.unwrap_err().to_string();
    let count = SliceHosts::Count;
    assert_eq!(core.create_slice("a", &count(3)), Ok(true));
    assert_eq!(told(core.create_slice("b", &count(6))), "6 hosts wanted, but 5 are free");
    assert_eq!(
        told(core.create_slice("a", &count(4))),
        "a has a slice of other hosts: resize it, or delete it first"
    );
    assert!(told(core.create_slice("a b", &count(1))).starts_with("`a b`: an owner is"));
    let taken = core.slice("a").unwrap().hosts;
    assert!(told(core.create_slice("c", &SliceHosts::Ports(taken.clone()))).ends_with("is taken"));
    let unknown = SliceHosts::Ports(vec![Guid(7)]);
    assert!(told(core.create_slice("c", &unknown)).ends_with("is no host's port"));
    assert_eq!(core.resize_slice("x", &count(1)), Err(SliceError::None("x".to_owned())));
    // What queries for paths prefer: its addresses, as long as its hosts are its owner's alone.
    assert_eq!(core.slice_members().len(), 3);
    core.share_slice("a", true);
    assert_eq!((core.slice_members(), core.slice("a").unwrap().shared), (Vec::new(), true));
    core.share_slice("a", false);
    // It keeps its hosts when it grows, and gives some back when it shrinks.
    core.resize_slice("a", &count(5)).unwrap();
    let more = core.slice("a").unwrap().hosts;
    assert!(more.len() == 5 && taken.iter().all(|host| more.contains(host)));
    core.resize_slice("a", &count(2)).unwrap();
    assert!(core.slice("a").unwrap().hosts.iter().all(|host| more.contains(host)));
    assert_eq!(core.free_hosts(), Some(6));
    assert_eq!(core.try_slice(&count(6)).unwrap().hosts.len(), 6);
    assert_eq!(core.free_hosts(), Some(6), "a try sets nothing aside");
    assert!(core.delete_slice("a") && !core.delete_slice("a"));
    assert_eq!(core.free_hosts(), Some(8));
}

#[test]
fn pairs_that_are_pinned_inside_a_slice_share_no_link() {
    let mut rng = ChaCha8Rng::seed_from_u64(39);
    for recipe in ["clos:6,4,4", "clos:4,6,6", "fattree:4"] {
        let fabric = Fabric::generated(recipe);
        let mut ports = fabric.ports();
        let mut pinned = 0;
        for round in 0..20 {
            let mut world = World::new(fabric.clone(), Life::calm(), 1);
            ports.shuffle(&mut rng);
            let count = rng.random_range(1..=ports.len() / 2) * 2;
            let hosts = SliceHosts::Ports(ports[..count].to_vec());
            if world.core.create_slice("job", &hosts).is_err() {
                continue;
            }
            let both = |two: &[Guid]| [(two[0], two[1]), (two[1], two[0])];
            let pairs: Vec<(Guid, Guid)> = ports[..count].chunks(2).flat_map(both).collect();
            let trees = world.core.job_trees("job", None, &pairs).unwrap();
            let slice = world.core.slice_record("job").unwrap();
            let own = cables_of(&fabric, &fabric, slice);
            let mut used = BTreeSet::new();
            for &(from, to) in &pairs {
                let what = format!("{recipe}, round {round}: {from} to {to}");
                let base = |port| trees.hosts().iter().find(|h| h.port == port).unwrap().lids.0;
                let there = trees.way(base(from), base(to)).unwrap().unwrap();
                for port in way(&fabric, from, there.to) {
                    assert!(used.insert(port), "{what}: another pair has this link");
                    let strays = cable(&fabric, port).is_some_and(|cable| !own.contains(&cable));
                    assert!(!strays, "{what}: leaves its slice");
                }
                pinned += usize::from(there.tree.is_some());
            }
        }
        assert!(pinned > 20, "{recipe}: {pinned}");
    }
}
