//! Queue pairs come and go: made when a grant names them, given up when they break or others need the
//! room.

use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;
use snin_protocol::message::Grant;

use super::context::Context;
use super::events::{BreakReason, Notice, PairId, PortCall, Route};
use super::flow::Flow;
use super::flows::Flows;
use super::pairs::{Pairs, Place, State};
use super::timers::Timer;

/// The tree that carries all traffic without a grant.
pub(super) const UNASKED: TreeId = TreeId(0);

/// The queue pairs of a mesh, and the port that they share.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) pairs: Pairs,
    /// Room to note the slots that flows want.
    wanted: Vec<bool>,
    port_up: bool,
    /// Bytes posted and not done: what the port may still have to send.
    pub(super) backlog: u64,
}

impl Links {
    pub(super) fn new(limit: u32, depth: u32) -> Self {
        let wanted = vec![false; limit as usize];
        Self { pairs: Pairs::new(limit, depth), wanted, port_up: true, backlog: 0 }
    }

    /// There shall be a queue pair along `route`, as soon as there is room.
    pub(super) fn want(
        &mut self,
        context: &mut Context,
        flows: &mut Flows,
        route: &Route,
        now: Time,
    ) {
        match self.pairs.place(route) {
            Place::New(slot) => self.connect(context, slot, now),
            Place::Full => self.make_room(context, flows),
            Place::Taken(slot) => {
                let known = &mut self.pairs.at(slot).route;
                if route.dlid.is_some() && known != route {
                    *known = *route;
                    self.break_pair(context, flows, slot, BreakReason::Readdressed, now);
                }
            }
        }
    }

    /// Has as many queue pairs go as are lacking, the least recently used first; those that are lacking take
    /// their places when they are gone.
    fn make_room(&mut self, context: &mut Context, flows: &Flows) {
        context.counters.starved += 1;
        let lacking = self.note_wanted(context, flows);
        for _ in self.pairs.closing(&self.wanted)..lacking {
            let Some(slot) = self.pairs.least_recently_used(&self.wanted) else { return };
            context.counters.evicted += 1;
            self.pairs.at(slot).state = State::Closing;
            context.ask_port(PortCall::Close { pair: self.pairs.id(slot) });
        }
    }

    /// A place is free: grants that have no queue pair get one, those included whose time has not come.
    fn fill_room(&mut self, context: &mut Context, flows: &mut Flows, now: Time) {
        for index in 0..flows.limit() {
            let Some(flow) = flows.get(index) else { continue };
            let peer = flow.peer;
            for grant in [flow.current, flow.next].into_iter().flatten() {
                if self.pairs.find(peer, grant.tree).is_none() {
                    let route = along(peer, &grant);
                    self.want(context, flows, &route, now);
                }
            }
        }
    }

    /// Notes the slots that flows have grants for, and gives how many grants have none.
    fn note_wanted(&mut self, context: &Context, flows: &Flows) -> usize {
        self.wanted.fill(false);
        let mut lacking = 0;
        for flow in flows.iter() {
            let unasked = (context.is_best_effort && flow.is_backlogged()).then_some(UNASKED);
            for tree in flow.granted().chain(unasked) {
                match self.pairs.find(flow.peer, tree) {
                    Some(slot) => self.wanted[slot as usize] = true,
                    None => lacking += 1,
                }
            }
        }
        lacking
    }

    fn is_wanted(&mut self, context: &Context, flows: &Flows, slot: u32) -> bool {
        self.note_wanted(context, flows);
        self.wanted[slot as usize]
    }

    /// A flow that has something to post waits for its turn.
    pub(super) fn list(&mut self, context: &mut Context, flows: &mut Flows, index: u32, now: Time) {
        let granted = |flow: &Flow| flow.current.is_some().then_some(flow.peer);
        // By the time the grant has ended; without one it is found missing at once.
        if let Some(peer) = flows.list(index).and_then(granted)
            && context.is_best_effort
        {
            self.want(context, flows, &unasked(peer), now);
        }
    }

    /// Makes queue pairs for sending without a grant.
    pub(super) fn want_unasked(&mut self, context: &mut Context, flows: &mut Flows, now: Time) {
        if context.is_best_effort {
            for at in 0..flows.backlogged().len() {
                if let Some(peer) = flows.get(flows.backlogged()[at]).map(|flow| flow.peer) {
                    self.want(context, flows, &unasked(peer), now);
                }
            }
        }
    }

    fn connect(&mut self, context: &mut Context, slot: u32, now: Time) {
        if self.port_up {
            context.counters.connects += 1;
            let pair = self.pairs.begin(slot, now + context.config.connect);
            let route = self.pairs.at(slot).route;
            context.ask_port(PortCall::Connect { pair, route });
        } else {
            self.pairs.at(slot).state = State::Paused(now + context.config.reconnect);
        }
        self.arm(context, slot, now);
    }

    /// A queue pair is connected.
    pub(super) fn ready(&mut self, id: PairId) {
        if let Some(pair) = self.pairs.get(id)
            && matches!(pair.state, State::Connecting(_))
        {
            pair.state = State::Ready;
        }
    }

    /// The port says that a queue pair is of no use any more.
    pub(super) fn broken(
        &mut self,
        context: &mut Context,
        flows: &mut Flows,
        (id, reason): (PairId, BreakReason),
        now: Time,
    ) {
        if self.pairs.get(id).is_some() {
            self.break_pair(context, flows, id.slot, reason, now);
        }
    }

    /// A queue pair is of no use any more: what it had not done goes back to its flows.
    pub(super) fn break_pair(
        &mut self,
        context: &mut Context,
        flows: &mut Flows,
        slot: u32,
        reason: BreakReason,
        now: Time,
    ) {
        let pair = self.pairs.at(slot);
        if !matches!(pair.state, State::Connecting(_) | State::Ready) {
            return;
        }
        pair.state = State::Closing;
        // One that is to lead elsewhere has not failed: it is made anew without a pause.
        let failed = reason != BreakReason::Readdressed;
        pair.failures = pair.failures.saturating_add(u32::from(failed));
        let Route { peer, tree, .. } = pair.route;
        while let Some(piece) = self.pairs.at(slot).posted.pop_back() {
            self.pairs.at(slot).doubtful += context.config.wire(piece.bytes.into());
            context.counters.again += 1;
            if let Some(flow) = flows.find_mut(piece.flow) {
                flow.take_back(piece);
            }
        }
        context.counters.broken += 1;
        context.notify(Notice::Broken { peer, tree, reason });
        let pair = self.pairs.id(slot);
        context.ask_port(PortCall::Close { pair });
        for index in 0..flows.limit() {
            if flows.get(index).is_some_and(|flow| flow.on == Some(pair)) {
                self.list(context, flows, index, now);
                flows.tend(context, &self.pairs, index, now);
            }
        }
    }

    /// Nothing of a queue pair will be sent any more.
    pub(super) fn closed(
        &mut self,
        context: &mut Context,
        flows: &mut Flows,
        id: PairId,
        now: Time,
    ) {
        let Some(pair) = self.pairs.get(id) else { return };
        if pair.state != State::Closing {
            return;
        }
        let failures = pair.failures;
        self.backlog -= std::mem::take(&mut pair.doubtful);
        if self.is_wanted(context, flows, id.slot) {
            if failures == 0 {
                self.connect(context, id.slot, now);
            } else {
                let pause = pause(context, failures);
                self.pairs.at(id.slot).state = State::Paused(now + pause);
                self.arm(context, id.slot, now);
            }
        } else {
            self.pairs.free(id.slot);
            self.fill_room(context, flows, now);
        }
        // A flow that was on it may go on elsewhere once its last piece is off the links: no completion says
        // when, but the guard covers the longest path.
        for index in 0..flows.limit() {
            if let Some(flow) = flows.get_mut(index)
                && flow.on == Some(id)
            {
                flow.on = None;
                flow.settled = now + context.terms.guard.max(context.config.settle);
                flows.tend(context, &self.pairs, index, now);
            }
        }
    }

    /// What a queue pair has to do by itself, now.
    pub(super) fn tend(&mut self, context: &mut Context, flows: &mut Flows, slot: u32, now: Time) {
        let stall = context.config.stall;
        let pair = self.pairs.at(slot);
        let due = pair.deadline(stall) <= now;
        let broken = match pair.state {
            State::Connecting(_) if due => BreakReason::Unconnected,
            State::Ready if due => BreakReason::Stalled,
            State::Paused(_) if due => {
                return if self.is_wanted(context, flows, slot) {
                    self.connect(context, slot, now);
                } else {
                    self.pairs.free(slot);
                };
            }
            _ => return self.arm(context, slot, now),
        };
        self.break_pair(context, flows, slot, broken, now);
    }

    /// Sets the timer for the next moment at which a queue pair has to do something by itself.
    pub(super) fn arm(&mut self, context: &mut Context, slot: u32, now: Time) {
        let at = self.pairs.at(slot).deadline(context.config.stall);
        if at < Time::MAX {
            context.timers.set(Timer::Pair(slot), at.max(now + Time(1)));
        }
    }

    pub(super) fn port_is_down(&mut self, context: &mut Context, flows: &mut Flows, now: Time) {
        self.port_up = false;
        for slot in 0..self.pairs.limit() as u32 {
            self.break_pair(context, flows, slot, BreakReason::PortDown, now);
        }
    }

    pub(super) fn port_is_up(&mut self, context: &mut Context, flows: &mut Flows, now: Time) {
        self.port_up = true;
        for slot in 0..self.pairs.limit() as u32 {
            if matches!(self.pairs.at(slot).state, State::Paused(_)) {
                self.pairs.at(slot).state = State::Paused(now);
                self.tend(context, flows, slot, now);
            }
        }
    }
}

/// Where a grant leads.
pub(super) const fn along(peer: Guid, grant: &Grant) -> Route {
    Route { peer, tree: grant.tree, dlid: Some(grant.dlid), sl: grant.sl }
}

/// Where traffic without a grant leads.
pub(super) const fn unasked(peer: Guid) -> Route {
    Route { peer, tree: UNASKED, dlid: None, sl: 0 }
}

/// Doubles with each failure in a row.
fn pause(context: &Context, failures: u32) -> Time {
    let doubled = context.config.reconnect * (1 << (failures - 1).min(30));
    doubled.min(context.config.reconnect_most)
}
