//! Everything that goes into a mesh and everything that comes out.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use snin_fabric::{Dlid, Guid, TreeId};
use snin_protocol::message::{FromAgent, LinkTest, LinkTested, Refusal, ToAgent, Wait};
use snin_protocol::{ConnectionNumber, Term, Time};

/// A flow from here, numbered by the caller from 0 and below [`Config::flows`](super::Config::flows).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FlowId(pub u32);

impl FlowId {
    /// As an index into tables by flow.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<FlowId> for ConnectionNumber {
    /// To the controller a flow is a connection, and has the same number.
    fn from(flow: FlowId) -> Self {
        Self(flow.0)
    }
}

/// A queue pair: a place in the mesh's table, and how often that place was taken before, so that word
/// of a queue pair that is gone is not taken for its successor's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PairId {
    /// Below [`Config::pairs`](super::Config::pairs): a port may keep its queue pairs in a table of that length.
    pub slot: u32,
    /// Rises each time that the place is given anew.
    pub life: u32,
}

/// What an application wants sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Message {
    /// The application's own number: 0 is a flow's first, and no other.
    pub id: u64,
    /// Its length.
    pub bytes: u64,
    /// When the application meant to send it; latency is counted from here, so that a sender that is held
    /// up does not hide its own delay.
    pub due: Time,
}

/// A part of a message, sent as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// The sender's number of the flow.
    pub flow: FlowId,
    /// Counts the flow's pieces from 0.
    pub sequence: u64,
    /// Which message.
    pub message: u64,
    /// Where in the message it begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u32,
    /// Whether the message ends with it.
    pub last: bool,
}

/// A piece as it came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Arrival {
    /// The port that sent it.
    pub peer: Guid,
    /// The sender's [`Config::session`](super::Config::session).
    pub session: u64,
    /// What came.
    pub piece: Piece,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The application asks for something.
    App(Call),
    /// The port has news.
    Port(PortEvent),
    /// The controller sent a frame. It is shared, so that the thread that made it can free it.
    Controller(Arc<ToAgent>),
    /// Bytes came from the controller's side that are no frame.
    Malformed,
}

/// What an application asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Call {
    /// A flow to `peer`.
    Open {
        /// Its number.
        flow: FlowId,
        /// Where to.
        peer: Guid,
        /// What is asked of the controller for it.
        wanted: Wanted,
    },
    /// A message on a flow.
    Send {
        /// Which flow.
        flow: FlowId,
        /// What.
        message: Message,
    },
    /// The flow ends: what is posted is waited for, what is not is given back unsent.
    Close {
        /// Which flow.
        flow: FlowId,
    },
    /// The controller is told what came of a test.
    LinkTested(LinkTested),
}

/// News of the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PortEvent {
    /// A queue pair is connected.
    Ready {
        /// Which.
        pair: PairId,
    },
    /// On this queue pair the piece with this ticket is done, and with it all posted before.
    Done {
        /// Which queue pair.
        pair: PairId,
        /// As it was posted.
        ticket: u64,
    },
    /// A queue pair could not be connected, or is in error. What it had not done may have arrived or not.
    Broken {
        /// Which.
        pair: PairId,
        /// Why.
        reason: BreakReason,
    },
    /// A queue pair is gone; nothing of it will be sent any more.
    Closed {
        /// Which.
        pair: PairId,
    },
    /// A piece came in, from a peer that was [admitted](super::Admission).
    Arrived(Arrival),
    /// A peer's session is over, and nothing of it will come any more.
    PeerGone {
        /// Which peer.
        peer: Guid,
        /// Its session.
        session: u64,
    },
    /// The port's link is there, as it is taken to be at the start.
    Up,
    /// The port has no link.
    Down,
}

/// Why a queue pair is of no use.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error, Serialize, Deserialize,
)]
pub enum BreakReason {
    /// The port gave up: retries exhausted, an access error, flushed.
    #[error("the queue pair is in error")]
    Failed,
    /// It could not be made: the peer does not answer, or there are no resources.
    #[error("the queue pair could not be connected")]
    Unconnected,
    /// Nothing completed for too long.
    #[error("nothing completed for too long")]
    Stalled,
    /// Its grant ended while pieces were still posted, and the links may be another's now.
    #[error("its grant ended with pieces still posted")]
    Overrun,
    /// The peer's agent ended, or does not answer.
    #[error("the peer's agent does not answer")]
    PeerGone,
    /// The port's link went down.
    #[error("the port is down")]
    PortDown,
    /// The peer's address along that tree is another now.
    #[error("the peer has another address")]
    Readdressed,
}

/// A connection as an application wants it. The default is as much as the link carries, until the flow
/// has nothing to send any more.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// How many windows it takes to send what there is; 0: until nothing is left.
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

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// By the port.
    Port(PortCall),
    /// Told to the controller.
    Controller(FromAgent),
    /// Told to the application.
    App(Notice),
}

/// Where a queue pair leads, for good: a live one cannot be moved to another tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The peer's port.
    pub peer: Guid,
    /// The tree.
    pub tree: TreeId,
    /// The peer's address along that tree; `None`: the base address that the peer names itself.
    pub dlid: Option<Dlid>,
    /// The service level of what is sent, 0 to 15.
    pub sl: u8,
}

/// What a port is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortCall {
    /// Make a queue pair; answered by `Ready` or `Broken`.
    Connect {
        /// Its number.
        pair: PairId,
        /// Where it leads.
        route: Route,
    },
    /// Send a piece; answered by `Done` or `Broken`.
    Post(Post),
    /// Stop sending and give the queue pair up; answered by `Closed`.
    Close {
        /// Which.
        pair: PairId,
    },
}

/// A piece that a port is to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Post {
    /// On which queue pair.
    pub pair: PairId,
    /// What `Done` shall say; rises by one with each piece of a queue pair, from 0.
    pub ticket: u64,
    /// What.
    pub piece: Piece,
    /// Bit/s at which the port paces it where it can, as a static rate does (IBA 9.11); 0: its own.
    pub rate: u64,
}

/// What an application is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A message is complete: arrived (RC) or sent (UC, UD).
    Sent {
        /// On which flow.
        flow: FlowId,
        /// The application's number.
        message: u64,
        /// From when it was due.
        latency: Time,
    },
    /// A piece came in, in order and for the first time.
    Received {
        /// The port that sent it.
        peer: Guid,
        /// What.
        piece: Piece,
    },
    /// Pieces of a flow to here never came; only UC and UD can lose.
    Lost {
        /// The port that sent them.
        peer: Guid,
        /// The sender's number of the flow.
        flow: FlowId,
        /// How many.
        pieces: u64,
    },
    /// A call was not carried out.
    Declined {
        /// Which flow.
        flow: FlowId,
        /// Why.
        reason: Decline,
    },
    /// A flow is closed; its number may be used again.
    Closed {
        /// Which flow.
        flow: FlowId,
        /// Messages that were not sent.
        unsent: u32,
    },
    /// The flow has to wait for another reason than before.
    Deferred {
        /// Which flow.
        flow: FlowId,
        /// Why.
        wait: Wait,
    },
    /// The controller refused the flow; it will be asked again.
    Refused {
        /// Which flow.
        flow: FlowId,
        /// Why.
        refusal: Refusal,
    },
    /// A queue pair broke; it will be made anew if still wanted.
    Broken {
        /// The peer.
        peer: Guid,
        /// The tree.
        tree: TreeId,
        /// Why.
        reason: BreakReason,
    },
    /// A controller of an earlier term spoke and was not listened to: said once, however often it does.
    StaleController {
        /// Its term.
        term: Term,
        /// The greatest heard.
        latest: Term,
    },
    /// No controller was heard for too long.
    ControllerLost,
    /// One is heard again.
    ControllerFound,
    /// The controller wants to know whether the link carries messages.
    LinkTest(LinkTest),
}

/// Why a call was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Decline {
    /// The number is not below the limit.
    #[error("flow numbers are limited")]
    NoSuchNumber,
    /// The number is in use.
    #[error("the flow is open already")]
    AlreadyOpen,
    /// No flow of that number is open, or it is closing.
    #[error("no such flow is open")]
    NotOpen,
    /// As many messages wait as may; the one with this number was not taken.
    #[error("the flow's queue is full: message {0} was not taken")]
    QueueFull(u64),
}
