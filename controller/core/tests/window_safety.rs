//! No directed link ever has two owners: agents with skewed clocks, a network that loses, doubles and
//! overtakes, agents that crash, controllers that take over, cables that are cut, for thousands of seeds.
//! And what would break that is found.

mod window_support;

use std::hash::Hasher;

use snin_protocol::Time;
use window_support::fabric::Fabric;
use window_support::life::Life;
use window_support::world::World;

const RECIPES: [&str; 7] = [
    "clos:3,3,3",
    "clos:4,2,2",
    "clos:3,3,2",
    "clos:2,2,3,2",
    "fattree:4",
    "clos:5,3,3",
    "pods:2,2,2,2,2,1",
];

fn lived(recipe: &str, life: Life, seed: u64, windows: u64) -> World {
    let mut world = World::new(Fabric::generated(recipe), life, seed);
    world.run(windows);
    world
}

/// Lives through so many seeds; how often grants began, and how many moves, pauses, cuts and takeovers
/// there were.
fn nobody_clashes(life: &Life, seeds: u64) -> [u64; 5] {
    let mut seen = [0; 5];
    for seed in 0..seeds {
        let recipe = RECIPES[seed as usize % RECIPES.len()];
        let world = lived(recipe, life.clone(), seed, 40);
        assert_eq!(world.checker.clashes.first(), None, "{recipe}, seed {seed}");
        let metrics = world.core.metrics();
        assert_eq!(metrics.certificate_failures, 0, "{recipe}, seed {seed}");
        let counts =
            [world.checker.starts, metrics.moved, metrics.paused, world.cuts, world.takeovers];
        seen.iter_mut().zip(counts).for_each(|(seen, count)| *seen += count);
    }
    seen
}

#[test]
fn no_link_ever_has_two_owners() {
    let seeds = seeds();
    let [starts, moved, _, cuts, takeovers] = nobody_clashes(&Life::hard(), seeds);
    // Life was as hard as it was meant to be.
    assert!(starts > seeds * 30 && cuts > seeds && takeovers > seeds / 4);
    assert!(moved > seeds / 10, "{moved} moved");
}

#[test]
fn no_link_has_two_owners_while_chains_are_turned_over() {
    let seeds = seeds();
    let [starts, moved, paused, ..] = nobody_clashes(&Life::crowded(), seeds);
    assert!(starts > seeds * 10 && moved > seeds && paused > seeds / 4, "{moved} {paused}");
}

/// A thousand, or as many as one likes to wait for.
fn seeds() -> u64 {
    std::env::var("SNIN_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1_000)
}

/// The seeds of `life` in which the checker saw two owners.
fn found(life: &Life) -> usize {
    let clashes = |seed: u64| {
        let recipe = RECIPES[seed as usize % RECIPES.len()];
        !lived(recipe, life.clone(), seed, 40).checker.clashes.is_empty()
    };
    (0..60).filter(|&seed| clashes(seed)).count()
}

#[test]
fn clocks_beyond_what_was_stated_are_found() {
    let mut life = Life::hard();
    life.skew = life.config.clock_error * 4;
    assert!(found(&life) > 20);
}

#[test]
fn no_guard_is_found() {
    let mut life = Life::hard();
    // The configuration believes in perfect clocks and no way to go; they are as they were.
    (life.config.clock_error, life.config.drain) = (Time::ZERO, Time::ZERO);
    life.config.guard = Time::ZERO;
    assert!(found(&life) > 20);
}

#[test]
fn confirmations_before_links_are_clear_are_found() {
    let mut life = Life { hasty: true, ..Life::hard() };
    life.drain = Time::micros(300);
    life.config.drain = life.drain;
    life.config.guard = life.config.clock_error + life.drain;
    assert!(found(&life) > 3);
}

#[test]
fn links_given_anew_without_a_confirmation_are_found() {
    let life = Life { forged: true, ..Life::crowded() };
    assert!(found(&life) > 20);
}

#[test]
fn the_same_seed_gives_the_same_outputs() {
    for seed in 0..20 {
        let hash = || lived("clos:3,3,3", Life::hard(), seed, 40).hash.finish();
        assert_eq!(hash(), hash(), "seed {seed}");
    }
    let other = |seed| lived("clos:3,3,3", Life::hard(), seed, 40).hash.finish();
    assert_ne!(other(1), other(2));
}
