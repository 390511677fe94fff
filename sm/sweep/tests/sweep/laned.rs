//! Routes in lanes while cables are cut and restored: after every write, links of no lane wait for each other in a
//! circle, by the service levels that programs had and by those that they get.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_emulator::{Config as Hardware, Fault, Noise};
use snin_fabric::routing::Engine;
use snin_fabric::{
    Addresses, ForwardingTable, Guid, NodeIndex, NodeKind, PortIndex, PortNum, Topology,
};
use snin_mad::PortState;
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sweep::{FabricView, Report};

use crate::circles::{Waits, has_a_circle};
use crate::support::{Lab, fabric, for_seeds};

/// Tables after a write, over the cables that were up then.
struct Snapshot {
    live: Topology,
    addresses: Addresses,
    tables: Vec<ForwardingTable>,
}

/// By GUIDs of two switches: the level of what is sent from one to the other.
type Levels = BTreeMap<(Guid, Guid), u8>;

fn levels(view: &FabricView) -> Levels {
    let (topology, mut levels) = (view.topology(), Levels::new());
    for one in topology.switches() {
        for other in topology.switches() {
            let level = view.routing().lanes.as_ref().map_or(0, |lanes| lanes.of(one, other));
            let _ = levels.insert((topology.node(one).guid, topology.node(other).guid), level);
        }
    }
    levels
}

impl Snapshot {
    /// Links that a packet takes until it arrives or is dropped.
    fn walk(&self, from: NodeIndex, lid: snin_fabric::Lid) -> (Vec<PortIndex>, PortIndex) {
        let (mut at, mut way) = (from, Vec::new());
        loop {
            assert!(way.len() < 64, "{lid:?} goes in a circle");
            let port = self.tables[at.index()].get(lid);
            let out = self.live.port_of(at, port).filter(|_| port != PortNum::ZERO);
            let Some((out, peer)) = out.and_then(|out| Some((out, self.live.peer(out)?))) else {
                return (way, self.live.port0(at));
            };
            let next = self.live.port(peer).node;
            if !self.live.is_switch(next) {
                return (way, peer);
            }
            way.push(out);
            at = next;
        }
    }

    /// Host ports with their switches.
    fn hosts(&self) -> Vec<(PortIndex, NodeIndex)> {
        let live = &self.live;
        let is_host = |port: &PortIndex| live.node(live.port(*port).node).kind == NodeKind::Adapter;
        let at = |port: PortIndex| Some((port, live.peer_node(port)?));
        live.ports().filter(is_host).filter_map(at).collect()
    }

    /// A lane with a circle, by these levels; else how many pairs of host and switch do not arrive.
    fn lost_or_entangled(&self, levels: &Levels) -> Result<usize, u8> {
        let (mut waits, mut lost) = (BTreeMap::<u8, Waits>::new(), 0);
        let hosts = self.hosts();
        let sources: BTreeSet<NodeIndex> = hosts.iter().map(|&(_, switch)| switch).collect();
        for &(port, to) in &hosts {
            for lid in self.addresses.of(port) {
                for &from in &sources {
                    let (way, end) = self.walk(from, lid);
                    lost += usize::from(end != port);
                    let guid = |switch| self.live.node(switch).guid;
                    let level = levels.get(&(guid(from), guid(to))).copied().unwrap_or(0);
                    let lane = waits.entry(level).or_default();
                    for pair in way.windows(2) {
                        lane.entry(pair[0]).or_default().insert(pair[1]);
                    }
                }
            }
        }
        let entangled = waits.into_iter().find(|(_, waits)| has_a_circle(waits.clone()));
        entangled.map_or(Ok(lost), |(lane, _)| Err(lane))
    }
}

fn record(lab: &mut Lab) -> Rc<RefCell<Vec<Snapshot>>> {
    let states = Rc::new(RefCell::new(Vec::new()));
    let kept = states.clone();
    lab.emulator.watch(move |fabric, write| {
        if [0x12, 0x19].contains(&write.attribute.0)
            && let Ok(addresses) = fabric.addresses()
        {
            let (live, tables) = (fabric.live_topology(), fabric.tables());
            // No packet passes a link before it is ACTIVE.
            let is_idle = |port: &PortIndex| {
                let both = [Some(*port), live.peer(*port)].into_iter().flatten();
                both.map(|port| fabric.port_state(port)).any(|it| it != PortState::Active)
            };
            let live = live.without_cables(&live.ports().filter(is_idle).collect::<Vec<_>>());
            kept.borrow_mut().push(Snapshot { live, addresses, tables });
        }
    });
    states
}

/// Cables between switches.
fn trunks(topology: &Topology) -> Vec<PortIndex> {
    let is_switch = |port: PortIndex| topology.is_switch(topology.port(port).node);
    let is_trunk = |port: &PortIndex| {
        let peer = topology.peer(*port);
        peer.is_some_and(|peer| *port < peer && is_switch(*port) && is_switch(peer))
    };
    topology.ports().filter(is_trunk).collect()
}

/// Whether cables join all switches.
fn is_joined(topology: &Topology) -> bool {
    let mut met = BTreeSet::new();
    let mut next: Vec<NodeIndex> = topology.switches().take(1).collect();
    while let Some(switch) = next.pop() {
        if met.insert(switch) {
            next.extend(topology.switch_links(switch).map(|(_, peer)| peer));
        }
    }
    met.len() == topology.switch_count()
}

/// What came of some changes.
#[derive(Default, Debug)]
struct Tally {
    /// Writes after which tables were looked at, and how many of them were made before the one before was done.
    states: usize,
    hurried: usize,
    /// Changes after which lanes did not suffice.
    up_down: usize,
    /// Pairs of switches with another level.
    relevelled: usize,
    /// Blocks that were written with entries dropped.
    rewritten: u64,
}

/// Cables are cut and come back, sometimes before the last change is dealt with; answers overtake each other.
fn changes(recipe: &str, (engine, lanes): (Engine, u8), seed: u64, tally: &mut Tally) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let topology = fabric(recipe);
    let noise = Noise { reorder: 200_000, ..Noise::NONE };
    let hardware = Hardware { seed, noise, ..Hardware::default() };
    let (lmc, max_op_vls) = (Some(0), lanes);
    let config = Config { lmc, routing: engine, max_op_vls, ..Config::default() };
    let mut lab = Lab::of(topology.clone(), hardware, config);
    lab.bring_up();
    let states = record(&mut lab);
    let trunks = trunks(&topology);
    let mut cut: Vec<PortIndex> = Vec::new();
    for change in 0..6 {
        let name = format!("{recipe} by {engine}, seed {seed}, change {change}");
        let before = levels(lab.view());
        let asked = asked(&lab);
        lab.reports.clear();
        let is_hurried = random.random_bool(0.3);
        for _ in 0..=usize::from(is_hurried) {
            let fault = match cut.is_empty() || random.random_bool(0.6) {
                true => {
                    let joins = |it: &&PortIndex| {
                        let without: Vec<PortIndex> = cut.iter().copied().chain([**it]).collect();
                        is_joined(&topology.without_cables(&without))
                    };
                    let others = trunks.iter().filter(|it| !cut.contains(it)).filter(joins);
                    let cable = *others.choose(&mut random).unwrap();
                    cut.push(cable);
                    Fault::Cut(cable)
                }
                false => Fault::Restore(cut.remove(random.random_range(0..cut.len()))),
            };
            lab.strike(fault);
            lab.run(Time::micros(random.random_range(0..60_000)));
        }
        lab.run(Time::secs(1));
        lab.settle();
        tally.up_down += usize::from(lab.view().routing().engine != engine);
        let after = levels(lab.view());
        let changed = before.iter().filter(|(pair, level)| after[*pair] != **level).count() / 2;
        let states = std::mem::take(&mut *states.borrow_mut());
        let views = lab.views.drain(..).map(|(view, ..)| levels(&view));
        let mut told_levels = vec![before.clone()];
        for levels in views {
            if !told_levels.contains(&levels) {
                told_levels.push(levels);
            }
        }
        for held in &states {
            // A pair with another level cannot keep the former one, and that is said. Until its entries drop it
            // has the former level, from then on the new one.
            let is_well = |levels| held.lost_or_entangled(levels).is_ok();
            assert!(told_levels.iter().any(is_well), "{name}, {changed} pairs have another level");
        }
        if let Some(last) = states.last() {
            assert_eq!(last.lost_or_entangled(&after), Ok(0), "{name}");
        }
        lab.check_held();
        let is_said = |it: &Report| matches!(it, Report::Relevelled { pairs, .. } if *pairs > 0);
        assert!(changed == 0 || lab.reports.iter().any(is_said), "{name}");
        assert!(changed == 0 || self::asked(&lab) > asked, "{name}: no host was told");
        tally.states += states.len();
        tally.hurried += if is_hurried { states.len() } else { 0 };
        tally.relevelled += changed;
    }
    tally.rewritten += lab.sweep.metrics().blocks_rewritten;
}

/// How often hosts were told to register again.
fn asked(lab: &Lab) -> u64 {
    let fabric = lab.emulator.fabric();
    lab.topology.ports().map(|port| fabric.reregistrations(port)).sum()
}

#[test]
fn no_lane_has_a_circle_after_any_write() {
    let (mut all, mut up_down) = (0, 0);
    // As `max_op_vls` counts: 2, 4 and 8 lanes.
    for (recipe, lanes) in [
        ("torus:4,4,1", 4),
        ("torus:4,4,1", 2),
        ("torus:5,4,2", 4),
        ("dragonfly:5,3,2", 3),
        ("random:20,4,2,3", 4),
        ("random:20,4,2,3", 2),
    ] {
        for engine in [Engine::Lanes, Engine::DimensionOrder] {
            let tally = RefCell::new(Tally::default());
            for_seeds("SNIN_LANED", 6, |seed| {
                changes(recipe, (engine, lanes), seed, &mut tally.borrow_mut());
            });
            println!("{recipe} by {engine}, {} lanes: {:?}", 1 << (lanes - 1), tally.borrow());
            all += tally.borrow().states;
            up_down += tally.borrow().up_down;
        }
    }
    assert!(all > 1_000 && up_down > 0, "{all} states were looked at, {up_down} changes up*/down*");
}
