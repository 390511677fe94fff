//! The words between configuration and those around it: consent, an operator's instructions, a judgement's orders.

use std::sync::Arc;

use crate::expected::Expected;
use serde::{Deserialize, Serialize};
use snin_sm_database::judgement::Consent;
use snin_sm_database::records::Place;

/// What an operator, or who elects managers, wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Instruction {
    /// This is expected from now on. `forced`: even where that cuts the fabric.
    Expect {
        /// What; none: nothing is expected any more.
        expected: Option<Arc<Expected>>,
        /// Whether ports are disabled that are the last way to a switch.
        forced: bool,
    },
    /// Whether it may be enforced.
    Consent(Consent),
    /// Within these bounds.
    Limit(Limits),
    /// A port that failed gets another chance.
    Release(Place),
    /// A port is taken out of use; why.
    Quarantine(Place, String),
    /// A port failed before the last restart; why.
    Remember(Place, String),
    /// Traffic is moved away from a port, then its link is disabled; why.
    PhaseOut(Place, String),
    /// A port that traffic has left is tested, and used again together with all others of its switch.
    PhaseIn(Place),
    /// A port is tested now; one that is ACTIVE stays so meanwhile.
    Test(Place),
}

/// Bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Nothing is written: it is only said what would be.
    pub dry_run: bool,
    /// Links that are told something within a second.
    pub writes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { dry_run: false, writes: 100 }
    }
}
