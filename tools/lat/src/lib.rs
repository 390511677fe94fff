//! Latency and bandwidth of a path, on real verbs: what `snin lat` measures.
//!
//! As with perftest, one side waits and the other names it; unlike there, the one that waits needs no
//! options: the client says over TCP what is to be measured, and both make their queue pairs accordingly.
//!
//! ```text
//! hostB$ snin lat                                  # waits
//! hostA$ snin lat --peer hostB --size 64           # half round trips of 64 bytes, one after the other
//! hostA$ snin lat --peer hostB --rate 10000        # sent at fixed times, whether the last came back or not
//! hostA$ snin lat --peer hostB --bandwidth --all   # 1 KiB to 8 MiB
//! ```

#![cfg(feature = "verbs")]

pub mod bench;
pub mod client;
pub mod exchange;
pub mod flows;
pub mod link;
pub mod plan;
pub mod server;

use std::io;
use std::net::SocketAddr;

use snin_verbs::{PathError, VerbsError};

/// What ends a measurement without its result.
#[derive(Debug, thiserror::Error)]
pub enum LatError {
    /// The device, or the lack of one.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// No way leads to the peer.
    #[error(transparent)]
    Path(#[from] PathError),
    /// No server listens there.
    #[error("cannot reach {peer}: {error} (does `snin lat` wait there?)")]
    Unreachable {
        /// The server that was called.
        peer: String,
        /// The system's error.
        error: io::Error,
    },
    /// The port to wait at is taken.
    #[error("cannot wait at {at}: {error}")]
    Listen {
        /// Where.
        at: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The connection beside the queue pairs broke.
    #[error("{peer} went away: {error}")]
    Gone {
        /// Who.
        peer: String,
        /// The system's error.
        error: io::Error,
    },
    /// The peer said something else than was expected.
    #[error("{peer} said what was not expected: {what}")]
    Confused {
        /// Who.
        peer: String,
        /// What.
        what: String,
    },
    /// The peer could not.
    #[error("{peer}: {what}")]
    Refused {
        /// Who.
        peer: String,
        /// Why.
        what: String,
    },
    /// Something posted was not done.
    #[error("a message was not delivered: {0}")]
    Undelivered(String),
    /// Nothing came for too long.
    #[error("nothing came for {0} s")]
    Silence(u64),
    /// What is asked for cannot be.
    #[error("{0}")]
    Plan(String),
}
