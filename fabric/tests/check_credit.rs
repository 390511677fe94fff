//! The checker of credit loops: finds each planted one, accuses no good tables, and agrees with a search
//! that is too slow for anything but tests.

#[path = "support/naive.rs"]
mod naive;

use std::collections::{BTreeMap, BTreeSet};

use naive::{Subnet, any, build, by_offset, clockwise, corrupt, cut, graph, is_host, ring};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use snin_fabric::check::credit::{CreditReport, Traffic};
use snin_fabric::check::{credit, walk};
use snin_fabric::{NodeIndex, PortIndex, PortNum, Topology};

fn looked(subnet: &Subnet, traffic: Traffic) -> CreditReport {
    credit(&subnet.topology, &subnet.addresses, &subnet.tables, traffic, |_, _| 0)
}

fn loses_nothing(subnet: &Subnet) -> bool {
    walk(&subnet.topology, &subnet.addresses, &subnet.tables, 1).is_ok()
}

#[test]
fn clos_fabrics_have_none() {
    for recipe in ["clos:4,3,2,2", "clos:1,1,1", "fattree:4"] {
        let subnet = Subnet::shortest(build(recipe), 2, by_offset(4));
        let report = looked(&subnet, Traffic::Hosts);
        assert!(report.is_ok() && report.entangled == 0, "{recipe}: {report}");
    }
    let subnet = Subnet::shortest(build("clos:4,3,2,2"), 0, by_offset(1));
    let report = looked(&subnet, Traffic::Hosts);
    // One address a host: by spine0's first cable alone, up from 4 leaves and down to 4.
    assert_eq!((report.links, report.dependencies, report.lanes), (8, 12, 1));
}

#[test]
fn a_ring_routed_one_way_is_a_loop() {
    for switches in 3..8 {
        let subnet = clockwise(ring(switches, 1));
        assert!(loses_nothing(&subnet));
        let report = looked(&subnet, Traffic::Hosts);
        let cycle = report.cycle.as_ref().unwrap();
        assert_eq!(cycle.links.len(), switches, "{report}");
        assert_eq!(report.entangled, switches as u64);
        // s0's first link port goes on, every other switch's second.
        let goes_on = |link: &String| *link == "s0/2" || link.ends_with("/3");
        assert!(cycle.links.iter().all(goes_on), "{report}");
    }
}

#[test]
fn a_lane_of_its_own_breaks_the_loop() {
    let subnet = clockwise(ring(5, 1));
    // Of those who pass from s4 to s0, some do not go on from s2 to s3, the others not from s0 to s1.
    let home = |lid| {
        let port = subnet.addresses.owner(lid).unwrap().0;
        subnet.topology.peer_node(port).unwrap_or_else(|| subnet.topology.port(port).node)
    };
    let lane = |from: NodeIndex, lid| match from > home(lid) {
        false => 0,
        true if from >= NodeIndex(3) => 1,
        true => 2,
    };
    let Subnet { topology, addresses, tables } = &subnet;
    let report = credit(topology, addresses, tables, Traffic::Hosts, lane);
    assert!(report.is_ok(), "{report}");
    assert_eq!(report.lanes, 3);
    // On a lane where nothing is remedied the loop is there, and told by its lane.
    let report = credit(topology, addresses, tables, Traffic::Hosts, |_, _| 3);
    assert_eq!((report.lanes, report.cycle.unwrap().lane), (1, 3));
}

/// Hosts of leaf `from` reach leaf `to` by leaf `over`: down into a valley and up again.
fn valley(subnet: &mut Subnet, from: u32, over: u32, to: u32, spines: [u8; 2]) {
    let hosts = 2;
    for host in 0..hosts {
        let lid = subnet.lid((to * hosts + host) as usize);
        // Host ports are 1 and 2, then the spines; a spine's port is the leaf's number.
        subnet.tables[from as usize].set(lid, PortNum(2 + spines[0]));
        let first = subnet.switch(&format!("spine{}", spines[0] - 1));
        subnet.tables[first.index()].set(lid, PortNum(over as u8 + 1));
        subnet.tables[over as usize].set(lid, PortNum(2 + spines[1]));
    }
}

#[test]
fn valleys_close_a_loop_on_a_clos() {
    // One valley down spine1 -> leaf1 -> spine2; the second spine2 -> leaf2 -> spine1 closes the loop with
    // the first.
    let mut subnet =
        Subnet::shortest(build("clos:4,2,2"), 0, |_, lid, c| c[usize::from(lid.0 / 2) % c.len()]);
    valley(&mut subnet, 0, 1, 3, [1, 2]);
    assert!(loses_nothing(&subnet));
    assert!(looked(&subnet, Traffic::Hosts).is_ok(), "one valley closes nothing");

    let mut both = Subnet::shortest(build("clos:4,2,2"), 0, |_, _, choices| choices[0]);
    valley(&mut both, 0, 1, 3, [1, 2]);
    valley(&mut both, 3, 2, 0, [2, 1]);
    // leaf1 -> spine1 -> leaf2 and leaf2 -> spine0 -> leaf1 join the two.
    let to_leaf2 = both.lid(4);
    both.set("leaf1", to_leaf2, 4);
    let report = looked(&both, Traffic::Hosts);
    assert!(loses_nothing(&both));
    let cycle = report.cycle.as_ref().unwrap_or_else(|| panic!("no loop: {report}"));
    assert_eq!(cycle.links.len(), 4, "{report}");
    let mut links = cycle.links.clone();
    links.sort();
    assert_eq!(links, ["leaf1/4", "leaf2/3", "spine0/2", "spine1/3"]);
}

#[test]
fn a_forwarding_loop_is_a_credit_loop() {
    let mut subnet = Subnet::shortest(build("clos:2,2,2"), 0, |_, _, choices| choices[0]);
    let lid = subnet.lid(2);
    subnet.set("spine0", lid, 1);
    assert_eq!(looked(&subnet, Traffic::Hosts).cycle.unwrap().links, ["leaf0/3", "spine0/1"]);
}

#[test]
fn what_no_host_can_enter_does_not_count() {
    let topology = graph(3, 1, &[(0, 1), (1, 2)]);
    let mut subnet = Subnet::shortest(topology, 0, |_, _, choices| choices[0]);
    assert!(looked(&subnet, Traffic::All).is_ok());
    // s2 returns what is for itself, but no host sends to a switch.
    let own = subnet.addresses.base(subnet.topology.port0(NodeIndex(2))).unwrap();
    subnet.set("s2", own, 2);
    assert!(looked(&subnet, Traffic::Hosts).is_ok());
    assert!(!looked(&subnet, Traffic::All).is_ok());
}

#[test]
fn switches_own_packets_count_where_asked() {
    // Minimal routes between spines pass leaves: up and down again in the wrong order.
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let subnet = Subnet::shortest(build("clos:4,4,2"), 0, any(&mut rng));
    assert!(looked(&subnet, Traffic::Hosts).is_ok());
    let report = looked(&subnet, Traffic::All);
    assert!(!report.is_ok(), "{report}");
}

/// Dependencies by following every route from every source, one by one.
fn dependencies(subnet: &Subnet, traffic: Traffic) -> BTreeSet<(PortIndex, PortIndex)> {
    let topology: &Topology = &subnet.topology;
    let concerned: Vec<PortIndex> = (subnet.addresses.iter().map(|(port, ..)| port))
        .filter(|&port| traffic == Traffic::All || is_host(topology, port))
        .collect();
    let mut found = BTreeSet::new();
    for &to in &concerned {
        for &from in &concerned {
            let node = topology.port(from).node;
            let enters =
                if is_host(topology, from) { topology.peer_node(from).unwrap() } else { node };
            for lid in subnet.addresses.of(to) {
                let (path, _) = subnet.trace(enters, lid, 40);
                let sends: Vec<_> = path
                    .iter()
                    .filter_map(|&(switch, out)| topology.port_of(switch, out))
                    .filter(|&port| topology.peer_node(port).is_some_and(|n| topology.is_switch(n)))
                    .collect();
                found.extend(sends.windows(2).map(|pair| (pair[0], pair[1])));
            }
        }
    }
    found
}

fn has_cycle(arcs: &BTreeSet<(PortIndex, PortIndex)>) -> bool {
    let mut next: BTreeMap<PortIndex, Vec<PortIndex>> = BTreeMap::new();
    for &(from, to) in arcs {
        next.entry(from).or_default().push(to);
    }
    let reaches = |start: PortIndex| {
        let (mut seen, mut todo) = (BTreeSet::new(), next[&start].clone());
        while let Some(at) = todo.pop() {
            if seen.insert(at) {
                todo.extend(next.get(&at).into_iter().flatten());
            }
        }
        seen.contains(&start)
    };
    next.keys().any(|&start| reaches(start))
}

fn random_subnet(seed: u64) -> Subnet {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let topology = match seed % 4 {
        0 => cut(&build("clos:4,3,2,2"), 9, &mut rng),
        1 => ring(6, 1),
        2 => cut(&build("fattree:4"), 6, &mut rng),
        _ => {
            let links: Vec<_> = (0..9)
                .map(|_| (rng.random_range(0..6), rng.random_range(0..6)))
                .filter(|(a, b)| a != b)
                .collect();
            graph(6, 1, &links)
        }
    };
    let mut subnet = Subnet::shortest(topology, (seed / 4 % 3) as u8, any(&mut rng));
    if seed / 12 % 2 == 1 {
        corrupt(&mut subnet, 3, &mut rng);
    }
    subnet
}

proptest! {
    #[test]
    fn agrees_with_following_every_route(seed: u64, all: bool) {
        let traffic = if all { Traffic::All } else { Traffic::Hosts };
        let subnet = random_subnet(seed);
        let expected = dependencies(&subnet, traffic);
        let report = looked(&subnet, traffic);
        prop_assert_eq!(report.dependencies, expected.len() as u64);
        prop_assert_eq!(report.is_ok(), !has_cycle(&expected));
        prop_assert_eq!(report.entangled == 0, report.is_ok());
        if let Some(cycle) = report.cycle {
            // Every step of it is a dependency that some packet makes.
            let by_name = |name: &str| {
                subnet.topology.ports().find(|&port| subnet.topology.port_name(port) == name).unwrap()
            };
            let links: Vec<_> = cycle.links.iter().map(|name| by_name(name)).collect();
            for (n, &link) in links.iter().enumerate() {
                prop_assert!(expected.contains(&(link, links[(n + 1) % links.len()])));
            }
        }
    }
}

#[test]
fn random_subnets_are_of_both_kinds() {
    let good =
        (0..200).filter(|&seed| looked(&random_subnet(seed), Traffic::Hosts).is_ok()).count();
    assert!((40..160).contains(&good), "{good} of 200 have no credit loop");
}
