//! Serving every lane of greatest degree at once.
//!
//! In a bipartite multigraph some matching covers all vertices of greatest degree. One covers those of
//! one side: the edges at any k of them end at k vertices or more, as no vertex has more edges than
//! they (Hall, 1935), and another covers those of the other side; then there is one among their edges
//! that covers both (Mendelsohn and Dulmage, 1958). So taking such a matching lessens the degree, and a
//! multigraph of degree d is used up by d matchings (König, 1916).
//!
//! The first side is covered by augmenting paths. For the second, a path may also end where a lane of
//! its own side that is not of greatest degree gives way: if no path ended so or at an open lane, the
//! union of what there is and a matching that covers this side would have a component without an end.
//! No path ever uncovers a lane of the opposite side.

use super::Side;
use super::matching::Matching;
use super::table::{NONE, Table};
use super::turn::Turn;

/// Room for one search, as large as the fabric.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// The search that last came to a lane of the opposite side, and the request that it came by.
    seen: Box<[u32]>,
    via: Box<[u32]>,
    queue: Box<[u32]>,
    search: u32,
}

/// The edges that count, and the lanes that must be served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal<'a> {
    /// By side and lane.
    pub(super) degrees: [&'a [u64]; 2],
    /// Younger requests do not count.
    pub(super) until: u64,
}

impl Goal<'_> {
    fn greatest(&self) -> u64 {
        self.degrees.iter().flat_map(|side| side.iter().copied()).max().unwrap_or(0)
    }
}

impl Search {
    pub(super) fn new(lanes: usize) -> Self {
        let table = |value| vec![value; lanes].into_boxed_slice();
        Self { seen: table(0), via: table(NONE), queue: table(0), search: 0 }
    }

    /// Covers the open lanes of greatest degree, as far as locked ones allow: all of them where nothing
    /// is locked.
    pub(super) fn cover(
        &mut self,
        table: &Table,
        cursor: &[Box<[u32]>; 2],
        matching: &mut Matching,
        goal: Goal<'_>,
    ) {
        let greatest = goal.greatest();
        if greatest == 0 {
            return;
        }
        for side in Side::BOTH {
            let mut search = Cover { table, cursor, goal, greatest, side, matching };
            self.begin();
            for lane in 0..table.lanes() as u32 {
                let needs = goal.degrees[side as usize][lane as usize] == greatest;
                if needs && search.matching.is_open(side, lane) && search.path(self, lane) {
                    self.begin();
                }
            }
        }
    }

    /// Forgets what was seen. After a search in vain it is kept: nothing leads anywhere from there.
    fn begin(&mut self) {
        self.search = self.search.wrapping_add(1);
        if self.search == 0 {
            self.seen.fill(0);
            self.search = 1;
        }
    }
}

struct Cover<'a> {
    table: &'a Table,
    cursor: &'a [Box<[u32]>; 2],
    goal: Goal<'a>,
    greatest: u64,
    side: Side,
    matching: &'a mut Matching,
}

impl Cover<'_> {
    /// Finds a shortest path from an open lane and takes its requests in turn.
    fn path(&mut self, room: &mut Search, from: u32) -> bool {
        let other = self.side.other();
        room.queue[0] = from;
        let (mut next, mut end) = (0, 1);
        while next < end {
            let lane = room.queue[next];
            next += 1;
            let start = self.cursor[self.side as usize][lane as usize];
            let mut turn = Turn::new(self.table, self.side, lane, start);
            while let Some(id) = turn.next(self.table, self.side) {
                if self.table.arrival(id) > self.goal.until {
                    break;
                }
                let across = self.table.lane(other, id);
                let seen = &mut room.seen[across as usize];
                if *seen == room.search || self.matching.is_locked(other, across) {
                    continue;
                }
                *seen = room.search;
                room.via[across as usize] = id;
                match self.behind(across) {
                    Some(lane) => {
                        room.queue[end] = lane;
                        end += 1;
                    }
                    None => {
                        self.flip(room, across);
                        return true;
                    }
                }
            }
        }
        false
    }

    /// The lane that serves `across` now and must go on being served; a lane that need not gives way.
    fn behind(&mut self, across: u32) -> Option<u32> {
        let held = self.matching.at(self.side.other(), across);
        if held == NONE {
            return None;
        }
        let lane = self.table.lane(self.side, held);
        if self.goal.degrees[self.side as usize][lane as usize] < self.greatest {
            self.matching.free(self.side, lane);
            return None;
        }
        Some(lane)
    }

    /// Takes the requests by which the search came to `across`, back to where it began.
    fn flip(&mut self, room: &Search, across: u32) {
        let mut id = room.via[across as usize];
        loop {
            let before = self.matching.at(self.side, self.table.lane(self.side, id));
            self.matching.set(self.table, id);
            if before == NONE {
                return;
            }
            id = room.via[self.table.lane(self.side.other(), before) as usize];
        }
    }
}
