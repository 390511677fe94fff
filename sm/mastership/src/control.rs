//! The five things that one manager tells another by Set(SMInfo) (IBA 14.4.1).

use std::fmt;

use serde::{Deserialize, Serialize};
use snin_mad::SmState;

/// What a manager is told, by the attribute's modifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Control {
    /// Be the master from now on.
    Handover,
    /// The handover was taken.
    Acknowledge,
    /// A standby shall do nothing.
    Disable,
    /// A manager that does nothing shall stand by.
    Standby,
    /// A standby shall look at the subnet itself.
    Discover,
}

/// What became of what a manager was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It did so.
    Taken,
    /// It refused.
    Refused,
    /// It did not answer.
    Unanswered,
    /// Nothing was sent: no manager with this GUID is known.
    Unknown,
    /// Nothing was sent: only the master may.
    NotMaster,
}

/// A line for the operator.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken => "done",
            Self::Refused => "it refused: it is not in a state for that",
            Self::Unanswered => "it did not answer",
            Self::Unknown => "no manager with this GUID is known",
            Self::NotMaster => "only the master may",
        })
    }
}

impl Control {
    /// Every one.
    pub const ALL: [Self; 5] =
        [Self::Handover, Self::Acknowledge, Self::Disable, Self::Standby, Self::Discover];

    /// The attribute's modifier.
    pub const fn modifier(self) -> u32 {
        match self {
            Self::Handover => 1,
            Self::Acknowledge => 2,
            Self::Disable => 3,
            Self::Standby => 4,
            Self::Discover => 5,
        }
    }

    /// Which a modifier stands for.
    pub fn of(modifier: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|control| control.modifier() == modifier)
    }

    /// The specification's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handover => "HANDOVER",
            Self::Acknowledge => "ACKNOWLEDGE",
            Self::Disable => "DISABLE",
            Self::Standby => "STANDBY",
            Self::Discover => "DISCOVER",
        }
    }

    /// Whether a manager in state `own` takes it from one in state `sender`.
    pub const fn is_legal(self, own: SmState, sender: SmState) -> bool {
        use SmState::{Discovering, Master, NotActive, Standby};
        match self {
            Self::Handover => {
                matches!((own, sender), (Discovering | Standby | Master, Master))
            }
            // It stands by still when it says so; what came late is none the worse.
            Self::Acknowledge => {
                matches!((own, sender), (Standby | Master, Standby | Master | Discovering))
            }
            Self::Disable | Self::Discover => matches!((own, sender), (Standby, Master)),
            Self::Standby => matches!((own, sender), (NotActive, Master)),
        }
    }
}
