//! Multicast trees of every kind of fabric, judged by the independent checker: every member gets one copy of
//! everything, no other port gets any, and with unicast beside it nothing can deadlock.

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use snin_fabric::check::credit::Traffic;
use snin_fabric::check::multicast::{Group, Held, MulticastReport, multicast};
use snin_fabric::generate::{Recipe, cut_cables};
use snin_fabric::hosts::Hosts;
use snin_fabric::multicast::{McTree, Members, MulticastTable, Planner};
use snin_fabric::routing::{Engine, Ranks, Routing};
use snin_fabric::topology::TopologyBuilder;
use snin_fabric::{Guid, Mlid, NodeIndex, NodeKind, PortIndex, PortNum, Topology};

fn generated(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

/// A fabric, its unicast tables, and the trees of its groups.
struct Net {
    topology: Topology,
    routing: Routing,
    trees: BTreeMap<Mlid, McTree>,
    groups: BTreeMap<Mlid, Members>,
}

impl Net {
    fn new(topology: Topology, groups: BTreeMap<Mlid, Members>) -> Self {
        let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
        let ranks = routing.ranks.as_ref().unwrap();
        let mut planner = Planner::new(&topology, ranks, &routing.forest);
        let tree = |(&mlid, members): (&Mlid, &Members)| (mlid, planner.tree(mlid, members));
        let trees = groups.iter().map(tree).collect();
        Self { topology, routing, trees, groups }
    }

    fn tables(&self) -> Vec<MulticastTable> {
        let trees = self.trees.iter().map(|(&mlid, tree)| (mlid, tree));
        McTree::tables(self.topology.switch_count(), trees)
    }

    fn judge(&self, tables: &[MulticastTable]) -> MulticastReport {
        let held = Held {
            topology: &self.topology,
            addresses: self.routing.plan.addresses(),
            unicast: &self.routing.tables,
            multicast: tables,
        };
        let group = |(&mlid, members): (&Mlid, &Members)| {
            let unreached = self.trees[&mlid].unreached();
            let reached = |ports: &BTreeSet<PortIndex>| {
                ports.iter().copied().filter(|port| !unreached.contains(port)).collect()
            };
            let (receivers, senders) = (reached(&members.full), reached(&members.send_only));
            Group { mlid, receivers, senders }
        };
        let groups: Vec<Group> = self.groups.iter().map(group).collect();
        multicast(&held, &groups, Traffic::All, 5)
    }

    fn judged(&self, name: &str) {
        let report = self.judge(&self.tables());
        assert!(report.is_ok(), "{name}: {report}");
        let ranks = self.routing.ranks.as_ref().unwrap();
        for (mlid, members) in &self.groups {
            let (reached, most) =
                (members_of(members), most_under_one_top(&self.topology, ranks, members));
            let missing = self.trees[mlid].unreached().len();
            assert_eq!(reached.len() - missing, most, "{name}: group {mlid}");
        }
    }
}

fn members_of(members: &Members) -> BTreeSet<PortIndex> {
    members.full.union(&members.send_only).copied().collect()
}

fn home(topology: &Topology, port: PortIndex) -> NodeIndex {
    let node = topology.port(port).node;
    if topology.is_switch(node) { node } else { topology.peer_node(port).unwrap() }
}

/// The most members that any switch reaches going only down: no tree that obeys the ranks can have more.
fn most_under_one_top(topology: &Topology, ranks: &Ranks, members: &Members) -> usize {
    let under = |top: NodeIndex| {
        let (mut under, mut todo) = (BTreeSet::from([top]), vec![top]);
        while let Some(at) = todo.pop() {
            let below = topology.switch_links(at).map(|(_, peer)| peer);
            todo.extend(below.filter(|&peer| ranks.is_above(at, peer) && under.insert(peer)));
        }
        let members = members_of(members);
        members.iter().filter(|&&port| under.contains(&home(topology, port))).count()
    };
    topology.switches().map(under).max().unwrap_or(0)
}

/// Everything that can be a member: hosts and switches' own ports.
fn ends(topology: &Topology) -> Vec<PortIndex> {
    let hosts = topology.ports().filter(|&port| {
        let node = topology.port(port).node;
        !topology.is_switch(node) && topology.peer(port).is_some()
    });
    hosts.chain(topology.switches().map(|switch| topology.port0(switch))).collect()
}

fn random_groups(
    topology: &Topology,
    count: usize,
    rng: &mut ChaCha8Rng,
) -> BTreeMap<Mlid, Members> {
    let ends = ends(topology);
    let mut group = |n: usize| {
        let mut some = |most: usize| -> BTreeSet<PortIndex> {
            let count = rng.random_range(0..=most);
            ends.sample(rng, count).copied().collect()
        };
        let most = [2, 5, ends.len()][n % 3];
        let (full, send_only) = (some(most), some(most / 2));
        (Mlid::nth(n * 7).unwrap(), Members { full, send_only })
    };
    (0..count).map(&mut group).collect()
}

#[test]
fn every_member_gets_one_copy_on_whole_and_cut_fabrics() {
    for (n, recipe) in [
        "clos:1,1,1",
        "clos:4,3,2",
        "clos:4,2,3,2",
        "clos:12,6,6",
        "fattree:4",
        "fattree:6,4",
        "fattree:8",
    ]
    .into_iter()
    .enumerate()
    {
        let whole = generated(recipe);
        let mut rng = ChaCha8Rng::seed_from_u64(n as u64);
        for seed in 0..12 {
            let count = if seed == 0 { 0 } else { rng.random_range(0..=whole.cable_count() / 3) };
            let topology = cut_cables(&whole, count, seed);
            let groups = random_groups(&topology, 9, &mut rng);
            Net::new(topology, groups).judged(&format!("{recipe} - {count}, {seed}"));
        }
    }
}

#[test]
fn shapes_that_are_no_clos_have_trees_too() {
    for seed in 0..60 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let count = rng.random_range(2..14);
        let mut links: Vec<_> = (1..count).map(|n| (rng.random_range(0..n), n)).collect();
        let more = rng.random_range(0..count * 2);
        links.extend((0..more).map(|_| (rng.random_range(0..count), rng.random_range(0..count))));
        links.retain(|(a, b)| a != b);
        let topology = graph(count, rng.random_range(1..3), &links);
        let groups = random_groups(&topology, 6, &mut rng);
        let net = Net::new(topology, groups);
        net.judged(&format!("graph {seed}"));
        assert!(net.trees.values().all(|tree| tree.unreached().is_empty()), "graph {seed}");
    }
}

/// Switches with `hosts` hosts each, joined by `links`.
fn graph(switches: usize, hosts: usize, links: &[(usize, usize)]) -> Topology {
    let mut builder = TopologyBuilder::new();
    let mut used = vec![hosts as u8; switches];
    let handles: Vec<_> = (0..switches)
        .map(|s| {
            builder.add(NodeKind::Switch, Guid(0x100 + s as u64), 80, &format!("s{s}")).unwrap()
        })
        .collect();
    for (s, &switch) in handles.iter().enumerate() {
        for h in 0..hosts {
            let guid = Guid(0x10_0000 + 0x100 * (s * hosts + h) as u64);
            let host = builder.add(NodeKind::Adapter, guid, 1, &format!("h{s}-{h}")).unwrap();
            builder.cable((switch, PortNum(h as u8 + 1)), (host, PortNum(1))).unwrap();
        }
    }
    for &(a, b) in links {
        used[a] += 1;
        let from = (handles[a], PortNum(used[a]));
        used[b] += 1;
        builder.cable(from, (handles[b], PortNum(used[b]))).unwrap();
    }
    builder.build().unwrap()
}

/// The first `hosts` hosts of each of these leaves.
fn hosts_of(
    topology: &Topology,
    leaves: impl Iterator<Item = u32>,
    hosts: usize,
) -> BTreeSet<PortIndex> {
    let of = |leaf| {
        let ends = topology.cables(NodeIndex(leaf)).map(|(_, end)| end);
        ends.filter(|&end| !topology.is_switch(topology.port(end).node)).take(hosts)
    };
    leaves.flat_map(of).collect()
}

fn same_group(count: usize, members: &Members) -> BTreeMap<Mlid, Members> {
    (0..count).map(|n| (Mlid::nth(n).unwrap(), members.clone())).collect()
}

#[test]
fn groups_are_shared_out_over_the_spines_and_only_those_of_a_dead_one_move() {
    let topology = generated("clos:36,18,18");
    // Not the transit leaf: where that is a member it is the top.
    let members = Members { full: hosts_of(&topology, 1..36, 1), ..Members::default() };
    let net = Net::new(topology, same_group(900, &members));
    let mut of_spine: BTreeMap<NodeIndex, usize> = BTreeMap::new();
    net.trees.values().for_each(|tree| *of_spine.entry(tree.top().unwrap()).or_default() += 1);
    assert_eq!(of_spine.len(), 18);
    // Fifty on average; all but one in a million of such draws lie within five standard deviations.
    assert!(of_spine.values().all(|count| (15..85).contains(count)), "{of_spine:?}");

    let dead = NodeIndex(36 + 7);
    let cables: Vec<PortIndex> = net.topology.cables(dead).map(|(port, _)| port).collect();
    let after = Net::new(net.topology.without_cables(&cables), net.groups.clone());
    after.judged("a spine without cables");
    for (mlid, tree) in &net.trees {
        assert_eq!(tree.top() == Some(dead), after.trees[mlid] != *tree, "{mlid}");
    }
}

#[test]
fn a_cut_cable_moves_the_groups_that_used_it_and_no_other() {
    for recipe in ["clos:12,6,6,2", "fattree:6"] {
        let topology = generated(recipe);
        let members = Members { full: hosts_of(&topology, 1..9, 1), ..Members::default() };
        let net = Net::new(topology, same_group(200, &members));
        let leaf = home(&net.topology, *members.full.last().unwrap());
        let (port, _) = net.topology.switch_links(leaf).last().unwrap();
        let used = |tree: &McTree| tree.masks().any(|(s, ports)| s == leaf && ports.contains(port));
        let cut = [net.topology.port_of(leaf, port).unwrap()];
        let after = Net::new(net.topology.without_cables(&cut), net.groups.clone());
        after.judged(recipe);
        let moved = net.trees.iter().filter(|(mlid, tree)| after.trees[mlid] != **tree);
        let moved: BTreeSet<Mlid> = moved.map(|(&mlid, _)| mlid).collect();
        let using = net.trees.iter().filter(|(_, tree)| used(tree)).map(|(&mlid, _)| mlid);
        assert_eq!(moved, using.collect(), "{recipe}");
        assert!(!moved.is_empty() && moved.len() < 100, "{recipe}: {} of 200", moved.len());
    }
}

#[test]
fn who_joins_only_adds_to_what_is_there() {
    for recipe in ["clos:12,6,4", "fattree:6"] {
        let topology = generated(recipe);
        let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
        let ranks = routing.ranks.as_ref().unwrap();
        let mut planner = Planner::new(&topology, ranks, &routing.forest);
        // The transit leaf may join last: then it is the top.
        let hosts = hosts_of(&topology, 1..12, 2);
        for n in 0..50 {
            let mlid = Mlid::nth(n).unwrap();
            let mut members = Members::default();
            let mut before = McTree::default();
            for &host in &hosts {
                members.full.insert(host);
                let after = planner.tree(mlid, &members);
                let held: BTreeMap<_, _> = after.masks().collect();
                for (switch, ports) in before.masks() {
                    assert!(held[&switch].covers(&ports), "{recipe} {mlid}: {switch:?} {ports:?}");
                }
                before = after;
            }
        }
    }
}

#[test]
fn nothing_is_sent_where_nobody_receives() {
    let topology = generated("clos:4,2,3");
    let on = |leaf: u32, hosts| hosts_of(&topology, leaf..leaf + 1, hosts);
    let tree = |full: BTreeSet<PortIndex>, send_only: BTreeSet<PortIndex>| {
        let groups = same_group(1, &Members { full, send_only });
        let net = Net::new(topology.clone(), groups);
        net.judged("senders");
        net.trees[&Mlid::MIN].clone()
    };
    let ports = |tree: &McTree| tree.masks().map(|(_, ports)| ports.iter().count()).sum::<usize>();
    assert_eq!(tree(BTreeSet::new(), on(1, 3)).masks().len(), 0, "nobody receives");
    assert_eq!(tree(on(1, 1), BTreeSet::new()).masks().len(), 0, "nobody hears himself");
    assert_eq!(ports(&tree(on(1, 1), on(1, 2))), 1);
    // Up from the sender, down to the receiver, and out to it: nothing goes to the sender.
    assert_eq!(ports(&tree(on(1, 1), on(2, 1))), 3);
    assert_eq!(ports(&tree(&on(1, 1) | &on(2, 1), BTreeSet::new())), 6);
}

#[test]
fn who_hangs_on_no_switch_is_named() {
    let mut builder = TopologyBuilder::new();
    let ends = [1u64, 2].map(|n| {
        builder
            .add(NodeKind::Adapter, Guid(n * 16), 1, &format!("h{n}"))
            .map(|h| (h, PortNum(1)))
            .unwrap()
    });
    builder.cable(ends[0], ends[1]).unwrap();
    let topology = builder.build().unwrap();
    let full: BTreeSet<PortIndex> =
        topology.ports().filter(|&port| topology.peer(port).is_some()).collect();
    let (ranks, forest) = (
        Ranks::of_any(&topology, &Hosts::of(&topology)),
        snin_fabric::routing::Forest::bare(&topology),
    );
    let members = Members { full: full.clone(), ..Members::default() };
    let tree = Planner::new(&topology, &ranks, &forest).tree(Mlid::MIN, &members);
    assert_eq!(tree.unreached().iter().copied().collect::<BTreeSet<_>>(), full);
    assert_eq!((tree.top(), tree.masks().len()), (None, 0));
}
