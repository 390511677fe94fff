//! The election's turn.

use snin_mastership::cluster::Mandate;
use snin_mastership::electing::Electing;
use snin_protocol::Time;

use super::Manager;
use crate::events::Output;
use crate::report::Report;

impl Manager {
    /// Where managers elect the master: what happened since is told, and what follows is done.
    pub(super) fn heed_election(&mut self, now: Time) {
        let (Some(_), Some(own)) = (self.config.election, self.sweep.name()) else { return };
        let operator = self.mastership.operators_priority();
        let begin = || Electing::begin(own, operator, now);
        let electing = self.electing.get_or_insert_with(begin);
        let chosen = self.cluster.as_ref().is_some_and(|it| it.mandate(now) == Mandate::Held);
        let became = electing.turn(chosen, &mut self.mastership, &mut self.mirror, now);
        let reports = became.into_iter().map(|state| Output::Report(Report::Elected(state)));
        self.outputs.extend(reports);
    }
}
