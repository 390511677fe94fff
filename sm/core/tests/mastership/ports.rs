//! A manager with several local ports (statement 4), and how soon it knows that one has changed (statement 8).
#![allow(clippy::disallowed_macros, reason = "what is measured is printed")]

use std::collections::{BTreeMap, VecDeque};

use snin_emulator::Fault;
use snin_fabric::{NodeIndex, PortIndex, PortNum};
use snin_mad::{Attribute as _, Method, PortInfo, SmState};
use snin_protocol::Time;
use snin_sm_core::Event;
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::LocalPort;
use snin_sweep::Missing;

use crate::subnet::{Subnet, config, port};

/// Two adapters, on leaves of their own.
const ADAPTERS: [&str; 2] = ["host0", "host13"];

/// A manager at two adapters, and a standby at a third one.
fn site(configure: fn(u8) -> Config) -> (Subnet, [PortIndex; 2]) {
    let mut subnet = Subnet::new("clos:6,3,4");
    let ports = ADAPTERS.map(|host| port(&subnet.topology, host, 1));
    subnet.seat_at(&ports, configure(5));
    subnet.seat("host22", configure(1));
    (0..2).for_each(|n| subnet.start(n));
    for (from, to) in [(0, 1), (1, 0)] {
        subnet.call(from, to);
    }
    subnet.run(Time::secs(10));
    subnet.check(0);
    (subnet, ports)
}

fn no_cable(adapter: usize) -> Missing {
    Missing::NoCable(format!("{}/1", ADAPTERS[adapter]))
}

/// Hops to each switch from the nearer of some ports, by the cables alone.
fn distances(subnet: &Subnet, ports: &[PortIndex]) -> BTreeMap<NodeIndex, usize> {
    let topology = &subnet.topology;
    let mut found = BTreeMap::new();
    let mut queue: VecDeque<(PortIndex, usize)> = ports.iter().map(|&port| (port, 1)).collect();
    while let Some((port, hops)) = queue.pop_front() {
        let Some(peer) = topology.peer(port) else { continue };
        let node = topology.port(peer).node;
        if topology.is_switch(node) && !found.contains_key(&node) {
            found.insert(node, hops);
            queue.extend(topology.cables(node).map(|(out, _)| (out, hops + 1)));
        }
    }
    found
}

/// The switches that were asked, by which local port, and how many hops away.
fn asked(subnet: &Subnet, ports: &[PortIndex]) -> BTreeMap<NodeIndex, (LocalPort, usize)> {
    let topology = &subnet.topology;
    let end = |(local, path): &(LocalPort, Vec<u8>)| {
        let mut node = topology.port(ports[local.0 as usize]).node;
        for &out in path {
            node = topology.port(topology.peer(topology.port_of(node, PortNum(out))?)?).node;
        }
        topology.is_switch(node).then_some((node, (*local, path.len())))
    };
    subnet.seats[0].routes.iter().filter_map(end).collect()
}

#[test]
fn statement_04_each_switch_is_reached_from_the_nearer_port() {
    let (mut site, ports) = site(config);
    site.seats[0].routes.clear();
    site.run(Time::secs(12));
    let (asked, distances) = (asked(&site, &ports), distances(&site, &ports));
    assert_eq!(asked.len(), site.topology.switches().count(), "a light sweep asks every switch");
    for (switch, (local, hops)) in &asked {
        assert_eq!(Some(hops), distances.get(switch), "{local:?}");
    }
    let by = |n: u32| asked.values().filter(|(local, _)| *local == LocalPort(n)).count();
    assert!(by(0) > 0 && by(1) > 0, "one port alone is used");
}

#[test]
fn statement_04_the_manager_moves_over_when_its_port_dies_and_stays_master() {
    let (mut site, ports) = site(config);
    let address = |site: &Subnet| site.seats[0].manager.view().unwrap().manager();
    let first = address(&site);
    (0..2).for_each(|n| drop(site.told(n)));
    for (cut, seat) in [(0, 1), (1, 0)] {
        site.strike(Fault::Cut(ports[cut]));
        site.run(Time::secs(8));
        site.check_but(0, &[no_cable(cut)]);
        assert_eq!(site.seats[0].manager.seat(), LocalPort(seat));
        site.strike(Fault::Restore(ports[cut]));
        site.run(Time::secs(12));
        site.check(0);
        assert_eq!(
            site.seats[0].manager.seat(),
            LocalPort(seat),
            "a link that comes back moves nothing"
        );
        assert_eq!(address(&site) == first, seat == 0);
    }
    for n in 0..2 {
        assert_eq!(site.told(n), [], "no election, and no other master meanwhile");
    }
}

/// Cut at both, it is followed by the standby; so it is where one port is bad and all of the standby's are good.
#[test]
fn statement_04_another_manager_follows_where_the_order_says_so() {
    let electing = |priority| Config { election: Some(8), ..config(priority) };
    for (configure, cuts) in [(config as fn(u8) -> Config, 2), (electing as fn(u8) -> Config, 1)] {
        let (mut site, ports) = site(configure);
        ports.iter().take(cuts).for_each(|&port| site.strike(Fault::Cut(port)));
        site.run(Time::secs(20));
        assert_eq!(site.states()[1], SmState::Master, "{cuts} cut");
        if cuts == 1 {
            site.check(1);
        }
    }
}

/// From the first question on: what one port cannot reach the other one does.
#[test]
fn statement_04_a_manager_begins_at_whichever_port_has_a_link() {
    let mut subnet = Subnet::new("clos:6,3,4");
    let ports = ADAPTERS.map(|host| port(&subnet.topology, host, 1));
    subnet.seat_at(&ports, config(5));
    subnet.strike(Fault::Cut(ports[0]));
    subnet.start(0);
    subnet.run(Time::secs(8));
    subnet.check_but(0, &[no_cable(0)]);
    assert_eq!(subnet.seats[0].manager.seat(), LocalPort(1));
    subnet.strike(Fault::Restore(ports[0]));
    let now = subnet.now();
    subnet.seats[0].manager.handle(Event::Resweep, now);
    subnet.run(Time::secs(3));
    subnet.check(0);
}

/// How long a manager at whose port a cable is cut goes on sitting there.
fn sits_on(phase: Time, says: bool) -> Time {
    let (mut site, ports) = site(config);
    site.run(phase);
    site.strike(Fault::Cut(ports[0]));
    let cut = site.now();
    if says {
        site.seats[0].manager.handle(Event::PortChanged, cut);
    }
    while site.seats[0].manager.seat() == LocalPort(0) {
        assert!(site.now() < cut + Time::secs(2), "it stays where it is");
        site.run(Time::micros(20));
    }
    site.now() - cut
}

#[test]
fn statement_08_a_port_is_asked_by_a_timer_and_at_once_when_the_adapter_speaks() {
    for (says, most) in [(false, Time::millis(251)), (true, Time::millis(11))] {
        let mut after: Vec<Time> =
            (0..20).map(|n| sits_on(Time::micros(13_100 * n), says)).collect();
        after.sort_unstable();
        println!(
            "with events {says}: it sits elsewhere {:?} (median), {:?} (most) after the cut",
            after[10], after[19]
        );
        assert!(after[19] < most, "{after:?}");
        assert!(says || after[10] > Time::millis(50), "{after:?}");
    }
}

/// However often an adapter speaks, ports are asked every 10 ms at most; and what they are at last is known.
#[test]
fn statement_08_a_port_that_flaps_is_asked_a_bounded_number_of_times() {
    let (mut site, ports) = site(config);
    // No look at the fabric is due for some seconds.
    site.run(Time::secs(3));
    let asked = |site: &Subnet| site.seats[0].sent[&(PortInfo::ID, Method::Get)];
    let speak = |site: &mut Subnet| {
        let now = site.now();
        site.seats[0].manager.handle(Event::PortChanged, now);
        site.run(Time::micros(100));
    };
    let before = asked(&site);
    (0..1_000).for_each(|_| speak(&mut site));
    let asked = asked(&site) - before;
    assert!((12..=24).contains(&asked), "{asked} questions to two ports in 100 ms");
    for n in 0..101 {
        site.strike(if n % 2 == 0 { Fault::Cut(ports[0]) } else { Fault::Restore(ports[0]) });
        speak(&mut site);
    }
    site.run(Time::millis(11));
    assert_eq!(site.seats[0].manager.seat(), LocalPort(1), "it ends without a link");
}
