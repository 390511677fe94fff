//! What a lease means for the flows: who may send, who has to stop, and when that is confirmed.

use snin_protocol::Time;
use snin_protocol::message::{Answer, Grant, Lease, Verdict};

use super::controller_session::UNASKED;
use super::events::{FlowId, Notice, Route};
use super::flow::RequestState;
use super::mesh::Mesh;

impl Mesh {
    pub(super) fn lease(&mut self, lease: &Lease, now: Time) {
        if lease.sequence < self.controller.lease {
            self.counters.stale_lease += 1;
            return;
        }
        self.controller.unconfirmed = true;
        if lease.sequence == self.controller.lease {
            return;
        }
        self.controller.lease = lease.sequence;
        self.counters.leases += 1;
        self.controller.ask.take_if(|ask| *ask <= lease.heard);
        self.count_unasked(lease);
        for index in 0..self.flows.len() as u32 {
            let Some(flow) = &self.flows[index as usize] else {
                continue;
            };
            let connection = flow.id.into();
            let grants = flow.is_heard(lease.heard).then_some(&lease.grants);
            let grant = grants.and_then(|all| all.iter().find(|one| one.connection == connection));
            match grant {
                Some(grant) if self.is_sound(index, grant, now) => self.grant(index, grant, now),
                _ => self.stop(index),
            }
            self.tend(index, now);
        }
        for answer in &lease.answers {
            self.answer(answer, lease.heard, now);
        }
    }

    fn count_unasked(&mut self, lease: &Lease) {
        let asked = |grant: &&Grant| {
            let flow = self.flows.get(grant.connection.0 as usize);
            flow.and_then(Option::as_ref).is_some_and(|flow| flow.is_heard(lease.heard))
        };
        let asked = lease.grants.iter().filter(asked).count();
        self.counters.unasked_grants += (lease.grants.len() - asked) as u64;
    }

    /// Whether a grant says what a controller may say, and it is not too late for it.
    fn is_sound(&mut self, index: u32, grant: &Grant, now: Time) -> bool {
        let held = self.flows[index as usize].as_ref().and_then(|flow| flow.current);
        let moves = held.is_some_and(|held| held.pinned && held.tree != grant.tree);
        let endless = grant.until - grant.from > self.config.longest_grant;
        if grant.from >= grant.until || endless || moves {
            self.counters.bad_grants += 1;
            return false;
        }
        let late = self.clock.latest(now) >= self.end(grant);
        self.counters.late_grants += u64::from(late);
        !late
    }

    fn grant(&mut self, index: u32, grant: &Grant, now: Time) {
        self.advance(index, now);
        let end = self.end(grant);
        let Some(flow) = &mut self.flows[index as usize] else {
            return;
        };
        self.counters.grants += 1;
        flow.wait = None;
        match &mut flow.current {
            // More of the same: nothing has to stop.
            Some(current) if current.tree == grant.tree && grant.from <= current.until => {
                *current = Grant { from: current.from, ..*grant };
                flow.next = None;
                if flow.outstanding > 0 {
                    flow.clear_by = flow.clear_by.max(end);
                }
            }
            _ => flow.next = Some(*grant),
        }
        let route = Route { peer: flow.peer, tree: grant.tree, dlid: Some(grant.dlid) };
        self.want(&route, now);
    }

    /// Without a grant in the lease a flow stops at once.
    fn stop(&mut self, index: u32) {
        if let Some(flow) = &mut self.flows[index as usize] {
            (flow.current, flow.next) = (None, None);
        }
    }

    fn answer(&mut self, answer: &Answer, heard: u64, now: Time) {
        let flow = FlowId(answer.connection.0);
        let open = self.flows.get_mut(flow.index()).and_then(Option::as_mut);
        let Some(open) = open.filter(|open| open.is_heard(heard)) else {
            return;
        };
        match answer.verdict {
            Verdict::Served => {
                (open.wish, open.ask_at) = (RequestState::None, now);
            }
            Verdict::Deferred(wait) => {
                if open.wait.replace(wait) != Some(wait) {
                    self.notify(Notice::Deferred { flow, wait });
                }
            }
            Verdict::Refused(refusal) => {
                (open.wish, open.ask_at) = (RequestState::None, now + self.config.ask_refused);
                self.notify(Notice::Refused { flow, refusal });
            }
        }
        self.tend(flow.0, now);
    }

    /// Whether nothing is under way that the last lease does not grant.
    pub(super) fn all_conform(&mut self, now: Time) -> bool {
        (0..self.flows.len() as u32).all(|index| self.conforms(index, now))
    }

    fn conforms(&mut self, index: u32, now: Time) -> bool {
        self.advance(index, now);
        let clear = self.is_clear(index, now);
        let Some(flow) = &self.flows[index as usize] else {
            return true;
        };
        let granted = flow.next.or(flow.current).map(|grant| grant.tree);
        let goes_on = flow.current.is_some_and(|current| Some(current.tree) != granted);
        let on = flow.on.and_then(|on| self.pairs.get(on)).map(|pair| pair.route.tree);
        // What is sent without a grant is nobody's business.
        let unasked = flow.clear_by == Time::MAX;
        !goes_on && (clear || unasked || on.is_some() && on == granted)
    }

    /// When the last byte must have left, by the controller's clock.
    pub(super) fn end(&self, grant: &Grant) -> Time {
        grant.until - self.controller.terms.guard
    }

    /// Makes queue pairs for sending without a grant.
    pub(super) fn want_unasked(&mut self, now: Time) {
        if self.is_best_effort() {
            for at in 0..self.backlogged.len() {
                let flow = &self.flows[self.backlogged[at] as usize];
                if let Some(peer) = flow.as_ref().map(|flow| flow.peer) {
                    self.want(&Route { peer, tree: UNASKED, dlid: None }, now);
                }
            }
        }
    }
}
