//! A fabric brought up by SMPs alone; the checkers judge what the switches hold then.

use std::cell::RefCell;
use std::rc::Rc;

use snin_emulator::Config;
use snin_fabric::check::credit::{Traffic, credit};
use snin_fabric::check::walk;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{Lid, NodeIndex, PortIndex, PortNum};
use snin_mad::{Attribute, LinearForwarding, PortInfo, PortState, SwitchInfo};
use snin_protocol::Time;

use crate::support::Lab;

fn name(lab: &Lab, node: NodeIndex) -> String {
    lab.topology.node(node).name.to_string()
}

/// The simplest of all managers: it knows the fabric, and waits for every answer.
fn bring_up(lab: &mut Lab, routing: &Routing) {
    let addresses = routing.plan.addresses();
    let planned: Vec<_> = addresses.iter().collect();
    for (port, lid, lmc) in planned {
        let name = name(lab, lab.topology.port(port).node);
        let num = lab.topology.num(port).0;
        lab.address(&name, num, lid, lmc).value();
    }
    for switch in lab.topology.switches() {
        let name = name(lab, switch);
        let table = &routing.tables[switch.index()];
        for block in 0..table.len().div_ceil(64) as u16 {
            let ports = table.block(block).map(PortNum);
            lab.set(&name, block.into(), &LinearForwarding { ports }).value();
        }
        let mut info: SwitchInfo = lab.get(&name, 0).value();
        info.linear_fdb_top = addresses.top();
        lab.set(&name, 0, &info).value();
    }
    let cabled = |port: &PortIndex| lab.topology.peer(*port).is_some();
    let ports: Vec<PortIndex> = lab.topology.ports().filter(cabled).collect();
    for state in [PortState::Armed, PortState::Active] {
        for &port in &ports {
            let name = name(lab, lab.topology.port(port).node);
            lab.set_state(&name, lab.topology.num(port).0, state).value();
        }
    }
}

#[test]
fn the_checkers_pass_on_what_the_switches_hold() {
    for recipe in ["clos:4,2,3", "clos:3,2,2,2", "fattree:4"] {
        let mut lab = Lab::new(recipe);
        let routing = Routing::compute(&lab.topology, Engine::Trees, None).unwrap();
        let writes = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&writes);
        lab.emulator.watch(move |fabric, write| {
            // The watcher sees the write done.
            if write.attribute == LinearForwarding::ID && write.modifier == 0 {
                assert!(fabric.switch_info(write.node).is_some());
            }
            seen.borrow_mut().push(*write);
        });
        bring_up(&mut lab, &routing);
        let fabric = lab.emulator.fabric();
        let addresses = fabric.addresses().unwrap();
        let tables = fabric.tables();
        assert_eq!(&addresses, routing.plan.addresses(), "{recipe}");
        assert_eq!(tables, routing.tables, "{recipe}");
        let live = fabric.live_topology();
        assert_eq!(live, lab.topology);
        let report = walk(&live, &addresses, &tables, 5);
        assert!(report.is_ok(), "{recipe}: {report}");
        assert!(credit(&live, &addresses, &tables, Traffic::All, |_, _| 0).is_ok(), "{recipe}");
        assert!(fabric.all_links(PortState::Active), "{recipe}");
        let writes = writes.borrow();
        assert_eq!(writes.len() as u64, lab.emulator.stats().writes, "{recipe}");
        assert!(writes.windows(2).all(|pair| pair[0].at < pair[1].at), "one by one");
    }
}

/// The watcher runs between a write and the next: it sees a loop that is there for one write only.
#[test]
fn the_watcher_sees_every_state_between() {
    let mut lab = Lab::with("clos:2,2,2", Config { agent_latency: Time(1), ..Config::default() });
    let routing = Routing::compute(&lab.topology, Engine::Trees, None).unwrap();
    bring_up(&mut lab, &routing);
    let loops = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&loops);
    lab.emulator.watch(move |fabric, write| {
        let addresses = fabric.addresses().unwrap();
        let report = walk(&fabric.live_topology(), &addresses, &fabric.tables(), 1);
        seen.borrow_mut().push((write.attribute, report.looped > 0));
    });
    let host = lab.port("host3", 1);
    let lid = routing.plan.addresses().base(host).unwrap();
    // spine0 sends the host's packets back to leaf0, which sends them to spine0.
    let (good, bad) = (routing.tables[lab.node("spine0").index()].get(lid).0, 1);
    lab.forward("leaf0", &[(lid.0, 3)]);
    lab.forward("spine0", &[(lid.0, bad)]);
    lab.forward("spine0", &[(lid.0, good)]);
    let (lft, info) = (LinearForwarding::ID, SwitchInfo::ID);
    let expected =
        [(lft, false), (info, false), (lft, true), (info, true), (lft, false), (info, false)];
    assert_eq!(*loops.borrow(), expected);
    assert_ne!(lid, Lid::NONE);
}

/// What an agent says of itself is what the topology says of it.
#[test]
fn every_node_and_port_is_as_the_topology_says() {
    use snin_mad::{NodeDescription, NodeInfo};
    let mut lab = Lab::new("clos:3,2,2");
    for node in lab.topology.nodes() {
        let name = name(&lab, node);
        let truth = lab.topology.node(node).clone();
        let info: NodeInfo = lab.get(&name, 0).value();
        assert_eq!((info.node_guid, info.num_ports), (truth.guid, truth.ports));
        assert_eq!(info.system_image_guid, truth.system_image);
        assert_eq!(lab.get::<NodeDescription>(&name, 0).value().text.text(), name);
        for port in lab.topology.external_ports(node) {
            let num = lab.topology.num(port);
            let info: PortInfo = lab.get(&name, num.0.into()).value();
            let cabled = lab.topology.peer(port).is_some();
            assert_eq!(info.state == PortState::Initialize, cabled, "{name}/{num}");
            assert_eq!(info.rate(None), lab.topology.port(port).rate, "{name}/{num}");
        }
    }
}
