//! Why something was done to a port, and what it was.

use std::fmt;

use snin_fabric::{Guid, LinkRate};

use snin_sm_database::judgement::End;
use snin_sm_database::records::Place;

/// Why a port is as it is, or was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The expected configuration wants it so.
    Expected,
    /// Another neighbour is behind it than expected.
    Miswired {
        /// The expected neighbour.
        expected: String,
        /// The neighbour that is there, and its port: `host3/1`.
        found: String,
    },
    /// The link is narrower or slower than it has to be.
    Slow {
        /// The least width or speed.
        required: String,
        /// The rate that the link has.
        is: Option<LinkRate>,
    },
    /// The link went down while it was tested.
    WentDown,
    /// The test did not come to an end in time; the step that it was in.
    TimedOut(&'static str),
    /// MADs were lost on the link.
    Lossy {
        /// So many.
        lost: u32,
        /// Of so many.
        sent: u32,
    },
    /// Messages of the agent's did not arrive.
    Undelivered {
        /// So many.
        lost: u32,
        /// Of so many.
        sent: u32,
    },
    /// The error counters of one end rose by too much.
    Errors {
        /// Which end.
        end: End,
        /// By so many.
        rose: u32,
        /// While so many MADs crossed the link.
        sent: u32,
    },
    /// The error counters of one end could not be read, or can count no further.
    Uncounted(End),
    /// The node at the other end did not answer as is expected.
    Application,
    /// It was so before the last restart, for this reason.
    Remembered(String),
    /// An operator wants it so.
    Operator(String),
    /// Traffic has left it.
    Empty,
    /// Without it, this switch could not be reached any more.
    WouldCut(String),
    /// It is the port by which the manager is joined to the fabric.
    OwnPort,
    /// The switch did not take the write, so many times now.
    Refused(u32),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected => f.write_str("as expected"),
            Self::Miswired { expected, found } => {
                write!(f, "miswired: {found} is there, expected {expected}")
            }
            Self::Slow { required, is: Some(is) } => {
                write!(f, "the link is {is}, required {required}")
            }
            Self::Slow { required, is: None } => {
                write!(f, "the link's rate is unknown, required {required}")
            }
            Self::WentDown => f.write_str("the link went down while it was tested"),
            Self::TimedOut(step) => write!(f, "the test timer ran out while waiting for {step}"),
            Self::Lossy { lost, sent } => write!(f, "{lost} of {sent} MADs were lost"),
            Self::Undelivered { lost, sent } => {
                write!(f, "{lost} of {sent} messages of its agent's did not arrive")
            }
            Self::Errors { end, rose, sent } => {
                write!(f, "{rose} errors at {end} while {sent} MADs crossed the link")
            }
            Self::Uncounted(end) => {
                write!(f, "the error counters of {end} cannot be read, or are at their maximum")
            }
            Self::Application => f.write_str("the node does not answer as is expected"),
            Self::Remembered(why) => f.write_str(why),
            Self::Operator(why) if why.is_empty() => f.write_str("by an operator"),
            Self::Operator(why) => write!(f, "by an operator: {why}"),
            Self::Empty => f.write_str("traffic has left it"),
            Self::WouldCut(switch) => write!(f, "it is the last way to {switch}"),
            Self::OwnPort => f.write_str("it is the manager's own port"),
            Self::Refused(times) => write!(f, "the switch did not take the write, {times} times"),
        }
    }
}

impl Reason {
    /// Whether a link that trains again may do better.
    pub(super) const fn may_heal(&self) -> bool {
        matches!(
            self,
            Self::Slow { .. }
                | Self::WentDown
                | Self::TimedOut(_)
                | Self::Lossy { .. }
                | Self::Undelivered { .. }
                | Self::Errors { .. }
                | Self::Application
        )
    }
}

/// What was done to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Its link is disabled.
    Disable,
    /// Its link is enabled.
    Enable,
    /// Its test begins.
    BeginTest,
    /// It passed its test.
    Pass,
    /// It failed its test, or is miswired: it is not used until it is released.
    Fail,
    /// An operator gives it another chance.
    Release,
    /// An operator takes it out of use.
    Quarantine,
    /// It would have been disabled, but is left as it is.
    Keep,
    /// Traffic is moved away from it, and its link is disabled afterwards.
    PhaseOut,
    /// It comes back into use, once it has passed its test.
    PhaseIn,
    /// Its link goes down and trains again, and its test begins anew.
    Reset,
}

impl Action {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Enable => "enable",
            Self::BeginTest => "test",
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Release => "release",
            Self::Quarantine => "quarantine",
            Self::Keep => "keep",
            Self::PhaseOut => "phase-out",
            Self::PhaseIn => "phase-in",
            Self::Reset => "reset",
        }
    }
}

/// Something was done to a port, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortReport {
    /// `leaf3/20`.
    pub at: String,
    /// Its switch's GUID, and its number.
    pub place: Place,
    /// What.
    pub action: Action,
    /// Why.
    pub reason: Reason,
    /// It was not done: it is only said what would have been.
    pub dry_run: bool,
}

impl fmt::Display for PortReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, action, reason, dry_run, .. } = self;
        let would = if *dry_run { "would be: " } else { "" };
        write!(f, "port {at}: {would}{}: {reason}", action.name())
    }
}

/// What speaks against an expected configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    /// A port would be disabled by which the manager itself is joined to the fabric.
    #[error("{0}: it is the manager's own port, and would be disabled")]
    OwnPort(String),
    /// A switch could not be reached any more.
    #[error("{name} ({guid}): no way would lead there any more")]
    Cut {
        /// The switch's GUID.
        guid: Guid,
        /// Its name.
        name: String,
    },
    /// One port cannot be behind two.
    #[error("{first} and {second}: port {guid} is expected behind both")]
    Twice {
        /// The port's GUID.
        guid: Guid,
        /// Where it is expected.
        first: String,
        /// Where it is expected too.
        second: String,
    },
}
