//! The demands of hosts: generated patterns, and files.
//!
//! Everything here speaks of hosts by number (see [`Hosts`](crate::hosts::Hosts));
//! [`HostNames`](crate::names::HostNames) translates what people write.

mod adversarial;
mod cm;
mod csv;
mod file;
mod pattern;

pub use file::{FileError, Problem, parse};
pub use pattern::{Listed, MAX_DEMANDS, Pattern, PatternError, Shape};

use crate::hosts::HostId;

/// One host wants to send to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Demand {
    /// The host that sends.
    pub source: HostId,
    /// The host that receives, never the source itself.
    pub destination: HostId,
    /// How much, in bit/s; `None` is as much as a host link carries.
    pub rate: Option<u64>,
    /// How much there is to send, in bytes; `None` is as much as there is time for.
    pub bytes: Option<u64>,
}

impl Demand {
    /// A demand for as much as the link carries and there is time for.
    pub const fn new(source: u32, destination: u32) -> Self {
        Self { source: HostId(source), destination: HostId(destination), rate: None, bytes: None }
    }
}
