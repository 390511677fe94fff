//! Flows send: what may be posted is, in turn; what is done is counted; trees are left when they must.

use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;
use snin_protocol::message::Grant;

use super::config::carried;
use super::context::Context;
use super::events::{BreakReason, FlowId, Notice, PairId, PortCall, PortEvent, Post, Route};
use super::flow::{Flow, RequestState};
use super::flows::Flows;
use super::linking::{Links, UNASKED, along, unasked};
use super::pairs::State;
use super::timers::Timer;

/// The flows from here, and the queue pairs that they send on.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) flows: Flows,
    pub(super) links: Links,
}

impl Sender {
    /// A flow's queue has become longer.
    pub(super) fn queued(
        &mut self,
        context: &mut Context,
        flow: FlowId,
        is_unserved: bool,
        now: Time,
    ) {
        self.links.list(context, &mut self.flows, flow.0, now);
        let waits =
            |flow: &Flow| flow.granted().next().is_none() && context.time_slots.cover(flow.peer);
        if is_unserved && self.flows.find(flow).is_some_and(waits) {
            self.take_time_slots(context, flow.0, now);
        }
        // Of everything else that it has to do by itself, timers know when.
        if is_unserved {
            self.tend(context, flow.0, now);
        }
    }

    /// The port says what became of a queue pair, or of itself.
    pub(super) fn port_event(&mut self, context: &mut Context, event: &PortEvent, now: Time) {
        let Self { flows, links } = self;
        match *event {
            PortEvent::Ready { pair } => links.ready(pair),
            PortEvent::Done { pair, ticket } => self.done(context, pair, ticket, now),
            PortEvent::Broken { pair, reason } => links.broken(context, flows, (pair, reason), now),
            PortEvent::Closed { pair } => links.closed(context, flows, pair, now),
            PortEvent::Up => links.port_is_up(context, flows, now),
            PortEvent::Down => links.port_is_down(context, flows, now),
            // What comes in is no business of what is sent.
            PortEvent::Arrived(_) | PortEvent::PeerGone { .. } => {}
        }
    }

    /// A queue pair has something to do by itself.
    pub(super) fn tend_pair(&mut self, context: &mut Context, slot: u32, now: Time) {
        self.links.tend(context, &mut self.flows, slot, now);
    }

    /// Makes queue pairs for sending without a grant.
    pub(super) fn want_unasked(&mut self, context: &mut Context, now: Time) {
        self.links.want_unasked(context, &mut self.flows, now);
    }

    /// A flow may send along a tree in a time, instead of what it was granted before.
    pub(super) fn grant(&mut self, context: &mut Context, index: u32, grant: &Grant, now: Time) {
        self.flows.advance(context, index, now);
        let end = context.end(grant);
        let Some(flow) = self.flows.get_mut(index) else { return };
        context.counters.grants += 1;
        flow.wait = None;
        let of_tree = flow.current.filter(|current| current.tree == grant.tree);
        match of_tree {
            // More of the same: nothing has to stop.
            Some(current) if current.dlid == grant.dlid && grant.from <= current.until => {
                flow.current = Some(Grant { from: current.from, ..*grant });
                flow.next = None;
                if flow.outstanding > 0 {
                    flow.clear_by = flow.clear_by.max(end);
                }
            }
            // Trees were numbered anew: the queue pair leads elsewhere from now on, and what was granted before
            // has none any more.
            Some(current) if current.dlid != grant.dlid => {
                (flow.current, flow.next) = (None, Some(*grant));
            }
            _ => flow.next = Some(*grant),
        }
        let route = along(flow.peer, grant);
        self.links.want(context, &mut self.flows, &route, now);
    }

    /// A flow to another member of the agent's collective has what its time slots give it, and nothing else.
    pub(super) fn take_time_slots(&mut self, context: &mut Context, index: u32, now: Time) {
        let Some(flow) = self.flows.get(index) else { return };
        let (id, peer) = (flow.id, flow.peer);
        let others = |grant: &Grant| !context.time_slots.gave(grant);
        if flow.current.iter().chain(&flow.next).any(others) {
            self.stop(index);
        }
        let moment = context.clock.earliest(now);
        let mut slots = context.time_slots.at(moment);
        let grants =
            [slots.next(), slots.next()].map(|slot| context.time_slots.grant(id, peer, &slot?));
        drop(slots);
        for grant in grants.iter().flatten() {
            self.grant(context, index, grant, now);
        }
    }

    /// Another time slot has begun, or another collective.
    pub(super) fn next_time_slot(&mut self, context: &mut Context, now: Time) {
        for index in 0..self.flows.limit() {
            if self.flows.get(index).is_some_and(|flow| context.time_slots.cover(flow.peer)) {
                self.take_time_slots(context, index, now);
                self.tend(context, index, now);
            }
        }
        let next = context.time_slots.at(context.clock.earliest(now)).next().map(|slot| slot.next);
        if let Some(next) = next {
            let at = context.clock.surely_from(next, now);
            context.timers.set(Timer::TimeSlot, at.max(now + Time(1)));
        }
    }

    /// Without a grant a flow stops at once.
    pub(super) fn stop(&mut self, index: u32) {
        if let Some(flow) = self.flows.get_mut(index) {
            (flow.current, flow.next) = (None, None);
        }
    }

    /// Whether nothing is under way that is not granted.
    pub(super) fn all_conform(&mut self, context: &Context, now: Time) -> bool {
        (0..self.flows.limit()).all(|index| self.conforms(context, index, now))
    }

    fn conforms(&mut self, context: &Context, index: u32, now: Time) -> bool {
        self.flows.advance(context, index, now);
        let clear = self.flows.is_clear(&self.links.pairs, index, now);
        let Some(flow) = self.flows.get(index) else { return true };
        let granted = flow.next.or(flow.current).map(|grant| grant.tree);
        let goes_on = flow.current.is_some_and(|current| Some(current.tree) != granted);
        let on = flow.on.and_then(|on| self.links.pairs.peek(on));
        // One that is closing may still lead where it led before.
        let on = on.filter(|pair| pair.state != State::Closing).map(|pair| pair.route.tree);
        // What is sent without a grant is not reported to the controller.
        let unasked = flow.clear_by == Time::MAX;
        !goes_on && (clear || unasked || on.is_some() && on == granted)
    }

    /// Posts as much as may be, one piece of each flow in turn.
    pub(super) fn post_all(&mut self, context: &mut Context, now: Time) {
        let mut idle = 0;
        while idle < self.flows.backlogged().len() {
            let index = self.flows.take_turn();
            match self.post_one(context, index, now) {
                Some(post) => {
                    context.ask_port(PortCall::Post(post));
                    idle = 0;
                }
                None => idle += 1,
            }
            self.flows.end_turn(index);
        }
    }

    /// A flow's next piece, for the port to post, if it may be.
    fn post_one(&mut self, context: &mut Context, index: u32, now: Time) -> Option<Post> {
        self.flows.advance(context, index, now);
        let (pair, end) = self.pair_of(context, index, now)?;
        let flow = self.flows.get(index)?;
        let pace = pace(context, flow);
        if pace.is_some() && flow.paced_until > now {
            return None;
        }
        let room = self.room(context, pair, (end, pace), now)?;
        let most = pace.map_or(context.config.piece, |rate| context.config.paced_piece(rate));
        let piece = flow.upcoming(&context.config, room, most)?;
        let ticket = self.links.pairs.at(pair.slot).next_ticket();
        let post = Post { pair, ticket, piece, rate: pace.unwrap_or(0) };
        self.book(context, &post, end, now);
        Some(post)
    }

    /// Notes a piece that the port posts, and when by the controller's clock it must have left.
    fn book(&mut self, context: &mut Context, post: &Post, end: Time, now: Time) {
        let Post { pair: id, piece, rate, .. } = post;
        let wire = context.config.wire(piece.bytes.into());
        let Some(flow) = self.flows.find_mut(piece.flow) else { return };
        // A later piece of the same grant moves no timer.
        let moves_timer = end < Time::MAX && (flow.outstanding == 0 || flow.clear_by != end);
        flow.posted(piece);
        flow.clear_by = end;
        if *rate > 0 {
            flow.paced_until = now + Time::carrying(wire, *rate);
        }
        let paced = *rate > 0 && flow.is_backlogged();
        let pair = self.links.pairs.at(id.slot);
        let is_first = pair.posted.is_empty();
        pair.posted.push_back(*piece);
        if is_first {
            pair.since = now;
            self.links.arm(context, id.slot, now);
        }
        self.links.pairs.choose(id.slot);
        if moves_timer || paced {
            self.flows.arm(context, piece.flow.0, now);
        }
        self.links.backlog += wire;
        context.counters.posted += 1;
        context.counters.posted_bytes += u64::from(piece.bytes);
    }

    /// How many bytes on the wire may be posted now so that they have left by `end`; none if as many pieces are
    /// posted as may be. What the port still has to send goes first, and at worst it has begun with none of it.
    /// A paced flow has nothing under way before its slowest link.
    fn room(
        &self,
        context: &Context,
        pair: PairId,
        (end, pace): (Time, Option<u64>),
        now: Time,
    ) -> Option<u64> {
        let posted = self.links.pairs.peek(pair)?.posted.len();
        if posted >= context.config.depth as usize {
            return None;
        }
        // A flow that sends without a grant has no end of one, so the time does not matter.
        if end == Time::MAX {
            return Some(u64::MAX);
        }
        let left = end - context.clock.latest(now);
        let room = context.config.sendable(left).saturating_sub(self.links.backlog);
        Some(pace.map_or(room, |rate| room.min(carried(rate, left))))
    }

    /// The queue pair that a flow may post on now, and until when by the controller's clock what it posts
    /// must have left. Changes over from the one before if that is clear.
    fn pair_of(&mut self, context: &mut Context, index: u32, now: Time) -> Option<(PairId, Time)> {
        let flow = self.flows.get(index)?;
        if let Some(pair) = self.standing_pair(context, flow, now) {
            return Some(pair);
        }
        let peer = flow.peer;
        let (tree, end) = permit(context, flow, now)?;
        Some((self.change_over(context, index, (peer, tree), now)?, end))
    }

    /// That queue pair, if it is the one that the flow posted on last.
    fn standing_pair(&self, context: &Context, flow: &Flow, now: Time) -> Option<(PairId, Time)> {
        let (tree, end) = permit(context, flow, now)?;
        let on = flow.on?;
        let pair = self.links.pairs.peek(on)?;
        (pair.state == State::Ready && pair.leads(flow.peer, tree)).then_some((on, end))
    }

    /// Has a flow post on another queue pair, if there is one and the one before is clear.
    fn change_over(
        &mut self,
        context: &mut Context,
        index: u32,
        (peer, tree): (Guid, TreeId),
        now: Time,
    ) -> Option<PairId> {
        let Some(slot) = self.links.pairs.find(peer, tree) else {
            let current = self.flows.get(index)?.current;
            let route = current.map_or_else(|| unasked(peer), |grant| along(peer, &grant));
            self.links.want(context, &mut self.flows, &Route { tree, ..route }, now);
            return None;
        };
        if self.links.pairs.at(slot).state != State::Ready {
            return None;
        }
        if !self.flows.is_clear(&self.links.pairs, index, now) {
            return None;
        }
        let id = self.links.pairs.id(slot);
        let flow = self.flows.get_mut(index)?;
        context.counters.changes += u64::from(flow.on.replace(id).is_some());
        Some(id)
    }

    /// What a flow has to do by itself, now.
    pub(super) fn tend(&mut self, context: &mut Context, index: u32, now: Time) {
        self.flows.advance(context, index, now);
        self.stop_overrun(context, index, now);
        self.flows.tend(context, &self.links.pairs, index, now);
    }

    /// A flow's last piece under way is done. Most flows wait for nothing but time then.
    fn rest(&mut self, context: &mut Context, index: u32, now: Time) {
        let Some(flow) = self.flows.get(index) else { return };
        if flow.closing || flow.next.is_some() || flow.is_backlogged() {
            return self.tend(context, index, now);
        }
        let at = if flow.settled > now {
            flow.settled
        } else if matches!(flow.wish, RequestState::Asked(_)) {
            flow.idle_since + context.config.linger
        } else {
            return;
        };
        context.timers.set(Timer::Flow(index), at.max(now + Time(1)));
    }

    /// A grant ended and the port has not sent everything: what it sends now goes over links that may be
    /// another's.
    fn stop_overrun(&mut self, context: &mut Context, index: u32, now: Time) {
        let Some(flow) = self.flows.get(index).filter(|flow| flow.outstanding > 0) else { return };
        let over = context.clock.earliest(now) >= flow.clear_by + context.config.acknowledgement;
        if let Some(on) = flow.on.filter(|_| over) {
            context.counters.overruns += 1;
            let reason = BreakReason::Overrun;
            self.links.break_pair(context, &mut self.flows, on.slot, reason, now);
        }
    }

    /// A queue pair has done the piece with that ticket, and all before it.
    fn done(&mut self, context: &mut Context, id: PairId, ticket: u64, now: Time) {
        let finish = |links: &mut Links| links.pairs.get(id)?.finish(ticket, now);
        while let Some(piece) = finish(&mut self.links) {
            context.counters.done += 1;
            self.links.backlog -= context.config.wire(piece.bytes.into());
            let index = piece.flow.0;
            let Some(flow) = self.flows.find_mut(piece.flow) else { continue };
            let complete = flow.done(&piece, now, context.config.settle);
            let is_drained = flow.outstanding == 0;
            if let Some(message) = complete {
                context.counters.messages += 1;
                let latency = now - message.due;
                context.notify(Notice::Sent { flow: piece.flow, message: message.id, latency });
            }
            if is_drained {
                self.rest(context, index, now);
            }
        }
    }
}

/// Bit/s of the slowest link of a flow's way, where that is less than the port sends. Rates of links differ by
/// more than 3 in 100; less than a 64th is how exactly the two are known.
fn pace(context: &Context, flow: &Flow) -> Option<u64> {
    let rate = flow.current.as_ref()?.rate;
    (0 < rate && rate + rate / 64 < context.config.rate).then_some(rate)
}

/// The tree that a flow may send along now, and until when by the controller's clock it must have left.
fn permit(context: &Context, flow: &Flow, now: Time) -> Option<(TreeId, Time)> {
    if let Some(grant) = &flow.current {
        let certain = context.clock.error(now) <= context.terms.clock_error;
        let end = context.end(grant);
        return (certain && context.clock.latest(now) < end).then_some((grant.tree, end));
    }
    context.is_best_effort.then_some((UNASKED, Time::MAX))
}
