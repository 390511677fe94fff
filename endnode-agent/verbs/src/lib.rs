//! Real queue pairs: libibverbs behind types whose misuse does not compile.
//!
//! The only crate of the agent that speaks C. Every object keeps what it was made from (an `Arc` each), so
//! nothing is freed before what depends on it; a queue pair's state is part of its type; posted memory
//! belongs to the queue pair until its completion.
#![cfg(feature = "verbs")]

mod address;
mod attributes;
mod completion;
mod device;
mod error;
mod events;
mod fd;
mod kind;
mod memory;
#[cfg(doctest)]
mod misuse;
mod numbers;
mod path;
mod post;
mod queue_pair;
mod raw;
mod shared_receives;
mod stage;

pub use address::AddressHandle;
pub use attributes::{Mtu, Remote, Retries, Timing, Transport};
pub use completion::{Batch, Completion, CompletionQueue, Failure};
pub use device::{Device, LinkLayer, Port, choose, device_names};
pub use error::VerbsError;
pub use events::{AsyncEvent, AsyncEvents};
pub use kind::{Connected, Initialised, Kind, Rc, Receives, Receiving, Reset, Sending, Uc, Ud};
pub use memory::{DeviceHold, Domain, ReceiveBuffer, RemoteMemory, Shared, Slot, Source};
pub use path::{Gid, LocalAddresses, Path, PathError, PeerAddress, Service, path};
pub use post::{Gather, Signal};
pub use queue_pair::{Depth, Finished, Held, NotPosted, QueuePair};
pub use shared_receives::{SharedQueue, SharedReceives};
