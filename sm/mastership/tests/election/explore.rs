//! Everything that can happen to three managers in a number of steps, and long random runs.

use std::collections::HashSet;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_protocol::Time;

use super::net::{Net, Planted, Step};

/// Steps from the cold start, and from a fabric that has its master: SNIN_ELECTION_DEPTH in a soak.
const DEPTH: usize = 3;
/// Random runs: SNIN_ELECTION_RUNS in a soak.
const RUNS: u64 = 2000;

fn number(name: &str, standard: u64) -> u64 {
    std::env::var(name).map_or(standard, |text| text.parse().expect("a number"))
}

fn depth() -> usize {
    number("SNIN_ELECTION_DEPTH", DEPTH as u64) as usize
}

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
    assert!(explore(Net::new(), depth()) > 100);
}

#[test]
fn one_master_remains_after_every_short_trouble() {
    let mut net = Net::new();
    net.calm(Time::secs(6));
    assert!(explore(net, depth()) > 50);
}

fn random_run(seed: u64, planted: Planted) -> Result<(), String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut net = Net { planted, ..Net::new() };
    for _ in 0..60 {
        let steps = net.steps();
        net.step(steps[random.random_range(0..steps.len())]);
    }
    net.judge()
}

#[test]
fn after_random_losses_crashes_and_flaps_one_master_remains() {
    for seed in 0..number("SNIN_ELECTION_RUNS", RUNS) {
        random_run(seed, Planted::Nothing).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

#[test]
fn planted_bugs_are_found() {
    use Planted::{HiddenMaster, NoCede, NoPriority, OtherOrder};
    for planted in [NoCede, HiddenMaster, OtherOrder, NoPriority] {
        let found = (0..500).find(|&seed| {
            std::panic::catch_unwind(|| random_run(seed, planted))
                .map_or(true, |judged| judged.is_err())
        });
        assert!(found.is_some(), "{planted:?} is not noticed");
    }
}
