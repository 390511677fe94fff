//! What the subnet manager publishes, as the controller wants it.

use std::collections::BTreeSet;
use std::sync::Arc;

use snin_controller::core::{Pair, View};
use snin_fabric::routing::Routing;
use snin_fabric::{Addresses, Dlid, PortIndex, Topology, TreeId};
use snin_sm_core::FabricView;

/// A view that a manager published.
#[derive(Clone, Debug)]
pub struct ManagedView(pub Arc<FabricView>);

impl View for ManagedView {
    fn version(&self) -> u64 {
        self.0.version()
    }

    fn topology(&self) -> &Topology {
        self.0.topology()
    }

    fn routing(&self) -> &Routing {
        self.0.routing()
    }

    fn addresses(&self) -> &Addresses {
        self.0.addresses()
    }

    fn dlid(&self, port: PortIndex, tree: TreeId) -> Option<Dlid> {
        self.0.dlid(port, tree)
    }

    fn unusable(&self) -> &BTreeSet<Pair> {
        self.0.unusable()
    }
}
