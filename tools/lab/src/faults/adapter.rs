//! An agent's adapter: queue pairs, and one port that sends one piece after the other over the emulated fabric.
//!
//! A queue pair is reliable: what it sends arrives in order or the pair breaks. Where a piece goes is what the
//! switches' tables say at the moment when it leaves.

use std::collections::{BTreeMap, VecDeque};

use snin_agent_core::{BreakReason, PairId, Piece, Port, PortEvent, Post, Route};
use snin_fabric::{Guid, Lid};
use snin_protocol::Time;

/// A queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) peer: Guid,
    pub(super) lid: Option<Lid>,
    /// Which life of the peer's agent made the other end.
    pub(super) peer_life: u32,
    pub(super) broken: bool,
}

/// A piece that waits for the port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) pair: PairId,
    pub(super) ticket: u64,
    pub(super) piece: Piece,
    pub(super) posted: Time,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Adapter {
    /// True time, set before every use.
    pub(super) now: Time,
    /// The port sends nothing else before this.
    pub(super) free_at: Time,
    pub(super) pairs: BTreeMap<PairId, Pair>,
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) inbox: VecDeque<PortEvent>,
    /// Queue pairs that are to be connected, and what will happen by itself.
    pub(super) connecting: Vec<PairId>,
    pub(super) later: Vec<(Time, PortEvent)>,
}

impl Adapter {
    /// The queue pair is in error.
    pub(super) fn break_pair(&mut self, id: PairId, reason: BreakReason, at: Time) {
        if let Some(pair) = self.pairs.get_mut(&id).filter(|pair| !pair.broken) {
            pair.broken = true;
            self.later.push((at, PortEvent::Broken { pair: id, reason }));
        }
        self.waiting.retain(|waiting| waiting.pair != id);
    }

    /// When the port can begin with the next piece, if one waits.
    pub(super) fn next_start(&self) -> Option<Time> {
        self.waiting.front().map(|waiting| waiting.posted.max(self.free_at))
    }
}

impl Port for Adapter {
    fn connect(&mut self, pair: PairId, route: &Route) {
        let Route { peer, dlid, .. } = *route;
        let lid = dlid.map(|dlid| dlid.0);
        let made = Pair { peer, lid, peer_life: 0, broken: false };
        self.pairs.insert(pair, made);
        self.connecting.push(pair);
    }

    fn post(&mut self, post: &Post) {
        let Post { pair, ticket, piece, .. } = *post;
        if self.pairs.get(&pair).is_some_and(|pair| !pair.broken) {
            self.waiting.push_back(Waiting { pair, ticket, piece, posted: self.now });
        }
    }

    fn close(&mut self, pair: PairId) {
        self.waiting.retain(|waiting| waiting.pair != pair);
        if let Some(held) = self.pairs.get_mut(&pair) {
            held.broken = true;
        }
        // The piece that has begun is off the port by then.
        let at = (self.now + Time::micros(50)).max(self.free_at);
        self.later.push((at, PortEvent::Closed { pair }));
    }

    fn poll(&mut self) -> Option<PortEvent> {
        let event = self.inbox.pop_front()?;
        if let PortEvent::Closed { pair } = event {
            self.pairs.remove(&pair);
        }
        Some(event)
    }
}
