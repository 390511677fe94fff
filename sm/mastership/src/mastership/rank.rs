//! How far in front this manager goes: what the operator, the cluster and the election say of it.

use snin_sm_database::config::Config;

use super::elected::Elected;
use crate::cluster::Mandate;

/// Who says it.
#[derive(Debug)]
pub(super) struct Rank {
    /// The operator's priority.
    pub(super) operator: u8,
    /// Where a cluster's service chooses, what it wants of this manager.
    pub(super) mandate: Option<Mandate>,
    /// Where managers elect the master.
    pub(super) elected: Option<Elected>,
}

impl Rank {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            operator: config.priority,
            mandate: config.cluster.then_some(Mandate::None),
            elected: config.election.map(Elected::new),
        }
    }

    /// The priority that SMInfo shows. Without an election, a manager that the cluster chose goes before all
    /// others; one that it chose when it was last heard, before all but that one.
    pub(super) fn shown(&self) -> u8 {
        if let Some(elected) = &self.elected {
            return elected.shown();
        }
        match self.mandate {
            None => self.operator,
            Some(Mandate::None) => self.operator.min(13),
            Some(Mandate::Lapsed) => 14,
            Some(Mandate::Held) => 15,
        }
    }
}
