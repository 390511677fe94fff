//! Why the daemon does not start, or ends: one line on stderr, exit code 3.

use std::io;
use std::path::{Path, PathBuf};

use snin_controller_core::error::ConfigError;
use snin_daemon::control::ControlError;
use snin_daemon::http::HttpError;
use snin_daemon::log::LogError;
use snin_daemon::session::{CredentialsError, ListenError};
use snin_daemon::settings::SettingsError;
use snin_daemon::shared::SharedError;
use snin_protocol::identity::BadIdentity;

/// See the module's documentation.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The configuration, as the core has it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The certificate, or what goes with it.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The sessions.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The name.
    #[error(transparent)]
    Name(#[from] BadIdentity),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The page of metrics.
    #[error(transparent)]
    Page(#[from] HttpError),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The state.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// A store that hangs.
    #[error("the store of the state has not answered for {0} s: nothing is changed")]
    Slow(u64),
    /// Another controller leads.
    #[error("this controller stands by")]
    Standby,
    /// A file.
    #[error("{}: {what}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The error, in words.
        what: String,
    },
    /// The system.
    #[error("{what}: {error}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// What it says.
        error: io::Error,
    },
}

impl Failure {
    /// A file that is of no use.
    pub fn file(path: &Path, what: impl std::fmt::Display) -> Self {
        Self::File { path: path.to_owned(), what: what.to_string() }
    }

    /// Whether the store refuses, or does not answer: what is asked may work later.
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Slow(_) => true,
            Self::Shared(error) => error.may_pass(),
            _ => false,
        }
    }

    /// Something that the system does not give.
    pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { what, error }
    }
}
