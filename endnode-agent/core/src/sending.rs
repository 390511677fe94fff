//! Flows send: what may be posted is, in turn; what is done is counted; trees are left when they must.

use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;

use super::conversation::UNASKED;
use super::events::{BreakReason, FlowId, Message, PairId, PortCall, Post, Route};
use super::flow::{Flow, Wish};
use super::mesh::Mesh;
use super::pairs::{Pair, Posted, State};
use super::timers::Timer;

/// An answer to so many bytes comes soon, so that what waits to be told with it need not be much.
const SHORT: u32 = 4096;

/// A piece that may be posted now, and until when by the controller's clock it must have left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreseen {
    /// What is to be posted.
    pub post: Post,
    /// Nothing waits for its end, so that its completion need not be told.
    pub is_patient: bool,
    end: Time,
    /// When that was, where it matters.
    now: Option<Time>,
}

impl Mesh {
    /// A flow that has something to post waits for its turn.
    pub(super) fn list(&mut self, index: u32, now: Time) {
        if let Some(flow) = &mut self.flows[index as usize]
            && !flow.listed
            && flow.is_hungry()
        {
            flow.listed = true;
            self.hungry.push(index);
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
        while idle < self.hungry.len() {
            self.turn += 1;
            if self.turn >= self.hungry.len() {
                self.turn = 0;
            }
            let index = self.hungry[self.turn];
            match self.post_one(index, now) {
                Some(post) => {
                    self.ask_port(PortCall::Post(post));
                    idle = 0;
                }
                None => idle += 1,
            }
            if let Some(flow) = self.flows[index as usize].as_mut().filter(|flow| !flow.is_hungry())
            {
                flow.listed = false;
                self.hungry.swap_remove(self.turn);
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
        self.book(&post, (end, true), Some(now));
        Some(post)
    }

    /// Keeps the books of a piece that the port posts: when it must have left, and whether its own completion
    /// will be told. Under a grant the time is known.
    #[inline(always)]
    fn book(&mut self, post: &Post, (end, told): (Time, bool), now: Option<Time>) {
        let Post { pair: id, piece, .. } = post;
        let pair = self.pairs.at(id.slot);
        let Some(flow) = &mut self.flows[piece.flow.index()] else { return };
        // When it must have left is news only for the first piece under way, or under another grant.
        let is_news = end < Time::MAX && (flow.outstanding == 0 || flow.clear_by != end);
        flow.posted(piece);
        flow.clear_by = end;
        if pair.posted.is_empty() {
            pair.since = now;
            self.arm_first(id.slot, now);
        }
        let pair = self.pairs.at(id.slot);
        pair.posted.push_back(Posted { piece: *piece, told });
        self.counters.posted += 1;
        self.backlog += self.config.wire(piece.bytes.into());
        self.pairs.choose(id.slot);
        if let Some(now) = now.filter(|_| is_news) {
            self.arm_flow(piece.flow.0, now);
        }
        self.counters.posted_bytes += u64::from(piece.bytes);
    }

    /// The one piece that a message will be posted as, for one who posts it before the mesh hears of the message:
    /// then [`keep`](Self::keep) is due. Most messages find their flow as the last one left it; of others nothing
    /// is said. The clock is asked only where the time matters: a grant may have ended.
    #[inline]
    pub fn foresee(
        &self,
        flow: FlowId,
        message: &Message,
        clock: impl FnOnce() -> Time,
    ) -> Option<Foreseen> {
        let open = self.flows.get(flow.index())?.as_ref()?;
        // All at once: nearly always none of it is so.
        let waits = open.is_hungry() | (open.waiting() >= self.config.queue as usize);
        let is_unsettled = open.closing | open.next.is_some() | (open.wish == Wish::None);
        let is_granted = open.current.is_some();
        let prepares = is_granted & self.is_best_effort();
        if waits | is_unsettled | prepares | !self.is_clear_ahead() {
            return None;
        }
        let now = is_granted.then(clock);
        let at = now.unwrap_or_default();
        let (pair, end) = self.standing_lane(open, at)?;
        let piece = open.cut(message, &self.config, self.room(pair, end, at)?)?;
        let ticket = self.pairs.peek(pair)?.next_ticket();
        // A grant's end waits for what is under way, and an answer to a long message is far.
        let is_patient = !is_granted & (piece.bytes <= SHORT);
        let post = Post { pair, ticket, piece };
        piece.last.then_some(Foreseen { post, is_patient, end, now })
    }

    /// As [`Call::Send`](super::Call::Send), of a message that was posted as foreseen just now. Where its own
    /// completion will not be `told` but a later one's, nobody will know how long it took.
    #[inline]
    pub fn keep(&mut self, message: Message, foreseen: &Foreseen, told: bool) {
        let Foreseen { post, end, now, .. } = foreseen;
        if let Some(flow) = &mut self.flows[post.piece.flow.index()] {
            flow.push(message, self.config.queue);
            self.book(post, (*end, told), *now);
        }
    }

    /// How many bytes on the wire may be posted now so that they have left by `end`; none if as many pieces are
    /// posted as may be. What the port still has to send goes first, and at worst it has begun with none of it.
    #[inline(always)]
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
    #[inline]
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
    #[inline(always)]
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
            self.hurry(index);
            return None;
        }
        let id = self.pairs.id(slot);
        let flow = self.flows[index as usize].as_mut()?;
        self.counters.changes += u64::from(flow.on.replace(id).is_some());
        Some(id)
    }

    /// Somebody waits until nothing of a flow is under way.
    pub(super) fn hurry(&mut self, index: u32) {
        let flow = self.flows[index as usize].as_ref().filter(|flow| flow.outstanding > 0);
        if let Some(pair) = flow.and_then(|flow| flow.on)
            && self.pairs.get(pair).is_some_and(Pair::hurries)
        {
            self.ask_port(PortCall::Hurry { pair });
        }
    }

    fn permit(&self, flow: &Flow, now: Time) -> Option<(TreeId, Time)> {
        if let Some(grant) = &flow.current {
            let certain = self.clock.error(now) <= self.talk.terms.clock_error;
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
        let guard = self.talk.terms.guard;
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
        let gone = |flow: &Flow| clear && flow.closing && flow.wish == Wish::None;
        if self.flows[index as usize].as_ref().is_some_and(gone) {
            self.remove(index);
        }
        self.arm_flow(index, now);
    }

    /// A flow's last piece under way is done. Most flows wait for nothing but time then.
    #[inline]
    fn rest(&mut self, index: u32, now: Time) {
        let Some(flow) = &self.flows[index as usize] else { return };
        if flow.closing || flow.next.is_some() || flow.is_hungry() {
            return self.tend(index, now);
        }
        let at = if flow.settled > now {
            flow.settled
        } else if matches!(flow.wish, Wish::Asked(_)) {
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
            Wish::None if flow.is_unserved() && now >= flow.ask_at => Wish::Ask,
            Wish::Ask if flow.closing => Wish::None,
            Wish::Asked(_) if clear && (flow.closing || lingered) => {
                (flow.current, flow.next) = (None, None);
                Wish::Withdraw
            }
            wish => wish,
        };
        self.talk.wishes |= matches!(flow.wish, Wish::Ask | Wish::Withdraw);
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
        let (clock, config, guard) = (self.clock, &self.config, self.talk.terms.guard);
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
            (matches!(flow.wish, Wish::Asked(_)) && flow.is_idle())
                .then_some(flow.idle_since + config.linger),
        ];
        if let Some(at) = moments.into_iter().flatten().filter(|&at| at < Time::MAX).min() {
            self.timers.set(Timer::Flow(index), at.max(now + Time(1)));
        }
    }

    /// As [`PortEvent::Done`](super::PortEvent::Done), on the short way: the next message that is complete now
    /// that a queue pair has done a piece and all before it, and how long it took at most since it was due. When
    /// there is none left, [`go_on`](Self::go_on) is due.
    #[inline(always)]
    pub fn finish(&mut self, id: PairId, ticket: u64, now: Time) -> Option<(FlowId, u64, Time)> {
        loop {
            // What waited for a flow's last piece under way goes on when its message has been told.
            if let Some(index) = self.quiet.take() {
                self.rest(index, now);
            }
            let done = self.pairs.get(id).and_then(|pair| pair.finish(ticket, now))?;
            let piece = &done.piece;
            self.counters.done += 1;
            self.backlog -= self.config.wire(piece.bytes.into());
            let index = piece.flow.0;
            let Some(flow) = &mut self.flows[index as usize] else {
                continue;
            };
            let complete = flow.done(&done, now, self.config.settle);
            self.quiet = (flow.outstanding == 0).then_some(index);
            if let Some(message) = complete {
                self.counters.messages += 1;
                return Some((flow.id, message.id, now - message.due));
            }
        }
    }
}
