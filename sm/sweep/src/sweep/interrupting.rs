//! What a trap does to a survey or to writes that are under way: they end for a new survey, but not without end.

use super::{Stage, Sweep};

/// How often in a row traps interrupt what is under way. After so many they wait until the fabric was repaired
/// once: traps that never end do not keep it from that.
const MOST_WAYS: u32 = 16;

/// How often in a row traps have interrupted something.
#[derive(Default)]
pub(super) struct Ways(u32);

impl Ways {
    /// The fabric was repaired.
    pub(super) const fn end(&mut self) {
        self.0 = 0;
    }

    /// Whether a trap may interrupt once more; counts it.
    fn gives(&mut self) -> bool {
        let gives = self.0 < MOST_WAYS;
        self.0 += u32::from(gives);
        gives
    }
}

impl Sweep {
    /// Writing ends for a new survey as soon as no write is half done.
    pub(super) fn interrupt(&mut self) {
        if let Stage::Applying(applying) = &mut self.stage {
            applying.schedule.stop();
        }
    }

    /// A trap came, or something like it: the present stage ends for a new survey, unless that happened too often.
    pub(super) fn make_way(&mut self) {
        let applies = |stage: &Stage| match stage {
            Stage::Applying(applying) => !applying.schedule.is_stopped(),
            _ => false,
        };
        if applies(&self.stage) && self.ways.gives() {
            self.interrupt();
        }
    }

    /// Whether one more survey comes before anything is planned, since a trap came during the last one.
    pub(super) fn looks_again(&mut self) -> bool {
        !self.pending.is_empty() && (self.pending.full || self.ways.gives())
    }
}
