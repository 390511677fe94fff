//! Where there are no trees, routes are spread over all that are as short: loads are counted by a walker of this
//! file's own, and so are loops.
#![allow(clippy::disallowed_macros, reason = "what is measured is printed")]

#[path = "support/circles.rs"]
mod circles;
#[path = "support/walker.rs"]
mod walker;

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::generate::{Recipe, cut_cables};
use snin_fabric::routing::{Engine, Order, Routing, RoutingOptions};
use snin_fabric::{Guid, Lid, Lmc, NodeIndex, PortIndex, Topology};

use circles::{Waits, has_a_circle};
use walker::walk;

fn routed(recipe: &str, lmc: u8) -> (Topology, Routing) {
    let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
    let routing = Routing::compute(&topology, Engine::Trees, Lmc::new(lmc)).unwrap();
    assert!(routing.forest.is_empty() && routing.unreachable.is_empty(), "{recipe}");
    (topology, routing)
}

fn in_order(topology: &Topology, order: Order<'_>) -> Routing {
    let lmc = Lmc::new(0);
    Routing::with(topology, &RoutingOptions { lmc, order, ..RoutingOptions::default() }).unwrap()
}

/// Pairs of hosts on the most loaded link, at one offset; and hops of all of them.
fn loads(topology: &Topology, routing: &Routing, offset: usize) -> (u32, usize) {
    let mut load: BTreeMap<PortIndex, u32> = BTreeMap::new();
    let mut hops = 0;
    for (_, to) in routing.hosts.iter() {
        let lid = routing.plan.addresses().of(to.port).nth(offset).unwrap();
        for (_, from) in routing.hosts.iter().filter(|(_, from)| from.port != to.port) {
            let links = walk(topology, routing, from.switch, lid);
            hops += links.len();
            links.into_iter().for_each(|link| *load.entry(link).or_default() += 1);
        }
    }
    (load.into_values().max().unwrap(), hops)
}

/// Which link waits for which: a circle of them is a credit loop.
fn has_a_credit_loop(topology: &Topology, routing: &Routing) -> bool {
    let mut waits = Waits::new();
    for (_, to) in routing.hosts.iter() {
        for lid in routing.plan.addresses().of(to.port) {
            for from in topology.switches() {
                for pair in walk(topology, routing, from, lid).windows(2) {
                    waits.entry(pair[0]).or_default().insert(pair[1]);
                }
            }
        }
    }
    has_a_circle(waits)
}

/// By turns of addresses there were 4,544, 972 and 12,380 pairs on the most loaded link; by the usual order of
/// switches there are 4,128, 856 and 8,672.
#[test]
fn no_link_carries_more_than_it_has_to() {
    for (recipe, most) in
        [("torus:8,8,4", 2_188), ("dragonfly:9,4,4", 856), ("random:200,8,4,1", 5_700)]
    {
        let (topology, routing) = routed(recipe, 0);
        let (load, hops) = loads(&topology, &routing, 0);
        println!("{recipe}: {load} pairs on the most loaded link, {hops} hops");
        assert!(load <= most, "{recipe}: {load}, not {most}");
    }
}

#[test]
fn no_links_wait_for_each_other() {
    for recipe in ["torus:5,4,2", "dragonfly:5,3,2", "random:30,5,2,3", "random:24,4,1,4"] {
        let (topology, routing) = routed(recipe, 1);
        assert!(!has_a_credit_loop(&topology, &routing), "{recipe}");
    }
    // The judge finds one: shortest routes round a ring.
    let topology = "torus:8,1,1".parse::<Recipe>().unwrap().build().unwrap();
    let ring = Routing::compute(&topology, Engine::MinHop, None).unwrap();
    assert!(has_a_credit_loop(&topology, &ring));
}

/// Base addresses are spread as if there were no others, and the others lead along further ways.
#[test]
fn addresses_of_a_host_lead_along_different_ways() {
    let (topology, alone) = routed("dragonfly:9,4,4", 0);
    let (_, routing) = routed("dragonfly:9,4,4", 2);
    let base = loads(&topology, &alone, 0);
    assert_eq!(loads(&topology, &routing, 0), base);
    let mut several = 0;
    for (_, to) in routing.hosts.iter() {
        for (_, from) in routing.hosts.iter().filter(|(_, from)| from.switch != to.switch) {
            let lids = routing.plan.addresses().of(to.port);
            let ways: BTreeSet<_> =
                lids.map(|lid| walk(&topology, &routing, from.switch, lid)).collect();
            several += usize::from(ways.len() > 1);
        }
    }
    assert!(several > 0);
    for offset in 1..4 {
        let (load, hops) = loads(&topology, &routing, offset);
        println!("offset {offset}: {load} pairs on the most loaded link");
        assert!(load < 2 * base.0 && hops == base.1, "offset {offset}: {load}");
    }
}

/// Whatever the order in which it is asked, the same tables.
#[test]
fn the_same_fabric_has_the_same_tables() {
    let (_, one) = routed("random:40,6,3,7", 1);
    let (_, other) = routed("random:40,6,3,7", 1);
    assert!(one.tables == other.tables);
}

/// Of all switches, entries for base addresses that differ.
fn moved(topology: &Topology, before: &Routing, after: &Routing) -> usize {
    let differs = |switch: NodeIndex, lid: Lid| {
        before.tables[switch.index()].get(lid) != after.tables[switch.index()].get(lid)
    };
    let bases = before.hosts.iter().map(|(_, host)| before.plan.addresses().base(host.port));
    let bases: Vec<Lid> = bases.map(Option::unwrap).collect();
    let of = |switch| bases.iter().filter(|&&lid| differs(switch, lid)).count();
    topology.switches().map(of).sum()
}

/// The switches keep their order, so most routes stay; without it a better order may be found, and most move.
/// A program that has the order makes the same tables.
#[test]
fn a_cut_moves_few_routes() {
    for recipe in ["torus:8,8,2", "dragonfly:9,4,2", "random:60,6,2", "random:60,6,2,2"] {
        let (whole, before) = routed(recipe, 0);
        let order: Vec<Guid> = before.order().iter().map(|&s| whole.node(s).guid).collect();
        assert_eq!(order.len(), whole.switch_count());
        let entries = whole.switch_count() * before.hosts.len();
        let (mut kept, mut anew) = (0, 0);
        for seed in 1..=4 {
            let less = cut_cables(&whole, 1, seed);
            let after = in_order(&less, Order::Former(&order));
            assert!(!has_a_credit_loop(&less, &after), "{recipe}, seed {seed}");
            kept += moved(&whole, &before, &after);
            let none = Routing::compute(&less, Engine::Trees, Lmc::new(0)).unwrap();
            anew += moved(&whole, &before, &none);
            let told = in_order(&less, Order::Given(after.order()));
            assert!(told.tables == after.tables, "{recipe}, seed {seed}");
        }
        println!(
            "{recipe}: a cut moves {kept} of {} entries, {anew} with no order kept",
            4 * entries
        );
        assert!(kept * 10 < 4 * entries && kept <= anew, "{recipe}: {kept} of {}", 4 * entries);
    }
}

/// An order from outside may be anything: each switch has a way up all the same.
#[test]
fn any_order_routes_all() {
    let (topology, routing) = routed("random:30,5,2,3", 0);
    let orders: [&[u32]; 4] = [&[], &[29, 29, 29], &[7, 4_000_000, 3], &[u32::MAX]];
    for order in orders {
        let order: Vec<NodeIndex> = order.iter().map(|&switch| NodeIndex(switch)).collect();
        let told = in_order(&topology, Order::Given(&order));
        assert!(told.unreachable.is_empty() && !has_a_credit_loop(&topology, &told));
        assert_eq!(told.hosts, routing.hosts);
    }
}

/// Beside gaps of a Clos routes are chosen by load. By turns there were 1,389 pairs on DGX's most loaded link; a
/// tree's own entries stay.
#[test]
fn gaps_of_a_clos_are_spread_by_load() {
    for (recipe, cut, most) in
        [("clos:16,8,8", 12, 216), ("fattree:8", 12, 232), ("clos:9,2,10,5", 7, 220)]
    {
        let whole = recipe.parse::<Recipe>().unwrap().build().unwrap();
        let topology = cut_cables(&whole, cut, 5);
        for lmc in [None, Lmc::new(0)] {
            let routing = Routing::compute(&topology, Engine::Trees, lmc).unwrap();
            let (load, _) = loads(&topology, &routing, 0);
            println!("{recipe} less {cut}: {load} pairs on the most loaded link");
            assert!(load <= most, "{recipe} less {cut}: {load}, not {most}");
            assert!(!has_a_credit_loop(&topology, &routing), "{recipe} less {cut}");
            let plan = &routing.plan;
            for (_, host) in routing.hosts.iter() {
                let base = plan.addresses().base(host.port).unwrap();
                let tree = plan.home(host.port).or_else(|| plan.tree(host.port, 0));
                let Some(tree) = tree.filter(|&tree| routing.forest.covers(host.switch, tree))
                else {
                    continue;
                };
                for (_, from) in routing.hosts.iter().filter(|(_, it)| it.switch != host.switch) {
                    let Some(up) = routing.forest.up(from.switch, tree) else { continue };
                    let port = routing.tables[from.switch.index()].get(base);
                    let is_in_pod = routing.shape.as_ref().unwrap().pod(from.switch)
                        == routing.shape.as_ref().unwrap().pod(host.switch);
                    assert!(port == up || is_in_pod, "{recipe} less {cut}");
                }
            }
        }
    }
}
