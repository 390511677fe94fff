//! The checkers of routes and trees: every planted fault is found, by name, and nothing else.

#[path = "support/naive.rs"]
mod naive;

use naive::{Subnet, build, by_offset, corrupt, cut, graph, is_host, ring};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use snin_fabric::check::tree::{CheckedTree, Stages, TreeReport};
use snin_fabric::check::walk::{Fate, WalkReport};
use snin_fabric::check::{self, trees, walk};
use snin_fabric::{Lid, NodeIndex, PortNum};

fn walked(subnet: &Subnet) -> WalkReport {
    walk(&subnet.topology, &subnet.addresses, &subnet.tables, 100)
}

/// Two leaves, two spines, two hosts a leaf; hosts are ports 1 and 2, spines 3 and 4.
fn small() -> Subnet {
    Subnet::shortest(build("clos:2,2,2"), 0, |_, _, choices| choices[0])
}

#[test]
fn a_whole_fabric_loses_nothing() {
    let report = walked(&small());
    assert!(report.is_ok(), "{report}");
    assert_eq!((report.switches, report.addresses, report.arrived), (4, 8, 32));
    assert_eq!((report.host_routes, report.host_routes_lost), (4 * 3, 0));
    assert_eq!(report.hop_range(), Some((1, 3)));
    // From each of 4 switches: itself; 2 others in two hops, one in three; a leaf's 2 hosts likewise.
    assert_eq!(report.hops.into_iter().collect::<Vec<_>>(), [(1, 8), (2, 16), (3, 8)]);
}

#[test]
fn each_fault_is_told_by_its_name() {
    // The entry of leaf0 for host 2 (on leaf1), and what becomes of it there.
    let lid = small().lid(2);
    let faults = [
        (255, Fate::NoEntry, "leaf0"),
        (77, Fate::NoPort, "leaf0/77"),
        (1, Fate::WrongPort, "host0/1"),
        (0, Fate::WrongPort, "leaf0/0"),
    ];
    for (port, why, at) in faults {
        let mut subnet = small();
        subnet.set("leaf0", lid, port);
        let report = walked(&subnet);
        assert!(!report.is_ok());
        // spine1 goes to leaf1 directly; only leaf0 fails, and its two hosts.
        assert_eq!((report.lost, report.looped, report.host_routes_lost), (1, 0, 2), "{report}");
        let failure = &report.failures.first[0];
        assert_eq!((&*failure.from, &*failure.owner), ("leaf0", "host2/1"));
        assert_eq!((failure.why, &*failure.at, failure.dlid), (why, at, lid.0));
    }
}

#[test]
fn a_port_without_a_cable_leads_nowhere() {
    let whole = build("clos:2,2,2");
    let cable = whole.port_of(NodeIndex(0), PortNum(3)).unwrap();
    let mut subnet =
        Subnet::shortest(whole.without_cables(&[cable]), 0, |_, _, choices| choices[0]);
    assert!(walked(&subnet).is_ok());
    let lid = subnet.lid(2);
    subnet.set("leaf0", lid, 3);
    let failure = walked(&subnet).failures.first.remove(0);
    assert_eq!((failure.why, &*failure.at), (Fate::NoCable, "leaf0/3"));
}

#[test]
fn a_loop_of_two_switches_is_a_loop_from_wherever_it_is_entered() {
    let mut subnet = small();
    let lid = subnet.lid(2);
    subnet.set("spine0", lid, 1);
    let report = walked(&subnet);
    assert_eq!((report.lost, report.looped, report.host_routes_lost), (0, 2, 2), "{report}");
    let failures: Vec<_> = report.failures.first.iter().map(|f| (&*f.from, &*f.at)).collect();
    assert_eq!(failures, [("leaf0", "leaf0"), ("spine0", "spine0")]);
}

#[test]
fn what_no_cable_joins_is_no_fault_of_the_tables() {
    let subnet = Subnet::shortest(graph(4, 1, &[(0, 1), (2, 3)]), 0, |_, _, c| c[0]);
    let report = walked(&subnet);
    assert!(report.is_ok());
    assert_eq!((report.disconnected, report.arrived), (16, 16));
    assert_eq!((report.host_routes, report.host_routes_lost), (12, 8));
    assert!(report.to_string().contains("16 without cables"), "{report}");
}

#[test]
fn all_failures_are_counted_and_few_kept() {
    let mut subnet = small();
    subnet.tables.clear();
    let report = walk(&subnet.topology, &subnet.addresses, &subnet.tables, 3);
    assert_eq!((report.failures.total, report.failures.first.len()), (32, 3));
    assert!(report.to_string().ends_with("and 29 more"), "{report}");
    assert!(
        walk(&subnet.topology, &subnet.addresses, &subnet.tables, 0).to_string().contains("32")
    );
}

proptest! {
    /// The one pass over each address's graph counts what following each route by itself counts.
    #[test]
    fn counts_are_those_of_following_each_route(seed: u64, faults in 0usize..30, lmc in 0u8..3) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let shape = if seed % 2 == 0 { build("clos:4,3,2,2") } else { ring(6, 2) };
        let mut subnet = Subnet::shortest(cut(&shape, 2, &mut rng), lmc, by_offset(1 << lmc));
        corrupt(&mut subnet, faults, &mut rng);
        let report = walked(&subnet);

        let (mut arrived, mut host_routes_lost, mut hops) = (0, 0, 0);
        for (owner, ..) in subnet.addresses.iter() {
            for lid in subnet.addresses.of(owner) {
                for from in subnet.topology.switches() {
                    let (path, end) = subnet.trace(from, lid, 64);
                    let ok = end == Some(owner);
                    arrived += u64::from(ok);
                    hops += if ok { path.len() as u64 } else { 0 };
                    let hosts = subnet.hosts().into_iter().filter(|&host| {
                        host != owner && subnet.topology.peer_node(host) == Some(from)
                    });
                    if is_host(&subnet.topology, owner) && !ok {
                        host_routes_lost += hosts.count() as u64;
                    }
                }
            }
        }
        prop_assert_eq!(report.arrived, arrived);
        prop_assert_eq!(report.host_routes_lost, host_routes_lost);
        prop_assert_eq!(report.hops.iter().map(|(&h, &n)| u64::from(h) * n).sum::<u64>(), hops);
        let all = report.arrived + report.lost + report.looped + report.disconnected;
        prop_assert_eq!(all, report.switches * report.addresses);
        prop_assert_eq!(report.failures.total, report.lost + report.looped);
    }
}

/// Trees of a two-stage Clos: every spine and plane, and every address's by its offset.
fn two_stage_trees(subnet: &Subnet, spines: u16, planes: u16) -> Vec<CheckedTree> {
    let tree =
        |n: u16| CheckedTree::new(subnet.switch(&format!("spine{}", n / planes)), n % planes);
    (0..spines * planes).map(tree).collect()
}

fn tree_report(
    subnet: &Subnet,
    trees_of: &[CheckedTree],
    stages: Stages,
    offsets: u16,
) -> TreeReport {
    let tree_of = |lid: Lid| Some(usize::from(lid.0 % offsets) % trees_of.len());
    trees(&subnet.topology, &subnet.addresses, &subnet.tables, trees_of, stages, tree_of, 100)
}

#[test]
fn a_whole_clos_keeps_to_its_trees() {
    let subnet = Subnet::shortest(build("clos:4,2,3,2"), 2, by_offset(4));
    let report = tree_report(&subnet, &two_stage_trees(&subnet, 2, 2), Stages::Two, 4);
    assert!(report.is_ok(), "{report}");
    assert_eq!((report.routes, report.on_tree), (12 * 4 * 3, 12 * 4 * 3));
}

#[test]
fn a_route_by_another_spine_or_plane_strays() {
    let whole = Subnet::shortest(build("clos:4,2,3,2"), 2, by_offset(4));
    let trees = two_stage_trees(&whole, 2, 2);
    // leaf0's ports to the trees are 4 to 7; the spines' to leaf3 are 7 and 8. Host 9 is on leaf3.
    let lid = Lid(whole.lid(9).0 + 1);
    for (switch, port, strayed) in [("leaf0", 4, 1), ("leaf0", 6, 1), ("spine0", 7, 3)] {
        let mut subnet = Subnet::shortest(build("clos:4,2,3,2"), 2, by_offset(4));
        subnet.set(switch, lid, port);
        assert!(walked(&subnet).is_ok());
        let report = tree_report(&subnet, &trees, Stages::Two, 4);
        assert_eq!(report.strayed.total, strayed, "{switch}/{port}: {report}");
        assert_eq!(report.strayed.first[0].root, "spine0");
        assert_eq!(report.strayed.first[0].tree, 1);
    }
}

#[test]
fn where_the_cable_is_missing_no_route_strays() {
    let whole = build("clos:4,2,3,2");
    // leaf0 has lost both cables to spine0; so half its trees are gone, to and from it.
    let lost = [4, 5].map(|port| whole.port_of(NodeIndex(0), PortNum(port)).unwrap());
    let mut subnet = Subnet::shortest(whole.without_cables(&lost), 2, by_offset(4));
    let trees = two_stage_trees(&subnet, 2, 2);
    // Shortest paths by offset count ports, not trees: say what leaf0 and those towards it do.
    for host in 0..12 {
        for offset in 0..4 {
            let lid = Lid(subnet.lid(host).0 + offset);
            let by = if offset < 2 { 6 } else { 4 + offset as u8 };
            if host < 3 {
                ["leaf1", "leaf2", "leaf3"].iter().for_each(|leaf| subnet.set(leaf, lid, by));
            } else {
                subnet.set("leaf0", lid, by);
            }
        }
    }
    let report = tree_report(&subnet, &trees, Stages::Two, 4);
    assert!(report.is_ok(), "{report}");
    // 9 hosts x 2 addresses from leaf0, and 3 hosts x 2 addresses from 3 leaves.
    assert_eq!(report.no_cable, 9 * 2 + 3 * 2 * 3);
    assert_eq!(report.on_tree, 12 * 4 * 3 - report.no_cable);
}

#[test]
fn hosts_on_a_spine_need_one_cable_of_that_spines_tree() {
    // s0 and s1 are leaves, s2 and s3 spines; every switch has a host.
    let subnet =
        Subnet::shortest(graph(4, 1, &[(0, 2), (0, 3), (1, 2), (1, 3)]), 0, |_, _, c| c[0]);
    let trees: Vec<_> = [2, 3].map(|s| CheckedTree::new(NodeIndex(s), 0)).into();
    let report = |tree: usize| {
        let Subnet { topology, addresses, tables } = &subnet;
        check::trees(topology, addresses, tables, &trees, Stages::Two, |_| Some(tree), 9)
    };
    // Along s2's tree: 0-1, 1-0, and both with 2; to and from 3 no cables of that tree.
    assert_eq!((report(0).on_tree, report(0).no_cable, report(0).strayed.total), (6, 6, 0));
    // Along s3's: 0-1 and 1-0 stray by s2, those with 3 are right.
    assert_eq!((report(1).on_tree, report(1).no_cable, report(1).strayed.total), (4, 6, 2));
}

/// A fat tree of radix 4 routed so that address n leads along core n.
fn fat_tree() -> (Subnet, Vec<CheckedTree>) {
    let subnet = Subnet::shortest(build("fattree:4"), 2, |switch, lid, choices| {
        let (core, half) = (usize::from(lid.0 % 4), choices.len());
        if half < 2 { choices[0] } else { choices[if switch.0 < 8 { core / 2 } else { core % 2 }] }
    });
    let trees = (0..4).map(|core| subnet.switch(&format!("core{core}")));
    let trees = trees.map(|root| CheckedTree::new(root, 0)).collect();
    (subnet, trees)
}

#[test]
fn three_stages_keep_to_their_trees_within_pods_too() {
    let (subnet, trees) = fat_tree();
    let report = tree_report(&subnet, &trees, Stages::Three, 4);
    assert!(report.is_ok(), "{report}");
    assert_eq!(report.on_tree, 16 * 4 * 7);
}

#[test]
fn three_stages_stray_at_leaf_or_aggregation() {
    // Host 15 is on leaf7; its address 1 leads by agg0 of each pod and core1. Ports up are 3 and 4.
    let (whole, trees) = fat_tree();
    let lid = Lid(whole.lid(15).0 + 1);
    // leaf6 is in the same pod: its way turns at the aggregation switch, and strays by the other too.
    for (switch, port, strayed) in [("leaf0", 4, 1), ("leaf6", 4, 1), ("agg0", 3, 2)] {
        let (mut subnet, _) = fat_tree();
        subnet.set(switch, lid, port);
        assert!(walked(&subnet).is_ok());
        let report = tree_report(&subnet, &trees, Stages::Three, 4);
        assert_eq!(report.strayed.total, strayed, "{switch}/{port}: {report}");
    }
}

#[test]
fn three_stages_without_a_core_cable_lack_it_in_that_pod_only() {
    let (whole, trees) = fat_tree();
    // agg0's port 4 goes to core1.
    let cable = whole.topology.port_of(whole.switch("agg0"), PortNum(4)).unwrap();
    let cut = Subnet { topology: whole.topology.without_cables(&[cable]), ..whole };
    let report = tree_report(&cut, &trees, Stages::Three, 4);
    // Of address 1: from and to pod 0's two leaves, of hosts elsewhere and within.
    let (pod_hosts, other_hosts, other_leaves) = (4, 12, 6);
    let outgoing = other_hosts * 2;
    let incoming = pod_hosts * other_leaves;
    assert!(report.is_ok(), "{report}");
    // Within the pod the way by agg0 is no way of core1's tree any more.
    assert_eq!(report.no_cable, outgoing + incoming + pod_hosts);
}

#[test]
fn hosts_on_another_core_are_on_no_tree() {
    // Pods s0 s2 and s1 s3 under the cores s4 and s5; every switch has a host.
    let cables = [(0, 2), (1, 3), (2, 4), (2, 5), (3, 4), (3, 5)];
    let Subnet { topology, addresses, tables } =
        Subnet::shortest(graph(6, 1, &cables), 0, |_, _, choices| choices[0]);
    let cores: Vec<_> = [4, 5].map(|s| CheckedTree::new(NodeIndex(s), 0)).into();
    let report = trees(&topology, &addresses, &tables, &cores, Stages::Three, |_| Some(0), 9);
    assert!(report.is_ok(), "{report}");
    // To and from s5 its way to s4 would go down first; all others are on s4's tree.
    assert_eq!((report.on_tree, report.no_cable), (5 * 4, 5 * 2));
}
