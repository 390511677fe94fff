//! What mastership reports to the operator.

use std::fmt;

use snin_fabric::Guid;
use snin_mad::{SmInfo, SmState};

use crate::control::{Control, Outcome};

/// Something about managers that the operator wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// What this manager is from now on.
    State(SmState),
    /// There is another subnet manager, or it says something else of itself than before.
    OtherManager {
        /// `node/port`.
        at: String,
        /// What it says, but for its activity.
        info: SmInfo,
    },
    /// Another subnet manager does not answer any more, or is none any more.
    ManagerGone {
        /// `node/port`.
        at: String,
    },
    /// Another manager told this one something, and it did so.
    Control {
        /// The other one's GUID.
        from: Guid,
        /// The specification's name of what it told.
        name: &'static str,
    },
    /// What became of an [`Mastership::instruct`](crate::mastership::Mastership::instruct).
    Instructed {
        /// Whom.
        to: Guid,
        /// What.
        control: Control,
        /// The outcome.
        outcome: Outcome,
    },
    /// A master with another SM_Key is in this subnet: this manager writes nothing until one of the two ends.
    ForeignMaster {
        /// Its GUID.
        guid: Guid,
        /// `node/port`.
        at: String,
    },
    /// A foreign manager whose SMInfo priority is within or above those of ours: it would go before one of ours.
    AboveBand {
        /// Its GUID.
        guid: Guid,
        /// `node/port`.
        at: String,
        /// Its priority.
        priority: u8,
    },
}

/// A line for the operator.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |state: SmState| state.name().unwrap_or("unknown").to_lowercase();
        match self {
            Self::State(own) => write!(f, "this subnet manager is {}", state(*own)),
            Self::OtherManager { at, info } => {
                let SmInfo { guid, priority, .. } = info;
                write!(f, "another subnet manager at {at}: {guid}, priority {priority}, ")?;
                f.write_str(&state(info.state))
            }
            Self::ManagerGone { at } => write!(f, "the subnet manager at {at} is gone"),
            Self::Control { from, name } => write!(f, "{from} told this subnet manager: {name}"),
            Self::Instructed { to, control, outcome } => {
                write!(f, "{} to {to}: {outcome}", control.name())
            }
            Self::ForeignMaster { guid, at } => {
                write!(f, "{guid} at {at} is master with another sm_key: nothing is written")
            }
            Self::AboveBand { guid, at, priority } => {
                write!(
                    f,
                    "the foreign manager {guid} at {at} has priority {priority}, not less than ours"
                )
            }
        }
    }
}
