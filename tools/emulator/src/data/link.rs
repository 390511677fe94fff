//! One VL of a directed link: credits, and what waits for them.

use std::collections::VecDeque;

use super::clock::NEVER;

/// The sending side. Times in picoseconds. One line of a processor's cache.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Lane {
    /// Blocks that may still be sent, as far as the sender has settled.
    credits: u32,
    /// No returning credits would wake the port.
    pub(super) starved: bool,
    /// The input that is asked first.
    pub(super) turn: u8,
    /// Blocks on their way back, and when they are here: in order.
    returning: VecDeque<(u64, u32)>,
    /// Sent so far.
    pub(super) bytes: u64,
    pub(super) packets: u64,
}

const _: () = assert!(size_of::<Lane>() == 64);

/// What does not happen often.
#[derive(Debug)]
pub(super) struct Troubles {
    /// Since when the port has been silent although this VL has packets.
    pub(super) stalled_since: u64,
    /// How long it has been so, all in all.
    pub(super) stalled: u64,
    pub(super) discards: u64,
    pub(super) relay_errors: u64,
    pub(super) receive_errors: u64,
}

impl Default for Troubles {
    fn default() -> Self {
        Self { stalled_since: NEVER, stalled: 0, discards: 0, relay_errors: 0, receive_errors: 0 }
    }
}

impl Lane {
    pub(super) const fn new(credits: u32) -> Self {
        Self { credits, starved: false, turn: 0, returning: VecDeque::new(), bytes: 0, packets: 0 }
    }

    /// Whether `blocks` can be sent now.
    pub(super) fn has(&mut self, blocks: u32, now: u64) -> bool {
        // Credits are looked at when they are needed: that saves an event a packet.
        while let Some((_, more)) = self.returning.pop_front_if(|&mut (at, _)| at <= now) {
            self.credits += more;
        }
        self.credits >= blocks
    }

    /// Sends a packet, with credits that [`has`](Self::has) found.
    pub(super) fn send(&mut self, blocks: u32, bytes: u16) {
        self.credits -= blocks;
        self.bytes += u64::from(bytes);
        self.packets += 1;
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
