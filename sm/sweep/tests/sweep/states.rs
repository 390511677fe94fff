//! Every state that tables pass through while they are repaired.
//!
//! `SNIN_REPAIRS` says how many fabrics are damaged (a few by default), `SNIN_SEED` where they begin.

use std::collections::BTreeSet;

use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_emulator::{Config as Hardware, Fault, Noise};
use snin_fabric::{NodeIndex, PortIndex, Topology};
use snin_protocol::Time;

use crate::support::{Lab, config, fabric, for_seeds};

const FABRICS: [&str; 9] = [
    "clos:4,3,2",
    "clos:6,4,3",
    "clos:5,3,2,2",
    "fattree:4",
    "fattree:4,3",
    "fattree:6,3",
    "pods:2,2,4,4,1,2",
    "torus:3,3,1",
    "random:10,4,1,2",
];

/// Cables between switches.
fn trunks(topology: &Topology) -> Vec<PortIndex> {
    let trunk = |port: &PortIndex| {
        let switch = |port: PortIndex| topology.is_switch(topology.port(port).node);
        topology.peer(*port).is_some_and(|peer| *port < peer && switch(*port) && switch(peer))
    };
    topology.ports().filter(trunk).collect()
}

/// Whether cables no longer join all switches: what is apart from the manager is no part of its subnet.
fn parts(topology: &Topology, cut: &[PortIndex]) -> bool {
    let left = topology.without_cables(cut);
    let mut met = BTreeSet::from([NodeIndex(0)]);
    let mut next = vec![NodeIndex(0)];
    while let Some(switch) = next.pop() {
        next.extend(
            left.switch_links(switch).map(|(_, peer)| peer).filter(|&peer| met.insert(peer)),
        );
    }
    met.len() < left.switch_count()
}

/// Cuts, restores and reboots one after the other, sometimes before the last one is dealt with; agents take
/// their time at random. Every state of the tables is looked at.
fn repairs(seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let whole = fabric(FABRICS.choose(&mut random).unwrap());
    // Some cables were never there.
    let absent = random.random_range(0..3);
    let absent: Vec<PortIndex> = trunks(&whole).into_iter().sample(&mut random, absent);
    let topology = if parts(&whole, &absent) { whole } else { whole.without_cables(&absent) };
    // Answers overtake each other.
    let noise = Noise { reorder: 200_000, ..Noise::NONE };
    let hardware = Hardware { seed, noise, ..Hardware::default() };
    let mut lab = Lab::of(topology.clone(), hardware, config(random.random_range(0..3)));
    lab.bring_up();
    lab.check();
    let checked = lab.watch();
    let written = lab.sweep.metrics().blocks_written;
    let trunks = trunks(&topology);
    let mut cut: Vec<PortIndex> = Vec::new();
    for _ in 0..random.random_range(1..6) {
        let fault = match random.random_range(0..10) {
            0 => {
                let switches: Vec<NodeIndex> = topology.switches().collect();
                Fault::Reboot(*switches.choose(&mut random).unwrap(), Time::millis(20))
            }
            1..=6 => {
                let cable = *trunks.choose(&mut random).unwrap();
                cut.push(cable);
                if parts(&topology, &cut) {
                    cut.pop();
                    continue;
                }
                Fault::Cut(cable)
            }
            _ if cut.is_empty() => continue,
            _ => Fault::Restore(cut.remove(random.random_range(0..cut.len()))),
        };
        lab.strike(fault);
        lab.run(Time::micros(random.random_range(0..60_000)));
    }
    lab.run(Time::secs(30));
    lab.settle();
    lab.check();
    let written = lab.sweep.metrics().blocks_written - written;
    assert!(written == 0 || *checked.borrow() > 0, "{written} blocks written, no state looked at");
}

#[test]
fn no_state_on_the_way_has_a_loop() {
    for_seeds("SNIN_REPAIRS", 3_000, repairs);
}
