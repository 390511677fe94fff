//! The cores in one virtual time: all that is sent is watched while clocks, messages and cables fail.

use snin_controller_core::config::Policy;
use snin_emulator::data::{Config, Transport};
use snin_fabric::ForwardingTable;
use snin_fabric::generate::Recipe;
use snin_fabric::traffic::{Demand, Pattern, Shape};
use snin_fabric::{Topology, ibnet};
use snin_judges::shared;
use snin_lab::event::ScenarioEvent;
use snin_lab::subnet::Subnet;
use snin_lab::world::{Setup, Window, World, WorldError};
use snin_protocol::Time;

/// Slow links, so that windows are full of few packets.
const SLOW: u64 = 2_000_000_000;

fn setup(windows: u32) -> Setup {
    Setup {
        seed: 7,
        windows,
        window: Time::millis(2),
        slice: Time::micros(200),
        hold: 1,
        skew: Time::micros(2),
        clocks: Time::micros(2),
        control_latency: Time::micros(20),
        control_loss: 10_000,
        queue_pairs: 64,
        policy: Policy::Shared,
        unmanaged: 0,
        ordinary: None,
        bounds: Vec::new(),
        transport: Transport::Uc,
        data: Config { bandwidth: Some(SLOW), ..Config::default() },
        events: Vec::new(),
    }
}

fn clos(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

fn events(texts: &[&str]) -> Vec<ScenarioEvent> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

enum Never {}

impl From<WorldError> for Never {
    fn from(error: WorldError) -> Self {
        panic!("{error}")
    }
}

fn demands(topology: &Topology, pattern: Pattern, seed: u64) -> Vec<Demand> {
    let hosts = snin_fabric::hosts::Hosts::of(topology);
    let leaf_of: Vec<u32> = hosts.iter().map(|(_, host)| host.switch.0).collect();
    pattern.generate(Shape { leaf_of: &leaf_of, uplinks: 4 }, seed).unwrap()
}

fn world(setup: Setup, topology: &Topology) -> World<'_> {
    world_that_waits(200, setup, topology)
}

/// The manager leaves tables alone for so many milliseconds, unless the controller says that it need not.
fn world_that_waits(clear_wait_ms: u32, setup: Setup, topology: &Topology) -> World<'_> {
    let hardware = snin_emulator::Config { seed: 1, ..snin_emulator::Config::default() };
    let config = snin_sm_database::config::Config {
        clear_wait_ms,
        ..snin_sm_database::config::Config::default()
    };
    let mut subnet = Subnet::new(topology, hardware, config).unwrap();
    subnet.bring_up(Time::secs(10));
    World::new(setup, topology, subnet).unwrap()
}

fn run(world: &mut World<'_>, topology: &Topology, pattern: Pattern) -> Vec<Window> {
    let mut windows = Vec::new();
    let mut ask = |seed: usize| Ok::<_, Never>(demands(topology, pattern, seed as u64));
    while let Ok(Some(_)) = world.begin_window(&mut ask) {
        windows.push(world.end_window());
    }
    windows
}

fn goodput(window: &Window) -> f64 {
    window.granted.in_time as f64 / window.granted.possible.max(1) as f64
}

#[test]
fn windows_full_to_the_guard_have_no_link_with_two_owners() {
    // Every host to every other, and each window sends until its guard: the next sender follows closely.
    let topology = clos("clos:4,4,4");
    for (seed, transport) in [(1, Transport::Uc), (2, Transport::Rc), (3, Transport::Uc)] {
        let setup = Setup { seed, transport, slice: Time::millis(2), ..setup(15) };
        let mut world = world(setup, &topology);
        let windows = run(&mut world, &topology, Pattern::AllToAll);
        let watch = world.wire().watch();
        assert_eq!(watch.clashes(), 0, "seed {seed}: {:?}", watch.named());
        assert!(watch.transmissions() > 50_000, "{}", watch.transmissions());
        assert_eq!(world.totals().max_link_load, 1);
        let sent: usize = windows.iter().map(|window| window.granted.sent.len()).sum();
        assert!(sent > 200, "{sent} of 240 messages");
        assert!(windows.iter().all(|window| goodput(window) > 0.99));
        let (said, lost) = world.totals().control;
        assert!(lost > said / 300 && lost < said / 30, "{lost} of {said}");
    }
}

#[test]
fn agents_with_few_queue_pairs_make_room_before_the_window_begins() {
    // Random patterns bring new peers and trees for long: 16 hosts, 15 others each, 4 trees.
    let topology = clos("clos:4,4,4");
    for (queue_pairs, transport) in [(2, Transport::Uc), (2, Transport::Rc), (16, Transport::Uc)] {
        let setup = Setup { queue_pairs, transport, control_loss: 0, ..setup(40) };
        let mut world = world(setup, &topology);
        let windows = run(&mut world, &topology, Pattern::Permutation);
        assert_eq!(windows.len(), 40);
        for window in &windows {
            let (number, goodput) = (window.number, goodput(window));
            assert_eq!(window.granted.sent.len(), 16, "{queue_pairs} queue pairs, window {number}");
            assert!(goodput > 0.999, "{queue_pairs} queue pairs, window {number}: {goodput}");
        }
    }
}

#[test]
fn clocks_that_are_further_off_than_is_said_are_found_out() {
    // A planted bug: 60 us, where 2 are said, and messages too slow for agents to notice.
    let topology = clos("clos:4,4,4");
    let (window, slice) = (Time::millis(8), Time::millis(8));
    let (clocks, control_latency) = (Time::micros(60), Time::micros(200));
    let planted = Setup { clocks, control_latency, window, slice, ..setup(6) };
    let mut world = world(planted, &topology);
    run(&mut world, &topology, Pattern::AllToAll);
    assert!(world.wire().watch().clashes() > 0);
}

#[test]
fn what_a_window_sends_is_known_when_all_have_begun_and_who_begins_late_is_in_it_when_it_is_over() {
    let topology = clos("clos:4,4,4");
    let counts = |setup: Setup| {
        let mut world = world(setup, &topology);
        let mut ask =
            |seed: usize| Ok::<_, Never>(demands(&topology, Pattern::Permutation, seed as u64));
        let mut counts = Vec::new();
        while let Ok(Some(begun)) = world.begin_window(&mut ask) {
            let over = world.end_window().sending();
            assert_eq!(begun.number, over.number);
            assert!(over.sent.starts_with(&begun.sent), "{begun:?} {over:?}");
            counts.push((begun.sent.len(), over.sent.len()));
        }
        counts
    };
    for transport in [Transport::Uc, Transport::Rc] {
        assert_eq!(counts(Setup { transport, control_loss: 0, ..setup(8) }), [(16, 16); 8]);
    }
    let control_latency = Time::micros(200);
    let late = Setup { clocks: Time::micros(60), control_latency, control_loss: 0, ..setup(8) };
    let late = counts(late);
    assert!(late.iter().any(|(begun, over)| begun < over), "{late:?}");
}

#[test]
fn a_table_that_leads_elsewhere_is_found_out() {
    // Another planted bug: a leaf sends everything up the same cable.
    let topology = clos("clos:4,4,4");
    let mut world = world(setup(1), &topology);
    let leaf = topology.switches().find(|&s| &*topology.node(s).name == "leaf1").unwrap();
    let up = topology.switch_links(leaf).next().unwrap().0;
    let right = world.tables()[leaf.index()].clone();
    let ups: Vec<_> = topology.switch_links(leaf).map(|(port, _)| port.0).collect();
    let bent = right.entries().map(|port| if ups.contains(&port) { up.0 } else { port });
    let table = ForwardingTable::of_entries(&bent.collect::<Vec<u8>>());
    world.wire_mut().set_table(leaf, &table);
    run(&mut world, &topology, Pattern::Shift(5));
    assert!(world.wire().watch().clashes() > 0);
}

#[test]
fn traffic_moves_in_the_window_after_a_cut_and_back_in_service_nobody_is_hurt() {
    let topology = clos("clos:4,4,3");
    let cut = events(&["cut leaf1/4 @window 4", "restore leaf1/4 @window 8"]);
    let setup = Setup { hold: 12, events: cut, ..setup(12) };
    let mut world = world(setup, &topology);
    let windows = run(&mut world, &topology, Pattern::Shift(3));
    let goodputs: Vec<f64> = windows.iter().map(goodput).collect();
    assert!(goodputs[3] < 0.99, "packets on the cable are lost: {goodputs:?}");
    for (number, &goodput) in goodputs.iter().enumerate().filter(|(number, _)| *number != 3) {
        assert!(goodput > 0.999, "window {}: {goodputs:?}", number + 1);
        assert_eq!(windows[number].granted.sent.len(), 12, "window {}", number + 1);
    }
    assert!(world.totals().moved > 0, "{:?}", world.totals());
    assert_eq!(world.wire().watch().clashes(), 0, "{:?}", world.wire().watch().named());
}

#[test]
fn no_table_changes_under_who_is_granted_the_way() {
    // Windows are full, so that hosts send at any time at which the manager writes; the second time it writes at
    // once. Before the first cut nothing happens for longer than it waits.
    let topology = clos("clos:4,4,4");
    let texts = ["cut leaf1/5 @window 7", "restore leaf1/5 @window 9", "cut leaf2/6 @window 10"];
    let diverted = |clear_wait_ms| {
        let (events, window, slice) = (events(&texts), Time::millis(50), Time::millis(5));
        let setup = Setup { events, window, slice, hold: 4, ..setup(12) };
        let mut world = world_that_waits(clear_wait_ms, setup, &topology);
        run(&mut world, &topology, Pattern::Permutation);
        world.totals().diverted
    };
    assert_eq!(diverted(200), 0);
    assert!(diverted(0) > 0);
}

/// Every window is full of granted packets while all of a spine's traffic is moved away and its links are
/// disabled, and when they are used again: not one is late - all that a window is for begins with it and arrives
/// in it - and none is lost.
#[test]
fn a_spine_is_phased_out_and_in_under_full_traffic_and_not_a_packet_is_late_or_lost() {
    let topology = clos("clos:4,4,3");
    let spine = topology.switches().find(|&s| &*topology.node(s).name == "spine1").unwrap();
    let events = events(&["phase-out spine1 @window 4", "phase-in spine1 @window 20"]);
    // The last test lasts a second.
    let window = Time::millis(50);
    let setup =
        Setup { hold: 50, window, slice: Time::millis(5), events, control_loss: 0, ..setup(50) };
    let mut world = world(setup, &topology);
    let windows = run(&mut world, &topology, Pattern::Shift(3));
    let by_spine = |window: &Window| {
        let ports = topology.cables(spine).map(|(port, _)| window.packets[port.index()]);
        ports.sum::<u64>()
    };
    for window in &windows {
        let (number, goodput) = (window.number + 1, goodput(window));
        assert!(goodput > 0.999, "window {number}: {goodput}, {} moved", window.report.moved);
        assert_eq!(window.granted.sent.len(), 12, "window {number}");
    }
    assert_eq!(windows.iter().filter(|window| window.report.moved > 0).count(), 2);
    assert!(by_spine(&windows[1]) > 0, "it was in use");
    assert_eq!(by_spine(&windows[15]), 0, "it was left");
    assert_eq!(by_spine(&windows[49]), by_spine(&windows[1]), "it is in use again");
    // What leaves hosts, and what comes to them.
    let [mut sent, mut arrived] = [0; 2];
    for port in topology.ports() {
        let Some(peer) = topology.peer_node(port) else { continue };
        let packets = windows.iter().map(|window| window.packets[port.index()]).sum::<u64>();
        if !topology.is_switch(topology.port(port).node) {
            sent += packets;
        } else if !topology.is_switch(peer) {
            arrived += packets;
        }
    }
    assert!(sent > 0 && sent == arrived, "{sent} {arrived}");
    let watch = world.wire().watch();
    assert_eq!(watch.clashes(), 0, "{:?}", watch.named());
    assert_eq!(world.totals().diverted, 0);
    assert!(world.down().is_empty(), "it is back: {:?}", world.down());
}

#[test]
fn the_real_dgx_fabric_is_cut_and_restored_in_mid_run() {
    let Some((_, text)) = shared("topologies/dgx-gb200-2025.ibnetdiscover") else {
        return;
    };
    let topology = ibnet::parse(&text).unwrap();
    // A cable of each of two leaves, as the fabric itself names them.
    let trunks: Vec<String> = topology
        .switches()
        .filter(|&switch| {
            topology.cables(switch).any(|(_, far)| !topology.is_switch(topology.port(far).node))
        })
        .filter_map(|leaf| {
            let (port, _) = topology.switch_links(leaf).next()?;
            Some(format!("{}/{port}", topology.node(leaf).guid))
        })
        .take(2)
        .collect();
    let texts = [
        format!("cut {} @window 3", trunks[0]),
        format!("cut {} @window 4", trunks[1]),
        format!("restore {} @window 6", trunks[0]),
    ];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let setup = Setup {
        hold: 8,
        slice: Time::micros(60),
        events: events(&texts),
        data: Config { bandwidth: Some(10_000_000_000), ..Config::default() },
        window: Time::millis(16),
        ..setup(8)
    };
    let mut world = world(setup, &topology);
    let windows = run(&mut world, &topology, Pattern::Permutation);
    assert_eq!(windows.len(), 8);
    let sent: Vec<usize> = windows.iter().map(|window| window.granted.sent.len()).collect();
    let first = sent[0];
    assert!(first > 500 && sent.iter().all(|&sent| sent * 10 >= first * 9), "{sent:?}");
    assert_eq!(world.wire().watch().clashes(), 0, "{:?}", world.wire().watch().named());
    assert_eq!(world.totals().max_link_load, 1);
    assert_eq!(world.totals().diverted, 0);
    assert_eq!(world.totals().certificates_failed, 0);
}
