//! The view of a fabric for the rest of snin: immutable, with a version.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use snin_fabric::routing::{Placement, Routing};
use snin_fabric::view::{Pair, View};
use snin_fabric::{Addresses, Dlid, Lid, NodeIndex, PortIndex, Topology, TreeId};

use snin_sm_database::fabric_state::Published;

use crate::lane_tables::GrantedLanes;
use crate::target::Target;

/// The fabric as it is. A later view has a greater version.
#[derive(Clone)]
pub struct FabricView {
    version: u64,
    target: Arc<Target>,
    unusable: BTreeSet<Pair>,
    manager: Lid,
    lanes: GrantedLanes,
}

impl fmt::Debug for FabricView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FabricView")
            .field("version", &self.version)
            .field("nodes", &self.topology().node_count())
            .field("unusable", &self.unusable)
            .finish_non_exhaustive()
    }
}

impl FabricView {
    pub(crate) fn new(
        version: u64,
        target: Arc<Target>,
        unusable: BTreeSet<Pair>,
        manager: Lid,
    ) -> Self {
        Self { version, target, unusable, manager, lanes: GrantedLanes::default() }
    }

    pub(crate) fn with_lanes(self, lanes: GrantedLanes) -> Self {
        Self { lanes, ..self }
    }

    /// How what is granted is told from ordinary traffic.
    pub const fn lanes(&self) -> &GrantedLanes {
        &self.lanes
    }

    /// Rises by one with every view.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Nodes and cables.
    pub fn topology(&self) -> &Topology {
        &self.target.discovered.topology
    }

    /// Shape, ranks and trees, and every switch's table as it is, or will be when all is written. The plan
    /// within says which ports have addresses and trees; which addresses those are, [`Self::addresses`] and
    /// [`Self::dlid`] say: ports keep what they had.
    pub fn routing(&self) -> &Routing {
        &self.target.routing
    }

    /// The addresses of all ports.
    pub fn addresses(&self) -> &Addresses {
        &self.target.addresses
    }

    /// The tree that the address `base + offset` of a host port leads along.
    pub fn tree(&self, port: PortIndex, offset: u16) -> Option<TreeId> {
        self.placement().tree(self.routing(), self.addresses(), port, offset)
    }

    /// The address of a host port along a tree; aliases are never given.
    pub fn dlid(&self, port: PortIndex, tree: TreeId) -> Option<Dlid> {
        self.placement().dlid(self.routing(), self.addresses(), port, tree)
    }

    /// At which offset from a port's base address each tree's address is.
    pub fn placement(&self) -> &Placement {
        &self.target.places
    }

    /// The number that a tree has for good: it keeps it while roots come and go, unlike its [`TreeId`],
    /// which counts the roots of this view.
    pub fn lasting_number(&self, tree: TreeId) -> Option<u16> {
        self.target.places.of(tree)
    }

    /// Pairs of a switch with hosts and a tree that must not be granted: its cable is missing, or the tables
    /// do not lead along it yet or any more.
    pub const fn unusable(&self) -> &BTreeSet<Pair> {
        &self.unusable
    }

    /// Every pair that may be granted.
    pub fn usable(&self) -> BTreeSet<Pair> {
        let trees = self.routing().forest.trees();
        let switches: BTreeSet<NodeIndex> =
            self.routing().hosts.iter().map(|(_, host)| host.switch).collect();
        let all = switches.into_iter().flat_map(|s| trees.iter().map(move |tree| (s, tree.id)));
        all.filter(|pair| !self.unusable.contains(pair)).collect()
    }

    /// Whether nodes, addresses and tables are the very same: only what is unusable may differ.
    pub fn is_of_same_target(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.target, &other.target)
    }

    pub(crate) fn shared_target(&self) -> Arc<Target> {
        self.target.clone()
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the manager sees nothing but its own node: its cable is gone.
    pub fn is_alone(&self) -> bool {
        self.topology().cable_count() == 0
    }

    /// The address of the subnet manager.
    pub const fn manager(&self) -> Lid {
        self.manager
    }
}

impl View for FabricView {
    fn version(&self) -> u64 {
        self.version
    }

    fn topology(&self) -> &Topology {
        self.topology()
    }

    fn routing(&self) -> &Routing {
        self.routing()
    }

    fn addresses(&self) -> &Addresses {
        self.addresses()
    }

    fn dlid(&self, port: PortIndex, tree: TreeId) -> Option<Dlid> {
        self.dlid(port, tree)
    }

    fn unusable(&self) -> &BTreeSet<Pair> {
        &self.unusable
    }

    fn granted_sl(&self) -> u8 {
        self.lanes.level
    }
}

impl Published for FabricView {
    fn manager(&self) -> Lid {
        self.manager
    }

    fn tree(&self, port: PortIndex, offset: u16) -> Option<TreeId> {
        self.tree(port, offset)
    }
}

/// The pairs of switches with hosts and trees that do not cover them.
pub(crate) fn uncovered(target: &Target) -> BTreeSet<Pair> {
    let Routing { hosts, forest, .. } = &target.routing;
    let count = hosts.per_switch(&target.discovered.topology);
    let carrying = target.discovered.topology.switches().filter(|s| count[s.index()] > 0);
    carrying
        .flat_map(|switch| forest.trees().iter().map(move |tree| (switch, tree.id)))
        .filter(|&(switch, tree)| !forest.covers(switch, tree))
        .collect()
}

/// Pairs of one view in the numbers of another; what the other does not know is left out.
pub(crate) fn carried_over(pairs: &BTreeSet<Pair>, from: &Target, to: &Target) -> BTreeSet<Pair> {
    let switch = |switch: NodeIndex| to.discovered.index(from.discovered.id(switch));
    let tree = |tree: TreeId| {
        let old = from.routing.forest.trees().get(tree.index())?;
        let root = to.discovered.index(from.discovered.id(old.root))?;
        let same =
            to.routing.forest.trees().iter().find(|t| t.root == root && t.plane == old.plane);
        Some(same?.id)
    };
    pairs.iter().filter_map(|&(s, t)| Some((switch(s)?, tree(t)?))).collect()
}
