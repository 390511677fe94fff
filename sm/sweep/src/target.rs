//! How the fabric shall be: the result of planning, to which switches and ports are compared.

use std::sync::Arc;

use snin_fabric::routing::{Placement, Routing};
use snin_fabric::{Addresses, Guid, PortIndex};

use crate::discovered::Discovered;

/// How the fabric shall be.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) discovered: Arc<Discovered>,
    /// The tables are those of the addresses below, not of the plan's.
    pub(crate) routing: Routing,
    pub(crate) addresses: Addresses,
    /// Ports for which no addresses are left.
    pub(crate) without: Vec<PortIndex>,
    /// The place of every tree among a port's addresses.
    pub(crate) places: Placement,
}

impl Target {
    /// The switches from the top to the bottom, where an order was chosen.
    pub(crate) fn order(&self) -> Arc<Vec<Guid>> {
        let guid = |&switch| self.discovered.topology.node(switch).guid;
        Arc::new(self.routing.order().iter().map(guid).collect())
    }
}
