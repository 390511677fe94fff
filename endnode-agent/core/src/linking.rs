//! Queue pairs come and go: made when a grant names them, given up when they break or others need the
//! room.

use snin_protocol::Time;

use super::controller_session::UNASKED;
use super::events::{BreakReason, Notice, PairId, PortCall, Route};
use super::mesh::Mesh;
use super::pairs::{Place, State};
use super::timers::Timer;

impl Mesh {
    /// There shall be a queue pair along `route`, as soon as there is room.
    pub(super) fn want(&mut self, route: &Route, now: Time) {
        match self.pairs.place(route) {
            Place::New(slot) => self.connect(slot, now),
            Place::Full => self.make_room(),
            Place::Taken(slot) => {
                let known = &mut self.pairs.at(slot).route;
                if route.dlid.is_some() && known.dlid != route.dlid {
                    known.dlid = route.dlid;
                    self.break_pair(slot, BreakReason::Readdressed, now);
                }
            }
        }
    }

    /// Has as many queue pairs go as are lacking, the least recently used first; those that are lacking take
    /// their places when they are gone.
    fn make_room(&mut self) {
        self.counters.starved += 1;
        let lacking = self.note_wanted();
        for _ in self.pairs.closing(&self.wanted)..lacking {
            let Some(slot) = self.pairs.least_recently_used(&self.wanted) else { return };
            self.counters.evicted += 1;
            self.pairs.at(slot).state = State::Closing;
            let pair = self.pairs.id(slot);
            self.ask_port(PortCall::Close { pair });
        }
    }

    /// A place is free: for whatever is granted and has none, long before its time comes if need be.
    fn fill_room(&mut self, now: Time) {
        for index in 0..self.flows.len() {
            let Some(flow) = &self.flows[index] else { continue };
            let peer = flow.peer;
            for grant in [flow.current, flow.next].into_iter().flatten() {
                if self.pairs.find(peer, grant.tree).is_none() {
                    self.want(&Route { peer, tree: grant.tree, dlid: Some(grant.dlid) }, now);
                }
            }
        }
    }

    /// Notes the slots that flows have grants for, and gives how many grants have none.
    fn note_wanted(&mut self) -> usize {
        self.wanted.fill(false);
        let mut lacking = 0;
        let best_effort = self.is_best_effort();
        for flow in self.flows.iter().flatten() {
            let unasked = (best_effort && flow.is_backlogged()).then_some(UNASKED);
            for tree in flow.granted().chain(unasked) {
                match self.pairs.find(flow.peer, tree) {
                    Some(slot) => self.wanted[slot as usize] = true,
                    None => lacking += 1,
                }
            }
        }
        lacking
    }

    fn is_wanted(&mut self, slot: u32) -> bool {
        self.note_wanted();
        self.wanted[slot as usize]
    }

    fn connect(&mut self, slot: u32, now: Time) {
        if self.port_up {
            self.counters.connects += 1;
            let pair = self.pairs.begin(slot, now + self.config.connect);
            let route = self.pairs.at(slot).route;
            self.ask_port(PortCall::Connect { pair, route });
        } else {
            self.pairs.at(slot).state = State::Paused(now + self.config.reconnect);
        }
        self.arm_pair(slot, now);
    }

    pub(super) fn pair_ready(&mut self, id: PairId) {
        if let Some(pair) = self.pairs.get(id)
            && matches!(pair.state, State::Connecting(_))
        {
            pair.state = State::Ready;
        }
    }

    /// A queue pair is of no use any more: what it had not done goes back to its flows.
    pub(super) fn break_pair(&mut self, slot: u32, reason: BreakReason, now: Time) {
        let pair = self.pairs.at(slot);
        if !matches!(pair.state, State::Connecting(_) | State::Ready) {
            return;
        }
        pair.state = State::Closing;
        pair.failures = pair.failures.saturating_add(1);
        let Route { peer, tree, .. } = pair.route;
        while let Some(piece) = self.pairs.at(slot).posted.pop_back() {
            self.pairs.at(slot).doubtful += self.config.wire(piece.bytes.into());
            self.counters.again += 1;
            if let Some(flow) = &mut self.flows[piece.flow.index()] {
                flow.take_back(piece);
            }
        }
        self.counters.broken += 1;
        self.notify(Notice::Broken { peer, tree, reason });
        let pair = self.pairs.id(slot);
        self.ask_port(PortCall::Close { pair });
        for index in 0..self.flows.len() as u32 {
            if self.flows[index as usize].as_ref().is_some_and(|flow| flow.on == Some(pair)) {
                self.list(index, now);
                self.tend(index, now);
            }
        }
    }

    /// Nothing of a queue pair will be sent any more.
    pub(super) fn pair_closed(&mut self, id: PairId, now: Time) {
        let Some(pair) = self.pairs.get(id) else {
            return;
        };
        if pair.state != State::Closing {
            return;
        }
        let failures = pair.failures;
        self.backlog -= std::mem::take(&mut pair.doubtful);
        if self.is_wanted(id.slot) {
            if failures == 0 {
                self.connect(id.slot, now);
            } else {
                let pause = self.pause(failures);
                self.pairs.at(id.slot).state = State::Paused(now + pause);
                self.arm_pair(id.slot, now);
            }
        } else {
            self.pairs.free(id.slot);
            self.fill_room(now);
        }
        // A flow that was on it may go on elsewhere once its last piece is off the links: no completion says
        // when, but the guard covers the longest path.
        for index in 0..self.flows.len() as u32 {
            if let Some(flow) = &mut self.flows[index as usize]
                && flow.on == Some(id)
            {
                flow.on = None;
                flow.settled = now + self.controller.terms.guard.max(self.config.settle);
                self.tend(index, now);
            }
        }
    }

    /// Doubles with each failure in a row.
    fn pause(&self, failures: u32) -> Time {
        let doubled = self.config.reconnect * (1 << (failures - 1).min(30));
        doubled.min(self.config.reconnect_most)
    }

    pub(super) fn tend_pair(&mut self, slot: u32, now: Time) {
        let stall = self.config.stall;
        let pair = self.pairs.at(slot);
        let due = pair.deadline(stall) <= now;
        match pair.state {
            State::Connecting(_) if due => self.break_pair(slot, BreakReason::Unconnected, now),
            State::Ready if due => self.break_pair(slot, BreakReason::Stalled, now),
            State::Paused(_) if due => {
                if self.is_wanted(slot) {
                    self.connect(slot, now);
                } else {
                    self.pairs.free(slot);
                }
            }
            _ => self.arm_pair(slot, now),
        }
    }

    pub(super) fn arm_pair(&mut self, slot: u32, now: Time) {
        let stall = self.config.stall;
        let pair = self.pairs.at(slot);
        let at = pair.deadline(stall);
        if at < Time::MAX {
            self.timers.set(Timer::Pair(slot), at.max(now + Time(1)));
        }
    }

    pub(super) fn port_is_down(&mut self, now: Time) {
        self.port_up = false;
        for slot in 0..self.pairs.limit() as u32 {
            self.break_pair(slot, BreakReason::PortDown, now);
        }
    }

    pub(super) fn port_is_up(&mut self, now: Time) {
        self.port_up = true;
        for slot in 0..self.pairs.limit() as u32 {
            if matches!(self.pairs.at(slot).state, State::Paused(_)) {
                self.pairs.at(slot).state = State::Paused(now);
                self.tend_pair(slot, now);
            }
        }
    }
}
