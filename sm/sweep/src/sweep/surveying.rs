//! The stage that looks: what the next survey asks for, and how it runs to its end.

use std::collections::BTreeSet;

use snin_protocol::Time;

use super::lanes::Wanted;
use super::{Stage, Sweep};
use crate::events::Output;
use crate::graph::{Port, Trouble};
use crate::query::{NodeId, PortId, Query};
use crate::report::Report;
use crate::smp;
use crate::survey::Survey;

/// What the next survey looks at.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) full: bool,
    pub(super) light: bool,
    pub(super) suspects: BTreeSet<NodeId>,
    pub(super) refresh: BTreeSet<PortId>,
    pub(super) rechecks: BTreeSet<Query>,
    /// Questions that were never answered.
    pub(super) silent: BTreeSet<Query>,
    /// Ports whose neighbour answers after all.
    pub(super) awake: BTreeSet<PortId>,
    /// Nodes that are asked whether something changed.
    pub(super) verify: BTreeSet<NodeId>,
    /// Switches that took no writes, and get them again.
    pub(super) readmit: BTreeSet<PortId>,
    /// Nodes whose tables of lanes administration was asked for.
    pub(super) lanes: Wanted,
    /// What is known is worth nothing: all is read again.
    pub(super) anew: bool,
    /// Something was learnt that no computation has seen yet.
    pub(super) learnt: bool,
    /// Configuration would judge otherwise than it did.
    pub(super) judge: bool,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.is_quiet() && self.lanes.is_empty()
    }

    /// Nothing but what administration was asked for.
    pub(super) fn is_quiet(&self) -> bool {
        !self.full
            && !self.light
            && !self.learnt
            && !self.judge
            && self.suspects.is_empty()
            && self.refresh.is_empty()
            && self.rechecks.is_empty()
            && self.silent.is_empty()
            && self.awake.is_empty()
            && self.verify.is_empty()
            && self.readmit.is_empty()
    }
}

/// When every switch is asked whether something changed.
#[derive(Default)]
pub(super) struct Lights {
    next: Option<Time>,
    /// Light sweeps since everything was last looked at anew, and how many there shall be.
    back_off: (u32, u32),
}

impl Lights {
    /// When the next one is due.
    pub(super) const fn next_deadline(&self) -> Option<Time> {
        self.next
    }

    /// Whether the next one is due.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|due| due <= now)
    }

    /// Another look comes in its place, or none.
    pub(super) const fn stop(&mut self) {
        self.next = None;
    }

    /// The fabric is settled: even if events keep coming, the next look at everything is not put off.
    pub(super) fn settle(&mut self, interval: Option<Time>, now: Time) {
        self.next = self.next.or_else(|| interval.map(|interval| now + interval));
    }
}

impl Sweep {
    /// While a GUID is in use twice, what is known may be of one node or of the other, so everything is
    /// looked at with fresh eyes: in longer and longer intervals, since it takes an operator to put it right.
    pub(super) fn begins_anew(&mut self) -> bool {
        if !self.has_clashes() {
            self.lights.back_off = (0, 0);
            return false;
        }
        let (waited, longest) = self.lights.back_off;
        if waited < longest {
            self.lights.back_off.0 += 1;
            return false;
        }
        self.lights.back_off = (0, (2 * longest + 1).min(63));
        self.pending.anew = true;
        true
    }

    /// Whether a GUID is in use twice, as far as is known.
    pub(super) fn has_clashes(&self) -> bool {
        let clash = |port: &Port| matches!(port.trouble, Some(Trouble::Clash(_)));
        self.graph.reachable().any(|(_, node)| node.ports.iter().any(clash))
    }

    pub(super) fn begin_survey(&mut self) -> bool {
        self.surveys += 1;
        self.metrics.surveys += 1;
        self.regrouping = false;
        self.only_lanes = self.pending.is_quiet();
        let pending = std::mem::take(&mut self.pending);
        (self.pending.learnt, self.pending.judge) = (pending.learnt, pending.judge);
        if pending.full {
            if pending.anew {
                self.graph.forget();
            }
            let fresh = pending.anew || self.surveys == 1;
            self.lights.stop();
            self.metrics.full_sweeps += 1;
            self.pending =
                Pending { full: false, light: false, anew: false, learnt: true, ..pending };
            // What is named apart is looked at with everything else.
            self.pending.suspects.clear();
            self.pending.refresh.clear();
            self.pending.rechecks.clear();
            self.pending.silent.clear();
            self.pending.awake.clear();
            self.pending.verify.clear();
            let mut survey = Survey::full(self.surveys, &self.graph.homes);
            let readmit = std::mem::take(&mut self.pending.readmit);
            readmit.into_iter().for_each(|end| survey.unlock(&mut self.graph, end));
            survey.reads_only = self.leave.looks_only();
            survey.fresh = fresh;
            self.stage = Stage::Survey(Box::new(survey.of_manager(self.manager())));
            return true;
        }
        let mut survey = if pending.light {
            self.metrics.light_sweeps += 1;
            let leased = self.config.m_key_lease_s > 0;
            let mut survey = Survey::light(self.surveys, &self.graph, leased);
            survey.sample(&self.graph, self.metrics.light_sweeps);
            survey
        } else {
            self.metrics.local_probes += u64::from(!pending.suspects.is_empty());
            Survey::local(self.surveys)
        };
        pending.verify.into_iter().for_each(|id| survey.verify(&self.graph, id));
        pending.suspects.into_iter().for_each(|id| survey.suspect(id));
        pending.refresh.into_iter().for_each(|end| survey.refresh(end));
        pending.rechecks.into_iter().for_each(|query| survey.recheck(&self.graph, query, None));
        pending.silent.into_iter().for_each(|query| survey.silent(&mut self.graph, query));
        pending.awake.into_iter().for_each(|end| survey.identify(end));
        pending.readmit.into_iter().for_each(|end| survey.unlock(&mut self.graph, end));
        self.pending.lanes = self.demand_lanes(&mut survey, pending.lanes);
        self.stage = Stage::Survey(Box::new(survey.of_manager(self.manager())));
        true
    }

    pub(super) fn survey(&mut self, now: Time) -> bool {
        while self.has_room() {
            let Stage::Survey(survey) = &mut self.stage else { return true };
            let agent_queues = self.transactions.agent_queues();
            let next = agent_queues
                .next()
                .or_else(|| survey.next(&mut self.graph, self.computations.is_early()));
            let Some(query) = next else { break };
            if let Some(agent) = query.agent().filter(|_| !survey.is_full())
                && let Some(unsent) = self.unsent.get_mut(&agent)
            {
                survey.set_aside(query);
                unsent.insert(query);
                continue;
            }
            if !agent_queues.admit(query.agent(), query) {
                continue;
            }
            match smp::question(&self.graph, query) {
                Some(mad) => {
                    let mad = self.transactions.send(query, query.agent(), mad, now);
                    self.send(mad);
                }
                None => survey.refused(&mut self.graph, query),
            }
        }
        let Stage::Survey(survey) = &mut self.stage else { return true };
        if !survey.is_done() {
            return false;
        }
        if !survey.conclude(&mut self.graph, self.config.qos, &self.serving.groups) {
            return true;
        }
        self.pending.learnt |= survey.has_learnt();
        self.committed.end_stage(survey.is_full());
        if (survey.distrusts && !survey.is_full()) || (survey.clashes && !survey.fresh) {
            (self.pending.full, self.pending.anew) = (true, true);
        }
        let overwritten = survey.overwritten;
        self.stage = Stage::Idle;
        self.surveyed(overwritten, now);
        true
    }

    /// Nothing is left to be asked, and no other manager goes before this one.
    pub(super) fn after_survey(&mut self, overwritten: Option<PortId>, now: Time) {
        if let Some(end) = overwritten {
            self.metrics.overwritten += 1;
            let at = self.graph.port_name(end);
            self.outputs.push_back(Output::Report(Report::Overwritten { at }));
            self.begin_anew();
        }
        let learnt = std::mem::take(&mut self.pending.learnt);
        let judge = std::mem::take(&mut self.pending.judge) || learnt;
        self.regrouping &= !judge;
        if self.looks_again() {
            (self.pending.learnt, self.pending.judge) = (learnt, judge);
        } else if judge && self.trials.are_judged() {
            self.stage = Stage::Judging(learnt);
        } else {
            self.go_on(learnt, now);
        }
    }

    /// What was learnt is computed, if anything was.
    pub(super) fn go_on(&mut self, learnt: bool, now: Time) {
        match learnt {
            true => self.begin_computing(now),
            false => self.settle(now),
        }
    }
}
