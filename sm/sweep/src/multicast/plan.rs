//! The plan of the multicast forwarding tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use snin_fabric::multicast::{McTree, Members, MulticastTable, Planner};
use snin_fabric::{Guid, Mlid, NodeIndex, PortIndex, Topology};

use super::{Group, Groups};
use crate::target::Target;

/// The trees of all groups over one target's switches.
#[derive(Clone, Debug, Default)]
pub(crate) struct McPlan {
    groups: Arc<Groups>,
    trees: BTreeMap<Mlid, Arc<McTree>>,
    /// By switch of the target's topology.
    tables: Vec<MulticastTable>,
    /// Members that are there, but that no tree reaches.
    unserved: Vec<(Mlid, Guid)>,
}

impl McPlan {
    /// Grows the tree of every group; those that `known` has grown over the same target are taken from there.
    /// `incapable` switches have no multicast forwarding table.
    pub(crate) fn compute(
        target: &Target,
        groups: &Arc<Groups>,
        incapable: &BTreeSet<NodeIndex>,
        known: Option<&Self>,
    ) -> Self {
        let topology = &target.discovered.topology;
        let Some(ranks) = &target.routing.ranks else { return Self::default() };
        let mut planner = Planner::new(topology, ranks, &target.routing.forest).without(incapable);
        let ports = ports_by_guid(topology);
        let grow = |(&mlid, group): (&Mlid, &Group)| {
            let same = known.filter(|known| known.groups.get(&mlid) == Some(group));
            let tree = same.and_then(|known| known.trees.get(&mlid)).cloned();
            (mlid, tree.unwrap_or_else(|| Arc::new(planner.tree(mlid, &members(group, &ports)))))
        };
        let trees: BTreeMap<Mlid, Arc<McTree>> = groups.iter().map(grow).collect();
        let each = trees.iter().map(|(&mlid, tree)| (mlid, &**tree));
        let tables = McTree::tables(topology.switch_count(), each);
        let guid = |&port: &PortIndex| topology.port(port).guid;
        let unserved = trees
            .iter()
            .flat_map(|(&mlid, tree)| tree.unreached().iter().map(move |port| (mlid, guid(port))));
        let unserved = unserved.collect();
        Self { groups: groups.clone(), trees, tables, unserved }
    }

    /// The groups that it serves.
    pub(crate) const fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// What a switch shall hold.
    pub(crate) fn table(&self, switch: NodeIndex) -> Option<&MulticastTable> {
        self.tables.get(switch.index())
    }

    /// Members that are there, but that no tree reaches.
    pub(crate) fn unserved(&self) -> &[(Mlid, Guid)] {
        &self.unserved
    }
}

fn ports_by_guid(topology: &Topology) -> BTreeMap<Guid, PortIndex> {
    let switches = topology.switches().map(|switch| topology.port0(switch));
    let others = topology.ports().filter(|&port| {
        !topology.is_switch(topology.port(port).node) && topology.peer(port).is_some()
    });
    switches.chain(others).map(|port| (topology.port(port).guid, port)).collect()
}

/// The members of a group that are there.
fn members(group: &Group, ports: &BTreeMap<Guid, PortIndex>) -> Members {
    let there = |guids: &BTreeSet<Guid>| {
        guids.iter().filter_map(|guid| ports.get(guid)).copied().collect::<BTreeSet<_>>()
    };
    Members { full: there(&group.full), send_only: there(&group.send_only) }
}
