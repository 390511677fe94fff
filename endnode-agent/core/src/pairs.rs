//! The queue pairs: one for each (peer, tree) that was wanted lately, never more than the limit.
//!
//! ```text
//!            open                Ready                 Broken, stalled, evicted
//!   Free -----------> Connecting -----> Ready ---------------+
//!    ^                    | ^                                v
//!    |                    | +-- its pause is over --+     Closing
//!    |                    +-- Broken --> Closing -+ |        |
//!    |                                            v |        | Closed
//!    +--------- no flow needs it ---------------- Paused <---+
//! ```

use std::collections::VecDeque;

use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;

use super::events::{PairId, Piece, Route};

/// What a place in the table holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nothing.
    Free,
    /// Being made; given up at the time.
    Connecting(Time),
    /// Of use.
    Ready,
    /// Being given up: the port may still hold it, so it counts.
    Closing,
    /// It broke, and is made anew at the time.
    Paused(Time),
}

/// One place in the table.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) life: u32,
    pub(super) route: Route,
    pub(super) state: State,
    /// What the port has not yet done, in order.
    pub(super) posted: VecDeque<Piece>,
    /// The ticket of the first of these.
    pub(super) first: u64,
    /// Since when that could have been done.
    pub(super) since: Time,
    /// Bytes on the wire of pieces that were taken back: until it is closed the port may be sending them.
    pub(super) doubtful: u64,
    /// When it was last chosen, counted.
    pub(super) used: u64,
    /// How often in a row it broke before it did anything.
    pub(super) failures: u32,
}

impl Pair {
    /// The first moment at which something has to be looked at.
    pub(super) fn deadline(&self, stall: Time) -> Time {
        match self.state {
            State::Connecting(until) | State::Paused(until) => until,
            State::Ready if self.posted.is_empty() => Time::MAX,
            State::Ready => self.since + stall,
            State::Free | State::Closing => Time::MAX,
        }
    }

    /// Takes off the first piece if it is done now that `ticket` is.
    pub(super) fn finish(&mut self, ticket: u64, now: Time) -> Option<Piece> {
        if self.first > ticket {
            return None;
        }
        let piece = self.posted.pop_front()?;
        self.first += 1;
        self.failures = 0;
        self.since = now;
        Some(piece)
    }

    /// Whether it leads to that peer along that tree.
    pub(super) fn leads(&self, peer: Guid, tree: TreeId) -> bool {
        (self.route.peer, self.route.tree) == (peer, tree)
    }

    /// The ticket of the piece that is posted next.
    pub(super) fn next_ticket(&self) -> u64 {
        self.first + self.posted.len() as u64
    }
}

/// Where a queue pair for a (peer, tree) is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// It has one, in any state.
    Taken(u32),
    /// It was given a free one and is to be connected.
    New(u32),
    /// None is free.
    Full,
}

/// The table. All of it is made at the start.
#[derive(Debug)]
pub(super) struct Pairs {
    places: Vec<Pair>,
    /// (peer, tree, slot), sorted.
    index: Vec<(Guid, TreeId, u32)>,
    free: Vec<u32>,
    choices: u64,
}

impl Pairs {
    pub(super) fn new(limit: u32, depth: u32) -> Self {
        let place = |_| Pair {
            life: 0,
            route: Route { peer: Guid(0), tree: TreeId(0), dlid: None, sl: 0 },
            state: State::Free,
            posted: VecDeque::with_capacity(depth as usize),
            first: 0,
            since: Time::ZERO,
            doubtful: 0,
            used: 0,
            failures: 0,
        };
        Self {
            places: (0..limit).map(place).collect(),
            index: Vec::with_capacity(limit as usize),
            free: (0..limit).rev().collect(),
            choices: 0,
        }
    }

    /// The slot of a (peer, tree).
    pub(super) fn find(&self, peer: Guid, tree: TreeId) -> Option<u32> {
        self.position(peer, tree).ok().map(|at| self.index[at].2)
    }

    fn position(&self, peer: Guid, tree: TreeId) -> Result<usize, usize> {
        self.index.binary_search_by_key(&(peer, tree), |&(peer, tree, _)| (peer, tree))
    }

    /// A slot for a (peer, tree), the one it has or a free one.
    pub(super) fn place(&mut self, route: &Route) -> Place {
        let at = match self.position(route.peer, route.tree) {
            Ok(at) => return Place::Taken(self.index[at].2),
            Err(at) => at,
        };
        let Some(slot) = self.free.pop() else {
            return Place::Full;
        };
        self.index.insert(at, (route.peer, route.tree, slot));
        self.choices += 1;
        let used = self.choices;
        let pair = &mut self.places[slot as usize];
        debug_assert!(pair.posted.is_empty(), "a free place has nothing posted");
        (pair.route, pair.used, pair.failures) = (*route, used, 0);
        Place::New(slot)
    }

    /// Frees a slot.
    pub(super) fn free(&mut self, slot: u32) {
        let pair = &mut self.places[slot as usize];
        debug_assert!(pair.posted.is_empty(), "what is posted was taken back");
        pair.state = State::Free;
        let Route { peer, tree, .. } = pair.route;
        if let Ok(at) = self.position(peer, tree) {
            self.index.remove(at);
            self.free.push(slot);
        }
    }

    /// Begins a new life in a slot, to be connected until `until`.
    pub(super) fn begin(&mut self, slot: u32, until: Time) -> PairId {
        let pair = &mut self.places[slot as usize];
        pair.life = pair.life.wrapping_add(1);
        pair.state = State::Connecting(until);
        pair.first = 0;
        PairId { slot, life: pair.life }
    }

    /// The queue pair in a slot, in any of its lives.
    pub(super) fn at(&mut self, slot: u32) -> &mut Pair {
        &mut self.places[slot as usize]
    }

    /// The number of a slot's present life.
    pub(super) fn id(&self, slot: u32) -> PairId {
        PairId { slot, life: self.places[slot as usize].life }
    }

    /// As [`get`](Self::get), to be looked at.
    pub(super) fn peek(&self, id: PairId) -> Option<&Pair> {
        self.places.get(id.slot as usize).filter(|pair| pair.life == id.life)
    }

    /// The queue pair of that number, unless the slot has a later life.
    pub(super) fn get(&mut self, id: PairId) -> Option<&mut Pair> {
        self.places.get_mut(id.slot as usize).filter(|pair| pair.life == id.life)
    }

    /// Notes that a slot was chosen to send on.
    pub(super) fn choose(&mut self, slot: u32) {
        self.choices += 1;
        self.places[slot as usize].used = self.choices;
    }

    /// The least recently used slot that could go: nothing posted on it, and not one of `wanted` (by slot).
    pub(super) fn least_recently_used(&self, wanted: &[bool]) -> Option<u32> {
        let could_go = |&(_, _, slot): &(Guid, TreeId, u32)| {
            let pair = &self.places[slot as usize];
            pair.state == State::Ready && pair.posted.is_empty() && !wanted[slot as usize]
        };
        let slots = self.index.iter().filter(|entry| could_go(entry)).map(|&(_, _, slot)| slot);
        slots.min_by_key(|&slot| self.places[slot as usize].used)
    }

    /// How many slots will be free without anybody else having to go: not those of `wanted` (by slot), which
    /// are made anew.
    pub(super) fn closing(&self, wanted: &[bool]) -> usize {
        let closing = |slot: u32| self.places[slot as usize].state == State::Closing;
        let slots = self.index.iter().map(|&(_, _, slot)| slot);
        slots.filter(|&slot| closing(slot) && !wanted[slot as usize]).count()
    }

    /// Slots in use, in the order of (peer, tree).
    pub(super) fn taken(&self) -> impl Iterator<Item = (u32, &Pair)> {
        self.index.iter().map(|&(_, _, slot)| (slot, &self.places[slot as usize]))
    }

    /// How many slots there are.
    pub(super) const fn limit(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(limit: u32) -> Pairs {
        Pairs::new(limit, 4)
    }

    fn route(peer: u64, tree: u16) -> Route {
        Route { peer: Guid(peer), tree: TreeId(tree), dlid: None, sl: 0 }
    }

    #[test]
    fn a_peer_and_a_tree_have_one_slot() {
        let mut pairs = pairs(2);
        let Place::New(slot) = pairs.place(&route(7, 3)) else { panic!("a free slot") };
        assert_eq!(pairs.place(&route(7, 3)), Place::Taken(slot));
        assert_eq!(pairs.find(Guid(7), TreeId(2)), None);
        assert!(matches!(pairs.place(&route(7, 2)), Place::New(_)));
        assert_eq!(pairs.place(&route(1, 0)), Place::Full);
        pairs.free(slot);
        assert_eq!(pairs.place(&route(1, 0)), Place::New(slot));
        assert_eq!(pairs.taken().count(), 2);
    }

    #[test]
    fn word_of_an_earlier_life_finds_nothing() {
        let mut pairs = pairs(1);
        let Place::New(slot) = pairs.place(&route(7, 3)) else { panic!("a free slot") };
        let first = pairs.begin(slot, Time::ZERO);
        let second = pairs.begin(slot, Time::ZERO);
        assert!(pairs.get(first).is_none());
        assert!(pairs.get(second).is_some());
        assert!(pairs.get(PairId { slot: 9, life: 1 }).is_none());
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut pairs = pairs(3);
        for tree in 0..3 {
            let Place::New(slot) = pairs.place(&route(7, tree)) else { panic!("free") };
            pairs.at(slot).state = State::Ready;
        }
        let slot = |pairs: &Pairs, tree| pairs.find(Guid(7), TreeId(tree)).unwrap();
        pairs.choose(slot(&pairs, 0));
        assert_eq!(pairs.least_recently_used(&[false; 3]), Some(slot(&pairs, 1)));
        let mut wanted = [false; 3];
        wanted[slot(&pairs, 1) as usize] = true;
        assert_eq!(pairs.least_recently_used(&wanted), Some(slot(&pairs, 2)));
        assert_eq!(pairs.least_recently_used(&[true; 3]), None);
    }
}
