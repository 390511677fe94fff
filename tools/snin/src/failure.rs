//! Why a command ends without its result: one line on stderr, exit code 3.

use std::io;
use std::path::{Path, PathBuf};

use snin_fabric::generate::RecipeError;
use snin_fabric::routing::RoutingError;

/// What cannot be used, and where.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A file that cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file whose content is wrong. `what` begins with the line number where there is one.
    #[error("{name}:{what}")]
    Content {
        /// The file.
        name: String,
        /// Line and value.
        what: String,
    },
    /// A recording that cannot be replayed. The line names the file and the line.
    #[error("{0}")]
    Recording(String),
    /// A fabric that cannot be made.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// More cables to take away than there are.
    #[error("--cut {cut}: only {cables} cables join switches")]
    TooManyCuts {
        /// To be taken away.
        cut: usize,
        /// There are.
        cables: usize,
    },
    /// An event that this fabric cannot have.
    #[error("--event {what}")]
    Event {
        /// Which, and why.
        what: String,
    },
    /// The fabric cannot be routed as asked.
    #[error("{name}: {error}")]
    Routing {
        /// The fabric.
        name: String,
        /// Why.
        error: RoutingError,
    },
    /// A measurement that did not come to its end.
    #[cfg(feature = "verbs")]
    #[error(transparent)]
    Lat(#[from] snin_lat::LatError),
    /// A daemon that does not answer, or refuses.
    #[error(transparent)]
    Daemon(#[from] snin_daemon::control::ControlError),
    /// Certificates that cannot be used.
    #[error(transparent)]
    Credentials(#[from] snin_daemon::session::CredentialsError),
    /// A certificate without what belongs to it.
    #[error(transparent)]
    Missing(#[from] snin_daemon::session::MissingFile),
    /// A study that did not come to its end.
    #[error("snin study: {0}")]
    Study(#[from] snin_lab::reconfiguration::StudyError),
    /// A fabric in software that cannot be served.
    #[error("snin emulate: {0}")]
    Emulator(#[from] snin_emulator_server::ServerError),
    /// A fabric as processes that did not come up, or has ended.
    #[error("snin up: {0}")]
    Up(#[from] crate::command::up::UpError),
    /// A log that cannot be opened.
    #[error(transparent)]
    Log(#[from] snin_daemon::log::LogError),
    /// Which daemon is meant is open.
    #[error("{0}")]
    WhichDaemon(String),
    /// A job's command, or Slurm.
    #[error("{0}")]
    Job(String),
    /// Settings that cannot be used.
    #[error("{0}")]
    Settings(String),
    /// The CA.
    #[error(transparent)]
    Pki(#[from] snin_daemon::pki::PkiError),
    /// A name that no certificate can have.
    #[error(transparent)]
    Name(#[from] snin_protocol::identity::BadIdentity),
    /// A lab on real verbs that did not come to its end.
    #[cfg(feature = "verbs")]
    #[error("the lab on real verbs: {0}")]
    VerbsLab(#[from] snin_lab::verbs::VerbsLabError),
    /// A command that takes real verbs, in a build without them.
    #[cfg(not(feature = "verbs"))]
    #[error(
        "{0} takes real verbs, and this build has none: install libibverbs-dev, librdmacm-dev and \
         libclang-14-dev (`make deps`), then `cargo build --release --bin snin --features verbs`"
    )]
    WithoutVerbs(&'static str),
    /// Databases that cannot be merged.
    #[error("snin sm merge: {0}")]
    Merge(String),
    /// Two documents cannot be on stdout.
    #[error("{0}: only one of them can go to stdout, name a file for the other")]
    BothOnStdout(String),
    /// A file that cannot be replaced.
    #[error(transparent)]
    Store(#[from] snin_daemon::store::StoreError),
    /// Stdout is gone.
    #[error("stdout: {0}")]
    Output(io::Error),
}

impl Failure {
    /// A recording that cannot be replayed.
    pub(crate) fn recording(why: impl ToString) -> Self {
        Self::Recording(why.to_string())
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { path, error }
    }

    /// A wrong content; `what` displays as `LINE: message`.
    pub(crate) fn content(name: &str, what: impl std::fmt::Display) -> Self {
        Self::Content { name: name.to_owned(), what: what.to_string() }
    }

    /// A reader that closed its end early wanted no more: that is no failure.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
