//! A schedule of writes under way, and what is to be true when it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use snin_fabric::Lid;
use snin_protocol::Time;

use crate::multicast::McPlan;
use crate::query::{NodeId, PortId};
use crate::schedule::Schedule;
use crate::target::Target;

/// For so long it is waited for a view to be clear without looking at the fabric again.
const LOOK: Time = Time::secs(1);

/// A schedule under way.
pub(super) struct Applying {
    pub(super) schedule: Schedule,
    pub(super) target: Arc<Target>,
    pub(super) plan: Arc<McPlan>,
    /// The target was there before: only the groups are served otherwise.
    pub(super) regroups: bool,
    /// Only tables of lanes for what is granted are written.
    pub(super) only_lanes: bool,
    pub(super) manager: Lid,
    /// Ports that failed before and are written to again.
    pub(super) tried: BTreeSet<PortId>,
    /// Ports that did not take what was written.
    pub(super) failed: BTreeSet<PortId>,
    /// Routes are not yet as they are to be.
    pub(super) incomplete: bool,
    /// Nothing is written before the view of this version is clear, or this time has come.
    pub(super) waits: Option<(u64, Time)>,
    /// When the fabric is looked at again, if the wait lasts: a switch that does not know its manager yet sends no
    /// trap.
    pub(super) look_at: Time,
    /// Blocks that switches took.
    pub(super) taken: BTreeMap<NodeId, u32>,
}

impl Applying {
    /// Nothing is written before this.
    pub(super) fn wait(&mut self, waits: Option<(u64, Time)>, now: Time) {
        (self.waits, self.look_at) = (waits, now + LOOK);
    }

    /// When the wait is over, or the fabric is looked at again.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.waits.map(|(_, until)| until.min(self.look_at))
    }

    pub(super) fn new(
        schedule: Schedule,
        target: Arc<Target>,
        plan: Arc<McPlan>,
        manager: Lid,
    ) -> Self {
        Self {
            schedule,
            target,
            plan,
            regroups: false,
            only_lanes: false,
            manager,
            tried: BTreeSet::new(),
            failed: BTreeSet::new(),
            incomplete: false,
            waits: None,
            look_at: Time::MAX,
            taken: BTreeMap::new(),
        }
    }
}
