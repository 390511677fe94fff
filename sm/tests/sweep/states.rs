//! Every state that tables pass through while they are repaired.

use proptest::prelude::*;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_emulator::{Config as Hardware, Fault, Noise};
use snin_fabric::{NodeIndex, PortIndex, Topology};
use snin_protocol::Time;

use crate::lab::{Lab, config, fabric};

const FABRICS: [&str; 6] =
    ["clos:4,3,2", "clos:6,4,3", "clos:5,3,2,2", "fattree:4", "fattree:4,3", "fattree:6,3"];

/// Cables between switches.
fn trunks(topology: &Topology) -> Vec<PortIndex> {
    let trunk = |port: &PortIndex| {
        let switch = |port: PortIndex| topology.is_switch(topology.port(port).node);
        topology.peer(*port).is_some_and(|peer| *port < peer && switch(*port) && switch(peer))
    };
    topology.ports().filter(trunk).collect()
}

/// Cuts, restores and reboots one after the other, sometimes before the last one is dealt with; agents take
/// their time at random. Every state of the tables is looked at.
fn repairs(recipe: &str, lmc: u8, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let topology = fabric(recipe);
    // Answers overtake each other.
    let noise = Noise { reorder: 200_000, ..Noise::NONE };
    let hardware = Hardware { seed, noise, ..Hardware::default() };
    let mut lab = Lab::of(topology.clone(), hardware, config(lmc));
    lab.bring_up();
    lab.check();
    let checked = lab.watch();
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
                Fault::Cut(cable)
            }
            _ if cut.is_empty() => continue,
            _ => Fault::Restore(cut.remove(random.random_range(0..cut.len()))),
        };
        println!(
            "{} {fault:?} {:?}",
            lab.now(),
            match &fault {
                Fault::Cut(p) | Fault::Restore(p) => format!(
                    "{} - {}",
                    topology.port_name(*p),
                    topology.port_name(topology.peer(*p).unwrap())
                ),
                _ => String::new(),
            }
        );
        lab.strike(fault);
        lab.run(Time::micros(random.random_range(0..60_000)));
    }
    lab.run(Time::secs(30));
    lab.settle();
    println!("{:?} {:?} {:?}", lab.missing(), lab.reports.last(), lab.sweep.metrics());
    lab.check();
    println!(
        "{recipe} LMC {lmc} seed {seed}: {} states, {:?}",
        checked.borrow(),
        lab.sweep.metrics().blocks_rewritten
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_state_on_the_way_has_a_loop(fabric in 0..FABRICS.len(), lmc in 0u8..3, seed: u64) {
        repairs(FABRICS[fabric], lmc, seed);
    }
}

#[test]
fn replay() {
    let Ok(text) = std::env::var("REPLAY") else { return };
    let n: Vec<u64> = text.split(',').map(|n| n.parse().unwrap()).collect();
    repairs(FABRICS[n[0] as usize], n[1] as u8, n[2]);
}
