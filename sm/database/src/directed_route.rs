//! The way of an SMP from one of this manager's ports.

use snin_fabric::PortNum;
use snin_mad::DrPath;

use crate::mad_address::LocalPort;

/// A directed route, and the local port by which it begins. The shorter one sorts first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DirectedRoute {
    /// The ports by which it leaves each node.
    pub path: DrPath,
    /// Where it begins.
    pub from: LocalPort,
}

impl DirectedRoute {
    /// To the node that the local port belongs to.
    pub const fn here(from: LocalPort) -> Self {
        Self { path: DrPath::HERE, from }
    }

    /// One hop further; `None` at 63 hops.
    pub fn then(self, port: PortNum) -> Option<Self> {
        Some(Self { path: self.path.then(port)?, from: self.from })
    }

    /// Number of hops.
    pub const fn hops(&self) -> usize {
        self.path.hops()
    }
}
