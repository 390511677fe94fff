//! Stray cables: those that no Clos has. Where they are few, the others still make one.

use std::collections::BTreeMap;

use super::recognise::CORE_HOST_SHARE;
use crate::{NodeIndex, PortIndex, Topology};

/// At most this share of the cables between switches may be stray: of four, one.
const MOST: usize = 4;
/// How often every switch is asked whether it is on the wrong side. Each change leaves fewer cables within a
/// side, so this is a limit that is not met.
const ROUNDS: usize = 64;

/// Cables with both ends on one switch.
pub(super) fn loops(topology: &Topology) -> Vec<PortIndex> {
    let here = |switch: NodeIndex| {
        let own = move |&(port, peer): &(PortIndex, PortIndex)| {
            port < peer && topology.port(peer).node == switch
        };
        topology.cables(switch).filter(own).map(|(port, _)| port)
    };
    topology.switches().flat_map(here).collect()
}

/// The cables without which every other one joins the two sides of a Clos: on one side leaves and cores, on the
/// other what is between them. `None` where they are too many to call them stray.
///
/// A switch's side is first told by how far it is from the nearest leaf, as far as hosts tell which are leaves.
/// A cable that skips a stage leads that astray: so every switch with more cables within its side than to the
/// other changes sides.
pub(super) fn within_a_side(topology: &Topology, hosts: &[usize]) -> Option<Vec<PortIndex>> {
    let mut side = parity_of_distance(topology, hosts);
    for _ in 0..ROUNDS {
        let mut changed = false;
        for switch in topology.switches() {
            let own = side[switch.index()];
            let peers = || topology.switch_links(switch).map(|(_, peer)| side[peer.index()]);
            let within = peers().filter(|&other| other == own).count();
            if within > peers().count() - within {
                side[switch.index()] = !own;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    few(topology, between(topology, |one, other| side[one.index()] == side[other.index()]))
}

fn parity_of_distance(topology: &Topology, hosts: &[usize]) -> Vec<bool> {
    let fullest = hosts.iter().copied().max().unwrap_or(0);
    let few = (fullest as f64 * CORE_HOST_SHARE) as usize;
    let mut reached: Vec<NodeIndex> =
        topology.switches().filter(|switch| hosts[switch.index()] > few).collect();
    let mut side = vec![None; topology.switch_count()];
    reached.iter().for_each(|leaf| side[leaf.index()] = Some(false));
    let mut next = 0;
    while let Some(&switch) = reached.get(next) {
        next += 1;
        for (_, peer) in topology.switch_links(switch) {
            if side[peer.index()].is_none() {
                side[peer.index()] = side[switch.index()].map(|side| !side);
                reached.push(peer);
            }
        }
    }
    side.into_iter().map(Option::unwrap_or_default).collect()
}

/// The cables of three stages that lead into another pod or another group. Within a pod every leaf has a cable
/// to every aggregation switch, so each of those is on a square of four; so are those of a group. `None` where
/// there is none, or too many.
pub(super) fn astray(
    topology: &Topology,
    leaves: &[NodeIndex],
    cores: &[NodeIndex],
) -> Option<Vec<PortIndex>> {
    let mut stray = Vec::new();
    for lower in [leaves, cores] {
        stray.extend(on_no_square(topology, lower));
    }
    few(topology, stray).filter(|stray| !stray.is_empty())
}

/// The cables up from `lower` that are on no square with others from `lower`, although both ends have cables
/// that are on one.
fn on_no_square(topology: &Topology, lower: &[NodeIndex]) -> Vec<PortIndex> {
    let mut above: BTreeMap<NodeIndex, Vec<NodeIndex>> = BTreeMap::new();
    let mut below: BTreeMap<NodeIndex, Vec<NodeIndex>> = BTreeMap::new();
    for &switch in lower {
        for (_, peer) in topology.switch_links(switch) {
            above.entry(switch).or_default().push(peer);
            below.entry(peer).or_default().push(switch);
        }
    }
    above.values_mut().for_each(|peers| peers.sort_unstable());
    let is_on_one = |low: NodeIndex, up: NodeIndex| {
        let others = below[&up].iter().filter(|&&other| other != low);
        let mut far = others.flat_map(|other| above[other].iter()).filter(|&&far| far != up);
        far.any(|far| above[&low].binary_search(far).is_ok())
    };
    let on_one = |one: NodeIndex| above[&one].iter().any(|&up| is_on_one(one, up));
    let has_one = |up: NodeIndex| below[&up].iter().any(|&low| is_on_one(low, up));
    let mut found = Vec::new();
    for &low in above.keys() {
        for (port, up) in topology.switch_links(low) {
            if !is_on_one(low, up) && on_one(low) && has_one(up) {
                found.extend(topology.port_of(low, port));
            }
        }
    }
    found
}

/// Cables between two switches of which something is true, each by its lower end.
fn between(topology: &Topology, is: impl Fn(NodeIndex, NodeIndex) -> bool) -> Vec<PortIndex> {
    let cables = topology.switches().flat_map(|switch| topology.cables(switch));
    let inner = cables.filter(|&(port, peer)| {
        let (one, other) = (topology.port(port).node, topology.port(peer).node);
        port < peer && topology.is_switch(other) && is(one, other)
    });
    inner.map(|(port, _)| port).collect()
}

fn few(topology: &Topology, stray: Vec<PortIndex>) -> Option<Vec<PortIndex>> {
    let all = between(topology, |_, _| true).len();
    (stray.len() * MOST <= all).then_some(stray)
}
