//! The order of managers.

use snin_fabric::Guid;

use super::State;

/// What makes a manager go before another: the first field that differs decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Priority {
    /// The cluster chose it as configuration manager.
    pub chosen: bool,
    /// All of its ports are good.
    pub ports_ok: bool,
    /// How many are good.
    pub good_ports: u8,
    /// It is master.
    pub master: bool,
    /// What the operator gave it; the greater goes first.
    pub operator: u8,
}

impl Priority {
    /// The same with other ports: `good` of all of them.
    #[must_use]
    pub const fn with_ports(self, good: u8, of: u8) -> Self {
        Self { ports_ok: good >= of && of > 0, good_ports: good, ..self }
    }

    /// Whether a manager `guid` with this priority goes before another one.
    #[must_use]
    pub fn goes_before(self, guid: Guid, other: Self, other_guid: Guid) -> bool {
        (self, std::cmp::Reverse(guid)) > (other, std::cmp::Reverse(other_guid))
    }
}

/// The SMInfo priorities that our managers show to foreign ones, 0 to 15.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Band {
    /// Of all that are not master.
    pub low: u8,
    /// Of the master; greater than `low`.
    pub high: u8,
}

impl Band {
    /// What a manager shows. It agrees with the election: the master's is the greatest.
    #[must_use]
    pub const fn shown(self, state: State) -> u8 {
        match state {
            State::Master => self.high,
            State::Electing | State::Standby => self.low,
        }
    }

    /// A foreign manager of this priority is an alarm: it would go before ours.
    #[must_use]
    pub const fn alarms(self, foreign: u8) -> bool {
        foreign >= self.low
    }
}
