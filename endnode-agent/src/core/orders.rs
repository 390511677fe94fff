//! What a controller says, what of it is followed, and what happens when it says nothing.

use snin_fabric::TreeId;
use snin_protocol::Time;

use super::config::LossPolicy;
use super::events::{Frame, Grant, Notice, Order, Report};
use super::mesh::Mesh;
use super::timers::Timer;

/// The tree that carries everything that asks nobody.
pub(super) const UNASKED: TreeId = TreeId(0);

impl Mesh {
    pub(super) fn frame(&mut self, frame: Frame, now: Time) {
        if frame.term < self.term {
            self.counters.stale_term += 1;
            return;
        }
        // Either clock may be the wrong one; grants mean nothing until they agree.
        if !self.clock.explains(frame.at, now) {
            self.counters.wrong_clock += 1;
            return;
        }
        self.term = frame.term;
        self.hear(now);
        let flow = match frame.order {
            Order::Alive => return,
            Order::Grant { flow, .. } | Order::Revoke { flow } | Order::Refuse { flow } => flow,
        };
        let Some(open) = self.flows.get_mut(flow.index()).and_then(Option::as_mut) else {
            // The controller has not heard yet that it is closed, or that this agent was restarted.
            self.counters.unknown_flow += 1;
            self.report(Report::Release { flow });
            return;
        };
        if (frame.term, frame.at) < open.ordered {
            self.counters.stale_order += 1;
            return;
        }
        open.ordered = (frame.term, frame.at);
        match frame.order {
            Order::Alive => {}
            Order::Grant { grant, .. } => self.grant(flow.0, grant, now),
            Order::Revoke { .. } => self.revoke(flow.0, now),
            Order::Refuse { .. } => {
                open.ask_at = now + self.config.ask_refused;
                self.tell(Notice::Refused { flow });
            }
        }
        self.tend(flow.0, now);
    }

    fn grant(&mut self, index: u32, grant: Grant, now: Time) {
        if grant.from >= grant.until || grant.until - grant.from > self.config.longest_grant {
            self.counters.bad_grants += 1;
            return;
        }
        let end = grant.until - self.config.guard;
        if self.clock.latest(now) >= end {
            self.counters.late_grants += 1;
            return;
        }
        self.advance(index, now);
        let Some(flow) = &mut self.flows[index as usize] else {
            return;
        };
        if flow.current.is_some_and(|current| current.pinned && current.tree != grant.tree) {
            self.counters.bad_grants += 1;
            return;
        }
        self.counters.grants += 1;
        flow.ask_at = Time::ZERO;
        flow.owed.take_if(|owed| *owed == grant.tree);
        let replaced = match &mut flow.current {
            // More of the same: nothing has to stop.
            Some(current) if current.tree == grant.tree && grant.from <= current.until => {
                current.until = grant.until;
                current.pinned = grant.pinned;
                if flow.outstanding > 0 {
                    flow.clear_by = flow.clear_by.max(end);
                }
                flow.next.take()
            }
            _ => flow.next.replace(grant),
        };
        let peer = flow.peer;
        if let Some(replaced) = replaced {
            self.leave(index, replaced.tree, now);
        }
        self.want(peer, grant.tree, now);
    }

    fn revoke(&mut self, index: u32, now: Time) {
        let Some(flow) = &mut self.flows[index as usize] else {
            return;
        };
        // The controller knows what the flow wants; it is reminded only if nothing comes of it.
        flow.ask_at = now + self.config.ask_again;
        let grants = [flow.current.take(), flow.next.take()];
        for grant in grants.into_iter().flatten() {
            self.leave(index, grant.tree, now);
        }
    }

    /// A controller is there.
    fn hear(&mut self, now: Time) {
        self.heard = now;
        if self.lost {
            self.lost = false;
            self.tell(Notice::ControllerFound);
        }
        self.listen(now);
    }

    /// Is a controller there still?
    pub(super) fn listen(&mut self, now: Time) {
        if self.lost {
            return;
        }
        let until = self.heard + self.config.silence;
        if now < until {
            self.timers.set(Timer::Controller, until, &mut self.controller_timer);
        } else {
            self.lost = true;
            self.counters.controller_lost += 1;
            self.tell(Notice::ControllerLost);
            self.want_unasked(now);
        }
    }

    /// Whether flows may send without being asked for, for want of somebody to ask.
    pub(super) fn is_best_effort(&self) -> bool {
        self.lost && self.config.loss == LossPolicy::BestEffort
    }

    /// Makes queue pairs for sending without a grant.
    fn want_unasked(&mut self, now: Time) {
        if self.is_best_effort() {
            for index in 0..self.hungry.len() {
                let flow = &self.flows[self.hungry[index] as usize];
                if let Some(peer) = flow.as_ref().map(|flow| flow.peer) {
                    self.want(peer, UNASKED, now);
                }
            }
        }
    }
}
