//! One VL of a directed link: credits, and what waits for them.

use std::collections::VecDeque;

use super::clock::NEVER;
use super::counters::Counters;

/// The sending side. Times in picoseconds.
#[derive(Debug)]
pub(super) struct Lane {
    /// Blocks that may still be sent, as far as the sender has settled.
    credits: u32,
    /// No returning credits would wake the port.
    pub(super) starved: bool,
    /// The input that is asked first.
    pub(super) turn: u8,
    /// Since when the port has been silent although this VL has packets.
    pub(super) stalled_since: u64,
    /// Blocks on their way back, and when they are here: in order.
    returning: VecDeque<(u64, u32)>,
    pub(super) counters: Counters,
}

impl Lane {
    pub(super) fn new(credits: u32) -> Self {
        Self {
            credits,
            starved: false,
            turn: 0,
            stalled_since: NEVER,
            returning: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Whether `blocks` can be sent now.
    pub(super) fn has(&mut self, blocks: u32, now: u64) -> bool {
        // Credits are looked at when they are needed: that saves an event a packet.
        while let Some((_, more)) = self.returning.pop_front_if(|&mut (at, _)| at <= now) {
            self.credits += more;
        }
        self.credits >= blocks
    }

    /// Uses credits that [`has`](Self::has) found.
    pub(super) const fn take(&mut self, blocks: u32) {
        self.credits -= blocks;
    }

    /// Gives blocks back at `at`, or after those that are on their way already. Returns when.
    pub(super) fn give_back(&mut self, blocks: u32, at: u64) -> u64 {
        let at = self.returning.back().map_or(at, |&(last, _)| last.max(at));
        self.returning.push_back((at, blocks));
        at
    }

    /// When the next credits are here.
    pub(super) fn next_credits(&self) -> Option<u64> {
        self.returning.front().map(|&(at, _)| at)
    }

    /// Blocks that no packet holds.
    pub(super) fn blocks_free(&self) -> u64 {
        let returning: u64 = self.returning.iter().map(|&(_, blocks)| u64::from(blocks)).sum();
        u64::from(self.credits) + returning
    }
}
