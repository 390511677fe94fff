//! Faults that are planted: each is found and named, and only it is touched.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use snin_configuration::{Action, Expected, Limits, Mode};
use snin_emulator::Fault;
use snin_fabric::{Guid, NodeIndex, PortIndex, PortNum, Topology, ibnet};
use snin_mad::{Attribute as _, LinearForwarding, PortInfo};
use snin_protocol::Time;

use crate::lab::{Lab, expect, fabric, granted, planned};

/// The topology with another rate at some ports of switches.
fn at_rates(topology: &Topology, rates: &[(&str, u8, &str)]) -> Topology {
    let mut text = String::new();
    let mut switch = String::new();
    for line in ibnet::write(topology).lines() {
        if line.starts_with("Switch") || line.starts_with("Ca") {
            switch = line.split('"').nth(3).unwrap_or_default().to_owned();
        }
        let planted = rates
            .iter()
            .find(|(name, port, _)| switch == *name && line.starts_with(&format!("[{port}]")));
        match planted {
            Some((.., rate)) => text += &line.replace("4xNDR", rate),
            None => text += line,
        }
        text.push('\n');
    }
    ibnet::parse(text.as_bytes()).unwrap()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn swapped_cables_are_disabled_and_pass_when_they_are_swapped_back_and_released() {
    let topology = fabric("clos:4,2,2");
    let mut lab = Lab::new(topology.clone(), Limits::default());
    lab.tell(granted());
    lab.tell(expect(&planned(&topology, Mode::Test)));
    lab.start();
    lab.run(Time::secs(3));
    lab.check_all_but(&BTreeSet::new());
    assert!(lab.manager.configuration().status().all(|port| port.state.name() == "passed"));

    let swap = Fault::Swap(lab.port("leaf1", 1), lab.port("leaf2", 1));
    lab.strike(swap.clone());
    lab.run(Time::secs(2));
    assert_eq!(lab.disabled(), set(&["leaf1/1", "leaf2/1"]));
    for at in ["leaf1/1", "leaf2/1"] {
        let (state, why) = lab.state(at);
        assert_eq!(state, "failed");
        assert!(why.starts_with("miswired: host"), "{why}");
    }
    lab.check_all_but(&set(&["leaf1/1", "leaf2/1"]));

    lab.strike(swap);
    lab.run(Time::secs(5));
    assert_eq!(lab.disabled(), set(&["leaf1/1", "leaf2/1"]), "nobody has released them");
    for place in [lab.place("leaf1", 1), lab.place("leaf2", 1)] {
        lab.tell(snin_configuration::Instruction::Release(place));
    }
    lab.run(Time::secs(3));
    lab.check_all_but(&BTreeSet::new());
    let said = lab.said_of("leaf1/1");
    assert!(
        said.ends_with(&[
            Action::Fail,
            Action::Release,
            Action::BeginTest,
            Action::Enable,
            Action::Pass
        ]) || said.ends_with(&[Action::Release, Action::Enable, Action::BeginTest, Action::Pass]),
        "{said:?}"
    );
}

/// 648 hosts of which twelve ports of switches are not as they are expected.
fn twelve() -> (Lab, Expected) {
    let good = fabric("clos:36,18,18");
    let mut expected = planned(&good, Mode::Test);
    let spares = [(10, 8), (11, 8), (12, 8)];
    let quality = expected.tests.quality.as_mut().unwrap();
    quality.errors = Some(0);
    let mut foreign = None;
    for switch in expected.switches.values_mut() {
        for (leaf, port) in spares {
            if switch.name == format!("leaf{leaf}") {
                switch.ports.get_mut(&PortNum(port)).unwrap().mode = Mode::Disabled;
            }
        }
        if switch.name == "leaf5" {
            let pattern = switch.ports.get_mut(&PortNum(3)).unwrap().neighbour.as_mut().unwrap();
            foreign = pattern.node_guid.replace(Guid(0xDEAD));
        }
    }
    assert!(foreign.is_some());
    let bad = at_rates(&good, &[("leaf6", 4, "4xHDR"), ("leaf7", 5, "1xNDR")]);
    let mut lab = Lab::new(bad, Limits { writes: 1_000, dry_run: false });
    let dead = lab.topology.peer_node(lab.port("leaf9", 7)).unwrap();
    for (a, b) in [(1, 2), (3, 4)] {
        let swap = Fault::Swap(lab.port(&format!("leaf{a}"), 1), lab.port(&format!("leaf{b}"), 1));
        lab.strike(swap);
    }
    // No MAD is lost, but the other end counts errors.
    let rising = lab.topology.peer(lab.port("leaf8", 6)).unwrap();
    lab.strike(Fault::SymbolErrors(rising, 800_000));
    lab.strike(Fault::Application(dead, false));
    lab.run(Time::millis(100));
    (lab, expected)
}

/// All twelve were found and named, and only they are disabled: their names.
#[track_caller]
fn found(lab: &Lab) -> BTreeSet<String> {
    let name = |leaf: usize, port: u8| format!("leaf{leaf}/{port}");
    let planted: BTreeMap<String, &str> = [
        (name(1, 1), "miswired: "),
        (name(2, 1), "miswired: "),
        (name(3, 1), "miswired: "),
        (name(4, 1), "miswired: "),
        (name(5, 3), "miswired: "),
        (name(6, 4), "the link is 4xHDR, required 4xNDR"),
        (name(7, 5), "the link is 1xNDR, required 4xNDR"),
        (name(8, 6), ""),
        (name(9, 7), "the node does not answer as is expected"),
    ]
    .into();
    let mut all: BTreeSet<String> = planted.keys().cloned().collect();
    for status in lab.manager.configuration().status() {
        match planted.get(&status.at) {
            Some(why) => {
                assert_eq!(status.state.name(), "failed", "{}", status.at);
                assert!(status.why.starts_with(why), "{}: {}", status.at, status.why);
            }
            None if status.mode == Mode::Disabled => {
                all.insert(status.at);
            }
            None => assert_eq!(status.state.name(), "passed", "{}: {}", status.at, status.why),
        }
    }
    assert_eq!(all.len(), 12);
    assert_eq!(lab.disabled(), all);
    lab.check_all_but(&all);
    untouched(lab, &all);
    all
}

#[test]
fn twelve_planted_faults_among_648_hosts_are_named_and_nothing_else_is_touched() {
    let (mut lab, expected) = twelve();
    lab.tell(granted());
    lab.tell(expect(&expected));
    lab.start();
    lab.run(Time::secs(6));
    let why = lab.state("leaf8/6").1;
    assert!(why.contains(" errors at the other end while 10 MADs "), "{why}");
    found(&lab);

    // Nothing more is done, after any discovery.
    let writes = |lab: &Lab| {
        lab.writes.borrow().iter().filter(|write| write.attribute == PortInfo::ID).count()
    };
    let (before, said) = (writes(&lab), lab.said.len());
    lab.run(Time::secs(5));
    assert_eq!((writes(&lab), lab.said.len()), (before, said));
}

/// The fabric is in use before anything is expected of it. After every write each other host sends a packet to
/// another: not one is lost. No port is written but those that are disabled and those behind them; tables lose the
/// way to hosts that are gone.
#[test]
fn twelve_faults_are_put_right_under_traffic_that_loses_nothing() {
    let (mut lab, expected) = twelve();
    lab.start();
    lab.run(Time::secs(3));
    let topology = lab.emulator.fabric().topology().clone();
    let ends = |port: PortIndex| [Some(port), topology.peer(port)].into_iter().flatten();
    let numbers = [1, 1, 1, 1, 3, 4, 5, 6, 7, 8, 8, 8];
    let of_leaf = |(leaf, &num): (usize, &u8)| ends(lab.port(&format!("leaf{}", leaf + 1), num));
    let at: BTreeSet<PortIndex> = numbers.iter().enumerate().flat_map(of_leaf).collect();
    let is_hosts = |&port: &PortIndex| {
        topology.peer(port).is_some() && !topology.is_switch(topology.port(port).node)
    };
    let others: Vec<PortIndex> =
        topology.ports().filter(|port| is_hosts(port) && !at.contains(port)).collect();
    assert_eq!(others.len(), 648 - 12);
    let (lost, elsewhere, sent) =
        <(Rc<RefCell<Vec<_>>>, Rc<RefCell<Vec<_>>>, Rc<Cell<usize>>)>::default();
    let (losses, writes, packets) = (lost.clone(), elsewhere.clone(), sent.clone());
    let own: BTreeSet<(NodeIndex, u32)> = at
        .iter()
        .map(|&port| (topology.port(port).node, u32::from(topology.num(port).0)))
        .collect();
    lab.emulator.watch(move |fabric, write| {
        let is_own = write.attribute == PortInfo::ID && own.contains(&(write.node, write.modifier));
        if !is_own && write.attribute != LinearForwarding::ID {
            writes.borrow_mut().push(*write);
        }
        for (n, &from) in others.iter().enumerate() {
            let to = others[(n + 1 + packets.get() % (others.len() - 1)) % others.len()];
            let carried = fabric.carry(from, fabric.port_info(to).lid);
            if carried.as_ref().map(|(port, _)| *port) != Ok(to) {
                losses.borrow_mut().push((write.at, from, to));
            }
        }
        packets.set(packets.get() + others.len());
    });
    lab.tell(granted());
    lab.tell(expect(&expected));
    lab.run(Time::secs(6));
    found(&lab);
    assert!(sent.get() > 0);
    assert!(
        lost.borrow().is_empty(),
        "{} of {} packets: {:?}",
        lost.borrow().len(),
        sent.get(),
        lost.borrow()[0]
    );
    assert!(elsewhere.borrow().is_empty(), "{:?}", elsewhere.borrow());
}

/// No link went down but those of these ports, by the hardware's own count.
#[track_caller]
fn untouched(lab: &Lab, but: &BTreeSet<String>) {
    let fabric = lab.emulator.fabric();
    let topology = fabric.topology();
    for port in topology.ports() {
        let Some(peer) = topology.peer(port) else { continue };
        let names = [topology.port_name(port), topology.port_name(peer)];
        if !names.iter().any(|name| but.contains(name)) {
            assert_eq!(fabric.counters(port).link_downed, 0, "{}", names[0]);
        }
    }
}

/// What flaps is tested anew and costs a bounded number of writes; ten thousand events are one line each at most.
#[test]
fn a_port_that_flaps_costs_bounded_work() {
    let topology = fabric("clos:4,2,2");
    let mut expected: Expected = planned(&topology, Mode::Enabled);
    let mut lab = Lab::new(topology, Limits::default());
    let place = lab.place("leaf1", 1);
    expected.switches.get_mut(&place.0).unwrap().ports.get_mut(&place.1).unwrap().mode = Mode::Test;
    lab.tell(granted());
    lab.tell(expect(&expected));
    lab.start();
    lab.run(Time::secs(3));
    let port = lab.port("leaf1", 1);
    for _ in 0..60 {
        lab.strike(Fault::Bounce(port));
        lab.run(Time::secs(1));
    }
    let orders = lab.manager.configuration().metrics().orders;
    assert!(orders <= 2, "{orders} orders");
    // Each time it came back it was tested, and passed or failed: four words a flap at most.
    assert!(lab.said_of("leaf1/1").len() <= 4 * 61, "{:?}", lab.said.len());
    lab.check_all_but(&lab.disabled());

    let said = lab.said.len();
    for _ in 0..10_000 {
        lab.tell(granted());
    }
    lab.run(Time::secs(1));
    assert_eq!(lab.said.len(), said, "nothing has changed");
}

/// A switch that refuses is told again less and less often.
#[test]
fn a_switch_that_refuses_is_named_and_left_in_peace() {
    let topology = fabric("clos:4,2,2");
    let expected = planned(&topology, Mode::Enabled);
    let mut lab = Lab::new(topology, Limits::default());
    lab.tell(granted());
    lab.tell(expect(&expected));
    lab.start();
    lab.run(Time::secs(3));
    let (one, other) = (lab.port("leaf1", 1), lab.port("leaf2", 1));
    lab.strike(Fault::Refuse(one, true));
    lab.strike(Fault::Swap(one, other));
    lab.run(Time::secs(100));
    assert_eq!(lab.disabled(), set(&["leaf2/1"]));
    let orders = lab.manager.configuration().metrics().orders;
    assert!((3..12).contains(&orders), "{orders} orders in 100 s");
    assert!(lab.said_of("leaf1/1").contains(&Action::Keep), "{:?}", lab.said_of("leaf1/1"));
}

#[test]
fn a_dry_run_says_what_it_would_do_once_and_writes_nothing() {
    let topology = fabric("clos:4,2,2");
    let expected = planned(&topology, Mode::Enabled);
    let mut lab = Lab::new(topology, Limits { dry_run: true, ..Limits::default() });
    lab.tell(granted());
    lab.tell(expect(&expected));
    lab.start();
    lab.run(Time::secs(3));
    lab.strike(Fault::Swap(lab.port("leaf1", 1), lab.port("leaf2", 1)));
    lab.run(Time::secs(5));
    assert_eq!(lab.disabled(), BTreeSet::new());
    lab.check_all_but(&BTreeSet::new());
    let said: Vec<_> = lab.said.iter().map(|report| (report.action, report.dry_run)).collect();
    assert_eq!(said, [(Action::Disable, true), (Action::Disable, true)]);
}
