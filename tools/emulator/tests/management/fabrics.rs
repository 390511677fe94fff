//! Fabrics as they are: the real one, and a large one.

use snin_emulator::{Config, Emulator};
use snin_fabric::generate::Recipe;
use snin_fabric::{Lid, NodeKind, PortIndex, Topology, ibnet};
use snin_judges::shared;
use snin_mad::{Attribute, NodeInfo, PortState, Route, Smp};

/// Asks every node for its NodeInfo, at most so many at a time; how many answered as the topology says.
fn roll_call(topology: &Topology, home: PortIndex) -> usize {
    let mut emulator = Emulator::new(topology, Config::default());
    let client = emulator.attach(home).unwrap();
    let routes = emulator.fabric().routes_from(home);
    let mut present = 0;
    for (node, route) in topology.nodes().zip(routes) {
        let Some(route) = route else { continue };
        let mad = Smp::get(NodeInfo::ID, 0, Route::directed(route)).mad();
        emulator.send(client, &mad, Lid::NONE, emulator.now());
        while let Some(next) = emulator.next_event_time() {
            emulator.advance(next);
        }
        let info: NodeInfo = emulator.poll(client).expect("an answer").mad.attribute().unwrap();
        present += usize::from(info.node_guid == topology.node(node).guid);
    }
    present
}

fn a_host(topology: &Topology) -> PortIndex {
    let cabled = |port: &PortIndex| {
        let node = topology.node(topology.port(*port).node);
        node.kind == NodeKind::Adapter && topology.peer(*port).is_some()
    };
    topology.ports().find(cabled).expect("a host")
}

/// 11,664 hosts in three stages: every node answers.
#[test]
fn a_large_fabric_is_all_there() {
    let topology = "fattree:36".parse::<Recipe>().unwrap().build().unwrap();
    assert_eq!(topology.node_count() - topology.switch_count(), 11_664);
    assert_eq!(roll_call(&topology, a_host(&topology)), topology.node_count());
}

/// The real fabric of 2025, if its file is at hand, as it is and as its own manager left it.
#[test]
fn the_real_fabric_is_all_there() {
    let Some((_, text)) = shared("topologies/dgx-gb200-2025.ibnetdiscover") else {
        return;
    };
    let topology = ibnet::parse(&text).unwrap();
    let home = a_host(&topology);
    let reached = roll_call(&topology, home);
    assert!(reached > topology.node_count() / 2, "{reached} of {}", topology.node_count());
    let addresses = topology.reported_addresses().unwrap();
    let mut emulator = Emulator::new(&topology, Config::default());
    emulator.configure(&addresses, &[], Lid(1));
    assert_eq!(emulator.fabric().addresses(), Ok(addresses));
    assert!(emulator.fabric().all_links(PortState::Active));
    for node in topology.nodes() {
        let info = emulator.fabric().switch_info(node);
        assert_eq!(info.is_some(), topology.is_switch(node));
        let enhanced = topology.node(node).enhanced_port0;
        assert!(info.is_none_or(|info| info.enhanced_port_zero == enhanced));
    }
}
