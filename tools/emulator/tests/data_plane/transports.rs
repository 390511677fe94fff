//! Acknowledgements: how many, where, and how little they get in the way.

use snin_emulator::data::{Config, Message, Observer, Outcome, Transmission, Transport};
use snin_fabric::routing::Engine;
use snin_fabric::{PortIndex, TreeId};
use snin_protocol::Time;

use crate::support::{Fabric, star};

/// The transmissions of acknowledgements.
#[derive(Default)]
struct Acknowledgements(Vec<Transmission>);

impl Observer for Acknowledgements {
    fn transmitted(&mut self, transmission: &Transmission) {
        if transmission.acknowledgement {
            self.0.push(*transmission);
        }
    }
}

#[test]
fn one_for_every_32_packets_and_one_for_the_last() {
    let fabric = Fabric::new(star(2), Engine::Trees);
    for (packets, expected) in [(1, 1), (31, 1), (32, 1), (33, 2), (64, 2), (100, 4)] {
        for (transport, expected) in [(Transport::Rc, expected), (Transport::Uc, 0)] {
            let mut network = fabric.network(Config::default());
            let message = Message::new(fabric.port(0), fabric.lid(1), packets * 4_096);
            network.send(Message { transport, ..message }).unwrap();
            let mut seen = Acknowledgements::default();
            assert_eq!(network.run_observed(Time::MAX, &mut seen), Outcome::Finished);
            assert_eq!(network.statistics().acknowledgements, expected);
            // 30 bytes each, on their own VL, on two links.
            assert_eq!(seen.0.len() as u64, 2 * expected);
            assert!(seen.0.iter().all(|ack| (ack.vl, ack.bytes) == (1, 30)));
            assert_eq!(network.counters(fabric.port(1), 1).packets, expected);
        }
    }
}

#[test]
fn acknowledgements_go_back_on_the_tree_that_the_data_came_by() {
    let fabric = Fabric::of("clos:4,3,2", Engine::Trees);
    for tree in 0..3 {
        let mut network = fabric.network(Config::default());
        let to = fabric.routing.plan.dlid(fabric.port(7), TreeId(tree)).unwrap().0;
        let message = Message { transport: Transport::Rc, ..Message::new(fabric.port(0), to, 1) };
        network.send(message).unwrap();
        let mut seen = Acknowledgements::default();
        network.run_observed(Time::MAX, &mut seen);
        let spine = fabric.topology.port(seen.0[2].port).node;
        let root = fabric.routing.forest.trees()[usize::from(tree)].root;
        assert_eq!((seen.0.len(), spine), (4, root));
    }
}

/// Whether each packet on a port is an acknowledgement.
struct Kinds(PortIndex, Vec<bool>);

impl Observer for Kinds {
    fn transmitted(&mut self, transmission: &Transmission) {
        if transmission.port == self.0 {
            self.1.push(transmission.acknowledgement);
        }
    }
}

/// However many there are: the high-priority VL gives way after one packet.
#[test]
fn data_waits_for_one_acknowledgement_a_hop_at_most() {
    let fabric = Fabric::new(star(8), Engine::Trees);
    let mut network = fabric.network(Config { ack_every: 1, ..Config::default() });
    // Host 1 sends tiny messages to six others, whose acknowledgements share the switch's port towards it
    // with host 0's data.
    for host in (2..8).cycle().take(2_400) {
        let message = Message::new(fabric.port(1), fabric.lid(host), 1);
        network.send(Message { transport: Transport::Rc, ..message }).unwrap();
    }
    network.send(Message::new(fabric.port(0), fabric.lid(1), 100 * 4_096)).unwrap();
    let mut kinds = Kinds(fabric.topology.peer(fabric.port(1)).unwrap(), Vec::new());
    assert_eq!(network.run_observed(Time::MAX, &mut kinds), Outcome::Finished);
    let data = |&(_, &ack): &(usize, &bool)| !ack;
    let places: Vec<usize> = kinds.1.iter().enumerate().filter(data).map(|(n, _)| n).collect();
    assert_eq!((places.len(), kinds.1.len()), (100, 100 + 2_400));
    assert!(places.windows(2).all(|pair| pair[1] - pair[0] <= 2));
    // There nearly always is one.
    assert!(places.windows(2).filter(|pair| pair[1] - pair[0] == 2).count() > 90);
}
