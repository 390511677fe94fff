//! Where a packet would end now: along the tables that switches have, over ports that are ACTIVE at both ends.

use snin_emulator::Fabric;
use snin_fabric::{Lid, PortIndex};
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
pub(super) fn walk(fabric: &Fabric, (from, to): (PortIndex, PortIndex), lid: Lid) -> End {
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
        let next = fabric.forwards(node, lid).filter(|num| num.0 > 0);
        match next.and_then(|num| topology.port_of(node, num)) {
            Some(next) if next != into => out = next,
            _ => return End::Lost,
        }
    }
    End::Round
}
