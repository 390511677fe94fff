//! Why the daemon does not start, or ends: one line on stderr, exit code 3.

use std::io;
use std::path::{Path, PathBuf};

use snin_daemon::control::ControlError;
use snin_daemon::http::HttpError;
use snin_daemon::log::LogError;
use snin_daemon::session::{BadAddress, CredentialsError, ListenError, MissingFile};
use snin_daemon::settings::SettingsError;
use snin_daemon::shared::SharedError;
use snin_daemon::store::{StoreError, is_of_disk};
use snin_daemon::text::TextError;
use snin_protocol::identity::BadIdentity;

use crate::port::PortError;

/// What cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration file.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The address of `/metrics`.
    #[error("metrics_listen: {0}")]
    Page(#[from] HttpError),
    /// The addresses of sessions.
    #[error("session_listen: {0}")]
    Address(#[from] BadAddress),
    /// The sessions.
    #[error("session_listen: {0}")]
    Sessions(#[from] ListenError),
    /// The certificate, or what goes with it.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Certificates that do not go together.
    #[error(transparent)]
    Certificates(#[from] MissingFile),
    /// The name of this machine.
    #[error(transparent)]
    Name(#[from] BadIdentity),
    /// The cluster's service.
    #[error("cluster: {0}")]
    Cluster(#[from] SharedError),
    /// The policy.
    #[error("policy: {0}")]
    Policy(String),
    /// What is remembered cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file that cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file whose content is wrong. `what` begins with the line's number where there is one.
    #[error("{}:{what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Line and value.
        what: String,
    },
    /// A file of the state that is not what was written.
    #[error("{0}:{what}; lost with it: {holds}; `mv {0} {0}.bad` puts it aside", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// Line and value.
        what: String,
        /// What was in it.
        holds: &'static str,
    },
    /// The expected configuration.
    #[error("{0}")]
    Expected(String),
    /// The system refuses what a daemon cannot do without.
    #[error("{what}: {error}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl Failure {
    /// A file, for what the system says of it.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { path, error }
    }

    /// A file that people write.
    pub(crate) fn text(path: &Path) -> impl FnOnce(TextError) -> Self {
        let path = path.to_owned();
        move |error| match error {
            TextError::File(error) => Self::File { path, error },
            TextError::NotUtf8(error) => Self::Content { path, what: error.to_string() },
        }
    }

    /// Whether it is the disk that refuses: what is asked may work later.
    pub fn is_of_disk(&self) -> bool {
        match self {
            Self::Store(StoreError { error, .. }) | Self::File { error, .. } => is_of_disk(error),
            _ => false,
        }
    }

    /// Stdout is gone.
    pub const fn stdout() -> impl FnOnce(io::Error) -> Self {
        Self::system("stdout")
    }

    pub(crate) const fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { what, error }
    }
}
