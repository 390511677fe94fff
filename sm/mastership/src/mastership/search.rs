//! What a manager that is not master knows of the one that is.

use snin_fabric::Guid;
use snin_protocol::Time;

/// A standby's sight of its master.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The master that was last heard of.
    pub(super) master: Option<Guid>,
    /// A standby without a master, since when.
    pub(super) lost: Option<Time>,
    /// When a standby that goes before its master says so again, and how often it will.
    pub(super) claim: Option<(Time, u32)>,
    /// This manager looks for a master that it hears in a session and by no cable: it may be one beside it.
    pub(super) beside: bool,
    /// It looks for none before.
    pub(super) looks_again: Time,
}
