//! Multicast packets: every member gets one copy, no other port any, credits are conserved, and trees that obey
//! the ranks deadlock with nothing.

use std::collections::{BTreeMap, BTreeSet};

use snin_emulator::data::{Config, Message, MessageId, Network, Outcome, SendError, Transport};
use snin_fabric::multicast::{McTree, Members, MulticastTable, Planner, PortMask};
use snin_fabric::routing::Engine;
use snin_fabric::{Lid, Mlid, NodeIndex, PortIndex, PortNum};
use snin_protocol::Time;

use crate::support::{Fabric, star_of};

fn mlid(n: usize) -> Mlid {
    Mlid::nth(n).unwrap()
}

/// A network whose switches hold the trees of these groups of hosts: those that receive, those that only send.
fn network(fabric: &Fabric, config: Config, groups: &[(Vec<u32>, Vec<u32>)]) -> Network {
    let ranks = fabric.routing.ranks.as_ref().unwrap();
    let mut planner = Planner::new(&fabric.topology, ranks, &fabric.routing.forest);
    let mut network = fabric.network(config);
    let ports = |hosts: &[u32]| hosts.iter().map(|&host| fabric.port(host)).collect();
    let mut trees = Vec::new();
    for (n, (full, send_only)) in groups.iter().enumerate() {
        let members = Members { full: ports(full), send_only: ports(send_only) };
        trees.push((mlid(n), planner.tree(mlid(n), &members)));
        network.set_members(mlid(n), members.full);
    }
    let tables = McTree::tables(
        fabric.topology.switch_count(),
        trees.iter().map(|(mlid, tree)| (*mlid, tree)),
    );
    network.set_multicast_tables(&tables);
    network
}

fn send(network: &mut Network, fabric: &Fabric, host: u32, group: usize, bytes: u64) -> MessageId {
    network.send(Message::new(fabric.port(host), mlid(group).lid(), bytes)).unwrap()
}

#[test]
fn every_member_gets_one_copy_of_every_packet_and_nobody_else_any() {
    for recipe in ["clos:6,3,4", "clos:4,2,6,2", "fattree:4"] {
        let fabric = Fabric::of(recipe, Engine::Trees);
        let last = fabric.hosts() - 1;
        let groups = [
            (vec![0, 1, 5, last], vec![2, 9]),
            ((0..=last).collect(), vec![]),
            (vec![6], vec![0, last]),
            ((1..last).step_by(3).collect(), vec![0]),
        ];
        let mut network = network(&fabric, Config::default(), &groups);
        let mut sent = Vec::new();
        for (n, (full, send_only)) in groups.iter().enumerate() {
            for &host in full.iter().chain(send_only) {
                sent.push((n, host, send(&mut network, &fabric, host, n, 10_000)));
            }
        }
        assert_eq!(network.run_until(Time::secs(1)), Outcome::Finished, "{recipe}");
        network.audit().unwrap();
        for (n, host, message) in sent {
            let got = network.copies(message);
            let others = groups[n].0.iter().filter(|&&other| other != host);
            // 10,000 bytes are three packets.
            let expected: BTreeMap<PortIndex, u64> =
                others.map(|&other| (fabric.port(other), 3)).collect();
            assert_eq!(got, expected, "{recipe}: host {host} to group {n}");
            let progress = network.progress(message);
            assert_eq!(progress.lost, if expected.is_empty() { 3 } else { 0 }, "{recipe}");
            assert_eq!(progress.completed.is_some(), !expected.is_empty());
        }
    }
}

#[test]
fn beside_unicast_of_everybody_nothing_deadlocks() {
    // One packet's room at each input: a circle of waiting packets would form where one is possible.
    let config = Config { buffer: 64 * 65, ..Config::default() };
    let fabric = Fabric::of("clos:6,3,3", Engine::Trees);
    let groups: Vec<(Vec<u32>, Vec<u32>)> =
        (0..24).map(|n| ((0..18).filter(|host| (host + n) % 3 != 0).collect(), vec![])).collect();
    let mut network = network(&fabric, config, &groups);
    for host in 0..fabric.hosts() {
        for (n, (full, _)) in groups.iter().enumerate() {
            if full.contains(&host) {
                send(&mut network, &fabric, host, n, 20_000);
            }
        }
        for other in (0..fabric.hosts()).filter(|&other| other != host) {
            let to = Lid(fabric.lid(other).0 + (host % 3) as u16);
            network.send(Message::new(fabric.port(host), to, 50_000)).unwrap();
        }
    }
    for step in 1..200 {
        let outcome = network.run_until(Time::micros(step * 20));
        network.audit().unwrap();
        if outcome != Outcome::Running {
            break;
        }
    }
    assert_eq!(network.run_until(Time::secs(10)), Outcome::Finished);
    network.audit().unwrap();
    assert_eq!(network.statistics().dropped, 0);
}

#[test]
fn trees_that_do_not_obey_the_ranks_deadlock() {
    // A ring of three leaves and three spines, each group's tree a piece of it with a valley in the middle.
    let config = Config { buffer: 64 * 65, ..Config::default() };
    let fabric = Fabric::of("clos:4,2,2", Engine::Trees);
    let mut network = fabric.network(config);
    // As in the checker's test: leaf ports 1 and 2 are hosts, 3 and 4 the spines; a spine's port is the leaf's.
    let masks: [&[(u32, usize, &[u8])]; 2] = [
        &[(0, 0, &[1, 3]), (4, 0, &[1, 2]), (1, 0, &[1, 3, 4]), (5, 0, &[2, 3]), (2, 0, &[1, 4])],
        &[(3, 1, &[1, 3]), (4, 1, &[4, 3]), (2, 1, &[1, 3, 4]), (5, 1, &[3, 1]), (0, 1, &[1, 4])],
    ];
    let mut tables = vec![MulticastTable::default(); fabric.topology.switch_count()];
    for &(switch, group, ports) in masks.concat().iter() {
        let ports = ports.iter().map(|&port| PortNum(port)).collect::<PortMask>();
        tables[NodeIndex(switch).index()].set(mlid(group), ports);
    }
    network.set_multicast_tables(&tables);
    let members = [[0, 2, 4], [6, 4, 0]];
    for (n, hosts) in members.iter().enumerate() {
        network.set_members(mlid(n), hosts.iter().map(|&host| fabric.port(host)));
    }
    for (n, hosts) in members.iter().enumerate() {
        for &host in hosts {
            send(&mut network, &fabric, host, n, 4_000_000);
        }
    }
    // Unicast between leaf1 and leaf2 by both spines closes the circle.
    for (from, to) in [(2, 4), (3, 5), (4, 2), (5, 3)] {
        for along in 0..2 {
            let to = Lid(fabric.lid(to).0 + along);
            network.send(Message::new(fabric.port(from), to, 4_000_000)).unwrap();
        }
    }
    assert_eq!(network.run_until(Time::secs(10)), Outcome::Stuck);
    network.audit().unwrap();
}

#[test]
fn what_a_cut_cable_takes_is_lost_and_nothing_more() {
    let fabric = Fabric::of("clos:4,2,3", Engine::Trees);
    let all: Vec<u32> = (0..12).collect();
    let mut network = network(&fabric, Config::default(), &[(all.clone(), vec![])]);
    let messages: Vec<MessageId> =
        all.iter().map(|&host| send(&mut network, &fabric, host, 0, 300_000)).collect();
    network.run_until(Time::micros(20));
    network.audit().unwrap();
    for spine in [4, 5] {
        let cable = fabric.topology.cables(NodeIndex(spine)).last().unwrap().0;
        network.cut(cable);
    }
    network.audit().unwrap();
    assert_eq!(network.run_until(Time::secs(1)), Outcome::Finished);
    network.audit().unwrap();
    // A member on another leaf still gets everything from there, once.
    let packets = 300_000_u64.div_ceil(4_096);
    for (from, message) in (0..9).zip(&messages) {
        let got = network.copies(*message);
        let whole: BTreeSet<u32> =
            (0..9).filter(|&to| got.get(&fabric.port(to)) == Some(&packets)).collect();
        assert_eq!(whole, (0..9).filter(|&to| to != from).collect(), "from {from}");
        assert!(got.values().all(|&count| count <= packets));
    }
}

#[test]
fn only_groups_with_members_can_be_sent_to() {
    let fabric = Fabric::of("clos:2,1,2", Engine::Trees);
    let mut network = network(&fabric, Config::default(), &[(vec![0, 3], vec![])]);
    let mut message = Message::new(fabric.port(0), mlid(1).lid(), 1);
    let refused = Err(SendError::NoDestination(mlid(1).lid()));
    assert_eq!(network.send(message.clone()), refused);
    message.destination = mlid(0).lid();
    message.transport = Transport::Rc;
    assert_eq!(network.send(message), Err(SendError::NoDestination(mlid(0).lid())));
}

/// The first packet of a network's life, to a member whose link takes longer for it than all before it took.
#[test]
fn a_slow_member_takes_as_long_as_it_takes() {
    let fabric = Fabric::new(star_of(&["4xNDR", "1xSDR", "4xEDR"]), Engine::Trees);
    let config = Config { propagation: Time(0), switch_delay: Time(0), ..Config::default() };
    let mut network = network(&fabric, config, &[(vec![1, 2], vec![0])]);
    let message = send(&mut network, &fabric, 0, 0, 4_096);
    assert_eq!(network.run_until(Time::secs(1)), Outcome::Finished);
    assert_eq!(network.copies(message).len(), 2);
}
