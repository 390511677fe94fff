//! Where MADs come from and where they go.

use serde::{Deserialize, Serialize};
use snin_fabric::Lid;
use snin_mad::PKey;

/// A port of this machine, as the driver numbers them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LocalPort(pub u32);

/// Where an SMP goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Along its own path.
    Directed,
    /// By the forwarding tables.
    Lid(Lid),
}

/// Where a MAD came from, or goes to: everything that an answer needs to find its way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// The other end's address.
    pub lid: Lid,
    /// Its queue pair.
    pub qp: u32,
    /// The service level.
    pub sl: u8,
    /// The partition in which it speaks.
    pub p_key: PKey,
}
