//! Tables of every kind of fabric, judged by the independent checkers: no route lost, no credit loop, every
//! address along its tree wherever the cables allow.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_fabric::check::credit::{Traffic, credit};
use snin_fabric::check::tree::{CheckedTree, Stages, trees};
use snin_fabric::check::walk::walk;
use snin_fabric::clos::NotClos;
use snin_fabric::generate::{Recipe, cut_cables};
use snin_fabric::routing::{Engine, Placement, Routing};
use snin_fabric::topology::TopologyBuilder;
use snin_fabric::{
    Addresses, ForwardingTable, Guid, Lid, Lmc, NodeIndex, NodeKind, PortIndex, PortNum, Topology,
};

fn generated(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

/// Computes tables and has everything that can be judged judged.
fn judged(name: &str, topology: &Topology, lmc: Option<Lmc>) -> Routing {
    let routing = Routing::compute(topology, Engine::Trees, lmc).expect(name);
    let (addresses, tables) = (routing.plan.addresses(), &routing.tables);
    let walked = walk(topology, addresses, tables, 3);
    let listed = routing.unreachable.len();
    assert!(walked.is_ok() || listed > 0, "{name}: {walked}");
    // Routes between parts that no cable joins are lost, of course.
    assert!(walked.host_routes_lost == 0 || walked.disconnected > 0, "{name}: {walked}");
    assert!(walked.lost == 0 || listed > 0, "{name}: {walked}");
    assert_eq!(walked.looped, 0, "{name}: {walked}");
    let loops = credit(topology, addresses, tables, Traffic::All, |_, _| 0);
    assert!(loops.is_ok(), "{name}: {loops}");
    // Where a pair's own cable is missing, ordinary traffic may take a stray one instead.
    if let Some(clos) = routing.shape.as_ref().ok().filter(|clos| clos.strays.is_empty()) {
        let checked: Vec<CheckedTree> = routing
            .forest
            .trees()
            .iter()
            .map(|tree| CheckedTree {
                below: Some(clos.below(tree.root, tree.plane)),
                ..CheckedTree::new(tree.root, tree.plane)
            })
            .collect();
        let stages = if clos.stages() == 2 { Stages::Two } else { Stages::Three };
        let tree_of = |lid: Lid| {
            let (port, offset) = addresses.owner(lid)?;
            routing.plan.tree(port, offset).map(|tree| tree.index())
        };
        let report = trees(topology, addresses, tables, &checked, stages, tree_of, 3);
        assert!(report.is_ok(), "{name}: {report}");
        assert!(report.on_tree > 0 || report.routes == report.no_cable, "{name}: {report}");
    }
    routing
}

#[test]
fn regular_fabrics() {
    for recipe in [
        "clos:1,1,1",
        "clos:2,1,1",
        "clos:4,3,2",
        "clos:4,2,3,2",
        "clos:8,4,4,3",
        "clos:36,18,18",
        "fattree:4",
        "fattree:6,4",
        "fattree:8",
        "fattree:12,5",
    ] {
        let topology = generated(recipe);
        let routing = judged(recipe, &topology, None);
        let clos = routing.shape.as_ref().expect(recipe);
        assert_eq!(clos.irregularities, [], "{recipe}");
        assert_eq!(routing.unreachable, [], "{recipe}");
    }
}

#[test]
fn fewer_addresses_than_trees() {
    for (recipe, lmc) in [("clos:8,8,4", 1), ("clos:8,8,4", 0), ("fattree:8", 2), ("fattree:8", 3)]
    {
        let routing = judged(recipe, &generated(recipe), Lmc::new(lmc));
        assert_eq!(routing.plan.lmc().bits(), lmc);
        // Together the hosts have addresses along every tree.
        let mut reached = vec![false; routing.forest.len()];
        for (_, host) in routing.hosts.iter() {
            let trees: Vec<_> = routing.plan.trees(host.port).collect();
            assert_eq!(trees.len(), 1 << lmc);
            trees.iter().for_each(|tree| reached[tree.index()] = true);
        }
        assert!(reached.iter().all(|&reached| reached), "{recipe} at LMC {lmc}");
    }
}

#[test]
fn missing_cables() {
    for (recipe, cuts) in [("clos:36,18,18", 10), ("clos:36,18,18", 60), ("clos:6,4,3,2", 9)] {
        for seed in 0..5 {
            judged(
                &format!("{recipe} - {cuts}, {seed}"),
                &cut_cables(&generated(recipe), cuts, seed),
                None,
            );
        }
    }
    for (recipe, cuts) in [("fattree:6", 4), ("fattree:8,4", 12)] {
        for seed in 0..10 {
            judged(
                &format!("{recipe} - {cuts}, {seed}"),
                &cut_cables(&generated(recipe), cuts, seed),
                None,
            );
        }
    }
}

/// Small fabrics cut down to anything that still hangs together, at every LMC that is possible.
#[test]
fn heavily_cut_fabrics_keep_every_pair_that_cables_join() {
    for seed in 0..60 {
        let recipe = ["clos:4,3,2", "clos:3,3,2,2", "fattree:4", "fattree:6,2"][seed % 4];
        let whole = generated(recipe);
        let mut random = ChaCha8Rng::seed_from_u64(seed as u64);
        let count = random.random_range(0..whole.cable_count());
        let lmc = Lmc::new(random.random_range(0..4));
        judged(
            &format!("{recipe} - {count}, {seed}"),
            &cut_cables(&whole, count, seed as u64),
            lmc,
        );
    }
}

/// A builder of odd fabrics: switches by number, cables and hosts where wanted.
#[derive(Default)]
struct Odd {
    builder: TopologyBuilder,
    switches: Vec<(snin_fabric::topology::Handle, u8)>,
    hosts: u64,
}

impl Odd {
    fn switches(count: u64) -> Self {
        let mut odd = Self::default();
        for n in 0..count {
            let name = format!("switch{n}");
            let switch = odd.builder.add(NodeKind::Switch, Guid(0x100 + n), 40, &name).unwrap();
            odd.switches.push((switch, 0));
        }
        odd
    }

    fn end(&mut self, switch: usize) -> (snin_fabric::topology::Handle, PortNum) {
        let (handle, used) = &mut self.switches[switch];
        *used += 1;
        (*handle, PortNum(*used))
    }

    fn cable(&mut self, a: usize, b: usize) {
        let (a, b) = (self.end(a), self.end(b));
        self.builder.cable(a, b).unwrap();
    }

    fn host(&mut self, switch: usize) {
        let guid = Guid(0x10_0000 + self.hosts * 16);
        let name = format!("host{}", self.hosts);
        let host = self.builder.add(NodeKind::Adapter, guid, 1, &name).unwrap();
        self.hosts += 1;
        let end = self.end(switch);
        self.builder.cable(end, (host, PortNum(1))).unwrap();
    }

    fn build(self) -> Topology {
        self.builder.build().unwrap()
    }
}

#[test]
fn shapes_that_are_no_clos_are_routed_without_loops() {
    let ring = |count: usize| {
        let mut odd = Odd::switches(count as u64);
        for n in 0..count {
            odd.cable(n, (n + 1) % count);
            odd.host(n);
        }
        odd.build()
    };
    let grid = |rows: usize, columns: usize| {
        let mut odd = Odd::switches((rows * columns) as u64);
        for n in 0..rows * columns {
            odd.host(n);
            if n % columns + 1 < columns {
                odd.cable(n, n + 1);
            }
            if n + columns < rows * columns {
                odd.cable(n, n + columns);
            }
        }
        odd.build()
    };
    let shapes = [("ring of 3", ring(3)), ("ring of 8", ring(8)), ("grid", grid(4, 5))];
    for (name, topology) in shapes {
        let routing = judged(name, &topology, Lmc::new(1));
        assert!(routing.shape.is_err(), "{name}");
        assert_eq!(routing.unreachable, [], "{name}");
    }
    let routing = judged("triangle", &ring(3), None);
    let NotClos::OddCycle(a, b) = routing.shape.unwrap_err() else { panic!("not an odd cycle") };
    assert!(a.starts_with("switch") && b.starts_with("switch"));
}

#[test]
fn random_graphs_are_routed_without_loops() {
    for seed in 0..40 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let count = random.random_range(2..14);
        let mut odd = Odd::switches(count as u64);
        for n in 1..count {
            odd.cable(random.random_range(0..n), n);
        }
        for _ in 0..random.random_range(0..count * 2) {
            let (a, b) = (random.random_range(0..count), random.random_range(0..count));
            if a != b {
                odd.cable(a, b);
            }
        }
        for _ in 0..random.random_range(1..count * 3) {
            odd.host(random.random_range(0..count));
        }
        judged(&format!("graph {seed}"), &odd.build(), Lmc::new(random.random_range(0..3)));
    }
}

/// Clos of so many leaves, spines and hosts a leaf, and these cables between spines of one and the next.
fn joined(parts: &[(usize, usize, usize)], joints: &[(usize, usize)]) -> Topology {
    let count: usize = parts.iter().map(|(leaves, spines, _)| leaves + spines).sum();
    let (mut odd, mut first, mut before) = (Odd::switches(count as u64), 0, None);
    for &(leaves, spines, hosts) in parts {
        for leaf in first..first + leaves {
            (0..spines).for_each(|spine| odd.cable(leaf, first + leaves + spine));
            (0..hosts).for_each(|_| odd.host(leaf));
        }
        let spine = first + leaves;
        if let Some(before) = before {
            joints.iter().for_each(|&(a, b)| odd.cable(before + a, spine + b));
        }
        (first, before) = (spine + spines, Some(spine));
    }
    odd.build()
}

/// What a switch has for a host's address, by the names of both and the place among the host's addresses.
fn entries(topology: &Topology, routing: &Routing) -> BTreeMap<(Guid, Guid, u16), PortNum> {
    entries_at(topology, routing.plan.addresses(), &routing.tables)
}

fn entries_at(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
) -> BTreeMap<(Guid, Guid, u16), PortNum> {
    let ends = addresses.iter().filter(|(port, ..)| !topology.is_switch(topology.port(*port).node));
    let all = ends.flat_map(|(port, base, lmc)| {
        let guid = topology.node(topology.port(port).node).guid;
        (0..lmc.addresses() as u16).map(move |offset| (guid, offset, Lid(base.0 + offset)))
    });
    let all: Vec<_> = all.collect();
    let of = |switch: NodeIndex| {
        let (name, table) = (topology.node(switch).guid, &tables[switch.index()]);
        all.iter().map(move |&(guid, offset, lid)| ((name, guid, offset), table.get(lid)))
    };
    topology.switches().flat_map(of).collect()
}

/// Who joins a Clos to another changes none of its routes.
#[test]
fn joined_clos_keep_their_routes() {
    for (joints, lmc) in
        [(vec![(0, 0)], 1), (vec![(1, 0)], 1), (vec![(0, 0), (1, 1), (1, 1)], 2), (vec![(2, 1)], 0)]
    {
        let (north, south) = ((4, 3, 3), (3, 2, 4));
        let name = format!("{joints:?}");
        let topology = joined(&[north, south], &joints);
        let mut routing = judged(&name, &topology, Lmc::new(lmc));
        assert_eq!(routing.shape.as_ref().err(), Some(&NotClos::Joined(2)), "{name}");
        assert_eq!(routing.unreachable, [], "{name}");
        // Alone: the same fabric without these cables, the other one's hosts and switches not cabled to it.
        let alone = joined(&[north], &[]);
        let routed = judged("alone", &alone, Lmc::new(lmc));
        let before = entries(&alone, &routed);
        assert_eq!(before.len(), (7 * 12) << lmc, "{name}");
        // Its ports keep the addresses that they had.
        let node =
            |topology: &Topology, port: PortIndex| topology.node(topology.port(port).node).guid;
        let had: BTreeMap<Guid, Lid> = routed
            .plan
            .addresses()
            .iter()
            .map(|(port, base, _)| (node(&alone, port), base))
            .collect();
        let mut kept = Addresses::none(topology.port_count());
        for (port, base, lmc) in routing.plan.addresses().iter() {
            let new = Lid(1024 + base.0);
            let base = had.get(&node(&topology, port)).copied().unwrap_or(new);
            kept.assign(port, base, lmc).unwrap();
        }
        routing.plan.settle(&kept);
        let tables = Placement::new(Vec::new(), &routing.plan).tables(&topology, &routing, &kept);
        let whole = entries_at(&topology, &kept, &tables);
        let changed = before.iter().filter(|(key, port)| whole[key] != **port).count();
        assert_eq!(changed, 0, "{name}");
    }
    // A leaf with its hosts, which had a manager of its own, is cabled to all spines: the whole is a Clos.
    let leaf = |joined: bool| {
        let mut odd = Odd::switches(8);
        for leaf in [0, 1, 2, 3, 7].into_iter().filter(|leaf| joined || *leaf != 7) {
            (4..7).for_each(|spine| odd.cable(leaf, spine));
            (0..3).for_each(|_| odd.host(leaf));
        }
        let topology = odd.build();
        let routing = judged("a leaf more", &topology, Lmc::new(2));
        assert!(routing.shape.is_ok());
        entries(&topology, &routing)
    };
    let (before, whole) = (leaf(false), leaf(true));
    let stays =
        |(key, port): &(&(Guid, Guid, u16), &PortNum)| key.0 == Guid(0x107) || whole[key] == **port;
    assert_eq!(before.iter().filter(stays).count(), before.len());
    // Three, one of them damaged; and with cables missing anywhere.
    for seed in 0..60 {
        let whole = joined(&[(4, 3, 2), (3, 2, 2), (2, 2, 3)], &[(0, 0), (1, 1), (1, 0)]);
        let topology = cut_cables(&whole, seed as usize % 9, seed);
        judged(&format!("joined, {seed}"), &topology, Lmc::new(seed as u8 % 3));
    }
}

#[test]
fn islands_are_named_unreachable() {
    let mut odd = Odd::switches(4);
    odd.cable(0, 1);
    odd.cable(2, 3);
    (0..4).for_each(|n| odd.host(n));
    let topology = odd.build();
    let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
    assert!(matches!(routing.shape, Err(NotClos::Islands(_, _))));
    assert_eq!(routing.unreachable.len(), 8, "two pairs of two, each way");
}

#[test]
fn hosts_on_spines_are_reached_through_their_spine() {
    // Four leaves with two hosts each, three spines of which two carry a host.
    let mut odd = Odd::switches(7);
    for leaf in 0..4 {
        (0..2).for_each(|_| odd.host(leaf));
        (4..7).for_each(|spine| odd.cable(leaf, spine));
    }
    odd.host(5);
    odd.host(6);
    let topology = odd.build();
    let routing = judged("hosts on spines", &topology, None);
    let clos = routing.shape.as_ref().unwrap();
    assert_eq!((clos.leaves.len(), clos.roots.len()), (4, 3));
    assert_eq!(routing.unreachable, []);
    let off_leaf = clos.irregularities.iter().filter(|i| i.to_string().contains("hangs on spine"));
    assert_eq!(off_leaf.count(), 2);
    // From a leaf every address of the host on spine 5 goes by the cable to that spine.
    let host = routing.hosts.iter().find(|(_, h)| h.switch == NodeIndex(5)).unwrap().1;
    for lid in routing.plan.addresses().of(host.port) {
        for leaf in 0..4 {
            let port = routing.tables[leaf].get(lid);
            let port = topology.port_of(NodeIndex(leaf as u32), port).unwrap();
            assert_eq!(topology.peer_node(port), Some(NodeIndex(5)));
        }
    }
}

#[test]
fn baselines_reach_everyone_at_one_address_a_port() {
    for recipe in ["clos:8,4,4", "fattree:6"] {
        let topology = generated(recipe);
        for engine in [Engine::MinHop, Engine::DModK] {
            let routing = Routing::compute(&topology, engine, None).unwrap();
            assert_eq!(routing.plan.lmc(), Lmc::ZERO);
            let walked = walk(&topology, routing.plan.addresses(), &routing.tables, 3);
            assert_eq!(walked.host_routes_lost, 0, "{recipe} {engine}: {walked}");
        }
        assert!(Routing::compute(&topology, Engine::DModK, Lmc::new(1)).is_err());
    }
    let ring = |engine| {
        let mut odd = Odd::switches(3);
        (0..3).for_each(|n| odd.cable(n, (n + 1) % 3));
        odd.host(0);
        Routing::compute(&odd.build(), engine, None)
    };
    assert!(ring(Engine::MinHop).is_ok());
    let error = ring(Engine::DModK).unwrap_err().to_string();
    assert!(error.contains("needs a Clos"), "{error}");
}

#[test]
fn d_mod_k_shares_a_leaf_s_hosts_out_over_its_uplinks() {
    let topology = generated("clos:4,4,4");
    let routing = Routing::compute(&topology, Engine::DModK, None).unwrap();
    let addresses = routing.plan.addresses();
    let mut load = [0; 256];
    for (_, host) in routing.hosts.iter().filter(|(_, host)| host.switch != NodeIndex(0)) {
        load[routing.tables[0].get(addresses.base(host.port).unwrap()).index()] += 1;
    }
    assert_eq!(&load[5..9], [3, 3, 3, 3], "twelve hosts elsewhere, four uplinks");
}

#[test]
fn too_many_addresses_say_what_would_fit() {
    let topology = generated("clos:64,32,32");
    let error = Routing::compute(&topology, Engine::Trees, Lmc::new(5)).unwrap_err().to_string();
    for part in ["2048 end ports", "LMC 5", "96 switches", "at most LMC 4 fits"] {
        assert!(error.contains(part), "{error}");
    }
    let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
    assert_eq!(routing.plan.lmc().bits(), 4);
}
