//! End-node agents on a fabric in software.
//!
//! The mesh is the one that runs on verbs ([`snin_agent_core`]); its port is a [`SoftwarePort`], which speaks the
//! [software port](snin_protocol::software_port)'s messages. One process may hold the agents of many hosts,
//! over one connection to the fabric; each has its own session with the controller.

mod answers;
mod config;
mod host;
mod link;
mod piece;
mod port;
mod process;

pub use config::{Settings, options};
pub use host::{Host, Job, Outcome};
pub use link::{Link, LinkError};
pub use port::SoftwarePort;
pub use process::{Failure, GUID, Options, Process};
