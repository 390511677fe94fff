//! Retries: questions to nodes that are silent, and writes that were not taken.

use snin_fabric::PortNum;
use snin_protocol::Time;

use super::{Stage, Sweep};
use crate::graph::Lock;
use crate::query::{PortId, Query};
use crate::smp;
use crate::transactions::Late;
use snin_sm_database::directed_route::DirectedRoute;

impl Sweep {
    /// No survey but one of everything waits for a node that is silent: others may have something to be
    /// repaired.
    pub(super) fn is_late(&mut self, id: u32, late: Late) {
        let Stage::Survey(survey) = &mut self.stage else { return };
        if survey.is_full() || late.aside || late.query.step().is_some() {
            return;
        }
        let agent = self.graph.agent(late.query);
        if agent.is_some_and(|agent| self.graph.node(agent).heard > late.at) {
            return; // It is there: the SMP was lost.
        }
        self.transactions.set_aside(id);
        survey.set_aside(late.query);
        if let Some(agent) = late.query.agent() {
            let waiting = self.transactions.agent_queues().take(agent);
            waiting.iter().for_each(|&query| survey.set_aside(query));
            self.unsent.entry(agent).or_default().extend(waiting);
        }
    }

    /// A cable was found to be gone: what was asked over it is asked at once along the way that is left.
    pub(super) fn reroute(&mut self, now: Time) {
        let Stage::Survey(survey) = &mut self.stage else { return };
        if !std::mem::take(&mut survey.lost_a_cable) {
            return;
        }
        let graph = &self.graph;
        let other = |query, asked: &DirectedRoute| {
            let way = graph.path(query).filter(|way| way != asked)?;
            (!graph.leads(query, asked)).then_some(way)
        };
        let rerouted = self.transactions.reroute(now, other);
        self.metrics.retries += rerouted.len() as u64;
        rerouted.into_iter().for_each(|mad| self.send(mad));
    }

    /// A survey that waits only for agents that take longer than others goes on without them.
    pub(super) fn set_slow_aside(&mut self, now: Time) {
        if self.next_slow().is_none_or(|due| due > now) {
            return;
        }
        let slow: Vec<(u32, Late)> = self.transactions.waited_for().collect();
        slow.into_iter().for_each(|(id, late)| self.is_late(id, late));
    }

    /// When that is, if the survey waits for such agents only. An agent that was heard since it was asked is
    /// there: its SMP was lost, and the time-out repeats it.
    pub(super) fn next_slow(&self) -> Option<Time> {
        match &self.stage {
            Stage::Survey(survey) if !survey.is_full() && survey.only_waits() => {}
            _ => return None,
        }
        let is_silent = |late: &Late| {
            let heard = self.graph.agent(late.query).map(|agent| self.graph.node(agent).heard);
            late.query.step().is_none() && heard.is_none_or(|heard| heard <= late.at)
        };
        let mut last = None;
        for (_, late) in self.transactions.waited_for() {
            if !is_silent(&late) {
                return None;
            }
            last = last.max(Some(late.at));
        }
        last.map(|at| at + self.transactions.patience())
    }

    /// A node answered after all, too late for the survey that asked: the next one asks again.
    pub(super) fn answered_late(&mut self, query: Query) {
        self.pending.rechecks.insert(query);
        self.pending.learnt = true;
        let unsent = query.agent().and_then(|agent| self.unsent.remove(&agent));
        self.pending.rechecks.extend(unsent.into_iter().flatten());
    }

    /// A node did not answer, and no survey waits for it.
    pub(super) fn stayed_silent(&mut self, late: Late) {
        let agent = self.graph.agent(late.query);
        if agent.is_some_and(|agent| self.graph.node(agent).heard > late.at) {
            return self.answered_late(late.query);
        }
        self.pending.silent.insert(late.query);
        // A manager is silent, and not its port: what that was not told meanwhile it has to be told.
        self.pending.learnt |= matches!(late.query, Query::ReadManager(..));
        let unsent = late.query.agent().and_then(|agent| self.unsent.remove(&agent));
        self.pending.silent.extend(unsent.into_iter().flatten());
    }

    /// Asks which node is behind ports without an answer, as far as it is their time.
    pub(super) fn probe(&mut self, now: Time) {
        while let Some(end) = self.silence.next(now) {
            match smp::question(&self.graph, Query::Probe(end)) {
                Some(mad) => {
                    let mad = self.transactions.send_beside(Query::Probe(end), mad, 0, now);
                    self.send(mad);
                }
                None => self.silence.lasts(end, now),
            }
        }
    }

    /// Ports that did not take what was written get it once more when their time has come.
    pub(super) fn retry_writes(&mut self, now: Time) {
        let due: Vec<PortId> = self.failures.due(now).collect();
        self.pending.learnt |= !due.is_empty();
        let refuses = |&(node, port): &PortId| {
            port == PortNum::ZERO
                && self.graph.port((node, port)).is_some_and(|p| p.locked == Some(Lock::Refuses))
        };
        self.pending.readmit.extend(due.iter().copied().filter(refuses));
    }
}
