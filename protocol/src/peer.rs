//! What agents say to each other beside their queue pairs, in a session that the one who sends opens.
//!
//! The caller says [`Hello`] first. For each queue pair it says [`Offer`] and hears [`Accept`] or
//! [`Decline`]; the called one's queue pair only receives. Either end says when one is of no more use:
//! the caller [`Withdraw`](PeerMessage::Withdraw), the called one [`Lost`](PeerMessage::Lost). A session that
//! ends takes all its queue pairs with it. [`Ping`](PeerMessage::Ping) is answered by
//! [`Pong`](PeerMessage::Pong) with the same number: a heartbeat, since a device may try for ever.

use snin_fabric::{Dlid, Guid, Lid};

/// What one end of the session may say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerMessage {
    /// The caller's first word.
    Hello(Hello),
    /// The caller wants to send along a queue pair.
    Offer(Offer),
    /// The called one has one that it is connected to.
    Accept(Accept),
    /// The called one has none.
    Decline(Decline),
    /// The caller's queue pair of this number is gone.
    Withdraw(u64),
    /// The called one's is.
    Lost(u64),
    /// Is anybody there?
    Ping(u64),
    /// Yes.
    Pong(u64),
}

/// The identity of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The port that it sends from.
    pub port: Guid,
    /// Greater after every restart.
    pub session: u64,
    /// Greater with every call. The same again: the session takes the place of one that goes on, as with a new
    /// certificate, and queue pairs stay.
    pub call: u64,
    /// The most flows that it has at a time: their numbers are smaller.
    pub flows: u32,
}

/// A queue pair of the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The caller's number for it, never used twice in one session.
    pub token: u64,
    /// The called one's address along the path, `None`: its base address. What it is more than the base is
    /// added to the caller's base too.
    pub dlid: Option<Dlid>,
    /// The service level of the caller's packets, 0 to 15: acknowledgements have the same.
    pub sl: u8,
    /// The queue pair.
    pub end: End,
}

/// The one that answers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accept {
    /// As it was offered.
    pub token: u64,
    /// The queue pair.
    pub end: End,
}

/// There is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decline {
    /// As it was offered.
    pub token: u64,
    /// Why.
    pub reason: DeclineReason,
}

/// Why an offer is declined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum DeclineReason {
    /// As many peers, flows or queue pairs as there may be.
    #[error("it has as many peers, flows or queue pairs as it may")]
    Full,
    /// The device has none, or refuses.
    #[error("its device refuses")]
    Device,
    /// It has no address with this offset.
    #[error("it has no address along that path")]
    NoPath,
    /// One end connects queue pairs, the other sends datagrams.
    #[error("it is in another mode")]
    OtherMode,
}

/// One end of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// The port's base address.
    pub address: EndAddress,
    /// The queue pair's number.
    pub number: u32,
    /// Its first packet's.
    pub first_packet: u32,
    /// Bytes of the port's packets.
    pub mtu: u32,
    /// Whether it sends datagrams.
    pub datagrams: bool,
}

/// A port's base address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndAddress {
    /// InfiniBand.
    Lid(Lid),
    /// RoCE.
    Gid([u8; 16]),
}
