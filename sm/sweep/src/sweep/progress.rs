//! How far the sweep is: whether anything is under way, and whether the fabric is as it was meant to be.

use super::{Stage, Sweep};

impl Sweep {
    /// Whether nothing is being asked, computed or written.
    pub fn is_idle(&self) -> bool {
        let idle = matches!(self.stage, Stage::Idle) && self.pending.is_empty();
        idle && !self.regroups() && !self.owes_lane_tables() && self.outputs.is_empty()
    }

    /// Whether the fabric is as it was meant to be, for all that is known.
    pub fn is_settled(&self) -> bool {
        let is_idle = matches!(self.stage, Stage::Idle) || self.reads_or_writes_lanes();
        is_idle && !self.pending.full && !self.pending.learnt && !self.pending.judge
    }

    /// The same, even if groups are under way, or tables of lanes for administration.
    pub fn has_swept(&self) -> bool {
        let beside = match self.stage {
            Stage::Idle => !self.owes_lane_tables(),
            Stage::Survey(_) => self.only_lanes && !self.owes_lane_tables(),
            _ => self.regrouping,
        };
        self.pending.is_quiet() && beside
    }

    /// Whether nothing but tables of lanes is read or written.
    fn reads_or_writes_lanes(&self) -> bool {
        match &self.stage {
            Stage::Survey(_) => self.only_lanes,
            Stage::Applying(applying) => applying.only_lanes,
            _ => false,
        }
    }

    /// Whether it waits for something to happen.
    pub const fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }
}
