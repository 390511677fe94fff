//! How a session begins, and what keeps it alive: the frames of version 0, which never change.
//!
//! The caller says [`Greet`]: who it is (over TLS its certificate says so, and both have to agree), what it
//! wants, and which versions of the messages it speaks. The called end answers with [`Welcome`] and the greatest
//! version that both speak, or with [`Refused`] and ends the session. So daemons are upgraded one at a time.
//! Afterwards either end may say [`SessionMessage::Ping`], which is answered by [`SessionMessage::Pong`].

use std::ops::RangeInclusive;

use crate::identity::Identity;

/// What a session is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Service {
    /// Requests and leases: an agent calls a controller.
    Grants,
    /// The fabric as its manager sees it: a controller calls a manager.
    Views,
    /// Queue pairs: an agent calls the agent of a port that it sends to.
    Peers,
    /// The subnet database: a standby manager calls the master.
    Mirrors,
}

impl Service {
    /// In one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grants => "grants",
            Self::Views => "views",
            Self::Peers => "queue pairs",
            Self::Mirrors => "mirrors",
        }
    }
}

/// A frame of the session itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionMessage {
    /// The caller's first word.
    Greet(Greet),
    /// The called end's first word.
    Welcome(Welcome),
    /// The called end's first and last word.
    Refused(Refused),
    /// Is anybody there?
    Ping,
    /// Yes.
    Pong,
}

/// The caller's identity, and what it calls for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Greet {
    /// The caller.
    pub identity: Identity,
    /// What it wants.
    pub service: Service,
    /// The least version of messages that it speaks.
    pub first: u8,
    /// The greatest.
    pub last: u8,
}

/// The session has begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The called end.
    pub identity: Identity,
    /// The version of every message from now on.
    pub version: u8,
}

/// There is no session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// The least version that the called end speaks.
    pub first: u8,
    /// The greatest.
    pub last: u8,
}

/// Why there is no session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Reason {
    /// No version that both speak.
    #[error("no common version of the protocol")]
    Version,
    /// It does something else.
    #[error("another service is offered here")]
    Service,
    /// The caller's role has no business here.
    #[error("this role is not served here")]
    Role,
    /// The certificate, or the user of the local socket, is of another identity than the greeting says.
    #[error("it claims to be somebody else than it is")]
    Identity,
    /// As many sessions as there may be.
    #[error("as many sessions as may be")]
    Full,
}

/// The greatest version that both ends speak.
pub fn common(ours: &RangeInclusive<u8>, theirs: &RangeInclusive<u8>) -> Option<u8> {
    let last = *ours.end().min(theirs.end());
    (last >= *ours.start().max(theirs.start())).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_common_version_is_spoken() {
        assert_eq!(common(&(1..=3), &(2..=9)), Some(3));
        assert_eq!(common(&(1..=1), &(1..=3)), Some(1));
        assert_eq!(common(&(1..=1), &(2..=3)), None);
    }
}
