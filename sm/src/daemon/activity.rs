//! From the first question to the last answer: what one time of being busy came to.

use serde::Serialize;
use snin_protocol::Time;

use snin_sm_core::metrics::Metrics;

/// What was done from when something happened until nothing was left to be done.
#[derive(Clone, Debug, Serialize)]
pub struct Activity {
    /// `full`: everything was looked at; `light`: every switch was asked whether something changed; `local`:
    /// only what a trap named.
    pub kind: &'static str,
    /// How long it took.
    pub seconds: f64,
    /// SMPs sent.
    pub smps: u64,
    /// Of those, the ones that wrote.
    pub sets: u64,
    /// Of those, blocks of forwarding tables.
    pub lft_blocks: u64,
    /// SMPs sent again.
    pub retries: u64,
    /// Questions given up.
    pub unanswered: u64,
}

impl Activity {
    /// Between two moments.
    pub fn between(before: &Metrics, after: &Metrics, lasted: Time) -> Self {
        let kind = if after.full_sweeps > before.full_sweeps {
            "full"
        } else if after.local_probes > before.local_probes {
            "local"
        } else {
            "light"
        };
        Self {
            kind,
            seconds: lasted.nanos() as f64 / 1e9,
            smps: after.smps() - before.smps(),
            sets: after.sets() - before.sets(),
            lft_blocks: after.blocks_written - before.blocks_written,
            retries: after.retries - before.retries,
            unanswered: after.unanswered - before.unanswered,
        }
    }

    /// A light sweep that found nothing: not worth an event.
    pub fn is_quiet(&self) -> bool {
        self.kind == "light" && self.sets == 0 && self.unanswered == 0
    }
}
