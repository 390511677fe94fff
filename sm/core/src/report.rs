//! What the manager reports to its operator.

use std::fmt;

use snin_fabric::Guid;

use snin_configuration::PortReport;
use snin_mastership::Report as MastershipReport;
use snin_mastership::cluster::Verdict;
use snin_mastership::election::State as ElectionState;
use snin_mastership::mirror::MirrorReport;
use snin_sm_database::merge::{self, MergeError};
use snin_sweep::Report as SweepReport;

/// What an operator wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Of the fabric, as the sweep, or a reader, finds it and leaves it.
    Sweep(SweepReport),
    /// Of other managers, and of what this one is among them.
    Mastership(MastershipReport),
    /// Of the copy of another manager's database.
    Mirror(MirrorReport),
    /// Whether the cluster lets this manager enforce what is expected is another than before.
    Consent(Verdict),
    /// Other subnets were joined to this one.
    Joined(Box<merge::Report>),
    /// Other subnets are cabled to this one, and their databases cannot be joined: what is found counts.
    NotJoined {
        /// The managers that were master there.
        subnets: Vec<Guid>,
        /// Why.
        error: MergeError,
    },
    /// What this manager is in the election.
    Elected(ElectionState),
    /// Something was done to a port, or would have been.
    Port(PortReport),
}

/// A line for the operator.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sweep(report) => report.fmt(f),
            Self::Mastership(report) => report.fmt(f),
            Self::Mirror(report) => report.fmt(f),
            Self::Consent(verdict) => verdict.fmt(f),
            Self::Joined(report) => {
                let (subnets, numbers) = (report.absorbed.len(), report.renumbered.len());
                write!(f, "{subnets} databases joined: {numbers} numbers are new")
            }
            Self::NotJoined { subnets, error } => {
                write!(f, "databases of {} subnets cannot be joined: {error}", subnets.len())
            }
            Self::Elected(state) => write!(f, "in the election this manager is {}", state.name()),
            Self::Port(report) => report.fmt(f),
        }
    }
}
