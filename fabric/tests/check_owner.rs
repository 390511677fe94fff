//! The checker of owners: a plan is what it says it is, and no directed link has two owners.

#[path = "support/naive.rs"]
mod naive;

use naive::{Subnet, build, by_offset};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use snin_fabric::check::owner;
use snin_fabric::check::owner::{OwnerReport, PlannedPath, Violation};
use snin_fabric::{Lid, NodeIndex, PortNum};
use std::collections::BTreeMap;

/// Four leaves, three spines, three hosts a leaf; a host's address n leads by spine n (of 3).
fn fabric() -> Subnet {
    Subnet::shortest(build("clos:4,3,3"), 2, by_offset(4))
}

/// What the tables do with the address `offset` of host `to`, as a grant to host `from`.
fn grant(subnet: &Subnet, from: usize, to: usize, offset: u16) -> PlannedPath {
    let (source, destination) = (subnet.host(from), subnet.host(to));
    let dlid = Lid(subnet.lid(to).0 + offset);
    let leaf = subnet.topology.peer_node(source).unwrap();
    PlannedPath { source, destination, dlid, path: subnet.trace(leaf, dlid, 9).0 }
}

fn judged(subnet: &Subnet, grants: &[PlannedPath]) -> OwnerReport {
    owner(&subnet.topology, &subnet.addresses, &subnet.tables, grants, 9)
}

/// Every host sends to the one three further on: next leaf, same place, over the spine of its place.
fn shift(subnet: &Subnet) -> Vec<PlannedPath> {
    (0..12).map(|host| grant(subnet, host, (host + 3) % 12, host as u16 % 3)).collect()
}

#[test]
fn a_plan_without_sharing_is_good() {
    let subnet = fabric();
    let report = judged(&subnet, &shift(&subnet));
    assert!(report.is_ok(), "{report}");
    // Into the leaf, up, down, out to the host.
    assert_eq!((report.grants, report.links, report.max_link_load), (12, 48, 1));
    // Within a leaf: one hop.
    let report = judged(&subnet, &[grant(&subnet, 0, 1, 0), grant(&subnet, 1, 0, 0)]);
    assert!(report.is_ok(), "{report}");
    assert_eq!(report.links, 4);
    assert!(judged(&subnet, &[]).is_ok());
}

#[test]
fn a_shared_link_is_told_with_both_owners() {
    let subnet = fabric();
    // Both by spine0 to leaf1 (hosts 3 to 5), from leaf0 (port 4 up) and leaf2.
    let shared = |a: &str, b: &str, link: &str| Violation::Shared {
        link: link.to_owned(),
        owner: a.to_owned(),
        other: b.to_owned(),
    };
    let up = [grant(&subnet, 0, 3, 0), grant(&subnet, 1, 6, 0)];
    let report = judged(&subnet, &up);
    let wanted = [shared("host0/1 -> host3/1", "host1/1 -> host6/1", "leaf0/4")];
    assert_eq!(report.violations.first, wanted);
    assert_eq!((report.max_link_load, report.violations.total), (2, 1));

    let down = [grant(&subnet, 0, 3, 0), grant(&subnet, 6, 4, 0)];
    let wanted = [shared("host0/1 -> host3/1", "host6/1 -> host4/1", "spine0/2")];
    assert_eq!(judged(&subnet, &down).violations.first, wanted);

    // The opposite directions of a cable are two links.
    assert!(judged(&subnet, &[grant(&subnet, 0, 3, 0), grant(&subnet, 3, 0, 0)]).is_ok());
}

#[test]
fn a_port_sends_and_receives_one_connection() {
    let subnet = fabric();
    let sends_two = [grant(&subnet, 0, 3, 0), grant(&subnet, 0, 6, 1)];
    let report = judged(&subnet, &sends_two);
    assert_eq!(report.violations.total, 1);
    assert!(report.to_string().contains("host0/1: host0/1 -> host3/1 and host0/1 -> host6/1"));
    let receives_two = [grant(&subnet, 0, 3, 0), grant(&subnet, 6, 3, 1)];
    let report = judged(&subnet, &receives_two);
    assert_eq!(report.violations.total, 1);
    assert!(report.to_string().contains("leaf1/1: "), "{report}");
}

#[test]
fn an_address_of_another_is_told() {
    let subnet = fabric();
    let mut wrong = grant(&subnet, 0, 3, 0);
    wrong.dlid = subnet.lid(4);
    let report = judged(&subnet, &[wrong.clone()]);
    // leaf1's table sends host 4's address to host 4, too.
    assert!(matches!(&report.violations.first[..], [
        Violation::Address { owner: Some(owner), .. },
        Violation::Table { hop, table: 2, .. },
    ] if owner == "host4/1" && hop == "leaf1/1"));
    wrong.dlid = Lid(0xBFFF);
    assert!(judged(&subnet, &[wrong]).to_string().contains("LID 49151 belongs to no port"));
}

#[test]
fn a_path_that_is_none_is_told() {
    let subnet = fabric();
    type Change = fn(&mut PlannedPath);
    let changes: [(Change, &str); 6] = [
        (|grant| grant.path.clear(), "hop 0, at host0/1: ends at a switch"),
        (|grant| grant.path.truncate(2), "hop 2, at spine0/2: ends at a switch"),
        (
            |grant| grant.path.rotate_left(1),
            "hop 0, at host0/1: the path goes on at another switch",
        ),
        (
            |grant| grant.path.push(grant.path[0]),
            "hop 3, at leaf1/1: the path goes on after its end",
        ),
        (|grant| grant.path[0].1 = PortNum(5), "goes by leaf0/5, but the table says port 4"),
        (|grant| grant.path[1].0 = NodeIndex(5), "hop 1, at leaf0/4: the path goes on at another"),
    ];
    for (change, told) in changes {
        let mut grant = grant(&subnet, 0, 3, 0);
        change(&mut grant);
        let report = judged(&subnet, &[grant]);
        assert!(!report.is_ok());
        assert!(report.to_string().contains(told), "`{told}` is not in: {report}");
    }
}

#[test]
fn tables_without_the_path_are_told() {
    let whole = fabric();
    let grant = grant(&whole, 0, 3, 0);
    let mut subnet = fabric();
    subnet.set("spine0", grant.dlid, 255);
    let told = judged(&subnet, std::slice::from_ref(&grant)).to_string();
    assert!(told.contains("goes by spine0/2, but the table has no entry"), "{told}");
    // A path to another host, by tables that are wrong with it.
    let mut subnet = fabric();
    subnet.set("leaf1", grant.dlid, 2);
    let mut wrong = grant;
    wrong.path[2].1 = PortNum(2);
    assert!(judged(&subnet, &[wrong]).to_string().contains("ends at another port"));
}

#[test]
fn switches_and_dead_ports_send_nothing() {
    let subnet = fabric();
    let mut wrong = grant(&subnet, 0, 3, 0);
    wrong.source = subnet.topology.port0(NodeIndex(0));
    assert!(judged(&subnet, &[wrong]).to_string().contains("a switch is no source"));
    let grant = grant(&subnet, 0, 3, 0);
    let cut = Subnet { topology: subnet.topology.without_cables(&[grant.source]), ..subnet };
    assert!(judged(&cut, &[grant]).to_string().contains("hop 0, at host0/1: no cable"));
}

proptest! {
    /// Good as long as the grants are real; shared where, and as often as, counting says.
    #[test]
    fn loads_are_those_of_counting(seed: u64, count in 0usize..30) {
        let subnet = fabric();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut grants: Vec<PlannedPath> = (0..count)
            .map(|_| {
                let from = rng.random_range(0..12);
                let to = (from + rng.random_range(1..12)) % 12;
                grant(&subnet, from, to, rng.random_range(0..4))
            })
            .collect();
        grants.shuffle(&mut rng);
        let mut load: BTreeMap<_, u32> = BTreeMap::new();
        for grant in &grants {
            *load.entry((subnet.topology.port(grant.source).node, PortNum(1))).or_default() += 1;
            for &hop in &grant.path {
                *load.entry(hop).or_default() += 1;
            }
        }
        let report = judged(&subnet, &grants);
        let shared: u64 = load.values().map(|&load| u64::from(load - 1)).sum();
        prop_assert_eq!(report.violations.total, shared);
        prop_assert_eq!(report.links, load.len() as u64);
        prop_assert_eq!(report.max_link_load, load.values().copied().max().unwrap_or(0));
        prop_assert_eq!(report.is_ok(), report.max_link_load <= 1);
    }
}
