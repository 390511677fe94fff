//! A fabric as a subnet manager publishes it and a controller reads it.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use crate::routing::{Engine, Routing, TreeChoices};
use crate::{Addresses, Dlid, NodeIndex, PortIndex, Topology, TreeId};

/// A switch with hosts and a tree along which nothing may be granted to or from them.
pub type Pair = (NodeIndex, TreeId);

/// The fabric as the subnet manager publishes it. It does not change; what changes is a new one.
pub trait View: Debug + Send + Sync {
    /// Greater than that of every view before.
    fn version(&self) -> u64;
    /// Nodes and cables.
    fn topology(&self) -> &Topology;
    /// Hosts, trees, tables.
    fn routing(&self) -> &Routing;
    /// The addresses of all ports.
    fn addresses(&self) -> &Addresses;
    /// The address of a host port along a tree, if it has one. Of tables that were found no address leads
    /// along one tree from everywhere: [`Self::choices`] says it then.
    fn dlid(&self, port: PortIndex, tree: TreeId) -> Option<Dlid>;
    /// What must not be granted.
    fn unusable(&self) -> &BTreeSet<Pair>;
    /// The service level of what is granted; 0 where it has no lane of its own.
    fn granted_sl(&self) -> u8 {
        0
    }
    /// Where the tables are another manager's: which address leads along which tree, from every switch with hosts.
    fn choices(&self) -> Option<&TreeChoices> {
        None
    }
}

/// A fabric whose tables are as they were computed, or as they were [found](Routing::found) in a dump.
#[derive(Clone, Debug)]
pub struct PlannedView {
    /// Greater than that of every view before.
    pub version: u64,
    /// Nodes and cables.
    pub topology: Topology,
    /// Everything that follows from them.
    pub routing: Routing,
    /// What must not be granted beside what the trees do not cover.
    pub unusable: BTreeSet<Pair>,
    choices: Option<Arc<TreeChoices>>,
}

impl PlannedView {
    /// The fabric of which everything may be granted. Tables that were found are walked.
    pub fn new(version: u64, topology: Topology, routing: Routing) -> Self {
        let is_found = routing.engine == Engine::Found;
        let choices = is_found.then(|| Arc::new(TreeChoices::of(&topology, &routing, 0).0));
        Self { version, topology, routing, unusable: BTreeSet::new(), choices }
    }
}

impl View for PlannedView {
    fn choices(&self) -> Option<&TreeChoices> {
        self.choices.as_deref()
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn routing(&self) -> &Routing {
        &self.routing
    }

    fn addresses(&self) -> &Addresses {
        self.routing.plan.addresses()
    }

    fn dlid(&self, port: PortIndex, tree: TreeId) -> Option<Dlid> {
        self.routing.plan.dlid(port, tree)
    }

    fn unusable(&self) -> &BTreeSet<Pair> {
        &self.unusable
    }
}
