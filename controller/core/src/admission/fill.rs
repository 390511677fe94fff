//! Requests for the lanes that are left over: the oldest first.

use super::Side;
use super::matching::Matching;
use super::table::{NONE, Table};
use super::turn::Turn;

/// Where every sending lane is in its own order.
#[derive(Clone, Debug)]
pub(super) struct Fill {
    turns: Box<[Turn]>,
}

impl Fill {
    pub(super) fn new(lanes: usize) -> Self {
        Self { turns: vec![Turn::OVER; lanes].into_boxed_slice() }
    }

    /// Matches open lanes so that no two of them have an older request for each other than what they
    /// serve: deferred acceptance (Gale and Shapley, 1962) with age as everyone's preference. It is
    /// what taking requests oldest first would choose, but looks only at the open lanes' requests.
    /// Those that came later than `until` do not count.
    pub(super) fn run(
        &mut self,
        table: &Table,
        cursor: &[u32],
        matching: &mut Matching,
        until: u64,
    ) {
        for lane in 0..table.lanes() as u32 {
            if matching.is_open(Side::Sends, lane) {
                let start = cursor[lane as usize];
                self.turns[lane as usize] = Turn::new(table, Side::Sends, lane, start);
                self.propose(table, matching, lane, until);
            }
        }
    }

    fn propose(&mut self, table: &Table, matching: &mut Matching, mut lane: u32, until: u64) {
        while let Some(id) = self.turns[lane as usize].next(table, Side::Sends) {
            if table.arrival(id) > until {
                // Its later ones came no earlier.
                return;
            }
            let across = table.lane(Side::Receives, id);
            if matching.is_locked(Side::Receives, across) {
                continue;
            }
            let held = matching.at(Side::Receives, across);
            if held == NONE {
                return matching.set(table, id);
            }
            if table.arrival(id) < table.arrival(held) {
                matching.set(table, id);
                lane = table.lane(Side::Sends, held);
                matching.free(Side::Sends, lane);
            }
        }
    }
}
