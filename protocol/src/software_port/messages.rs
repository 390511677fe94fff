//! Messages between end-node agents and a fabric in software.
//!
//! A connection to `NAME:messages` [attaches](Attach) at ports by their GUIDs, one agent a port. Each post is
//! [answered](Completed) exactly once, when its message has left the port and reached its end, or will not.
//! Posts of one port are sent one after the other in the order in which they come. A connection that ends
//! detaches its ports: what they had posted and not begun to send is not sent.
//!
//! Limits: a frame has at most [`MAX_FRAME`](crate::codec::MAX_FRAME) bytes, a message's payload
//! [`MAX_PAYLOAD`]. A message's length on the wire is said apart from it, since bytes that mean nothing need
//! not be copied. The version is the codec's, in every frame.

use snin_fabric::{Guid, Lid};

use crate::Time;

/// The most bytes of a message that are carried; it may be longer on the wire.
pub const MAX_PAYLOAD: usize = 16 << 10;
/// The most bytes of a message on the wire.
pub const MAX_BYTES: u32 = 1 << 30;

/// From an agent to the fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToFabric {
    /// An agent is at a port; answered by [`FromFabric::Attached`] or [`FromFabric::Refused`].
    Attach(Attach),
    /// It is there no longer.
    Detach(Attach),
    /// A message; answered by [`FromFabric::Completed`].
    Post(Post),
    /// A message that has not left the port shall not.
    Cancel(Cancel),
    /// Where is a port? Answered by [`FromFabric::Found`].
    Find(Find),
}

/// A port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attach {
    /// Its GUID.
    pub port: Guid,
}

/// A message to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    /// The port that sends it.
    pub port: Guid,
    /// The agent's own number for it.
    pub token: u64,
    /// The agent's number of the flow it belongs to: port and flow are who owns a link.
    pub flow: u32,
    /// Where it goes.
    pub to: Lid,
    /// Added to the port's base address to make the one that it comes from.
    pub path_bits: u8,
    /// Its service level, 0 to 15.
    pub sl: u8,
    /// Its length on the wire, with all headers, at most [`MAX_BYTES`].
    pub bytes: u32,
    /// When the port begins to send it, or as soon after as it has sent what was posted before.
    pub begin: Time,
    /// What the other end gets, at most [`MAX_PAYLOAD`].
    pub payload: Vec<u8>,
}

/// A message that is not to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancel {
    /// The port.
    pub port: Guid,
    /// The message.
    pub token: u64,
    /// From when on: what has been begun ends with the packet that is being sent.
    pub at: Time,
}

/// A port that is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Find {
    /// The port that asks.
    pub port: Guid,
    /// The port that is looked for.
    pub peer: Guid,
}

/// From the fabric to an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromFabric {
    /// An agent is at its port; said again whenever something of it changes.
    Attached(PortStatus),
    /// It is not.
    Refused(AttachRefused),
    /// The outcome of a message.
    Completed(Completed),
    /// A message came.
    Arrived(Arrived),
    /// Where a port is.
    Found(Found),
}

/// A port as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortStatus {
    /// Which.
    pub port: Guid,
    /// Its base address, 0 if it has none yet.
    pub lid: Lid,
    /// It answers to 2^`lmc` addresses.
    pub lmc: u8,
    /// Whether messages can leave: its link is active.
    pub active: bool,
    /// What it sends, in bit/s.
    pub rate: u64,
    /// The most bytes of a packet's payload.
    pub mtu: u32,
}

/// Why an agent cannot be at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttachRefused {
    /// Which.
    pub port: Guid,
    /// Why.
    pub reason: RefusedReason,
}

/// See [`AttachRefused`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum RefusedReason {
    /// No adapter of the fabric has it.
    #[error("no adapter of the fabric has such a port")]
    NoSuchPort,
    /// Another agent is there.
    #[error("another agent is at the port")]
    Taken,
    /// As many ports as one connection may have.
    #[error("the connection has as many ports as it may")]
    TooMany,
}

/// The outcome of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completed {
    /// The port that sent it.
    pub port: Guid,
    /// Which message.
    pub token: u64,
    /// What.
    pub outcome: Outcome,
}

/// See [`Completed`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// The agent at the other end has it.
    Delivered,
    /// It was taken back.
    Cancelled,
    /// It did not arrive.
    Lost(Loss),
}

/// Why a message did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Loss {
    /// A link on its way was not active.
    #[error("a link on the way is not active")]
    LinkDown,
    /// A switch had no entry for its address.
    #[error("a switch has no entry for the address")]
    NoRoute,
    /// It passed too many switches.
    #[error("the tables lead in a circle")]
    Looped,
    /// It came to a port that has other addresses.
    #[error("the tables lead to a port with other addresses")]
    WrongPort,
    /// No agent is at the port that it came to.
    #[error("no agent is at the port")]
    Nobody,
    /// The agent there does not take what comes.
    #[error("the agent at the port does not read")]
    Full,
    /// Too many wait at the port that sends.
    #[error("too many messages wait at the port")]
    Queue,
    /// It is longer than a message may be.
    #[error("longer than a message may be")]
    TooLong,
    /// It was to begin long ago, or far in the future: by another clock.
    #[error("the moment at which it begins is not of now")]
    WrongTime,
    /// The sender is not attached.
    #[error("the sender is not attached")]
    NotAttached,
    /// A port on its way, or the one that it came to, is not in its partition.
    #[error("a port is not in the message's partition")]
    Partition,
}

/// A message that came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// The port that it came to.
    pub port: Guid,
    /// The address that it came from.
    pub from: Lid,
    /// The address that it was sent to.
    pub to: Lid,
    /// As it was posted.
    pub payload: Vec<u8>,
}

/// Where a port is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The port that asked.
    pub port: Guid,
    /// The port that was looked for.
    pub peer: Guid,
    /// Its base address, 0 if it has none, or there is no such port.
    pub lid: Lid,
    /// Whether an agent is there.
    pub attached: bool,
}
