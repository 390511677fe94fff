//! Why a session ends.

use std::io;

use snin_protocol::codec::CodecError;
use snin_protocol::greeting::Refused;
use snin_protocol::identity::Identity;

use super::tally::Count;

/// See the module's documentation. One line each.
#[derive(Debug, thiserror::Error)]
pub enum SessionEnd {
    /// The other end went away, or cannot be reached.
    #[error("{0}")]
    Gone(#[from] io::Error),
    /// The handshake failed, or what came later was no TLS.
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    /// What came is no frame.
    #[error("{0}")]
    Malformed(#[from] CodecError),
    /// A frame of the session that has no place there.
    #[error("the other end does not keep to the protocol")]
    OutOfTurn,
    /// The called end does not want it.
    #[error("refused: {}; it speaks versions {} to {}", .0.reason, .0.first, .0.last)]
    Refused(Refused),
    /// The other end is of another identity than it says.
    #[error("it says that it is {claimed}, but {proof}")]
    Imposter {
        /// The claimed identity.
        claimed: Identity,
        /// What speaks against that.
        proof: String,
    },
    /// It took too long to greet.
    #[error("it did not greet in time")]
    Slow,
    /// It was silent.
    #[error("it was silent for too long")]
    Idle,
    /// It does not read.
    #[error("it does not read what it is sent")]
    Unread,
    /// The certificate was good when the session began.
    #[error("its certificate is not good any more: {0}")]
    Revoked(rustls::Error),
    /// This end wanted it.
    #[error("it was ended here")]
    Ended,
    /// TLS without certificate and key.
    #[error("tls:// needs certificate, key and ca_certificate in the configuration")]
    NoCredentials,
}

impl SessionEnd {
    /// What it counts as.
    pub(super) const fn count(&self) -> Option<Count> {
        Some(match self {
            Self::Gone(_) => Count::Gone,
            Self::Tls(_) | Self::NoCredentials => Count::Handshake,
            Self::Malformed(_) | Self::OutOfTurn => Count::Malformed,
            Self::Refused(_) => Count::Stranger,
            Self::Imposter { .. } => Count::Imposter,
            Self::Slow => Count::Slow,
            Self::Idle => Count::Idle,
            Self::Unread => Count::Unread,
            Self::Revoked(_) => Count::Revoked,
            Self::Ended => return None,
        })
    }
}
