//! A port that delays, completes and fails as chance has it, and a wire that it all goes over.
//!
//! A port sends one piece after the other at its rate. A queue pair is reliable and in order: what it
//! sent arrives a path later, and is acknowledged; after it broke, what was posted has arrived up to
//! some piece and no further.

use std::collections::{BTreeMap, VecDeque};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use snin_agent_core::{Arrival, BreakReason, PairId, Piece, Port, PortEvent, Post, Route};
use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;

/// How long things take and how often they fail, in parts of a thousand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nature {
    pub(crate) rate: u64,
    pub(crate) path: Time,
    pub(crate) path_varies: Time,
    pub(crate) acknowledgement: Time,
    pub(crate) connect: Time,
    pub(crate) connect_fails: u32,
    pub(crate) breaks: u32,
    pub(crate) goes_silent: u32,
}

/// A piece that went over the wire, by true time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmission {
    pub(crate) host: usize,
    pub(crate) tree: TreeId,
    pub(crate) piece: Piece,
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) arrives: Time,
}

/// What a port wants to happen later, by true time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Later {
    Event(PortEvent),
    Delivery(Guid, Arrival),
}

struct FakePair {
    peer: Guid,
    tree: TreeId,
    /// The port sends nothing more, and reports no error: pieces vanish.
    silent: bool,
    broken: bool,
    last_delivery: Time,
    last_done: Time,
}

pub(crate) struct FakePort {
    pub(crate) host: usize,
    pub(crate) guid: Guid,
    pub(crate) session: u64,
    pub(crate) nature: Nature,
    /// True time, set before every use.
    pub(crate) now: Time,
    /// The port sends nothing before this.
    pub(crate) free_at: Time,
    pairs: BTreeMap<PairId, FakePair>,
    waiting: VecDeque<(PairId, u64, Piece, Time)>,
    pub(crate) inbox: VecDeque<PortEvent>,
    pub(crate) later: Vec<(Time, Later)>,
    pub(crate) sent: Vec<Transmission>,
    pub(crate) most_pairs: usize,
    rng: ChaCha8Rng,
}

impl FakePort {
    pub(crate) fn new(host: usize, guid: Guid, nature: Nature, rng: ChaCha8Rng) -> Self {
        Self {
            host,
            guid,
            session: 1,
            nature,
            now: Time::ZERO,
            free_at: Time::ZERO,
            pairs: BTreeMap::new(),
            waiting: VecDeque::new(),
            inbox: VecDeque::new(),
            later: Vec::new(),
            sent: Vec::new(),
            most_pairs: 0,
            rng,
        }
    }

    fn chance(&mut self, thousandth: u32) -> bool {
        self.rng.random_range(0..1000) < thousandth
    }

    fn up_to(&mut self, time: Time) -> Time {
        Time(self.rng.random_range(0..=time.nanos()))
    }

    /// When the port will be ready to begin with the next piece, if one waits.
    pub(crate) fn next_start(&self) -> Option<Time> {
        self.waiting.front().map(|&(_, _, _, posted)| posted.max(self.free_at))
    }

    /// Begins with the next piece.
    pub(crate) fn start(&mut self, wire_bytes: impl Fn(u64) -> u64) {
        let Some((id, ticket, piece, _)) = self.waiting.pop_front() else { return };
        let start = self.now;
        let nanos = (wire_bytes(piece.bytes.into()) * 8_000_000_000).div_ceil(self.nature.rate);
        let end = start + Time(nanos);
        let breaks = self.chance(self.nature.breaks);
        let goes_silent = self.chance(self.nature.goes_silent);
        let path = self.nature.path + self.up_to(self.nature.path_varies);
        let back =
            self.up_to(self.nature.acknowledgement - self.nature.path - self.nature.path_varies);
        let arrived_all_the_same = self.chance(500);
        let Some(pair) = self.pairs.get_mut(&id).filter(|pair| !pair.broken) else { return };
        if pair.silent || goes_silent {
            pair.silent = true;
            return;
        }
        self.free_at = end;
        let arrives = (end + path).max(pair.last_delivery);
        pair.last_delivery = arrives;
        let done = (arrives + back).max(pair.last_done);
        pair.last_done = done;
        let (peer, tree) = (pair.peer, pair.tree);
        let arrival = Arrival { peer: self.guid, session: self.session, piece };
        self.sent.push(Transmission { host: self.host, tree, piece, start, end, arrives });
        if !breaks || arrived_all_the_same {
            self.later.push((arrives, Later::Delivery(peer, arrival)));
        }
        if breaks {
            self.break_now(id);
        } else {
            let done_event = PortEvent::Done { pair: id, ticket };
            self.later.push((done, Later::Event(done_event)));
        }
    }

    fn break_now(&mut self, id: PairId) {
        if let Some(pair) = self.pairs.get_mut(&id) {
            pair.broken = true;
        }
        self.waiting.retain(|&(pair, ..)| pair != id);
        let event = PortEvent::Broken { pair: id, reason: BreakReason::Failed };
        let at = self.now + self.up_to(Time::micros(50));
        self.later.push((at, Later::Event(event)));
    }

    /// Some queue pair fails without having anything to do with what is sent.
    pub(crate) fn break_any(&mut self) {
        let ids: Vec<PairId> = self.pairs.keys().copied().collect();
        if !ids.is_empty() {
            let id = ids[self.rng.random_range(0..ids.len())];
            self.break_now(id);
        }
    }
}

impl Port for FakePort {
    fn connect(&mut self, pair: PairId, route: &Route) {
        let Route { peer, tree, .. } = *route;
        let twin = self.pairs.values().any(|held| held.peer == peer && held.tree == tree);
        assert!(!twin, "two queue pairs to one peer and tree");
        assert!(!self.pairs.keys().any(|held| held.slot == pair.slot), "the slot is in use");
        let fails = self.chance(self.nature.connect_fails);
        let at = self.now + self.up_to(self.nature.connect);
        let new = FakePair {
            peer,
            tree,
            silent: false,
            broken: fails,
            last_delivery: Time::ZERO,
            last_done: Time::ZERO,
        };
        self.pairs.insert(pair, new);
        self.most_pairs = self.most_pairs.max(self.pairs.len());
        let event = if fails {
            PortEvent::Broken { pair, reason: BreakReason::Unconnected }
        } else {
            PortEvent::Ready { pair }
        };
        self.later.push((at, Later::Event(event)));
    }

    fn post(&mut self, &Post { pair, ticket, piece, .. }: &Post) {
        assert!(self.pairs.contains_key(&pair), "posted on a queue pair that is not there");
        self.waiting.push_back((pair, ticket, piece, self.now));
    }

    fn close(&mut self, pair: PairId) {
        self.waiting.retain(|&(waiting, ..)| waiting != pair);
        if let Some(held) = self.pairs.get_mut(&pair) {
            held.broken = true;
        }
        let at = self.now + self.up_to(Time::micros(100));
        self.later.push((at.max(self.free_at), Later::Event(PortEvent::Closed { pair })));
    }

    fn poll(&mut self) -> Option<PortEvent> {
        let event = self.inbox.pop_front()?;
        if let PortEvent::Closed { pair } = event {
            self.pairs.remove(&pair);
        }
        Some(event)
    }
}
