//! Flows send: what may be posted is, in turn; what is done is counted; trees are left when they must.

use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;

use super::controller_session::UNASKED;
use super::events::{BreakReason, Notice, PairId, PortCall, Post, Route};
use super::flow::{Flow, RequestState};
use super::mesh::Mesh;
use super::pairs::State;
use super::timers::Timer;

impl Mesh {
    /// A flow that has something to post waits for its turn.
    pub(super) fn list(&mut self, index: u32, now: Time) {
        if let Some(flow) = &mut self.flows[index as usize]
            && !flow.listed
            && flow.is_backlogged()
        {
            flow.listed = true;
            self.backlogged.push(index);
            let (peer, granted) = (flow.peer, flow.current.is_some());
            // By the time the grant has ended; without one it is found missing at once.
            if granted && self.is_best_effort() {
                self.want(&Route { peer, tree: UNASKED, dlid: None }, now);
            }
        }
    }

    /// Posts as much as may be, one piece of each flow in turn.
    pub(super) fn post_all(&mut self, now: Time) {
        let mut idle = 0;
        while idle < self.backlogged.len() {
            self.next_backlogged += 1;
            if self.next_backlogged >= self.backlogged.len() {
                self.next_backlogged = 0;
            }
            let index = self.backlogged[self.next_backlogged];
            match self.post_one(index, now) {
                Some(post) => {
                    self.ask_port(PortCall::Post(post));
                    idle = 0;
                }
                None => idle += 1,
            }
            if let Some(flow) =
                self.flows[index as usize].as_mut().filter(|flow| !flow.is_backlogged())
            {
                flow.listed = false;
                self.backlogged.swap_remove(self.next_backlogged);
            }
        }
    }

    /// A flow's next piece, for the port to post, if it may be.
    fn post_one(&mut self, index: u32, now: Time) -> Option<Post> {
        self.advance(index, now);
        let (pair, end) = self.lane(index, now)?;
        let room = self.room(pair, end, now)?;
        let piece = self.flows[index as usize].as_ref()?.upcoming(&self.config, room)?;
        let ticket = self.pairs.at(pair.slot).next_ticket();
        let post = Post { pair, ticket, piece };
        self.book(&post, end, now);
        Some(post)
    }

    /// Notes a piece that the port posts, and when by the controller's clock it must have left.
    fn book(&mut self, post: &Post, end: Time, now: Time) {
        let Post { pair: id, piece, .. } = post;
        let Some(flow) = &mut self.flows[piece.flow.index()] else { return };
        // A later piece of the same grant moves no timer.
        let moves_timer = end < Time::MAX && (flow.outstanding == 0 || flow.clear_by != end);
        flow.posted(piece);
        flow.clear_by = end;
        let pair = self.pairs.at(id.slot);
        let is_first = pair.posted.is_empty();
        pair.posted.push_back(*piece);
        if is_first {
            pair.since = now;
            self.arm_pair(id.slot, now);
        }
        self.pairs.choose(id.slot);
        if moves_timer {
            self.arm_flow(piece.flow.0, now);
        }
        self.backlog += self.config.wire(piece.bytes.into());
        self.counters.posted += 1;
        self.counters.posted_bytes += u64::from(piece.bytes);
    }

    /// How many bytes on the wire may be posted now so that they have left by `end`; none if as many pieces are
    /// posted as may be. What the port still has to send goes first, and at worst it has begun with none of it.
    fn room(&self, pair: PairId, end: Time, now: Time) -> Option<u64> {
        let posted = self.pairs.peek(pair)?.posted.len();
        if posted >= self.config.depth as usize {
            return None;
        }
        // What nobody granted nobody ends, whatever is known of the time.
        if end == Time::MAX {
            return Some(u64::MAX);
        }
        Some(self.config.sendable(end - self.clock.latest(now)).saturating_sub(self.backlog))
    }

    /// The queue pair that a flow may post on now, and until when by the controller's clock what it posts
    /// must have left. Changes over from the one before if that is clear.
    fn lane(&mut self, index: u32, now: Time) -> Option<(PairId, Time)> {
        let flow = self.flows[index as usize].as_ref()?;
        if let Some(lane) = self.standing_lane(flow, now) {
            return Some(lane);
        }
        let peer = flow.peer;
        let (tree, end) = self.permit(flow, now)?;
        Some((self.change_over(index, (peer, tree), now)?, end))
    }

    /// That lane, if it is the one that the flow posted on last.
    fn standing_lane(&self, flow: &Flow, now: Time) -> Option<(PairId, Time)> {
        let (tree, end) = self.permit(flow, now)?;
        let on = flow.on?;
        let pair = self.pairs.peek(on)?;
        (pair.state == State::Ready && pair.leads(flow.peer, tree)).then_some((on, end))
    }

    /// Has a flow post on another queue pair, if there is one and the one before is clear.
    fn change_over(
        &mut self,
        index: u32,
        (peer, tree): (Guid, TreeId),
        now: Time,
    ) -> Option<PairId> {
        let Some(slot) = self.pairs.find(peer, tree) else {
            let dlid = self.flows[index as usize].as_ref()?.current.map(|grant| grant.dlid);
            self.want(&Route { peer, tree, dlid }, now);
            return None;
        };
        if self.pairs.at(slot).state != State::Ready {
            return None;
        }
        if !self.is_clear(index, now) {
            return None;
        }
        let id = self.pairs.id(slot);
        let flow = self.flows[index as usize].as_mut()?;
        self.counters.changes += u64::from(flow.on.replace(id).is_some());
        Some(id)
    }

    fn permit(&self, flow: &Flow, now: Time) -> Option<(TreeId, Time)> {
        if let Some(grant) = &flow.current {
            let certain = self.clock.error(now) <= self.controller.terms.clock_error;
            let end = self.end(grant);
            return (certain && self.clock.latest(now) < end).then_some((grant.tree, end));
        }
        self.is_best_effort().then_some((UNASKED, Time::MAX))
    }

    /// Whether nothing of a flow is on any link.
    pub(super) fn is_clear(&mut self, index: u32, now: Time) -> bool {
        let Some(flow) = &self.flows[index as usize] else {
            return true;
        };
        let on = flow.on.and_then(|on| self.pairs.get(on));
        let stopped = on.is_none_or(|pair| pair.state != State::Closing);
        flow.outstanding == 0 && now >= flow.settled && stopped
    }

    /// Grants come into force and end.
    pub(super) fn advance(&mut self, index: u32, now: Time) {
        let guard = self.controller.terms.guard;
        if let Some(flow) = &mut self.flows[index as usize]
            && flow.granted().next().is_some()
        {
            let (earliest, latest) = (self.clock.earliest(now), self.clock.latest(now));
            if let Some(next) = flow.next.take_if(|next| earliest >= next.from) {
                flow.current = Some(next);
            }
            flow.current.take_if(|current| latest >= current.until - guard);
        }
    }

    /// What a flow has to do by itself, now.
    pub(super) fn tend(&mut self, index: u32, now: Time) {
        self.advance(index, now);
        self.stop_overrun(index, now);
        self.wish(index, now);
        let clear = self.is_clear(index, now);
        let gone = |flow: &Flow| clear && flow.closing && flow.wish == RequestState::None;
        if self.flows[index as usize].as_ref().is_some_and(gone) {
            self.remove(index);
        }
        self.arm_flow(index, now);
    }

    /// A flow's last piece under way is done. Most flows wait for nothing but time then.
    fn rest(&mut self, index: u32, now: Time) {
        let Some(flow) = &self.flows[index as usize] else { return };
        if flow.closing || flow.next.is_some() || flow.is_backlogged() {
            return self.tend(index, now);
        }
        let at = if flow.settled > now {
            flow.settled
        } else if matches!(flow.wish, RequestState::Asked(_)) {
            flow.idle_since + self.config.linger
        } else {
            return;
        };
        self.timers.set(Timer::Flow(index), at.max(now + Time(1)));
    }

    /// What the controller is to be told of a flow.
    fn wish(&mut self, index: u32, now: Time) {
        let clear = self.is_clear(index, now);
        let Some(flow) = &mut self.flows[index as usize] else {
            return;
        };
        let lingered = flow.is_idle() && now >= flow.idle_since + self.config.linger;
        flow.wish = match flow.wish {
            RequestState::None if flow.is_unserved() && now >= flow.ask_at => RequestState::Ask,
            RequestState::Ask if flow.closing => RequestState::None,
            RequestState::Asked(_) if clear && (flow.closing || lingered) => {
                (flow.current, flow.next) = (None, None);
                RequestState::Withdraw
            }
            wish => wish,
        };
        self.controller.wishes |= matches!(flow.wish, RequestState::Ask | RequestState::Withdraw);
    }

    /// A grant ended and the port has not sent everything: whatever it sends now, it sends over links
    /// that may be another's.
    fn stop_overrun(&mut self, index: u32, now: Time) {
        let Some(flow) = &self.flows[index as usize] else {
            return;
        };
        if flow.outstanding == 0 {
            return;
        }
        let over = self.clock.earliest(now) >= flow.clear_by + self.config.acknowledgement;
        if let Some(on) = flow.on.filter(|_| over) {
            self.counters.overruns += 1;
            self.break_pair(on.slot, BreakReason::Overrun, now);
        }
    }

    pub(super) fn arm_flow(&mut self, index: u32, now: Time) {
        let (clock, config, guard) = (self.clock, &self.config, self.controller.terms.guard);
        let Some(flow) = &mut self.flows[index as usize] else {
            return;
        };
        let late = clock.surely_from(flow.clear_by + config.acknowledgement, now);
        let moments = [
            flow.next.map(|next| clock.surely_from(next.from, now)),
            flow.current.map(|current| clock.maybe_from(current.until - guard, now)),
            (flow.outstanding > 0).then_some(late),
            (flow.settled > now).then_some(flow.settled),
            flow.is_unserved().then_some(flow.ask_at),
            (matches!(flow.wish, RequestState::Asked(_)) && flow.is_idle())
                .then_some(flow.idle_since + config.linger),
        ];
        if let Some(at) = moments.into_iter().flatten().filter(|&at| at < Time::MAX).min() {
            self.timers.set(Timer::Flow(index), at.max(now + Time(1)));
        }
    }

    /// A queue pair has done the piece with that ticket, and all before it.
    pub(super) fn done(&mut self, id: PairId, ticket: u64, now: Time) {
        while let Some(piece) = self.pairs.get(id).and_then(|pair| pair.finish(ticket, now)) {
            self.counters.done += 1;
            self.backlog -= self.config.wire(piece.bytes.into());
            let index = piece.flow.0;
            let Some(flow) = &mut self.flows[piece.flow.index()] else { continue };
            let complete = flow.done(&piece, now, self.config.settle);
            let is_drained = flow.outstanding == 0;
            if let Some(message) = complete {
                self.counters.messages += 1;
                let latency = now - message.due;
                self.notify(Notice::Sent { flow: piece.flow, message: message.id, latency });
            }
            if is_drained {
                self.rest(index, now);
            }
        }
    }
}
