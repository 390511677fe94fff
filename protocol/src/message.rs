//! Messages between agent, controller and subnet manager.
//!
//! **The lease.** A controller does not tell an agent what has changed but all that it holds: a lease is
//! the whole of the agent's grants, numbered, and only a later one than the last is listened to. So lost,
//! doubled and overtaken frames need no rules of their own, and a pause is nothing but a lease without
//! the grant. One frame renews everything an agent has. What a lease says:
//!
//! - A connection that is not in it stops at once.
//! - A connection that is in it with another tree than before goes on as it was until the new grant's
//!   `from`, then stops there, drains, and goes on along the new tree.
//! - An agent sends only in `[from, until - guard)` of a grant, by the controller's clock, its own clock's
//!   error on the safe side.
//!
//! **The confirmation.** [`Confirm`] says: I follow that lease, and nothing that it does not grant is
//! under way on any link. That is what lets the controller give links anew before `until` + guard.
//! It is said again whenever the same lease comes again.
//!
//! **Asking.** What an agent asks for goes in numbered frames, one after the other, until the controller
//! says in [`Lease::heard`] that it has them. A grant in a lease that has not heard a request yet is not
//! that request's but that of an older connection of the same number.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use snin_fabric::{Dlid, Guid, TreeId};

use crate::collective::Collective;
use crate::{ConnectionNumber, Session, Term, Time};

/// The most [`Change`]s of one [`Ask`].
pub const MAX_CHANGES: usize = 256;
/// The most [`Grant`]s of one [`Lease`].
pub const MAX_GRANTS: usize = 64;
/// The most [`Answer`]s of one [`Lease`].
pub const MAX_ANSWERS: usize = 64;
/// The most pairs of one [`ViewChange`].
pub const MAX_PAIRS: usize = 4096;
/// The most messages of a [`LinkTest`].
pub const MAX_TEST_MESSAGES: u32 = 100_000;
/// The most [`PinnedPath`]s, and the most [`SliceMember`]s, of one [`Preferred`].
pub const MAX_PREFERRED: usize = 1024;

/// From an agent to the controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FromAgent {
    /// Which conversation.
    pub session: Session,
    /// The message itself.
    pub body: AgentMessage,
}

/// What an agent may say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentMessage {
    /// It is there, and begins a conversation: nothing of an earlier one holds.
    Hello(Hello),
    /// It wants or gives back connections.
    Ask(Ask),
    /// It follows a lease.
    Confirm(Confirm),
    /// What time is it? Also the sign of life of an agent that has nothing else to say.
    Clock(ClockQuestion),
    /// What came of a [`LinkTest`].
    LinkTested(LinkTested),
}

/// An agent is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The port that it sends from.
    pub port: Guid,
    /// The greatest term that it has heard of: a controller with a smaller one has been replaced.
    pub term: Term,
}

/// Changes in order. The next one's number is greater by one; the first one's is 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Its number.
    pub number: u64,
    /// At most [`MAX_CHANGES`].
    /// Shared, so that who says it again copies nothing.
    pub changes: Arc<Vec<Change>>,
}

/// A change of what an agent wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A connection is wanted, or is wanted otherwise than before.
    Request(Request),
    /// A connection is not wanted any more. Nothing of it is under way.
    Withdraw(ConnectionNumber),
}

impl Change {
    /// The connection it is about.
    pub const fn connection(&self) -> ConnectionNumber {
        match self {
            Self::Request(request) => request.connection,
            Self::Withdraw(connection) => *connection,
        }
    }
}

/// A connection wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The agent's number for it.
    pub connection: ConnectionNumber,
    /// The port to send to.
    pub destination: Guid,
    /// How many windows it takes to send what there is; 0: until withdrawn.
    pub windows: u32,
    /// Bit/s, if less than the link carries; 0: as much as it carries.
    pub rate: u64,
    /// Traffic class, for the bounds declared for it.
    pub class: u8,
    /// Once granted it shall never move.
    pub pinned: bool,
    /// The tree that a pinned connection must have, or that another would like.
    pub tree: Option<TreeId>,
}

/// A lease is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Confirm {
    /// The lease's number.
    pub sequence: u64,
}

/// The first half of a clock sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockQuestion {
    /// The agent's clock when it asked.
    pub sent: Time,
}

/// From the controller to an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToAgent {
    /// Which conversation.
    pub session: Session,
    /// Which controller.
    pub term: Term,
    /// The controller's clock when it was sent.
    pub at: Time,
    /// The message itself.
    pub body: ControllerMessage,
}

/// What a controller may say to an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ControllerMessage {
    /// The answer to [`Hello`].
    Welcome(Terms),
    /// All that the agent holds.
    Lease(Lease),
    /// The answer to [`ClockQuestion`]; the frame's own `at` is the time.
    Clock(ClockAnswer),
    /// The conversation is not known: begin anew.
    Stranger,
    /// The agent's link is under test.
    LinkTest(LinkTest),
}

/// The terms of the conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Terms {
    /// The length of a window.
    pub window: Time,
    /// Nothing is sent in the last `guard` before a grant's `until`.
    pub guard: Time,
    /// An agent whose clock may be further off than this sends nothing.
    pub clock_error: Time,
}

/// All that an agent holds.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Lease {
    /// Its number; an agent listens to greater ones only.
    pub sequence: u64,
    /// The last [`Ask`] that was taken.
    pub heard: u64,
    /// At most [`MAX_GRANTS`], one a connection.
    pub grants: Vec<Grant>,
    /// News of connections that are not granted, at most [`MAX_ANSWERS`].
    pub answers: Vec<Answer>,
    /// What the agent takes part in.
    pub collective: Option<Collective>,
}

/// Leave to send along one tree for a time, in the term of the frame that says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// The connection.
    pub connection: ConnectionNumber,
    /// The tree; 0 within a leaf.
    pub tree: TreeId,
    /// The address to send to.
    pub dlid: Dlid,
    /// From then on, by the controller's clock.
    pub from: Time,
    /// Until then, less the guard.
    pub until: Time,
    /// Bit/s of the slowest link of the way: no sender is faster than that link forwards. 0: not known.
    pub rate: u64,
    /// It never moves.
    pub pinned: bool,
    /// The service level to send with, 0 to 15.
    pub sl: u8,
}

/// Messages are to cross the agent's link: it sends them to a peer, and asks for the connection as for any other.
/// It answers with [`LinkTested`], after five seconds at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkTest {
    /// Its number, which the answer says too.
    pub number: u32,
    /// Where the messages are sent.
    pub peer: Guid,
    /// How many, at most [`MAX_TEST_MESSAGES`]; 0: only the answer is wanted.
    pub messages: u32,
    /// Bytes of each.
    pub bytes: u32,
}

/// What came of a test of the agent's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkTested {
    /// Of which test.
    pub number: u32,
    /// How many messages the peer has.
    pub arrived: u32,
}

/// News of a connection without a grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The connection.
    pub connection: ConnectionNumber,
    /// The controller's verdict.
    pub verdict: Verdict,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// It has had the windows that it asked for. The controller has forgotten it.
    Served,
    /// It waits.
    Deferred(Wait),
    /// It gets nothing as things are.
    Refused(Refusal),
}

/// Why a connection has to wait.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    thiserror::Error,
    Serialize,
    Deserialize,
)]
pub enum Wait {
    /// Others of its ports have their turn.
    #[error("its ports serve other connections in this window")]
    PortsBusy,
    /// More connections leave the source leaf than it has uplinks.
    #[error("the source leaf has no free uplink")]
    SourceFull,
    /// More connections go to the destination leaf than it has down links.
    #[error("the destination leaf has no free down link")]
    DestinationFull,
    /// Both leaves have free links, but not on one tree.
    #[error("no allowed tree could be freed")]
    NoTreeFreed,
    /// The tree that it must have is another pinned one's.
    #[error("its tree is taken by another pinned connection")]
    PinnedAway,
    /// It had more turns than another that waits for the same links.
    #[error("it makes room for a connection that has waited long")]
    Rests,
    /// Its links are not clear yet of those who had them.
    #[error("its links have not been confirmed to be clear")]
    Draining,
    /// No subnet manager was heard for [`VIEW_LEASE`](crate::view::VIEW_LEASE): its tables may be others by now.
    #[error("no subnet manager is heard, whose tables may be others by now")]
    NoManager,
    /// A collective is in force, or about to be, in which one of its ports takes part.
    #[error("its ports take part in a collective")]
    Collective,
}

/// Why a connection gets nothing.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    thiserror::Error,
    Serialize,
    Deserialize,
)]
pub enum Refusal {
    /// The policy is `off`.
    #[error("the policy is off: nothing is granted")]
    Off,
    /// The agent's port is no host port of the fabric.
    #[error("the port that asks is no host of the fabric")]
    UnknownSource,
    /// No such host.
    #[error("the destination is no host of the fabric")]
    UnknownDestination,
    /// A port does not send to itself through the fabric.
    #[error("source and destination are the same port")]
    Itself,
    /// More than the host's link carries.
    #[error("more bit/s asked for than the host's link carries")]
    TooFast,
    /// As many connections as there may be.
    #[error("too many connections")]
    TooMany,
    /// All cables of the source leaf are missing.
    #[error("no tree is usable at the source leaf")]
    SourceCut,
    /// All cables of the destination leaf are missing.
    #[error("no tree is usable at the destination leaf")]
    DestinationCut,
    /// Each leaf has cables, but to different trees.
    #[error("no tree is usable at both leaves")]
    NoCommonTree,
    /// The destination has no address on a tree that is usable at both leaves.
    #[error("no tree that is usable at both leaves has an address")]
    NotAddressed,
    /// The tree that a pinned connection must have is none of its allowed ones.
    #[error("the tree asked for is not allowed")]
    TreeNotAllowed,
    /// The tables lead nowhere, or the fabric has no trees.
    #[error("the tables have no route from the source to the destination")]
    NoRoute,
    /// The policy keeps the trees of base addresses free, but base addresses lead along all trees.
    #[error(
        "the policy is strict, but base addresses lead along all trees: see `unmanaged_trees` and `lmc`"
    )]
    StrictImpossible,
}

/// The second half of a clock sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClockAnswer {
    /// As the agent said it.
    pub sent: Time,
}

/// From the subnet manager to the controller: along which trees nothing may be granted. It comes before
/// tables are repaired, so that traffic moves in the next window without a table being written.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ViewChange {
    /// Greater than the last one's.
    pub version: u64,
    /// Switches with hosts and the trees that are unusable there, all of them, at most [`MAX_PAIRS`].
    pub unusable: Vec<UnusablePair>,
}

/// Nothing may be granted along the tree to or from hosts of the switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnusablePair {
    /// The switch's GUID.
    pub switch: Guid,
    /// The tree.
    pub tree: TreeId,
}

/// From the controller to the subnet manager: nothing is sent any more along the pairs that the view with
/// this version, and all before it, called unusable. Tables may be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViewClear {
    /// The view's version.
    pub version: u64,
}

/// Addresses with which queries for paths are to be answered before all others: all of them, in parts. What the
/// last whole set does not name is preferred no more.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Preferred {
    /// Which part of the set it is, from 0.
    pub part: u32,
    /// How many parts there are.
    pub parts: u32,
    /// At most [`MAX_PREFERRED`].
    pub pins: Vec<PinnedPath>,
    /// At most [`MAX_PREFERRED`].
    pub slices: Vec<SliceMember>,
}

/// A pair of ports that has an address for good.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PinnedPath {
    /// The port that sends.
    pub source: Guid,
    /// The port that is sent to.
    pub destination: Guid,
    /// By this address of it.
    pub dlid: Dlid,
}

/// A port in a job's slice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SliceMember {
    /// The port.
    pub port: Guid,
    /// The job: ports of one job are sent to by these addresses.
    pub job: u64,
    /// The port's address along a tree of the slice.
    pub dlid: Dlid,
}

impl Preferred {
    /// A whole set, in as few parts as may be.
    pub fn parts(pins: &[PinnedPath], slices: &[SliceMember]) -> Vec<Self> {
        let count = |len: usize| len.div_ceil(MAX_PREFERRED);
        let parts = count(pins.len()).max(count(slices.len())).max(1);
        let mut pins = pins.chunks(MAX_PREFERRED);
        let mut slices = slices.chunks(MAX_PREFERRED);
        let part = |part| Self {
            part,
            parts: parts as u32,
            pins: pins.next().unwrap_or_default().to_vec(),
            slices: slices.next().unwrap_or_default().to_vec(),
        };
        (0..parts as u32).map(part).collect()
    }
}
