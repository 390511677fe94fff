//! What the election's order looks like in SMInfo, whose priority has four bits.

use super::{Priority, State};

/// Three SMInfo priorities in a row, which our managers show: the least is that of all that are not master, the
/// next one the master's, the greatest that of a master that is configuration manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Band(pub u8);

impl Band {
    /// What a manager shows. It agrees with the election: the master's is greater than all others.
    #[must_use]
    pub const fn shown(self, state: State, priority: Priority) -> u8 {
        match (state, priority.chosen) {
            (State::Electing | State::Standby, _) => self.0,
            (State::Master, false) => self.0 + 1,
            (State::Master, true) => self.0 + 2,
        }
    }

    /// What a shown priority says of a manager of ours: whether the election made it master, and whether it is
    /// chosen. `None`: it is none of ours.
    #[must_use]
    pub const fn read(self, shown: u8) -> Option<(bool, bool)> {
        match shown.wrapping_sub(self.0) {
            0 => Some((false, false)),
            1 => Some((true, false)),
            2 => Some((true, true)),
            _ => None,
        }
    }

    /// Whether a foreign manager of this priority is an alarm: it would go before one of ours.
    #[must_use]
    pub const fn alarms(self, foreign: u8) -> bool {
        foreign >= self.0
    }
}
