//! What answers, and silence, are for: each goes to the stage that asked.

use snin_mad::Mad;
use snin_protocol::Time;

use super::{Stage, Sweep};
use crate::query::Query;
use crate::transactions::Late;
use snin_sm_database::error::Dropped;

impl Sweep {
    /// What was asked or written is answered.
    pub(super) fn answered(&mut self, query: Query, mad: &Mad, ok: bool, now: Time) {
        self.metrics.answers += 1;
        self.metrics.refused += u64::from(!ok);
        match query {
            Query::Step(id) => return self.step_answered(id, mad, ok, now),
            Query::Order(node, port, _) => return self.ordered((node, port)),
            Query::Tell(node, port) => {
                return self.told((node, port), Some(mad).filter(|_| ok));
            }
            Query::Trial(end, ask) => {
                return self.trial_answered(end, ask, Some(mad).filter(|_| ok));
            }
            Query::Probe(end) if ok => {
                self.silence.broken(end);
                self.pending.awake.insert(end);
                return;
            }
            Query::Probe(end) => return self.silence.lasts(end, now),
            _ => {}
        }
        let Stage::Survey(survey) = &mut self.stage else { return };
        if !ok {
            survey.refused(&mut self.graph, query);
        } else if survey.learn(&mut self.graph, query, mad).is_err() {
            self.metrics.count_dropped(Dropped::Malformed);
            survey.refused(&mut self.graph, query);
        }
        self.reroute(now);
        self.publish_early();
    }

    /// Nothing answers any more what was asked or written.
    pub(super) fn gave_up(&mut self, late: Late, now: Time) {
        let query = late.query;
        if late.aside {
            return self.stayed_silent(late);
        }
        match query {
            Query::Step(id) => return self.step_failed(id, true, now),
            Query::Order(node, port, _) => return self.ordered((node, port)),
            Query::Tell(node, port) => return self.told((node, port), None),
            Query::Trial(end, ask) => return self.trial_answered(end, ask, None),
            Query::Probe(end) => return self.silence.lasts(end, now),
            _ => {}
        }
        let Stage::Survey(survey) = &mut self.stage else { return };
        survey.gave_up(&mut self.graph, query);
        self.reroute(now);
        self.publish_early();
    }
}
