//! What a check with the cluster says of a manager.

use std::fmt;

use snin_fabric::Guid;
use snin_protocol::operator::manager;

/// Whether this manager may enforce, or why it may not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing was read yet.
    Unknown,
    /// The cluster's service does not answer, or what it says is not understood.
    Unreachable(String),
    /// This manager may not be chosen.
    Barred(String),
    /// A newer configuration is expected than this manager has.
    Outdated {
        /// The version here.
        own: u64,
        /// The version that the cluster names.
        newest: u64,
    },
    /// Another manager is chosen.
    Other(Guid),
    /// No manager is chosen yet.
    NotChosen,
    /// This one is chosen, and not master yet.
    NotMaster,
    /// This one is chosen, and waits until the one before it enforces nothing any more.
    Succeeds,
    /// It may.
    Granted,
}

impl Verdict {
    /// In a word, for programs.
    pub const fn word(&self) -> manager::Verdict {
        match self {
            Self::Unknown => manager::Verdict::Unknown,
            Self::Unreachable(_) => manager::Verdict::Unreachable,
            Self::Barred(_) => manager::Verdict::Barred,
            Self::Outdated { .. } => manager::Verdict::Outdated,
            Self::Other(_) => manager::Verdict::Other,
            Self::NotChosen => manager::Verdict::NotChosen,
            Self::NotMaster => manager::Verdict::NotMaster,
            Self::Succeeds => manager::Verdict::Succeeds,
            Self::Granted => manager::Verdict::Granted,
        }
    }
}

/// A line for the operator.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the cluster was not asked yet"),
            Self::Unreachable(why) => write!(f, "the cluster cannot be asked: {why}"),
            Self::Barred(why) => write!(f, "this manager may not be configuration manager: {why}"),
            Self::Outdated { own, newest } => {
                write!(f, "version {newest} of the configuration is expected, {own} is here")
            }
            Self::Other(guid) => write!(f, "{guid} is configuration manager"),
            Self::NotChosen => f.write_str("no configuration manager is chosen"),
            Self::NotMaster => f.write_str("chosen as configuration manager, and not master yet"),
            Self::Succeeds => f.write_str("chosen; the one before may enforce still"),
            Self::Granted => f.write_str("configuration manager by the cluster's consent"),
        }
    }
}
