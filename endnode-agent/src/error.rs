//! Why an agent does not run, in one line that says what to do.

use std::io;
use std::path::PathBuf;

use snin_daemon::session::{CredentialsError, ListenError};
use snin_daemon::settings::SettingsError;
use snin_fabric::Guid;
use snin_protocol::identity::Identity;

use snin_agent_core::ConfigError;
use snin_verbs::VerbsError;

/// See the module's documentation.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The device, or the lack of one.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// The mesh cannot be made like this.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The certificate and what goes with it.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The certificate is of another identity than the port's agent.
    #[error(
        "the certificate is that of {named}, and the port is {port}: `snin pki issue agent/{port}` makes its own"
    )]
    OtherName {
        /// Whose it is.
        named: Identity,
        /// The port's GUID.
        port: Guid,
    },
    /// The polling thread cannot have its core.
    #[error(
        "core {core} cannot be had: there are {present}, and the process may be kept from some; set \
         `core` to another"
    )]
    NoCore {
        /// Asked for.
        core: usize,
        /// Those that there are, as the kernel lists them.
        present: String,
    },
    /// Peers cannot call here.
    #[error("cannot listen at {0}; set `listen` to another address")]
    Listen(#[from] ListenError),
    /// The port says no GUID.
    #[error("port {port} of {device} says no GUID: set `guid`")]
    NoGuid {
        /// Which device.
        device: String,
        /// Which port.
        port: u8,
    },
    /// The system does not give what every program gets.
    #[error("{what}: {error}")]
    System {
        /// What failed.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// What the core is told cannot be recorded.
    #[error("cannot record to {}: {error}", .file.display())]
    Record {
        /// Which file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// No such peer.
    #[error("the address of peer {0} is not known: add it to `peers`")]
    UnknownPeer(Guid),
}
