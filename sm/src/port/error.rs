//! Why there is no port, or none any more.

use std::io;

/// Why a port cannot be used. One line each, with what there is instead.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// No port is as it was asked for.
    #[error("no InfiniBand port is {wanted}; there is {candidates}")]
    NoSuchPort {
        /// The requested port.
        wanted: String,
        /// The ports that there are.
        candidates: String,
    },
    /// There is nothing to choose from.
    #[error("this machine has no InfiniBand port{0}")]
    NoPort(String),
    /// The choice is open.
    #[error("which port? choose by --ca and --port, or by --guid: there is {candidates}")]
    Ambiguous {
        /// The ports that there are.
        candidates: String,
    },
    /// libibumad or the kernel refuse.
    #[cfg(feature = "umad")]
    #[error(transparent)]
    Umad(#[from] snin_umad::Error),
    /// This build lacks libibumad.
    #[cfg(not(feature = "umad"))]
    #[error("this build knows no ports of this machine: build snin-sm with the feature `umad`")]
    WithoutUmad,
    /// There is no place on a simulated fabric.
    #[error(transparent)]
    Ibsim(#[from] super::ibsim::IbsimError),
    /// Something failed that worked before.
    #[error("{name}: {error}")]
    Broken {
        /// The port.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// The file for the capture.
    #[error("{file}: {error}")]
    Capture {
        /// The file.
        file: String,
        /// The system's error.
        error: io::Error,
    },
}

impl PortError {
    /// A failure of the port called `name`.
    pub fn broken(name: &str) -> impl FnOnce(io::Error) -> Self {
        let name = name.to_owned();
        move |error| Self::Broken { name, error }
    }
}
