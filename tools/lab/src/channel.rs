//! The way of control messages: they take their time, and some never come.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_protocol::Time;

/// Parts of a million.
const WHOLE: u32 = 1_000_000;

/// See the module's documentation.
#[derive(Debug)]
pub struct Channel {
    latency: Time,
    loss: u32,
    chance: ChaCha8Rng,
    sent: u64,
    lost: u64,
}

impl Channel {
    /// A message takes from half of `latency` to one and a half of it; of a million, `loss` are lost.
    pub fn new(latency: Time, loss: u32, seed: u64) -> Self {
        let chance = ChaCha8Rng::seed_from_u64(seed);
        Self { latency, loss, chance, sent: 0, lost: 0 }
    }

    /// How long the next one takes, if it comes.
    pub fn carry(&mut self) -> Option<Time> {
        self.sent += 1;
        let lost = self.loss > 0 && self.chance.random_range(0..WHOLE) < self.loss;
        self.lost += u64::from(lost);
        (!lost).then(|| self.delay())
    }

    /// How long one takes that is sent until it comes, as on a stream.
    pub fn delay(&mut self) -> Time {
        let most = self.latency.nanos();
        self.latency / 2 + Time(self.chance.random_range(0..=most))
    }

    /// Messages sent, and those of them that were lost.
    pub const fn counted(&self) -> (u64, u64) {
        (self.sent, self.lost)
    }
}
