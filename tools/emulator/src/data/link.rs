//! One VL of a directed link: credits, and what waits for them.

use std::collections::VecDeque;

use super::clock::NEVER;
use super::packet::{blocks, data_bytes};

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
    returning: Returning,
    /// Sent so far.
    pub(super) bytes: u64,
    pub(super) packets: u64,
}

const _: () = assert!(size_of::<Lane>() == 64);

/// How many are kept in place: at full size no more are under way at once, unless cables are long.
const NEAR: usize = 3;

/// Blocks on their way back, and when they are here: in order.
#[derive(Default, Debug)]
struct Returning {
    at: [u64; NEAR],
    /// A packet's: 65 at most.
    blocks: [u8; NEAR],
    near: u8,
    /// What comes after those.
    #[expect(clippy::box_collection, reason = "a lane is one line of a cache")]
    far: Option<Box<VecDeque<(u64, u8)>>>,
}

const _: () = assert!(blocks(data_bytes(4_096)) <= u8::MAX as u32);

impl Returning {
    /// When the first are here.
    fn next(&self) -> Option<u64> {
        (self.near > 0).then_some(self.at[0])
    }

    /// Takes the first; 0 where there are none.
    fn take(&mut self) -> u32 {
        if self.near == 0 {
            return 0;
        }
        let first = self.blocks[0];
        self.at.copy_within(1.., 0);
        self.blocks.copy_within(1.., 0);
        self.near -= 1;
        if let Some((at, blocks)) = self.far.as_mut().and_then(|far| far.pop_front()) {
            self.keep(at, blocks);
        }
        first.into()
    }

    /// At `at`, or after those that are on their way already; returns when.
    fn push(&mut self, blocks: u32, at: u64) -> u64 {
        let near = usize::from(self.near);
        let last = match self.far.as_ref().and_then(|far| far.back()) {
            Some(&(last, _)) => last,
            None => near.checked_sub(1).map_or(0, |last| self.at[last]),
        };
        let at = at.max(last);
        if near < NEAR {
            self.keep(at, blocks as u8);
        } else {
            self.far.get_or_insert_default().push_back((at, blocks as u8));
        }
        at
    }

    fn keep(&mut self, at: u64, blocks: u8) {
        let place = usize::from(self.near);
        (self.at[place], self.blocks[place]) = (at, blocks);
        self.near += 1;
    }

    fn blocks(&self) -> u64 {
        let near = self.blocks[..usize::from(self.near)].iter();
        let far = self.far.iter().flat_map(|far| far.iter()).map(|(_, blocks)| blocks);
        near.chain(far).map(|&blocks| u64::from(blocks)).sum()
    }
}

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
    pub(super) fn new(credits: u32) -> Self {
        let returning = Returning::default();
        Self { credits, starved: false, turn: 0, returning, bytes: 0, packets: 0 }
    }

    /// Whether `blocks` can be sent now.
    pub(super) fn has(&mut self, blocks: u32, now: u64) -> bool {
        // Credits are looked at when they are needed: that saves an event a packet.
        while self.returning.next().is_some_and(|at| at <= now) {
            self.credits += self.returning.take();
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
        self.returning.push(blocks, at)
    }

    /// When the next credits are here.
    pub(super) fn next_credits(&self) -> Option<u64> {
        self.returning.next()
    }

    /// Blocks that no packet holds.
    pub(super) fn blocks_free(&self) -> u64 {
        u64::from(self.credits) + self.returning.blocks()
    }
}
