//! Why there is no emulated fabric, in one line.

use std::io;

use snin_daemon::control::ControlError;
use snin_protocol::software_port::LONGEST_NAME;

/// Why the server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The name cannot be part of a socket's.
    #[error(
        "`{0}`: a fabric's name has 1 to {LONGEST_NAME} letters, digits and signs but no colon"
    )]
    Name(String),
    /// Another process has the name.
    #[error("{0}: another emulator, or ibsim, has this name: choose one with --socket")]
    Taken(String),
    /// A fabric without a port to which a client can attach.
    #[error("no adapter of the fabric has a cable")]
    NoHost,
    /// A socket cannot be made.
    #[error("{socket}: {error}")]
    Socket {
        /// Which.
        socket: String,
        /// The system's error.
        error: io::Error,
    },
    /// The control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The system cannot wait, or has no signals.
    #[error(transparent)]
    System(#[from] io::Error),
}
