//! The cluster's turn: what it wants of mastership, and what configuration may do.

use snin_mad::SmState;
use snin_protocol::Time;

use super::Manager;
use crate::events::Output;
use crate::report::Report;
use snin_configuration::Instruction;
use snin_mastership::cluster::{Cluster, Own};
use snin_mastership::election::Priority;

impl Manager {
    /// The cluster's service, where there is one.
    pub const fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// What the cluster knows of this manager and wants of it becomes known to both.
    pub(super) fn heed_cluster(&mut self, now: Time) {
        let Some(cluster) = &mut self.cluster else { return };
        let (good, of) = self.mastership.own_ports();
        let priority = Priority {
            master: self.mastership.state() == SmState::Master,
            operator: self.mastership.operators_priority(),
            ..Priority::default().with_ports(good, of)
        };
        let own = self.sweep.name().map(|guid| Own { guid, priority });
        cluster.set_own(own, now);
        self.mastership.set_mandate(cluster.mandate(now), now);
        let (verdict, consent) = (cluster.verdict(now), cluster.consent(now));
        let (told, given) = &mut self.consented;
        if *given != consent {
            given.clone_from(&consent);
            self.configuration.instruct(Instruction::Consent(consent));
        }
        if *told != verdict {
            told.clone_from(&verdict);
            self.outputs.push_back(Output::Report(Report::Consent(verdict)));
        }
        while let Some(ask) = cluster.poll_output() {
            self.outputs.push_back(Output::Cluster(ask));
        }
    }
}
