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
    /// The port waits for credits: it is to be woken by the first that come.
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
            self.keep(usize::from(self.near), at, blocks);
        }
        first.into()
    }

    /// At `at`: a fast output frees what it took before a slow one that began earlier.
    fn push(&mut self, blocks: u32, at: u64) {
        let (near, blocks) = (usize::from(self.near), blocks as u8);
        let place = self.at[..near].iter().rposition(|&other| other <= at).map_or(0, |n| n + 1);
        if near < NEAR {
            return self.keep(place, at, blocks);
        }
        let far = self.far.get_or_insert_default();
        if place == NEAR {
            let place = far.partition_point(|&(other, _)| other <= at);
            return far.insert(place, (at, blocks));
        }
        self.near -= 1;
        far.push_front((self.at[NEAR - 1], self.blocks[NEAR - 1]));
        self.keep(place, at, blocks);
    }

    fn keep(&mut self, place: usize, at: u64, blocks: u8) {
        let near = usize::from(self.near);
        if place < near {
            self.at.copy_within(place..near, place + 1);
            self.blocks.copy_within(place..near, place + 1);
        }
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
        let enough = self.credits >= blocks;
        self.starved &= !enough;
        enough
    }

    /// Sends a packet, with credits that [`has`](Self::has) found.
    pub(super) fn send(&mut self, blocks: u32, bytes: u16) {
        self.credits -= blocks;
        self.bytes += u64::from(bytes);
        self.packets += 1;
    }

    /// Gives blocks back at `at`. Whether the port has to be woken then.
    pub(super) fn give_back(&mut self, blocks: u32, at: u64) -> bool {
        let is_first = self.returning.next().is_none_or(|first| at < first);
        self.returning.push(blocks, at);
        self.starved && is_first
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_come_back_in_order_of_time_whatever_order_they_are_given_in() {
        let mut lane = Lane::new(0);
        lane.starved = true;
        let times = [50, 40, 70, 60, 10, 80, 10, 5, 90, 20];
        let woken: Vec<bool> = times.iter().map(|&at| lane.give_back(1, at)).collect();
        assert_eq!(woken, [true, true, false, false, true, false, false, true, false, false]);
        assert_eq!(lane.blocks_free(), 10);
        for (before, at) in [(0, 4), (1, 5), (3, 10), (4, 20), (4, 39), (5, 40), (9, 80), (10, 90)]
        {
            assert!(lane.has(before, at) && !lane.has(before + 1, at), "{at}");
        }
    }
}
