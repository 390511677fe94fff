//! Everything that can happen to three managers in a number of steps, and long random runs.

use std::collections::HashSet;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_protocol::Time;

use super::net::{Net, Step};

/// Steps from the cold start, and from a fabric that has its master.
const DEPTH: usize = 2;
const RUNS: u64 = 3000;

fn explore(net: Net, depth: usize) -> usize {
    let mut seen = HashSet::new();
    let mut now = vec![(net, Vec::<Step>::new())];
    for _ in 0..=depth {
        let mut next = Vec::new();
        for (net, path) in now {
            if !seen.insert(net.clone()) {
                continue;
            }
            net.judge().unwrap_or_else(|wrong| panic!("after {path:?}: {wrong}"));
            for step in net.steps() {
                let mut after = net.clone();
                after.step(step);
                next.push((after, path.iter().copied().chain([step]).collect()));
            }
        }
        now = next;
    }
    seen.len()
}

#[test]
fn one_master_remains_after_every_short_beginning() {
    assert!(explore(Net::new(), DEPTH) > 100);
}

#[test]
fn one_master_remains_after_every_short_trouble() {
    let mut net = Net::new();
    net.calm(Time::secs(6));
    assert!(explore(net, DEPTH) > 50);
}

#[test]
fn after_random_losses_crashes_and_flaps_one_master_remains() {
    for seed in 0..RUNS {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut net = Net::new();
        for _ in 0..60 {
            let steps = net.steps();
            net.step(steps[random.random_range(0..steps.len())]);
        }
        net.judge().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}
