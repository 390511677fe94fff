//! Programs that do not ask use base addresses: what they send is spread over all trees, or over as many as are
//! said to be theirs. Loads are counted by a walker of this file's own.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Placement, Routing, RoutingOptions};
use snin_fabric::{Addresses, Lid, Lmc, NodeIndex, PortIndex, PortNum, Topology, TreeId};

fn build(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

/// Pairs of hosts on the most loaded link between switches, all at their base addresses, and the trees that
/// anything crosses.
fn loads(topology: &Topology, routing: &Routing, addresses: &Addresses) -> (u32, BTreeSet<TreeId>) {
    let mut load: BTreeMap<PortIndex, u32> = BTreeMap::new();
    for (_, to) in routing.hosts.iter() {
        let lid = addresses.base(to.port).unwrap();
        for (_, from) in routing.hosts.iter().filter(|(_, from)| from.port != to.port) {
            let mut switch = from.switch;
            for hop in 0.. {
                assert!(hop < 6, "{lid:?} is not reached");
                let port = routing.tables[switch.index()].get(lid);
                assert_ne!(port, PortNum::NONE);
                let out = topology.port_of(switch, port).unwrap();
                let peer = topology.peer(out).unwrap();
                if peer == to.port {
                    break;
                }
                *load.entry(out).or_default() += 1;
                switch = topology.port(peer).node;
            }
        }
    }
    let crossed = |root| load.keys().any(|&port| topology.port(port).node == root);
    let trees = routing.forest.trees().iter().filter(|tree| crossed(tree.root));
    (load.values().copied().max().unwrap_or(0), trees.map(|tree| tree.id).collect())
}

/// OpenSM's ftree, beside which `sm/tests/ibsim` measures: 630, 120, 426 and 124.
#[test]
fn no_link_carries_more_than_its_part() {
    for (recipe, most) in
        [("clos:36,18,18", 630), ("clos:16,8,8", 120), ("fattree:12", 426), ("fattree:8", 124)]
    {
        let topology = build(recipe);
        for lmc in [None, Some(Lmc::ZERO)] {
            let routing = Routing::compute(&topology, Engine::Trees, lmc).unwrap();
            let (load, trees) = loads(&topology, &routing, routing.plan.addresses());
            assert_eq!(trees.len(), routing.forest.len(), "{recipe}");
            assert!(load <= most, "{recipe}, LMC {lmc:?}: {load}, not {most}");
        }
    }
}

/// Where ports keep other addresses than the planned ones, base addresses lead along the home trees of those.
#[test]
fn addresses_that_ports_keep_are_spread_too() {
    let topology = build("clos:16,8,8");
    let mut routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
    let mut kept = Addresses::none(topology.port_count());
    for (port, base, lmc) in routing.plan.addresses().iter() {
        let moved = if lmc == Lmc::ZERO { base.0 } else { 4096 - base.0 };
        kept.assign(port, Lid(moved), lmc).unwrap();
    }
    let placement = Placement::new(vec![8, 1, 5, 3, 15, 2, 9, 4], &routing.plan);
    routing.tables = placement.tables(&topology, &routing, &kept);
    let (load, trees) = loads(&topology, &routing, &kept);
    assert_eq!((load, trees.len()), (120, 8));
    for (_, host) in routing.hosts.iter() {
        let told: BTreeSet<TreeId> = (1..=15)
            .filter_map(|offset| placement.tree(&routing, &kept, host.port, offset))
            .collect();
        assert_eq!(told.len(), 8);
    }
}

/// What is kept for ordinary traffic carries it, and nothing else does.
#[test]
fn so_many_trees_carry_it_as_are_kept_for_it() {
    let topology = build("clos:16,8,8");
    for unmanaged in 1..=8 {
        let options = RoutingOptions { unmanaged_trees: unmanaged, ..RoutingOptions::default() };
        let routing = Routing::with(&topology, &options).unwrap();
        let (load, trees) = loads(&topology, &routing, routing.plan.addresses());
        assert_eq!(trees.len(), unmanaged);
        assert_eq!(trees, routing.plan.unmanaged_trees().iter().copied().collect());
        let hosts_of_a_leaf = 8_u32.div_ceil(unmanaged as u32);
        assert_eq!(load, hosts_of_a_leaf * 120, "{unmanaged} trees");
    }
}

/// As many addresses as trees: there is none to spare, so every port has all trees, each in an order of its own.
#[test]
fn with_as_many_addresses_as_trees_ports_order_them_in_turn() {
    for (recipe, lmc) in [("clos:16,8,8", 3), ("fattree:8", 4)] {
        let topology = build(recipe);
        let routing = Routing::compute(&topology, Engine::Trees, Lmc::new(lmc)).unwrap();
        assert!(routing.plan.is_rotated());
        for (_, host) in routing.hosts.iter() {
            let trees: BTreeSet<TreeId> = routing.plan.trees(host.port).collect();
            assert_eq!(trees.len(), 1 << lmc, "{recipe}");
        }
        let (_, trees) = loads(&topology, &routing, routing.plan.addresses());
        assert_eq!(trees.len(), 1 << lmc, "{recipe}");
    }
}

/// Hosts of one leaf may keep addresses that all have the same turn: they lead along different trees all the same.
/// When a host of another leaf leaves, all others keep their home trees.
#[test]
fn kept_addresses_do_not_meet_on_one_tree() {
    let topology = build("clos:16,8,8");
    let mut routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
    let planned = routing.plan.addresses().clone();
    let homes = |routing: &Routing| -> BTreeMap<(NodeIndex, TreeId), usize> {
        let mut homes = BTreeMap::new();
        for (_, host) in routing.hosts.iter() {
            let home = routing.plan.home(host.port).unwrap();
            *homes.entry((host.switch, home)).or_default() += 1;
        }
        homes
    };
    // Every eighth block for the hosts of the first leaf: there are eight trees.
    let mut kept = Addresses::none(topology.port_count());
    let first = routing.hosts.iter().next().unwrap().1.switch;
    let on_first: Vec<PortIndex> =
        routing.hosts.iter().filter(|(_, it)| it.switch == first).map(|(_, it)| it.port).collect();
    let block = routing.plan.lmc().addresses() as u16;
    for (port, base, lmc) in planned.iter() {
        let place = on_first.iter().position(|it| *it == port);
        let base = place.map_or(base, |place| Lid((1_024 + 8 * place as u16) * block));
        kept.assign(port, base, lmc).unwrap();
    }
    routing.plan.settle(&kept);
    assert!(homes(&routing).values().all(|&hosts| hosts == 1));

    let before: Vec<Option<TreeId>> =
        routing.hosts.iter().map(|(_, host)| routing.plan.home(host.port)).collect();
    let gone = routing.hosts.iter().nth(20).unwrap().1.port;
    let mut fewer = Addresses::none(topology.port_count());
    for (port, base, lmc) in kept.iter().filter(|(port, ..)| *port != gone) {
        fewer.assign(port, base, lmc).unwrap();
    }
    routing.plan.settle(&fewer);
    let after: Vec<Option<TreeId>> =
        routing.hosts.iter().map(|(_, host)| routing.plan.home(host.port)).collect();
    assert_eq!(before, after);
}
