//! What the emulated fabric carries.

use snin_emulator::Fabric;
use snin_fabric::{Lid, NodeIndex, PortIndex, Topology};
use snin_mad::PortState;

/// Whether packets pass from one host's port to another's, both ways, over links that are ACTIVE.
pub(crate) fn reaches(
    fabric: &Fabric,
    topology: &Topology,
    from: PortIndex,
    to: PortIndex,
) -> bool {
    let tables = fabric.tables();
    let switches: Vec<NodeIndex> = topology.switches().collect();
    let is_active = |port: PortIndex| fabric.port_info(port).state == PortState::Active;
    let passes = |from: PortIndex, to: PortIndex| {
        let lid = fabric.port_info(to).lid;
        let mut out = from;
        for _ in 0..8 {
            let peer = topology.peer(out).filter(|&peer| is_active(out) && is_active(peer));
            let Some(peer) = peer.filter(|_| lid != Lid::NONE) else { return false };
            if peer == to {
                return true;
            }
            let node = topology.port(peer).node;
            let Some(table) = switches.iter().position(|&switch| switch == node) else {
                return false;
            };
            let next = topology.port_of(node, tables[table].get(lid));
            let Some(next) = next else { return false };
            out = next;
        }
        false
    };
    passes(from, to) && passes(to, from)
}
