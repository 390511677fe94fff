//! Everything that goes into a mesh and everything that comes out.

use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;

/// A flow from here, numbered by the caller from 0 and below [`Config::flows`](super::Config::flows).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub u32);

impl FlowId {
    /// As an index into tables by flow.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A queue pair: a place in the mesh's table, and how often that place was taken before, so that word
/// of a queue pair that is gone is not taken for its successor's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PairId {
    /// Below [`Config::pairs`](super::Config::pairs): a port may keep its queue pairs in a table of that length.
    pub slot: u32,
    /// Rises each time that the place is given anew.
    pub life: u32,
}

/// What an application wants sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The application's own number.
    pub id: u64,
    /// Its length.
    pub bytes: u64,
    /// When the application meant to send it; latency is counted from here, so that a sender that is held
    /// up does not hide its own delay.
    pub due: Time,
}

/// A part of a message, sent as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub peer: Guid,
    /// The sender's [`Config::session`](super::Config::session).
    pub session: u64,
    /// What came.
    pub piece: Piece,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The application asks for something.
    App(Call),
    /// The port has news.
    Port(PortEvent),
    /// The controller said something.
    Controller(Frame),
    /// Bytes came from the controller's side that are no frame.
    Malformed,
}

/// What an application asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// A flow to `peer`.
    Open {
        /// Its number.
        flow: FlowId,
        /// Where to.
        peer: Guid,
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
}

/// News of the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// A piece came in.
    Arrived(Arrival),
    /// The port's link is there, as it is taken to be at the start.
    Up,
    /// The port has no link.
    Down,
}

/// Why a queue pair is of no use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
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
    /// The port's link went down.
    #[error("the port is down")]
    PortDown,
}

/// One frame from a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Which active controller, counted: a smaller one than heard before is no longer in charge.
    pub term: u64,
    /// The controller's time when it was sent.
    pub at: Time,
    /// What it says.
    pub order: Order,
}

/// What a controller may say to an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Nothing but that it is there.
    Alive,
    /// The flow may send.
    Grant {
        /// Which flow.
        flow: FlowId,
        /// Where and when.
        grant: Grant,
    },
    /// The flow shall stop at once and say when its links are clear.
    Revoke {
        /// Which flow.
        flow: FlowId,
    },
    /// The flow gets nothing, now or later.
    Refuse {
        /// Which flow.
        flow: FlowId,
    },
}

/// Leave to send along one tree for a time, by the controller's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The tree.
    pub tree: TreeId,
    /// From then on.
    pub from: Time,
    /// Until then, less the guard.
    pub until: Time,
    /// It never moves to another tree.
    pub pinned: bool,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// By the port.
    Port(PortCall),
    /// By the controller.
    Controller(Report),
    /// Told to the application.
    App(Notice),
}

/// What a port is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortCall {
    /// Make a queue pair to `peer` that is pinned to `tree`; answered by `Ready` or `Broken`.
    Connect {
        /// Its number.
        pair: PairId,
        /// The peer.
        peer: Guid,
        /// The tree.
        tree: TreeId,
    },
    /// Send a piece; answered by `Done` or `Broken`.
    Post {
        /// On which queue pair.
        pair: PairId,
        /// What `Done` shall say; rises by one with each piece of a queue pair, from 0.
        ticket: u64,
        /// What.
        piece: Piece,
    },
    /// Stop sending and give the queue pair up; answered by `Closed`.
    Close {
        /// Which.
        pair: PairId,
    },
}

/// What a controller is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// The flow wants a connection.
    Request {
        /// Which flow.
        flow: FlowId,
        /// Where to.
        peer: Guid,
    },
    /// The flow wants none any more. Its links are clear.
    Release {
        /// Which flow.
        flow: FlowId,
    },
    /// Nothing of the flow is on that tree's links any more, and nothing will be before another grant.
    Drained {
        /// Which flow.
        flow: FlowId,
        /// The tree that it left.
        tree: TreeId,
        /// When the controller sent the latest order that the flow follows: a grant sent before that will
        /// not be followed, one sent later is not meant.
        order: Time,
    },
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
        /// Who sent it.
        peer: Guid,
        /// What.
        piece: Piece,
    },
    /// Pieces of a flow to here never came; only UC and UD can lose.
    Lost {
        /// Who sent them.
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
    /// The controller refused the flow; it will be asked again.
    Refused {
        /// Which flow.
        flow: FlowId,
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
    /// No controller was heard for too long.
    ControllerLost,
    /// One is heard again.
    ControllerFound,
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
