//! The pending requests: one entry a number, in lists by sending lane, by receiving lane and by age.

use super::Side;

pub(super) const NONE: u32 = u32::MAX;

/// A pending request. Requests of the unit rate are edges between a sending and a receiving lane; those
/// of odd rates are all in the one list past the last lane's.
#[derive(Clone, Copy, Debug)]
struct Entry {
    lane: [u32; 2],
    next: [u32; 3],
    previous: [u32; 3],
    /// Windows that it still wants; 0 where the number is free.
    left: u32,
    arrival: u64,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };
/// The list by age comes after those by the lanes of each side.
const AGE: usize = 2;

/// The fixed-size table: nothing here grows after it was made.
#[derive(Clone, Debug)]
pub(super) struct Table {
    entries: Box<[Entry]>,
    /// By side and lane, each in order of arrival; the last one of each side is for odd rates.
    lists: [Box<[List]>; 2],
    age: List,
    /// Windows wanted, by side and lane.
    degree: [Box<[u64]>; 2],
    /// The same for requests of one arrival only: the oldest when it was last looked at.
    cohort: Option<u64>,
    cohort_degree: [Box<[u64]>; 2],
    pending: usize,
    odd: usize,
}

impl Table {
    pub(super) fn new(lanes: usize, requests: u32) -> Self {
        let free =
            Entry { lane: [0; 2], next: [NONE; 3], previous: [NONE; 3], left: 0, arrival: 0 };
        let lists = || vec![EMPTY; lanes + 1].into_boxed_slice();
        let degree = || vec![0; lanes].into_boxed_slice();
        Self {
            entries: vec![free; requests as usize].into_boxed_slice(),
            lists: [lists(), lists()],
            age: EMPTY,
            degree: [degree(), degree()],
            cohort: None,
            cohort_degree: [degree(), degree()],
            pending: 0,
            odd: 0,
        }
    }

    pub(super) const fn limit(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(super) const fn len(&self) -> usize {
        self.pending
    }

    pub(super) const fn odd_count(&self) -> usize {
        self.odd
    }

    pub(super) const fn lanes(&self) -> usize {
        self.degree[0].len()
    }

    /// The lane number that stands for odd rates.
    pub(super) const fn odd_lane(&self) -> u32 {
        self.lanes() as u32
    }

    pub(super) fn is_odd(&self, id: u32) -> bool {
        self.lane(Side::Sends, id) == self.odd_lane()
    }

    pub(super) fn left(&self, id: u32) -> u32 {
        self.entries.get(id as usize).map_or(0, |entry| entry.left)
    }

    pub(super) fn arrival(&self, id: u32) -> u64 {
        self.entries[id as usize].arrival
    }

    pub(super) fn lane(&self, side: Side, id: u32) -> u32 {
        self.entries[id as usize].lane[side as usize]
    }

    /// The oldest request of a lane.
    pub(super) fn first(&self, side: Side, lane: u32) -> u32 {
        self.lists[side as usize][lane as usize].first
    }

    pub(super) fn next(&self, side: Side, id: u32) -> u32 {
        self.entries[id as usize].next[side as usize]
    }

    pub(super) const fn oldest(&self) -> u32 {
        self.age.first
    }

    pub(super) fn next_by_age(&self, id: u32) -> u32 {
        self.entries[id as usize].next[AGE]
    }

    /// Windows that a lane's requests still want.
    pub(super) fn degrees(&self, side: Side) -> &[u64] {
        &self.degree[side as usize]
    }

    /// Adds the youngest request; its number is free.
    pub(super) fn push(&mut self, id: u32, lane: [u32; 2], left: u32, arrival: u64) {
        let entry = Entry { lane, next: [NONE; 3], previous: [NONE; 3], left, arrival };
        self.entries[id as usize] = entry;
        self.pending += 1;
        self.odd += usize::from(self.is_odd(id));
        for kind in 0..=AGE {
            let last = self.list(kind, id).last;
            match last {
                NONE => self.list(kind, id).first = id,
                last => self.entries[last as usize].next[kind] = id,
            }
            self.entries[id as usize].previous[kind] = last;
            self.list(kind, id).last = id;
        }
        self.count(id, |degree| *degree += u64::from(left));
    }

    /// One window less of a request that wants more than one.
    pub(super) fn serve(&mut self, id: u32) {
        self.entries[id as usize].left -= 1;
        self.count(id, |degree| *degree -= 1);
    }

    /// Forgets a request that is pending.
    pub(super) fn remove(&mut self, id: u32) {
        let left = u64::from(self.left(id));
        self.count(id, |degree| *degree -= left);
        self.pending -= 1;
        self.odd -= usize::from(self.is_odd(id));
        let Entry { next, previous, .. } = self.entries[id as usize];
        for kind in 0..=AGE {
            match previous[kind] {
                NONE => self.list(kind, id).first = next[kind],
                before => self.entries[before as usize].next[kind] = next[kind],
            }
            match next[kind] {
                NONE => self.list(kind, id).last = previous[kind],
                after => self.entries[after as usize].previous[kind] = previous[kind],
            }
        }
        self.entries[id as usize].left = 0;
    }

    fn list(&mut self, kind: usize, id: u32) -> &mut List {
        if kind == AGE {
            return &mut self.age;
        }
        &mut self.lists[kind][self.entries[id as usize].lane[kind] as usize]
    }

    fn count(&mut self, id: u32, change: impl Fn(&mut u64)) {
        let Entry { lane, arrival, .. } = self.entries[id as usize];
        if self.is_odd(id) {
            return;
        }
        for (side, lane) in lane.into_iter().enumerate() {
            change(&mut self.degree[side][lane as usize]);
            if self.cohort == Some(arrival) {
                change(&mut self.cohort_degree[side][lane as usize]);
            }
        }
    }

    /// Degrees of the requests that arrived together with the oldest. Counted anew only when another
    /// arrival has become the oldest, which happens to every request once at most.
    pub(super) fn count_cohort(&mut self) {
        let mut id = self.age.first;
        let oldest = (id != NONE).then(|| self.arrival(id));
        if self.cohort == oldest {
            return;
        }
        self.cohort = oldest;
        self.cohort_degree.iter_mut().for_each(|degree| degree.fill(0));
        while id != NONE && Some(self.arrival(id)) == oldest {
            let Entry { lane, left, .. } = self.entries[id as usize];
            if !self.is_odd(id) {
                self.cohort_degree[0][lane[0] as usize] += u64::from(left);
                self.cohort_degree[1][lane[1] as usize] += u64::from(left);
            }
            id = self.next_by_age(id);
        }
    }

    pub(super) fn cohort_degrees(&self, side: Side) -> &[u64] {
        &self.cohort_degree[side as usize]
    }
}
