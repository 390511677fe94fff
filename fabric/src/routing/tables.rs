//! Addresses and trees to one forwarding table a switch.

use super::reach::{Links, Reach};
use super::{AddressPlan, Forest, Ranks};
use crate::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// A switch that has no legal route to the addresses on another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreachable {
    /// The switch without a route.
    pub from: NodeIndex,
    /// The switch whose own address, and those of the hosts on it, it cannot reach.
    pub to: NodeIndex,
}

/// Fills the tables: among legal next hops the tree's own link first, then the nearest, then - with trees
/// - the lowest port, without them each address in turn.
pub(super) fn fill(
    topology: &Topology,
    ranks: &Ranks,
    forest: &Forest,
    plan: &AddressPlan,
) -> (Vec<ForwardingTable>, Vec<Unreachable>) {
    let links = Links::new(topology, ranks);
    let mut reach = Reach::new(topology.switch_count());
    let top = plan.addresses().top();
    let mut tables = vec![ForwardingTable::up_to(top); topology.switch_count()];
    let mut unreachable = Vec::new();
    let mut nearest = Vec::new();
    let mut lids = Vec::new();
    for destination in topology.switches() {
        reach.compute(&links, ranks, destination);
        list_lids(topology, forest, plan, destination, &mut lids);
        for switch in topology.switches() {
            if switch == destination {
                deliver(topology, plan, destination, &mut tables[destination.index()]);
                continue;
            }
            reach.nearest(&links, switch, &mut nearest);
            let Some(&lowest) = nearest.first() else {
                unreachable.push(Unreachable { from: switch, to: destination });
                continue;
            };
            let entries = tables[switch.index()].entries_mut();
            if forest.is_empty() {
                for &(lid, _) in &lids {
                    entries[lid.index()] = nearest[lid.index() % nearest.len()].0;
                }
                continue;
            }
            let ups = forest.ups(switch);
            for &(lid, tree) in &lids {
                let own = ups.get(usize::from(tree)).copied().unwrap_or(PortNum::NONE.0);
                entries[lid.index()] = if own == PortNum::NONE.0 { lowest.0 } else { own };
            }
        }
        descend(topology, forest, destination, &lids, &mut tables);
    }
    (tables, unreachable)
}

/// No tree leads there: routed by the nearest, lowest port.
const NO_TREE: u16 = u16::MAX;

/// The addresses on `destination` with the tree that each leads along, where that tree covers the
/// switch: a cable missing there makes the detour start at the source.
fn list_lids(
    topology: &Topology,
    forest: &Forest,
    plan: &AddressPlan,
    destination: NodeIndex,
    lids: &mut Vec<(Lid, u16)>,
) {
    lids.clear();
    for port in ports_on(topology, destination) {
        for (offset, lid) in plan.addresses().of(port).enumerate() {
            let tree = plan.tree(port, offset as u16).filter(|&tree| {
                port != topology.port0(destination) && forest.covers(destination, tree)
            });
            lids.push((lid, tree.map_or(NO_TREE, |tree| tree.0)));
        }
    }
}

/// Port 0 and the end ports cabled to `switch`.
fn ports_on(topology: &Topology, switch: NodeIndex) -> impl Iterator<Item = PortIndex> + '_ {
    let ends = topology.cables(switch).map(|(_, peer)| peer);
    let ends = ends.filter(|&peer| !topology.is_switch(topology.port(peer).node));
    std::iter::once(topology.port0(switch)).chain(ends)
}

/// At the destination switch itself: each address to the port it hangs on, its own to port 0.
fn deliver(
    topology: &Topology,
    plan: &AddressPlan,
    switch: NodeIndex,
    table: &mut ForwardingTable,
) {
    plan.addresses().of(topology.port0(switch)).for_each(|lid| table.set(lid, PortNum::ZERO));
    for (port, peer) in topology.cables(switch) {
        if !topology.is_switch(topology.port(peer).node) {
            plan.addresses().of(peer).for_each(|lid| table.set(lid, topology.num(port)));
        }
    }
}

/// From the root of each address's tree down to `destination`: the cables by which the tree covers it.
fn descend(
    topology: &Topology,
    forest: &Forest,
    destination: NodeIndex,
    lids: &[(Lid, u16)],
    tables: &mut [ForwardingTable],
) {
    for &(lid, tree) in lids.iter().filter(|&&(_, tree)| tree != NO_TREE) {
        let mut below = destination;
        while let Some(port) = forest.up(below, crate::TreeId(tree)) {
            let Some(peer) = topology.port_of(below, port).and_then(|port| topology.peer(port))
            else {
                break;
            };
            let above = topology.port(peer).node;
            tables[above.index()].set(lid, topology.num(peer));
            below = above;
        }
    }
}
