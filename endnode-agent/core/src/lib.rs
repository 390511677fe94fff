//! The mesh as a pure state machine: what it is told and the time go in, what is to be done comes out.
//!
//! A flow sends on the queue pair of (peer, tree) while it holds a grant for that tree. Three rules carry
//! everything:
//!
//! 1. **No byte outside its grant.** A piece is posted only if it, behind all that the port still has to
//!    send, leaves in [from, until - guard), even if the own clock is off by all of its error. A queue pair
//!    whose pieces are late nevertheless is given up, since a retry would run over links that are another's by
//!    then.
//! 2. **Order.** A flow has pieces under way on one queue pair at a time. On a new tree it stops posting,
//!    waits until the old queue pair is drained, and goes on with the new one. A lease is confirmed to
//!    the controller when nothing is under way that it does not grant.
//! 3. **Once.** Pieces are numbered. What a broken queue pair had not done is posted again on the next
//!    one, with the same numbers, and the receiver drops what it has had before.
//!
//! A mesh is parts, each with a state of its own; a part knows only those below it:
//!
//! ```text
//!   mesh                  what happened goes to a part, and what is to be done comes out
//!     controller_session  the conversation; leases: what they mean for the flows
//!       sending           pieces are posted and done
//!         linking         queue pairs come and go
//!           flows         messages, grants, turns; pairs: the table of queue pairs
//!     receive             what comes in
//!   context               below all: configuration, time, timers, outputs, counts
//! ```
//!
//! [`poll`] drives a mesh: agents, the lab and the tests call it.

mod admission;
mod clock;
mod config;
mod context;
mod controller_session;
mod counters;
mod events;
mod flow;
mod flows;
mod leases;
mod linking;
mod mesh;
mod operator;
mod pairs;
mod port;
mod receive;
mod sending;
mod time_slots;
mod timers;

pub use admission::{Admission, AdmissionLimits, NotAdmitted};
pub use clock::Clock;
pub use config::{Config, ConfigError, HistogramShape, LossPolicy};
pub use controller_session::ControllerState;
pub use counters::Counters;
pub use events::{
    Arrival, BreakReason, Call, Decline, Event, FlowId, Message, Notice, Output, PairId, Piece,
    PortCall, PortEvent, Post, Route, Wanted,
};
pub use flow::FlowBuffers;
pub use mesh::{FlowStatus, Mesh, PairState, PairStatus};
pub use port::{Io, Port, poll};
