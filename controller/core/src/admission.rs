//! Admission: which requests a window is to hold, as far as the hosts' own links go.
//!
//! Requests come and go; every window a set of them is chosen that no host's link is too slow for, and
//! the packer then finds trees for it. Requests are edges of a bipartite multigraph of sending and
//! receiving lanes (a link of K units is K lanes), and a window is a matching:
//!
//! 1. It serves every lane of greatest degree, the degree being the windows that a lane's requests
//!    still want. So requests of degree d are done in d windows when no others come, in any pattern
//!    (`cover`).
//! 2. Among the lanes left over, the oldest request comes first (`fill`).
//! 3. Requests of other rates than the unit share what is then left of the links, the oldest first.
//!
//! Before all this come requests that are *overdue*, having waited for a stated number of windows:
//! those of the oldest arrival by rule 1 among themselves, so that a pattern that takes long is still
//! done in its degree, then one after the other by age. Their lanes are as if of greatest degree, and
//! more: no other takes them. Rule 1 then holds only as far as they leave room.
//!
//! **The longest wait.** Let a request between hosts s and t want k windows, and become overdue when
//! other requests of s and t that came no later still want m windows, a request of both counting
//! twice. Then it is done at most m + k windows on, in spite of all that comes later. For in each of these windows
//! either it is served, or s or t serves one that came no later: the oldest arrival's matching holds
//! none younger; walking on by age, a request is passed over only where a link is taken by what was
//! chosen before. The latter happens m times at most. (This counts windows in which what was chosen
//! was also [`served`](Admission::served).)
//!
//! All tables are made at the start and never grow; nothing allocates after that.

mod colours;
mod cover;
mod fill;
mod links;
mod matching;
mod request;
mod table;
mod turn;

use snin_fabric::hosts::HostId;

use crate::packing::ConnectionId;

pub use colours::Colours;
pub use links::{HostLinks, MAX_LANES};
pub use request::{Ask, Refused, windows_for};

use cover::{Goal, Search};
use fill::Fill;
use matching::Matching;
use table::{NONE, Table};

/// The two ends of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Sends = 0,
    Receives = 1,
}

impl Side {
    const BOTH: [Self; 2] = [Self::Sends, Self::Receives];

    const fn other(self) -> Self {
        match self {
            Self::Sends => Self::Receives,
            Self::Receives => Self::Sends,
        }
    }
}

/// How much is kept, and for how long a request may be passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most requests at a time.
    pub requests: u32,
    /// A request that has waited for this many windows is overdue.
    pub overdue_after: u64,
}

impl Default for Limits {
    /// A million requests; a minute of windows of 1/60 s.
    fn default() -> Self {
        Self { requests: 1 << 20, overdue_after: 3600 }
    }
}

/// Hosts and rate of a request whose rate is not the unit.
#[derive(Clone, Copy, Debug, Default)]
struct Odd {
    hosts: [u32; 2],
    rate: u64,
}

/// The pending requests.
#[derive(Clone, Debug)]
pub struct Admission {
    links: HostLinks,
    overdue_after: u64,
    table: Table,
    odd: Box<[Odd]>,
    /// By side and lane the request to begin with: the last one chosen, or what came after it.
    cursor: [Box<[u32]>; 2],
    matching: Matching,
    search: Search,
    fill: Fill,
    chosen: Vec<ConnectionId>,
    latest: u64,
}

impl Admission {
    /// Nothing pending yet.
    pub fn new(links: HostLinks, limits: Limits) -> Self {
        let cursor = || vec![NONE; links.lanes()].into_boxed_slice();
        // The number that stands for "none" is no request's.
        let requests = limits.requests.min(NONE - 1);
        Self {
            overdue_after: limits.overdue_after,
            table: Table::new(links.lanes(), requests),
            odd: vec![Odd::default(); requests as usize].into_boxed_slice(),
            cursor: [cursor(), cursor()],
            matching: Matching::new(&links),
            search: Search::new(links.lanes()),
            fill: Fill::new(links.lanes()),
            chosen: Vec::with_capacity(requests as usize),
            latest: 0,
            links,
        }
    }

    /// How many requests are pending.
    pub const fn len(&self) -> usize {
        self.table.len()
    }

    /// True when nothing is pending.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many windows a request still wants; 0 when it is not pending.
    pub fn left(&self, id: ConnectionId) -> u32 {
        self.table.left(id.0)
    }

    /// The most windows that any lane's requests of the unit rate still want: they are done in as many.
    pub fn degree(&self) -> u64 {
        let sides = Side::BOTH.into_iter().flat_map(|side| self.table.degrees(side));
        sides.copied().max().unwrap_or(0)
    }

    /// Takes a request; the number is also the connection's for the packer.
    ///
    /// # Errors
    /// Where it can never be served, or the number is used or beyond the limit. Nothing changes then.
    pub fn add(&mut self, id: ConnectionId, ask: &Ask) -> Result<(), Refused> {
        self.check(id, ask)?;
        self.latest = self.latest.max(ask.arrival);
        let hosts = [ask.source.0, ask.destination.0];
        let rate = ask.rate.unwrap_or_else(|| self.links.unit());
        let lanes = if rate == self.links.unit() {
            Side::BOTH.map(|side| self.lane_for(side, hosts[side as usize]))
        } else {
            self.odd[id.index()] = Odd { hosts, rate };
            [self.table.odd_lane(); 2]
        };
        self.table.push(id.0, lanes, ask.windows, self.latest);
        Ok(())
    }

    fn check(&self, id: ConnectionId, ask: &Ask) -> Result<(), Refused> {
        let rate_of = |host: HostId| {
            let hosts = self.links.hosts() as u32;
            self.links.rate(host).ok_or(Refused::Host { host, hosts })
        };
        let carries = rate_of(ask.source)?.min(rate_of(ask.destination)?);
        let asked = ask.rate.unwrap_or_else(|| self.links.unit());
        if id.0 >= self.table.limit() {
            Err(Refused::Number { id: id.0, limit: self.table.limit() })
        } else if self.table.left(id.0) > 0 {
            Err(Refused::Known(id.0))
        } else if ask.source == ask.destination {
            Err(Refused::Itself(ask.source))
        } else if ask.windows == 0 {
            Err(Refused::NoWindow)
        } else if asked == 0 || asked > carries {
            Err(Refused::Rate { asked, carries })
        } else {
            Ok(())
        }
    }

    /// The host's lane with the least to do: a pattern is spread evenly over lanes as it comes.
    fn lane_for(&self, side: Side, host: u32) -> u32 {
        let lanes = self.links.lanes_of(host);
        let first = lanes.start;
        lanes.min_by_key(|&lane| self.table.degrees(side)[lane as usize]).unwrap_or(first)
    }

    /// Forgets a request, served or not; false when it is not pending.
    pub fn remove(&mut self, id: ConnectionId) -> bool {
        let pending = self.table.left(id.0) > 0;
        if pending {
            self.pass(id.0);
            self.table.remove(id.0);
        }
        pending
    }

    /// A window served a request: it wants one less, and goes with its last. What was chosen but found
    /// no tree is not served, and is chosen again. Requests that are not pending are passed over.
    pub fn served(&mut self, id: ConnectionId) {
        match self.table.left(id.0) {
            0 => {}
            1 => {
                self.remove(id);
            }
            _ => self.table.serve(id.0),
        }
    }

    /// No lane is to begin with this request any more.
    fn pass(&mut self, id: u32) {
        if self.table.is_odd(id) {
            return;
        }
        for side in Side::BOTH {
            let cursor = &mut self.cursor[side as usize][self.table.lane(side, id) as usize];
            if *cursor == id {
                *cursor = self.table.next(side, id);
            }
        }
    }

    /// Chooses what `window` is to hold. Changes nothing: what was [`served`](Self::served) is for the
    /// caller to say.
    pub fn choose(&mut self, window: u64) -> &[ConnectionId] {
        self.chosen.clear();
        self.matching.clear(&self.links);
        let oldest = self.table.oldest();
        if oldest != NONE && self.is_overdue(oldest, window) {
            self.choose_overdue(window);
        }
        let degrees = Side::BOTH.map(|side| self.table.degrees(side));
        let goal = Goal { degrees, until: u64::MAX };
        self.search.cover(&self.table, &self.cursor, &mut self.matching, goal);
        self.lock_matched();
        self.fill.run(&self.table, &self.cursor[0], &mut self.matching, u64::MAX);
        self.lock_matched();
        self.choose_odd(window);
        self.collect();
        &self.chosen
    }

    fn is_overdue(&self, id: u32, window: u64) -> bool {
        window.saturating_sub(self.table.arrival(id)) >= self.overdue_after
    }

    /// The oldest arrival by degree, then all else that is overdue, by age.
    fn choose_overdue(&mut self, window: u64) {
        self.table.count_cohort();
        let oldest = self.table.arrival(self.table.oldest());
        let degrees = Side::BOTH.map(|side| self.table.cohort_degrees(side));
        let goal = Goal { degrees, until: oldest };
        self.search.cover(&self.table, &self.cursor, &mut self.matching, goal);
        self.lock_matched();
        if self.table.odd_count() == 0 {
            let until = window.saturating_sub(self.overdue_after);
            self.fill.run(&self.table, &self.cursor[0], &mut self.matching, until);
            self.lock_matched();
        } else {
            self.walk_overdue(window);
        }
    }

    /// Takes overdue requests one after the other where there is room. Odd rates have no place in
    /// deferred acceptance: several of them may have to go to make room for an older one.
    fn walk_overdue(&mut self, window: u64) {
        let mut id = self.table.oldest();
        while id != NONE && self.is_overdue(id, window) {
            if self.table.is_odd(id) {
                self.take_odd(id);
            } else if Side::BOTH.iter().all(|&s| self.matching.is_open(s, self.table.lane(s, id))) {
                self.matching.set(&self.table, id);
                self.matching.lock(&self.table, &self.links, id);
            }
            id = self.table.next_by_age(id);
        }
    }

    fn lock_matched(&mut self) {
        for lane in 0..self.table.lanes() as u32 {
            let id = self.matching.at(Side::Sends, lane);
            if id != NONE {
                self.matching.lock(&self.table, &self.links, id);
            }
        }
    }

    fn take_odd(&mut self, id: u32) {
        let Odd { hosts, rate } = self.odd[id as usize];
        if self.matching.has_room(hosts, rate) {
            self.matching.take(&self.table, &self.links, hosts, rate);
            self.chosen.push(ConnectionId(id));
        }
    }

    /// Odd rates that are not overdue (those that are were tried before).
    fn choose_odd(&mut self, window: u64) {
        let mut id = self.table.first(Side::Sends, self.table.odd_lane());
        while id != NONE {
            if !self.is_overdue(id, window) {
                self.take_odd(id);
            }
            id = self.table.next(Side::Sends, id);
        }
    }

    fn collect(&mut self) {
        for side in Side::BOTH {
            for (cursor, &id) in
                self.cursor[side as usize].iter_mut().zip(self.matching.requests(side))
            {
                if id != NONE {
                    *cursor = id;
                }
            }
        }
        let matched = self.matching.requests(Side::Sends).iter().filter(|&&id| id != NONE);
        self.chosen.extend(matched.map(|&id| ConnectionId(id)));
    }
}
