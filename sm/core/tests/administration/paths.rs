//! Paths: which addresses are answered, in which order, and which never.

use snin_emulator::Fault;
use snin_fabric::{Lid, NodeKind};
use snin_mad::Method;
use snin_mad::sa::*;
use snin_sm_core::Event;
use snin_sm_core::Preferences;
use snin_sm_database::config::Config;
use snin_sm_database::records::Slice;

use crate::subnet::{Subnet, config};

/// SGID and DGID.
const PAIR: [u8; 2] = [2, 3];

fn between(subnet: &Subnet, from: usize, to: usize) -> PathRecord {
    PathRecord { sgid: subnet.gid(from), dgid: subnet.gid(to), ..PathRecord::default() }
}

fn offsets(subnet: &mut Subnet, from: usize, to: usize) -> Vec<(u16, u16)> {
    let wanted = between(subnet, from, to);
    let (source, destination) = (subnet.lid(from), subnet.lid(to));
    let paths: Vec<PathRecord> = subnet.table(from, &wanted, &PAIR);
    for (n, path) in paths.iter().enumerate() {
        assert_eq!(usize::from(path.preference), n);
    }
    paths.iter().map(|path| (path.slid.0 - source.0, path.dlid.0 - destination.0)).collect()
}

#[test]
fn every_tree_is_a_path_the_base_address_first() {
    let config = Config { lmc: Some(3), ..config() };
    let mut subnet = Subnet::new("clos:4,3,3", config);
    assert_eq!(
        offsets(&mut subnet, 1, 5),
        [(0, 0), (1, 1), (2, 2), (3, 3)],
        "one a spine, no alias"
    );
    let wanted = between(&subnet, 1, 5);
    let some = PathRecord { numb_path: 2, ..wanted.clone() };
    assert_eq!(subnet.table(1, &some, &[2, 3, 12]).len(), 2);
    let first = subnet.get(1, &wanted, &PAIR).unwrap();
    assert_eq!((first.dlid, first.slid), (subnet.lid(5), subnet.lid(1)));
    // A requester that names an address gets it.
    let named = PathRecord { dlid: Lid(subnet.lid(5).0 + 1), slid: subnet.lid(1), ..wanted };
    let path = subnet.get(1, &named, &[4, 5]).unwrap();
    assert_eq!((path.dlid, path.slid), (named.dlid, named.slid));
    // To itself.
    let own = between(&subnet, 1, 1);
    let own = subnet.get(1, &own, &PAIR).unwrap();
    assert_eq!((own.dlid, own.lifetime), (subnet.lid(1), 0));
    // From everywhere to one: the switches too, by their only address.
    let to = PathRecord { dgid: subnet.gid(5), ..PathRecord::default() };
    let all = subnet.table(1, &to, &[2]);
    let nodes = subnet.topology.node_count();
    assert!(all.len() > nodes, "{} of {nodes}", all.len());
}

#[test]
fn an_address_whose_tree_lacks_a_cable_is_not_answered() {
    let config = Config { lmc: Some(3), ..config() };
    let mut subnet = Subnet::new("clos:4,3,3", config);
    let before = offsets(&mut subnet, 1, 5);
    assert_eq!(before.len(), 4);
    // The cable from the leaf of host 5 to some spine.
    let topology = subnet.topology.clone();
    let leaf = topology.port(topology.peer(subnet.host(5)).unwrap()).node;
    let (end, _) = topology
        .cables(leaf)
        .find(|&(_, peer)| topology.node(topology.port(peer).node).kind == NodeKind::Switch)
        .unwrap();
    subnet.strike(Fault::Cut(end));
    subnet.run(snin_protocol::Time::secs(1));
    subnet.settle();
    let after = offsets(&mut subnet, 1, 5);
    assert_eq!(after.len(), 3, "{after:?}");
    assert!(after.iter().all(|pair| before.contains(pair)));
    // Get, which must say something, says the best of those that are left.
    let wanted = between(&subnet, 1, 5);
    let base = subnet.lid(5).0;
    let path = subnet.get(1, &wanted, &PAIR).unwrap();
    assert_eq!((path.dlid.0 - base, path.preference), (after[0].1, 0));
    // Neighbours on that leaf do not care.
    assert_eq!(offsets(&mut subnet, 5, 4).len(), 4);
}

/// Trees' own addresses are what is granted: they are sent to with its service level, and base addresses are not.
#[test]
fn granted_addresses_have_their_service_level() {
    let config = Config { lmc: Some(3), granted_sl: 2, ..config() };
    let mut subnet = Subnet::new("clos:4,3,3", config);
    let levels = |subnet: &mut Subnet| {
        let wanted = between(subnet, 1, 5);
        let paths: Vec<PathRecord> = subnet.table(1, &wanted, &PAIR);
        paths.iter().map(|path| path.sl).collect::<Vec<_>>()
    };
    assert_eq!(levels(&mut subnet), [0, 2, 2, 2]);
    // An answer for one address has its level. Addresses of no tree, and a switch's, are not granted.
    let to = |lid: u16| PathRecord { dlid: Lid(lid), ..PathRecord::default() };
    let base = subnet.lid(5).0;
    let named = [0, 1, 3, 4, 7].map(|offset| {
        let wanted = PathRecord { slid: subnet.lid(1), ..to(base + offset) };
        subnet.get(1, &wanted, &[4, 5]).unwrap().sl
    });
    assert_eq!(named, [0, 2, 2, 0, 0]);
    // Who names a level gets that.
    let wanted = PathRecord { sl: 7, ..between(&subnet, 1, 5) };
    assert!(subnet.table(1, &wanted, &[2, 3, 15]).iter().all(|path| path.sl == 7));
    // A base address that is granted for good is granted.
    assert_eq!(preferred(&mut subnet, &[(1, 5, 0)], &[]), [0, 1, 2, 3]);
    assert_eq!(levels(&mut subnet), [2, 2, 2, 2]);
}

/// From host 1 to host 5, in order.
fn preferred(
    subnet: &mut Subnet,
    pins: &[(usize, usize, u16)],
    slices: &[(usize, u64, u16)],
) -> Vec<u16> {
    let pin = |&(from, to, offset): &(usize, usize, u16)| {
        ((subnet.guid(from), subnet.guid(to)), Lid(subnet.lid(to).0 + offset))
    };
    let slice = |&(host, job, offset): &(usize, u64, u16)| {
        (subnet.guid(host), Slice { job, lid: Lid(subnet.lid(host).0 + offset) })
    };
    let (pins, slices) = (pins.iter().map(pin).collect(), slices.iter().map(slice).collect());
    let now = subnet.now();
    subnet.manager.handle(Event::Prefer(Box::new(Preferences { pins, slices })), now);
    offsets(subnet, 1, 5).into_iter().map(|(_, to)| to).collect()
}

#[test]
fn a_pinned_address_comes_first_and_then_the_slices() {
    let config = Config { lmc: Some(3), ..config() };
    let mut subnet = Subnet::new("clos:4,3,3", config);
    assert_eq!(preferred(&mut subnet, &[], &[]), [0, 1, 2, 3]);
    assert_eq!(preferred(&mut subnet, &[(1, 5, 2)], &[]), [2, 0, 1, 3]);
    let wanted = between(&subnet, 1, 5);
    let path = subnet.get(1, &wanted, &PAIR).unwrap();
    assert_eq!(path.dlid.0 - subnet.lid(5).0, 2, "the one that a host asks for");
    assert_eq!(path.slid.0 - subnet.lid(1).0, 2, "and back along the same tree");
    assert_eq!(offsets(&mut subnet, 5, 1)[0], (0, 0), "another pair than that way round");
    let both = [(1, 7, 1), (5, 7, 1)];
    assert_eq!(preferred(&mut subnet, &[(1, 5, 2)], &both), [2, 1, 0, 3], "pin, slice, base");
    assert_eq!(preferred(&mut subnet, &[(4, 5, 2), (1, 6, 2)], &both), [1, 0, 2, 3]);
    assert_eq!(preferred(&mut subnet, &[], &[(1, 7, 1), (5, 8, 1)]), [0, 1, 2, 3], "two jobs");
    assert_eq!(preferred(&mut subnet, &[], &[(5, 7, 1)]), [0, 1, 2, 3], "one end only");
    // An alias, an address of another port.
    assert_eq!(preferred(&mut subnet, &[(1, 5, 4)], &[]), [0, 1, 2, 3]);
    assert_eq!(preferred(&mut subnet, &[(1, 5, 400)], &[]), [0, 1, 2, 3]);
    // An address that a requester names goes before all.
    preferred(&mut subnet, &[(1, 5, 2)], &both);
    let named = PathRecord { dlid: Lid(subnet.lid(5).0 + 1), ..wanted.clone() };
    assert_eq!(subnet.get(1, &named, &[2, 3, 4]).unwrap().dlid, named.dlid);
    // A pinned tree that lacks a cable is no path any more.
    let topology = subnet.topology.clone();
    let leaf = topology.port(topology.peer(subnet.host(5)).unwrap()).node;
    let up: Vec<_> = topology
        .cables(leaf)
        .filter(|&(_, peer)| topology.node(topology.port(peer).node).kind == NodeKind::Switch)
        .collect();
    for (end, _) in up {
        subnet.strike(Fault::Cut(end));
        subnet.run(snin_protocol::Time::secs(1));
        subnet.settle();
        let left = offsets(&mut subnet, 1, 5);
        let whole: Vec<u16> = left.iter().map(|pair| pair.1).collect();
        assert!(whole == [2, 1, 0] || whole == [2, 0, 3] || whole == [1, 0, 3], "{whole:?}");
        subnet.strike(Fault::Restore(end));
        subnet.run(snin_protocol::Time::secs(1));
        subnet.settle();
    }
    assert_eq!(offsets(&mut subnet, 1, 5)[0].1, 2);
    assert_eq!(preferred(&mut subnet, &[], &[]), [0, 1, 2, 3], "nothing is preferred any more");
}

#[test]
fn selectors_are_by_speed_and_not_by_code() {
    let mut subnet = Subnet::new("clos:2,2,2", config());
    let wanted = between(&subnet, 1, 2);
    let there = subnet.get(1, &wanted, &PAIR).unwrap();
    assert_eq!((there.mtu, there.rate), (5, 21));
    let ask = |subnet: &mut Subnet, selector, rate| {
        let wanted = PathRecord { rate_selector: selector, rate, ..between(subnet, 1, 2) };
        subnet.get(1, &wanted, &[2, 3, 18, 19]).map(|path| path.rate)
    };
    // 18 is 300 Gbit/s, 23 is 800; 11 is 14, less than 3's ten times... of 30 by code 4.
    assert_eq!(ask(&mut subnet, Selector::Greater, 18), Ok(21));
    assert_eq!(ask(&mut subnet, Selector::Greater, 21), Err(SaStatus::NO_RECORDS));
    assert_eq!(ask(&mut subnet, Selector::Exactly, 11), Ok(11));
    assert_eq!(ask(&mut subnet, Selector::Exactly, 23), Err(SaStatus::NO_RECORDS));
    assert_eq!(ask(&mut subnet, Selector::Less, 4), Ok(19), "28 Gbit/s are less than 30");
    assert_eq!(ask(&mut subnet, Selector::Largest, 2), Ok(21));
    assert_eq!(ask(&mut subnet, Selector::Exactly, 63), Err(SaStatus::NO_RECORDS));
}

#[test]
fn several_ports_at_once_and_the_way_between_two() {
    let mut subnet = Subnet::new("clos:4,2,3", config());
    let multi = MultiPathRecord { sources: 1, destinations: 2, numb_path: 3, ..Default::default() };
    let mut request = SaRequest::new(Method::GetMulti, &multi, ComponentMask::of(&[6, 19, 20]));
    for host in [1, 5, 9] {
        request.data.extend_from_slice(&subnet.gid(host).0);
    }
    let answer = subnet.ask(1, &request);
    let paths: Vec<PathRecord> = answer.records().collect();
    let to: Vec<_> = paths.iter().map(|path| path.dgid).collect();
    assert_eq!(to, [subnet.gid(5), subnet.gid(9), subnet.gid(5)], "the best of every pair first");
    request.data.truncate(24 + 32);
    assert_eq!(subnet.ask(1, &request).status, SaStatus::INVALID_GID, "a GID is missing");

    let pair = between(&subnet, 1, 5);
    let trace = SaRequest::new(Method::GetTraceTable, &pair, ComponentMask::of(&PAIR));
    let answer = subnet.ask(1, &trace);
    let hops: Vec<TraceRecord> = answer.records().collect();
    let kinds: Vec<u8> = hops.iter().map(|hop| hop.node_type).collect();
    assert_eq!(kinds, [1, 2, 2, 2, 1], "host, leaf, spine, leaf, host");
    assert_eq!(answer.attribute, TraceRecord::ID);
}
