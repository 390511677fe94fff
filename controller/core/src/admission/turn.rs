//! The order in which a lane's requests are tried.

use super::Side;
use super::table::{NONE, Table};

/// Oldest arrival first, and among the oldest from a given one on, round about. Patterns are asked for
/// destination by destination; if every sender began with the first, each would have to pass all those
/// that the senders before it took. Going on where the last window left off, senders that were apart
/// then are apart now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    at: u32,
    start: u32,
    first: u32,
    /// The first request that is younger than the oldest ones.
    younger: u32,
    lap: Lap,
}

#[derive(Clone, Copy, Debug)]
enum Lap {
    FromStart,
    UpToStart,
    Younger,
}

impl Turn {
    pub(super) const OVER: Self =
        Self { at: NONE, start: NONE, first: NONE, younger: NONE, lap: Lap::Younger };

    /// All requests of a lane; `start` counts where it is one of them and among the oldest.
    pub(super) fn new(table: &Table, side: Side, lane: u32, start: u32) -> Self {
        let first = table.first(side, lane);
        let among = start != NONE && first != NONE && table.arrival(start) == table.arrival(first);
        let start = if among { start } else { first };
        Self { at: start, start, first, younger: NONE, lap: Lap::FromStart }
    }

    pub(super) fn next(&mut self, table: &Table, side: Side) -> Option<u32> {
        let id = self.at;
        if id == NONE {
            return None;
        }
        let next = table.next(side, id);
        self.at = match self.lap {
            Lap::FromStart if next != NONE && table.arrival(next) == table.arrival(id) => next,
            Lap::FromStart => {
                self.younger = next;
                self.lap = Lap::UpToStart;
                self.up_to_start(self.first)
            }
            Lap::UpToStart => self.up_to_start(next),
            Lap::Younger => next,
        };
        Some(id)
    }

    const fn up_to_start(&mut self, next: u32) -> u32 {
        if next == self.start {
            self.lap = Lap::Younger;
            return self.younger;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(start: u32, arrivals: &[u64]) -> Vec<u32> {
        let mut table = Table::new(8, 8);
        for (id, &arrival) in arrivals.iter().enumerate() {
            table.push(id as u32, [0, id as u32], 1, arrival);
        }
        let mut turn = Turn::new(&table, Side::Sends, 0, start);
        std::iter::from_fn(|| turn.next(&table, Side::Sends)).collect()
    }

    #[test]
    fn the_oldest_go_round_and_the_others_follow() {
        assert_eq!(order(NONE, &[0, 0, 0, 1, 2]), [0, 1, 2, 3, 4]);
        assert_eq!(order(1, &[0, 0, 0, 1, 2]), [1, 2, 0, 3, 4]);
        assert_eq!(order(2, &[0, 0, 0]), [2, 0, 1]);
        assert_eq!(order(3, &[0, 0, 0, 1, 2]), [0, 1, 2, 3, 4]);
        assert_eq!(order(0, &[5]), [0]);
        assert!(order(NONE, &[]).is_empty());
    }
}
