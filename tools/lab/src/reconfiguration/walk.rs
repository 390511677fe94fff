//! Where a packet would end now: along the tables that switches have, over ports that are ACTIVE at both ends.

use snin_emulator::Fabric;
use snin_fabric::{Lid, NodeIndex, PortIndex};
use snin_mad::PortState;

/// Switches that a packet may pass.
const HOPS: usize = 64;

/// The end of a way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The port that it was for.
    There,
    /// A port that is not ACTIVE, a table without an entry, another port.
    Lost,
    /// None: it goes round.
    Round,
}

/// From host port `from` to `lid`, which is an address of host port `to`.
pub(super) fn walk(fabric: &Fabric, ends: (PortIndex, PortIndex), lid: Lid) -> End {
    walk_past(fabric, ends, lid, |_| {})
}

/// The same; `past` hears of every switch on the way.
fn walk_past(
    fabric: &Fabric,
    (from, to): (PortIndex, PortIndex),
    lid: Lid,
    mut past: impl FnMut(NodeIndex),
) -> End {
    let topology = fabric.topology();
    let active = |port: PortIndex| fabric.port_state(port) == PortState::Active;
    let mut out = from;
    for _ in 0..HOPS {
        let Some(into) = topology.peer(out).filter(|&into| active(out) && active(into)) else {
            return End::Lost;
        };
        let node = topology.port(into).node;
        if !topology.is_switch(node) {
            return if into == to { End::There } else { End::Lost };
        }
        past(node);
        let next = fabric.forwards(node, lid).filter(|num| num.0 > 0);
        match next.and_then(|num| topology.port_of(node, num)) {
            Some(next) if next != into => out = next,
            _ => return End::Lost,
        }
    }
    End::Round
}

/// Of what all hosts but a switch's own send to all others, in pairs of hosts: what leads over that switch, and
/// all of it.
pub(super) fn carried(fabric: &Fabric, switch: NodeIndex) -> (u64, u64) {
    let topology = fabric.topology();
    let Ok(addresses) = fabric.addresses() else { return (0, 0) };
    let adapters = topology.nodes().filter(|&node| !topology.is_switch(node));
    let ports: Vec<PortIndex> = adapters
        .flat_map(|host| topology.cables(host).map(|cable| cable.0).collect::<Vec<_>>())
        .collect();
    let leaf = |port: PortIndex| topology.peer_node(port);
    let (mut over, mut all) = (0, 0);
    for &from in ports.iter().filter(|&&from| leaf(from) != Some(switch)) {
        for &to in ports.iter().filter(|&&to| to != from) {
            let Some(lid) = addresses.base(to) else { continue };
            let mut passes = false;
            walk_past(fabric, (from, to), lid, |node| passes |= node == switch);
            over += u64::from(passes);
            all += 1;
        }
    }
    (over, all)
}
