//! Sessions between daemons: one implementation for all of them.
//!
//! A session goes over TLS 1.3 with certificates at both ends, over a Unix socket whose other end's user the
//! system names, or, when asked for, over plain TCP on loopback. It begins with a
//! [greeting](snin_protocol::greeting); then both ends send frames of `snin_protocol::codec`.
//!
//! | module | what is in it |
//! |---|---|
//! | [`Address`] | `tls://host:port`, `unix:///path`, `plain://127.0.0.1:port` |
//! | [`Credentials`] | certificate, key, CA and revocation list, read again when the files change |
//! | [`Listener`] | the called end: one session for each identity, the latest |
//! | [`Caller`] | the calling end: calls again until the called end answers |
//! | [`Post`] | either of them on a thread of its own, for daemons that poll |
//! | [`Callers`] | many calling ends on one thread, for daemons that poll |
//!
//! What a peer can cost is bounded by [`Limits`]: handshakes run on a thread of their own and the oldest gives way
//! when there are too many, a frame has a greatest size, a peer's frames are paced, and a peer that does not read
//! or says nothing is cut off. Every refusal is [counted](Tally) and one line is logged.

mod acceptor;
mod address;
mod caller;
mod callers;
mod credentials;
mod end;
mod expiry;
mod limits;
mod listener;
mod pipe;
mod post;
mod socket;
mod tally;
mod work;

use std::sync::Arc;

use snin_protocol::identity::Identity;

pub use address::{Address, BadAddress};
pub use caller::{Call, Caller};
pub use callers::Callers;
pub use credentials::{Credentials, CredentialsError, Files, KEYS, MissingFile};
pub use end::SessionEnd;
pub use expiry::Expiry;
pub use limits::Limits;
pub use listener::{Listen, ListenError, Listener};
pub use post::Post;
pub use tally::{Count, Tally};

pub(crate) use acceptor::look;
pub(crate) use caller::lookup;
pub(crate) use credentials::{owner, server_name};

/// The identity of the other end.
pub type Peer = Arc<Identity>;

/// What happened in a session.
#[derive(Debug)]
pub enum Received<M> {
    /// It began. One of the same peer that was there before is over.
    Opened(Peer),
    /// The peer said something.
    Said(Peer, M),
    /// It is over, and no other of the same peer has begun.
    Closed(Peer, SessionEnd),
}
