//! Cables cut and restored, tables replaced, packets with nowhere to go.

use snin_emulator::data::{
    Config, DropReason, Dropped, Message, Observer, Outcome, Passage, Queues, SendError,
};
use snin_fabric::routing::Engine;
use snin_fabric::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum};
use snin_protocol::Time;

use crate::support::{Fabric, PS_PER_BYTE, star, wire};

#[derive(Default)]
struct Drops(Vec<(PortIndex, DropReason)>);

impl Observer for Drops {
    fn dropped(&mut self, dropped: &Dropped) {
        self.0.push((dropped.port, dropped.reason));
    }
}

/// The leaf's port towards the root of the tree that `lid` leads along.
fn uplink(fabric: &Fabric, host: u32, lid: Lid) -> PortIndex {
    let leaf = fabric.topology.peer_node(fabric.port(host)).unwrap();
    let port = fabric.routing.tables[leaf.index()].get(lid);
    fabric.topology.port_of(leaf, port).unwrap()
}

#[test]
fn a_cut_cable_loses_what_is_on_it_and_new_tables_lead_round_it() {
    let fabric = Fabric::of("clos:2,2,2", Engine::Trees);
    let to = fabric.lid(3);
    let cable = uplink(&fabric, 0, to);
    let mut network = fabric.network(Config::default());
    let message = network.send(Message::new(fabric.port(0), to, 1 << 20)).unwrap();
    let mut drops = Drops::default();
    assert_eq!(network.run_observed(Time::micros(5), &mut drops), Outcome::Running);

    network.cut(cable);
    assert!(!network.is_up(cable) && !network.is_up(fabric.topology.peer(cable).unwrap()));
    network.run_observed(Time::micros(10), &mut drops);
    let lost = network.progress(message).lost;
    assert_eq!(lost, drops.0.len() as u64);
    // What was on the cable comes to the spine damaged, what follows is discarded at the leaf.
    assert_eq!(drops.0[0], (cable, DropReason::PortDown));
    let peer = fabric.topology.peer(cable).unwrap();
    assert!(drops.0.contains(&(peer, DropReason::Damaged)));
    assert_eq!(
        network.counters(peer, 0).receive_errors + network.counters(cable, 0).discards,
        lost
    );
    network.audit().unwrap();

    // The tables of the fabric without the cable.
    let without = fabric.topology.without_cables(&[cable]);
    let repaired = Fabric::new(without, Engine::Trees);
    assert_eq!(repaired.lid(3), to);
    network.set_tables(&repaired.routing.tables);
    assert_eq!(network.run_observed(Time::MAX, &mut drops), Outcome::Finished);
    let progress = network.progress(message);
    assert_eq!((progress.lost, progress.completed), (lost, None));
    assert_eq!(progress.delivered, (1 << 20) - lost * 4_096);

    network.restore(cable);
    let again = network.send(Message::new(fabric.port(0), to, 1 << 20)).unwrap();
    network.set_tables(&fabric.routing.tables);
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    assert_eq!(network.progress(again).slowdown, Some(1.0));
    network.audit().unwrap();
}

#[test]
fn what_waits_for_a_cut_cable_is_discarded() {
    let fabric = Fabric::new(star(5), Engine::Trees);
    for queues in [Queues::PerOutput, Queues::PerInput] {
        let mut network = fabric.network(Config { queues, ..Config::default() });
        for host in 1..5 {
            let message = Message::new(fabric.port(host), fabric.lid(0), 8 * 4_096);
            network.send(message).unwrap();
        }
        // All that was sent has come to the switch, and most of it waits there.
        assert_eq!(network.run_until(Time::micros(1)), Outcome::Running);
        assert_eq!(network.counters(fabric.port(1), 0).packets, 8);
        network.cut(fabric.port(0));
        // The packet that is being sent comes to its end first.
        network.run_until(Time::micros(1) + Time(wire(4_096) * PS_PER_BYTE / 1_000 + 1));
        let cable = fabric.topology.peer(fabric.port(0)).unwrap();
        let sent = network.counters(cable, 0).packets;
        assert_eq!(network.counters(cable, 0).discards, 4 * 8 - sent, "{queues:?}");
        assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
        let statistics = network.statistics();
        assert_eq!(statistics.packets + statistics.dropped, 4 * 8);
        network.audit().unwrap();
    }
}

#[test]
fn what_is_to_pass_a_port_that_is_not_active_is_discarded() {
    let fabric = Fabric::new(star(2), Engine::Trees);
    let (source, sink) = (fabric.port(0), fabric.port(1));
    let peer = |port| fabric.topology.peer(port).unwrap();
    // Each port of the way, whether it is left or come to by it.
    let way = [(source, true), (peer(source), false), (peer(sink), true), (sink, false)];
    for (port, leaves) in way {
        for passage in [Passage::Closed, Passage::Inward, Passage::Open] {
            let mut network = fabric.network(Config::default());
            network.set_passage(port, passage);
            network.send(Message::new(source, fabric.lid(1), 3 * 4_096)).unwrap();
            let mut drops = Drops::default();
            assert_eq!(network.run_observed(Time::MAX, &mut drops), Outcome::Finished);
            let passes = passage == Passage::Open || !leaves && passage == Passage::Inward;
            let lost = if passes { Vec::new() } else { vec![(port, DropReason::Inactive); 3] };
            assert_eq!(drops.0, lost, "{passage:?}");
            network.audit().unwrap();
            // Once it is Active, all is as it was.
            network.set_passage(port, Passage::Open);
            let message = network.send(Message::new(source, fabric.lid(1), 9)).unwrap();
            network.run_until(Time::MAX);
            assert_eq!(network.progress(message).delivered, 9);
        }
    }
}

#[test]
fn an_adapter_waits_for_its_cable() {
    let fabric = Fabric::new(star(2), Engine::Trees);
    let mut network = fabric.network(Config::default());
    network.cut(fabric.port(0));
    let message = network.send(Message::new(fabric.port(0), fabric.lid(1), 100)).unwrap();
    assert_eq!(network.run_until(Time::micros(1)), Outcome::Stuck);
    network.restore(fabric.port(0));
    assert_eq!(network.run_until(Time::micros(2)), Outcome::Finished);
    assert!(network.progress(message).completed.unwrap() > Time::micros(1));
    assert_eq!(network.now(), Time::micros(2));
}

/// What becomes of a packet from host 0 to host 1's address if the switch forwards it by `port`.
fn sent_by(port: PortNum) -> (Vec<(PortIndex, DropReason)>, Fabric) {
    let fabric = Fabric::new(star(3), Engine::Trees);
    let mut network = fabric.network(Config::default());
    let mut table = ForwardingTable::default();
    table.set(fabric.lid(1), port);
    network.set_table(NodeIndex(0), &table);
    let message = network.send(Message::new(fabric.port(0), fabric.lid(1), 9)).unwrap();
    let mut drops = Drops::default();
    assert_eq!(network.run_observed(Time::MAX, &mut drops), Outcome::Finished);
    network.audit().unwrap();
    let progress = network.progress(message);
    assert_eq!((progress.delivered, progress.lost, progress.completed), (0, 1, None));
    (drops.0, fabric)
}

#[test]
fn a_packet_with_nowhere_to_go_is_dropped_where_it_is() {
    // Port 0, a port that the switch lacks, one without a cable, none.
    for port in [0, 6, 5, 255] {
        let (drops, fabric) = sent_by(PortNum(port));
        let input = fabric.topology.peer(fabric.port(0)).unwrap();
        assert_eq!(drops, [(input, DropReason::NoRoute)], "{port}");
    }
    let (drops, fabric) = sent_by(PortNum(1));
    assert_eq!(drops, [(fabric.topology.peer(fabric.port(0)).unwrap(), DropReason::Looping)]);
    let (drops, fabric) = sent_by(PortNum(3));
    assert_eq!(drops, [(fabric.port(2), DropReason::Stranger)]);
}

#[test]
fn what_no_adapter_would_take_is_refused() {
    let fabric = Fabric::new(star(2), Engine::Trees);
    let mut network = fabric.network(Config::default());
    let good = Message::new(fabric.port(0), fabric.lid(1), 1);
    let switch_port = fabric.topology.peer(fabric.port(0)).unwrap();
    for source in [switch_port, PortIndex(9_999), fabric.topology.port0(NodeIndex(1))] {
        let refused = network.send(Message { source, ..good.clone() });
        assert_eq!(refused, Err(SendError::NotAnEndPort(source)));
    }
    for destination in [Lid::NONE, Lid(0xC000)] {
        let refused = network.send(Message { destination, ..good.clone() });
        assert_eq!(refused, Err(SendError::NoDestination(destination)));
    }
    let refused = network.send(Message { sl: 2, ..good });
    assert_eq!(refused, Err(SendError::NoLane(2)));
}
