//! A routed fabric as the packer sees it.

use snin_fabric::clos::Level;
use snin_fabric::hosts::HostId;
use snin_fabric::routing::Routing;
use snin_fabric::{NodeIndex, Topology, TreeId};

use crate::packing::{LeafId, SetId, Shape};

/// Leaves, and a pseudo-leaf for every host that hangs elsewhere: it has the trees that cover its switch,
/// and as it is alone there, they are never in its way.
pub(super) struct PackingShape {
    shape: Shape,
    leaf_of_host: Vec<LeafId>,
    addressed: Vec<SetId>,
}

impl PackingShape {
    pub(super) fn new(topology: &Topology, routing: &Routing) -> Self {
        let clos = routing.shape.as_ref().expect("a fabric with trees is a Clos");
        let mut leaf_of_switch = vec![None; topology.switch_count()];
        let mut switch_of_leaf: Vec<NodeIndex> = clos.leaves.clone();
        for (place, leaf) in clos.leaves.iter().enumerate() {
            leaf_of_switch[leaf.index()] = Some(LeafId(place as u32));
        }
        let mut leaf_of_host = Vec::with_capacity(routing.hosts.len());
        for (_, host) in routing.hosts.iter() {
            leaf_of_host.push(leaf_of_switch[host.switch.index()].unwrap_or_else(|| {
                switch_of_leaf.push(host.switch);
                LeafId(switch_of_leaf.len() as u32 - 1)
            }));
        }
        let mut shape = match clos.stages() {
            2 => Shape::two_stage(switch_of_leaf.len(), routing.forest.len()),
            _ => {
                // A host on a core or outside is a pod of its own, too.
                let mut pods = clos.pods();
                let pod = |&switch: &NodeIndex| match clos.level(switch) {
                    Level::Root | Level::Outside => {
                        pods += 1;
                        pods - 1
                    }
                    Level::Leaf | Level::Aggregation => clos.pod(switch),
                };
                let pod_of_leaf = switch_of_leaf.iter().map(pod).collect();
                let groups = routing.forest.trees().iter().map(|tree| tree.group).collect();
                Shape::three_stage(pod_of_leaf, groups)
            }
        };
        for (leaf, &switch) in switch_of_leaf.iter().enumerate() {
            for tree in
                routing.forest.trees().iter().filter(|t| !routing.forest.covers(switch, t.id))
            {
                shape.set_unusable(LeafId(leaf as u32), tree.id);
            }
        }
        let mut trees: Vec<TreeId> = Vec::new();
        let addressed = routing.hosts.iter().map(|(_, host)| {
            trees.clear();
            trees.extend(routing.plan.trees(host.port));
            shape.add_set(trees.iter().copied())
        });
        let addressed = addressed.collect();
        Self { shape, leaf_of_host, addressed }
    }

    pub(super) fn leaf(&self, host: HostId) -> LeafId {
        self.leaf_of_host[host.index()]
    }

    /// The trees that the host's addresses lead along.
    pub(super) fn addressed(&self, host: HostId) -> SetId {
        self.addressed[host.index()]
    }

    /// Nothing is planned along these trees.
    pub(super) fn keep_free(&mut self, trees: &[TreeId]) {
        for leaf in (0..self.shape.leaves() as u32).map(LeafId) {
            trees.iter().for_each(|&tree| self.shape.set_unusable(leaf, tree));
        }
    }

    /// Some trees, to be allowed.
    pub(super) fn add_set(&mut self, trees: Vec<TreeId>) -> SetId {
        self.shape.add_set(trees)
    }

    /// Links of every leaf in one direction.
    pub(super) fn capacities(&self) -> Vec<usize> {
        (0..self.shape.leaves() as u32).map(|leaf| self.shape.capacity(LeafId(leaf))).collect()
    }

    pub(super) fn into_shape(self) -> Shape {
        self.shape
    }

    /// The shape, and the leaf of every host.
    pub(super) fn into_parts(self) -> (Shape, Vec<LeafId>) {
        (self.shape, self.leaf_of_host)
    }
}
