//! Flows send: what may be posted is, in turn; what is done is counted; trees are left when they must.

use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;

use super::events::{BreakReason, Notice, PairId, PortCall, Report};
use super::flow::Flow;
use super::mesh::Mesh;
use super::orders::UNASKED;
use super::pairs::{Posted, State};
use super::timers::Timer;

impl Mesh {
    /// A flow may have something to post.
    pub(super) fn feed(&mut self, index: u32, now: Time) {
        if let Some(flow) = &mut self.flows[index as usize]
            && !flow.listed
            && flow.is_hungry()
        {
            flow.listed = true;
            self.hungry.push(index);
            if let Some(peer) = self.unasked_peer(index) {
                self.want(peer, UNASKED, now);
            }
        }
        self.tend(index, now);
    }

    fn unasked_peer(&self, index: u32) -> Option<Guid> {
        let flow = self.flows[index as usize].as_ref()?;
        (self.is_best_effort() && flow.current.is_none()).then_some(flow.peer)
    }

    /// Posts as much as may be, one piece of each flow in turn.
    pub(super) fn post_all(&mut self, now: Time) {
        let mut idle = 0;
        while idle < self.hungry.len() {
            self.turn = (self.turn + 1) % self.hungry.len();
            let index = self.hungry[self.turn];
            if self.post_one(index, now) {
                idle = 0;
            } else {
                idle += 1;
            }
            if let Some(flow) = self.flows[index as usize].as_mut().filter(|flow| !flow.is_hungry())
            {
                flow.listed = false;
                self.hungry.swap_remove(self.turn);
            }
        }
    }

    /// Posts a flow's next piece if it may be: whether it was.
    fn post_one(&mut self, index: u32, now: Time) -> bool {
        self.advance(index, now);
        let Some((slot, end)) = self.lane(index, now) else {
            return false;
        };
        let id = self.pairs.id(slot);
        let pair = self.pairs.at(slot);
        let Some(flow) = &mut self.flows[index as usize] else {
            return false;
        };
        if pair.posted.len() >= self.config.depth as usize {
            return false;
        }
        // What the port still has to send goes first, and at worst it has begun with none of it.
        let room = self.config.sendable(end - self.clock.latest(now));
        let Some(piece) = flow.upcoming(&self.config, room.saturating_sub(self.backlog)) else {
            return false;
        };
        flow.posted(&piece);
        flow.clear_by = end;
        let ticket = pair.next_ticket();
        pair.posted.push_back(Posted { piece, since: now });
        self.pairs.choose(slot);
        self.backlog += self.config.wire(piece.bytes.into());
        self.counters.posted += 1;
        self.counters.posted_bytes += u64::from(piece.bytes);
        self.ask_port(PortCall::Post { pair: id, ticket, piece });
        self.arm_pair(slot, now);
        self.arm_flow(index, now);
        true
    }

    /// The queue pair that a flow may post on now, and until when by the controller's clock what it posts
    /// must have left. Changes over from the one before if that is clear.
    fn lane(&mut self, index: u32, now: Time) -> Option<(u32, Time)> {
        let flow = self.flows[index as usize].as_ref()?;
        let peer = flow.peer;
        let (tree, end) = self.permit(flow, now)?;
        let Some(slot) = self.pairs.find(peer, tree) else {
            self.want(peer, tree, now);
            return None;
        };
        if self.pairs.at(slot).state != State::Ready {
            return None;
        }
        let id = self.pairs.id(slot);
        if self.flows[index as usize].as_ref()?.on != Some(id) {
            if !self.is_clear(index, now) {
                return None;
            }
            self.tell_drained(index, now);
            let flow = self.flows[index as usize].as_mut()?;
            self.counters.changes += u64::from(flow.on.replace(id).is_some());
        }
        Some((slot, end))
    }

    fn permit(&self, flow: &Flow, now: Time) -> Option<(TreeId, Time)> {
        match flow.current {
            Some(grant) => {
                let end = grant.until - self.config.guard;
                (self.clock.latest(now) < end).then_some((grant.tree, end))
            }
            None => self.is_best_effort().then_some((UNASKED, Time::MAX)),
        }
    }

    /// Whether nothing of a flow is on any link.
    fn is_clear(&mut self, index: u32, now: Time) -> bool {
        let Some(flow) = &self.flows[index as usize] else {
            return true;
        };
        let on = flow.on.and_then(|on| self.pairs.get(on));
        let stopped = on.is_none_or(|pair| pair.state != State::Closing);
        flow.outstanding == 0 && now >= flow.settled && stopped
    }

    /// Grants come into force and end.
    pub(super) fn advance(&mut self, index: u32, now: Time) {
        let Some(flow) = &mut self.flows[index as usize] else {
            return;
        };
        let earliest = self.clock.earliest(now);
        if let Some(next) = flow.next.take_if(|next| earliest >= next.from)
            && let Some(left) = flow.current.replace(next)
            && left.tree != next.tree
        {
            self.leave(index, left.tree, now);
        }
        let latest = self.clock.latest(now);
        if let Some(flow) = &mut self.flows[index as usize] {
            flow.current.take_if(|current| latest >= current.until - self.config.guard);
        }
    }

    /// A tree was taken from a flow: the controller is told when it is clear.
    pub(super) fn leave(&mut self, index: u32, tree: TreeId, now: Time) {
        let clear = self.is_clear(index, now);
        let Some(flow) = &mut self.flows[index as usize] else {
            return;
        };
        let on = flow.on.and_then(|on| self.pairs.get(on)).map(|pair| pair.tree);
        if clear || on != Some(tree) {
            let (flow, order) = (flow.id, flow.ordered.1);
            self.report(Report::Drained { flow, tree, order });
        } else {
            flow.owed = Some(tree);
        }
    }

    fn tell_drained(&mut self, index: u32, now: Time) {
        if !self.is_clear(index, now) {
            return;
        }
        if let Some(flow) = &mut self.flows[index as usize]
            && let Some(tree) = flow.owed.take()
        {
            let (flow, order) = (flow.id, flow.ordered.1);
            self.report(Report::Drained { flow, tree, order });
        }
    }

    /// What a flow has to do by itself, now.
    pub(super) fn tend(&mut self, index: u32, now: Time) {
        self.advance(index, now);
        self.stop_overrun(index, now);
        self.tell_drained(index, now);
        let clear = self.is_clear(index, now);
        let Some(flow) = &mut self.flows[index as usize] else {
            return;
        };
        let id = flow.id;
        let lingered = flow.is_idle() && now >= flow.idle_since + self.config.linger;
        if flow.is_unserved() && now >= flow.ask_at {
            flow.ask_at = now + self.config.ask_again;
            flow.asked = true;
            let peer = flow.peer;
            self.report(Report::Request { flow: id, peer });
        } else if clear && flow.asked && (flow.closing || lingered) {
            flow.asked = false;
            (flow.current, flow.next, flow.ask_at) = (None, None, Time::ZERO);
            self.report(Report::Release { flow: id });
        }
        let closed = |flow: &Flow| clear && flow.closing;
        if self.flows[index as usize].as_ref().is_some_and(closed) {
            self.remove(index);
        }
        self.arm_flow(index, now);
    }

    /// A grant ended and the port has not sent everything: whatever it sends now, it sends over links
    /// that may be another's.
    fn stop_overrun(&mut self, index: u32, now: Time) {
        let Some(flow) = &self.flows[index as usize] else {
            return;
        };
        let over = self.clock.earliest(now) >= flow.clear_by + self.config.acknowledgement;
        if let Some(on) = flow.on.filter(|_| over && flow.outstanding > 0) {
            self.counters.overruns += 1;
            self.break_pair(on.slot, BreakReason::Overrun, now);
        }
    }

    pub(super) fn arm_flow(&mut self, index: u32, now: Time) {
        let (clock, config) = (self.clock, &self.config);
        let Some(flow) = &mut self.flows[index as usize] else {
            return;
        };
        let late = clock.surely_from(flow.clear_by + config.acknowledgement);
        let moments = [
            flow.next.map(|next| clock.surely_from(next.from)),
            flow.current.map(|current| clock.maybe_from(current.until - config.guard)),
            (flow.outstanding > 0).then_some(late),
            (flow.settled > now).then_some(flow.settled),
            flow.is_unserved().then_some(flow.ask_at),
            (flow.asked && flow.is_idle()).then_some(flow.idle_since + config.linger),
        ];
        if let Some(at) = moments.into_iter().flatten().filter(|&at| at < Time::MAX).min() {
            self.timers.set(Timer::Flow(index), at.max(now + Time(1)), &mut flow.timer);
        }
    }

    /// A queue pair has done a piece and all before it.
    pub(super) fn done(&mut self, id: PairId, ticket: u64, now: Time) {
        while let Some(piece) = self.pairs.get(id).and_then(|pair| pair.finish(ticket, now)) {
            self.counters.done += 1;
            self.backlog -= self.config.wire(piece.bytes.into());
            let index = piece.flow.0;
            let Some(flow) = &mut self.flows[index as usize] else {
                continue;
            };
            if let Some(message) = flow.done(&piece, now, self.config.settle) {
                self.counters.messages += 1;
                let (flow, message, latency) = (flow.id, message.id, now - message.due);
                self.tell(Notice::Sent { flow, message, latency });
            }
            if flow_is_quiet(self.flows[index as usize].as_ref()) {
                self.tend(index, now);
            }
        }
    }
}

/// Whether a flow's last piece under way is done: what waited for that may go on.
fn flow_is_quiet(flow: Option<&Flow>) -> bool {
    flow.is_some_and(|flow| flow.outstanding == 0)
}
