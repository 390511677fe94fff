//! A fabric of simulated agents around the controller's core, a network that loses, doubles and overtakes,
//! and a checker that watches every link at every instant and shares nothing with the core.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this")]

pub mod agent;
pub mod checker;
pub mod fabric;
pub mod found;
pub mod life;
pub mod orders;
pub mod world;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use snin_protocol::Time;

pub fn between(rng: &mut ChaCha8Rng, least: Time, most: Time) -> Time {
    Time(rng.random_range(least.0..=most.0))
}
