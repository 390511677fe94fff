//! Why the lab ends without a result.

use std::io;

use snin_agent::AgentError;
use snin_verbs::VerbsError;

use crate::subnet::SubnetError;

/// Why there is no lab.
#[derive(Debug, thiserror::Error)]
pub enum VerbsLabError {
    /// The machine lacks something.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What.
        what: &'static str,
        /// How to get it.
        remedy: &'static str,
    },
    /// A program that sets interfaces up failed.
    #[error("`{command}`: {message}")]
    Command {
        /// As it was called.
        command: String,
        /// What it said, or the system of it.
        message: String,
    },
    /// A call of the system failed.
    #[error("{what}: {error}")]
    System {
        /// What was to be done.
        what: String,
        /// Why it was not.
        error: io::Error,
    },
    /// A device failed.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// A host's agent does not run.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// There is no subnet manager.
    #[error(transparent)]
    Subnet(#[from] SubnetError),
    /// The fabric is of no use for this.
    #[error("the fabric {0}")]
    Fabric(String),
    /// Hosts or controller stopped working.
    #[error("{0}")]
    Stopped(String),
}

impl VerbsLabError {
    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::System { what, error }
    }
}
