//! Service levels and lanes, as a manager programs them: a lane of each port's own choice, turns by its tables.

use snin_emulator::data::{
    Config, Message, MessageId, Network, Observer, Outcome, PortLanes, SendError, Transmission,
    VlArbitration, VlWeight,
};
use snin_fabric::routing::Engine;
use snin_fabric::{NodeIndex, PortIndex, PortNum, Topology};
use snin_protocol::Time;

use crate::support::{Fabric, ring, star, wire};

/// Levels 0 and 1 on lanes 0 and 1, others discarded.
const TWO: [u8; 16] = [0, 1, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15];

/// Lane 1 first; lane 0 after so many bytes of it.
fn first(limit: u8) -> VlArbitration {
    VlArbitration { limit, ..VlArbitration::one_before(1, 0) }
}

/// Every port has this mapping and arbitration.
fn tables(topology: &Topology, mapping: [u8; 16], arbitration: &VlArbitration) -> Vec<PortLanes> {
    let port = |port: PortIndex| {
        let inputs = usize::from(topology.node(topology.port(port).node).ports) + 1;
        PortLanes { mapping: vec![mapping; inputs], arbitration: arbitration.clone() }
    };
    topology.ports().map(port).collect()
}

/// Every transmission of data: by which port, on which lane.
#[derive(Default)]
struct Seen(Vec<(PortIndex, u8)>);

impl Observer for Seen {
    fn transmitted(&mut self, transmission: &Transmission) {
        if !transmission.acknowledgement {
            self.0.push((transmission.port, transmission.vl));
        }
    }
}

#[test]
fn every_port_chooses_the_lane_by_level_and_input() {
    let fabric = Fabric::of("clos:2,1,2", Engine::Trees);
    let topology = &fabric.topology;
    let mut lanes = tables(topology, TWO, &first(255));
    // The spine leads level 1 that comes from leaf 0 to lane 0, and what comes from leaf 1 on.
    let spine = NodeIndex(topology.switches().map(|switch| switch.0).max().unwrap());
    let spine_ports: Vec<_> = topology.cables(spine).collect();
    let from_leaf_0 = topology.num(spine_ports[0].0);
    for (port, _) in &spine_ports {
        lanes[port.index()].mapping[usize::from(from_leaf_0.0)][1] = 0;
    }
    let mut network = fabric.network(Config::default());
    network.set_lanes(lanes);
    let there = [(0, 2, [1, 1, 0, 1]), (2, 0, [1, 1, 1, 1])];
    for (from, to, expected) in there {
        let mut seen = Seen::default();
        let message = Message::new(fabric.port(from), fabric.lid(to), 4_096);
        let id = network.send(Message { sl: 1, ..message.clone() }).unwrap();
        assert_eq!(network.run_observed(Time::MAX, &mut seen), Outcome::Finished);
        assert_eq!(network.progress(id).slowdown, Some(1.0));
        let vls: Vec<u8> = seen.0.iter().map(|&(_, vl)| vl).collect();
        assert_eq!(vls, expected, "{from} -> {to}");
        for (port, vl) in seen.0 {
            assert!(network.counters(port, vl).packets > 0);
        }
        assert_eq!(network.send(Message { sl: 2, ..message }), Err(SendError::NoLane(2)));
        network.audit().unwrap();
    }
}

#[test]
fn what_has_no_lane_at_a_switch_is_discarded_there() {
    let fabric = Fabric::new(star(3), Engine::Trees);
    let topology = &fabric.topology;
    let mut lanes = tables(topology, TWO, &first(255));
    let output = topology.peer(fabric.port(1)).unwrap();
    let input = topology.num(topology.peer(fabric.port(0)).unwrap());
    lanes[output.index()].mapping[usize::from(input.0)][1] = 15;
    let mut network = fabric.network(Config::default());
    network.set_lanes(lanes);
    let mut send = |from, to| {
        let message = Message::new(fabric.port(from), fabric.lid(to), 10 * 4_096);
        network.send(Message { sl: 1, ..message }).unwrap()
    };
    let (lost, others) = (send(0, 1), [send(0, 2), send(2, 1)]);
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    assert_eq!((network.progress(lost).delivered, network.progress(lost).lost), (0, 10));
    assert!(others.iter().all(|&message| network.progress(message).lost == 0));
    assert_eq!(network.counters(output, 1).discards, 10);
    network.audit().unwrap();
}

/// Two hosts flood a third for a time, at levels 0 and 1; what arrives of each, of what the link carries.
fn shares(arbitration: &VlArbitration) -> ([f64; 2], u64) {
    let fabric = Fabric::new(star(3), Engine::Trees);
    let mut network = fabric.network(Config::default());
    network.set_lanes(tables(&fabric.topology, TWO, arbitration));
    let time = Time::micros(200);
    let all = network.payload_possible(fabric.port(2), time);
    let sent: Vec<MessageId> = (0..2)
        .map(|host| {
            // Only what level 1 waits for counts.
            let background = host == 0;
            let message = Message::new(fabric.port(host), fabric.lid(2), all);
            network.send(Message { sl: host as u8, background, ..message }).unwrap()
        })
        .collect();
    network.run_until(time);
    let share = |n: usize| network.progress(sent[n]).delivered as f64 / all as f64;
    ([share(0), share(1)], network.statistics().queueing_ns.max())
}

#[test]
fn turns_are_by_priority_limit_and_weight() {
    let packet = (wire(4_096) * 20).div_ceil(1_000);
    // No limit: the first lane waits for a packet that has begun, once.
    let ([ordinary, granted], wait) = shares(&first(255));
    assert!(granted > 0.99 && ordinary < 0.01 && wait <= packet + 1, "{ordinary} {granted} {wait}");
    // 19 packets, then one of the other: a twentieth.
    let ([ordinary, granted], _) = shares(&first(19));
    assert!((0.045..0.06).contains(&ordinary) && (0.93..0.955).contains(&granted), "{granted}");
    // In turns.
    let ([ordinary, granted], _) = shares(&first(0));
    assert!((ordinary - granted).abs() < 0.02, "{ordinary} {granted}");
    // By weight, in one table: 64 units are a packet at most, and what is left of a turn is another.
    let low = [(0, 64), (1, 192)].map(|(vl, weight)| VlWeight { vl, weight }).to_vec();
    let ([ordinary, granted], _) = shares(&VlArbitration { high: Vec::new(), low, limit: 0 });
    assert!((granted / ordinary - 3.0).abs() < 0.2, "{ordinary} {granted}");
}

/// Each port has turns of its own: what goes first at one goes last at another.
#[test]
fn ports_have_tables_of_their_own() {
    let fabric = Fabric::new(star(4), Engine::Trees);
    let topology = &fabric.topology;
    let mut lanes = tables(topology, TWO, &first(255));
    let to_3 = topology.peer(fabric.port(3)).unwrap();
    lanes[to_3.index()].arbitration =
        VlArbitration { limit: 255, ..VlArbitration::one_before(0, 1) };
    for (to, winner) in [(2, 1), (3, 0)] {
        let mut network: Network = fabric.network(Config::default());
        network.set_lanes(lanes.clone());
        let sent = [0, 1].map(|host| {
            let message = Message::new(fabric.port(host), fabric.lid(to), 100 * 4_096);
            network.send(Message { sl: host as u8, ..message }).unwrap()
        });
        assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
        let completed = sent.map(|message| network.progress(message).completed);
        assert!(completed[winner] < completed[1 - winner], "{completed:?}");
    }
}

/// A ring of switches deadlocks on one lane (see `deadlock`); where what crosses switch 0 goes on in another lane,
/// it does not.
#[test]
fn another_lane_from_one_switch_on_opens_a_ring() {
    let fabric = Fabric::new(ring(4, 2), Engine::MinHop);
    let topology = &fabric.topology;
    let tables_of = |crosses: u8| {
        let mut lanes = tables(topology, [0; 16], &first(0));
        for (port, _) in topology.cables(NodeIndex(0)) {
            lanes[port.index()].mapping[4][1] = crosses;
        }
        lanes
    };
    for (crosses, outcome) in [(0, Outcome::Stuck), (1, Outcome::Finished)] {
        let mut network = fabric.network(Config { buffer: 4_160, ..Config::default() });
        network.set_tables(&clockwise(&fabric));
        network.set_lanes(tables_of(crosses));
        for host in 0..8 {
            let (to, sl) = ((host + 4) % 8, u8::from(host / 2 == 3));
            let message = Message::new(fabric.port(host), fabric.lid(to), 200 * 4_096);
            network.send(Message { sl, ..message }).unwrap();
        }
        assert_eq!(network.run_until(Time::MAX), outcome, "lane {crosses}");
        network.audit().unwrap();
    }
}

/// Everything goes on round the ring by port 3 until it is there.
fn clockwise(fabric: &Fabric) -> Vec<snin_fabric::ForwardingTable> {
    let mut tables = fabric.routing.tables.clone();
    for (switch, table) in (0..).map(NodeIndex).zip(&mut tables) {
        for host in 0..fabric.hosts() {
            let peer = fabric.topology.peer(fabric.port(host)).unwrap();
            if fabric.topology.port(peer).node != switch {
                table.set(fabric.lid(host), PortNum(3));
            }
        }
    }
    tables
}

/// Tables that are written while packets are on their way: none is lost, every place is given back.
#[test]
fn tables_can_be_written_under_traffic() {
    let fabric = Fabric::of("clos:3,2,3", Engine::Trees);
    let mut network = fabric.network(Config::default());
    let mut sent = Vec::new();
    for host in 0..9 {
        for (sl, step) in [(0, 3), (1, 4)] {
            let message =
                Message::new(fabric.port(host), fabric.lid((host + step) % 9), 60 * 4_096);
            sent.push(network.send(Message { sl, ..message }).unwrap());
        }
    }
    let swapped = [1, 0].into_iter().chain([15; 14]).collect::<Vec<u8>>().try_into().unwrap();
    for (at, mapping) in [(3, swapped), (6, [0; 16]), (9, TWO), (12, [1; 16])] {
        assert_eq!(network.run_until(Time::micros(at)), Outcome::Running);
        network.audit().unwrap();
        network.set_lanes(tables(&fabric.topology, mapping, &first(1)));
        network.audit().unwrap();
    }
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    assert!(sent.iter().all(|&message| network.progress(message).delivered == 60 * 4_096));
    network.audit().unwrap();
}
