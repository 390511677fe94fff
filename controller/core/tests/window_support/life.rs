//! What the world does to those in it.

use snin_controller_core::config::Config;
use snin_protocol::Time;

/// How hard life is.
#[derive(Clone, Debug)]
pub struct Life {
    pub config: Config,
    /// Messages lost and doubled, in a thousand.
    pub lost: u32,
    pub doubled: u32,
    pub delay: (Time, Time),
    /// In a thousand messages, those that take up to `straggle`.
    pub stragglers: u32,
    pub straggle: Time,
    /// The furthest that clocks are off, and the longest way of a packet; the configuration may say otherwise.
    pub skew: Time,
    pub drain: Time,
    /// Per window and agent, in a thousand.
    pub crashes: u32,
    pub requests: u32,
    pub withdrawals: u32,
    /// Every port sends to one other at most and receives from one.
    pub exclusive: bool,
    /// Per window, in a thousand.
    pub cuts: u32,
    pub takeovers: u32,
    /// Planted bugs.
    pub hasty: bool,
    pub forged: bool,
    pub impatient: bool,
}

impl Life {
    /// Windows of 2 ms, so that much happens in little time.
    pub fn config() -> Config {
        let (clock_error, drain) = (Time::micros(20), Time::micros(5));
        Config {
            window: Time::millis(2),
            lead: Time::micros(800),
            lease: 5,
            clock_error,
            drain,
            guard: clock_error + drain,
            repeat: Time::micros(400),
            silence: 20,
            connections: 256,
            ..Config::default()
        }
    }

    /// Nothing goes wrong, and nothing happens by itself.
    pub fn calm() -> Self {
        let config = Self::config();
        Self {
            lost: 0,
            doubled: 0,
            delay: (Time::micros(10), Time::micros(100)),
            stragglers: 0,
            straggle: Time::ZERO,
            skew: config.clock_error,
            drain: config.drain,
            crashes: 0,
            requests: 0,
            withdrawals: 0,
            exclusive: false,
            cuts: 0,
            takeovers: 0,
            hasty: false,
            forged: false,
            impatient: false,
            config,
        }
    }

    /// Everything goes wrong.
    pub fn hard() -> Self {
        Self {
            lost: 10,
            doubled: 10,
            stragglers: 20,
            straggle: Time::millis(3),
            crashes: 4,
            requests: 250,
            withdrawals: 80,
            cuts: 100,
            takeovers: 10,
            ..Self::calm()
        }
    }

    /// Leaves are nearly full of connections that stay, so that each new one moves others.
    pub fn crowded() -> Self {
        Self {
            requests: 600,
            withdrawals: 80,
            exclusive: true,
            crashes: 1,
            cuts: 20,
            takeovers: 2,
            ..Self::hard()
        }
    }
}
