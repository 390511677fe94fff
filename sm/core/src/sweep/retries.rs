//! What is tried again: questions to nodes that are silent, and writes that were not taken.

use snin_fabric::PortNum;
use snin_protocol::Time;

use super::{Stage, Sweep};
use crate::ask::{Ask, End};
use crate::graph::Lock;
use crate::smp;
use crate::transactions::Late;

impl Sweep {
    /// No survey but one of everything waits for a node that is silent: others may have something to be
    /// repaired.
    pub(super) fn is_late(&mut self, id: u32, late: Late) {
        let Stage::Survey(survey) = &mut self.stage else { return };
        if survey.is_full() || late.aside || late.ask.step().is_some() {
            return;
        }
        let agent = self.graph.agent(late.ask);
        if agent.is_some_and(|agent| self.graph.node(agent).heard > late.at) {
            return; // It is there: the SMP was lost.
        }
        self.transactions.set_aside(id);
        survey.set_aside(late.ask);
        if let Some(agent) = late.ask.agent() {
            let waiting = self.transactions.turns().take(agent);
            waiting.iter().for_each(|&ask| survey.set_aside(ask));
            self.unsent.entry(agent).or_default().extend(waiting);
        }
    }

    /// A node answered after all, too late for the survey that asked: the next one asks again.
    pub(super) fn answered_late(&mut self, ask: Ask) {
        self.pending.doubts.insert(ask);
        self.pending.learnt = true;
        let unsent = ask.agent().and_then(|agent| self.unsent.remove(&agent));
        self.pending.doubts.extend(unsent.into_iter().flatten());
    }

    /// A node did not answer, and no survey waits for it.
    pub(super) fn stayed_silent(&mut self, late: Late) {
        let agent = self.graph.agent(late.ask);
        if agent.is_some_and(|agent| self.graph.node(agent).heard > late.at) {
            return self.answered_late(late.ask);
        }
        self.pending.silent.insert(late.ask);
        let unsent = late.ask.agent().and_then(|agent| self.unsent.remove(&agent));
        self.pending.silent.extend(unsent.into_iter().flatten());
    }

    /// Asks who is behind ports where nobody answered, as far as it is their time.
    pub(super) fn probe(&mut self, now: Time) {
        while let Some(end) = self.silence.next(now) {
            match smp::question(&self.graph, Ask::Probe(end)) {
                Some(mad) => {
                    let mad = self.transactions.send_beside(Ask::Probe(end), mad, 0, now);
                    self.send(mad);
                }
                None => self.silence.lasts(end, now),
            }
        }
    }

    /// Ports that did not take what was written get it once more when their time has come.
    pub(super) fn retry_writes(&mut self, now: Time) {
        let due: Vec<End> = self.failures.due(now).collect();
        self.pending.learnt |= !due.is_empty();
        let refuses = |&(node, port): &End| {
            port == PortNum::ZERO
                && self.graph.port((node, port)).is_some_and(|p| p.locked == Some(Lock::Refuses))
        };
        self.pending.readmit.extend(due.iter().copied().filter(refuses));
    }
}
