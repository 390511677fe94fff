//! Cables and tables laid out for checkers that look at tens of millions of entries.

use crate::lft::BLOCK;
use crate::{Addresses, ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// Where a packet is after a switch sent it out of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// At another switch, having come in by this of its ports.
    Switch(NodeIndex, PortIndex),
    /// At an end port: a switch's port 0, or a port of an adapter or a router.
    Arrived(PortIndex),
    /// Nowhere: the table has no entry for the address.
    NoEntry,
    /// Nowhere: the switch has no such port.
    NoPort,
    /// Nowhere: no cable in the port.
    NoCable,
}

/// The other end of every switch port, in one array.
pub(super) struct Wiring {
    first: Vec<u32>,
    steps: Vec<Step>,
}

impl Wiring {
    pub(super) fn of(topology: &Topology) -> Self {
        let mut wiring = Self { first: Vec::new(), steps: Vec::new() };
        for switch in topology.switches() {
            wiring.first.push(wiring.steps.len() as u32);
            wiring.steps.push(Step::Arrived(topology.port0(switch)));
            wiring.steps.extend(topology.external_ports(switch).map(|port| {
                topology.peer(port).map_or(Step::NoCable, |peer| {
                    let node = topology.port(peer).node;
                    match topology.is_switch(node) {
                        true => Step::Switch(node, peer),
                        false => Step::Arrived(peer),
                    }
                })
            }));
        }
        wiring.first.push(wiring.steps.len() as u32);
        wiring
    }

    /// One hop: out of `port` of `switch`.
    pub(super) fn step(&self, switch: NodeIndex, port: PortNum) -> Step {
        if port == PortNum::NONE {
            return Step::NoEntry;
        }
        let at = self.first[switch.index()] as usize + port.index();
        if at < self.first[switch.index() + 1] as usize { self.steps[at] } else { Step::NoPort }
    }

    /// The switch that `port` hangs on: its own for port 0 of a switch.
    pub(super) fn switch_of(topology: &Topology, port: PortIndex) -> Option<NodeIndex> {
        let node = topology.port(port).node;
        let switch = if topology.is_switch(node) { node } else { topology.peer_node(port)? };
        topology.is_switch(switch).then_some(switch)
    }
}

/// What every switch's table says of one address.
#[derive(Clone, Copy)]
pub(super) struct Column<'a> {
    pub(super) lid: Lid,
    pub(super) owner: PortIndex,
    ports: &'a [u8],
}

impl Column<'_> {
    /// The port by which `switch` forwards this address.
    pub(super) fn port(&self, switch: NodeIndex) -> PortNum {
        PortNum(self.ports[switch.index()])
    }
}

/// Visits every address that a port owns, lowest first.
///
/// Tables are by switch and checkers ask by address. Turning them one block of 64 addresses (one cache
/// line of each table) at a time keeps that from being a cache miss an entry.
pub(super) fn each_column(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    mut visit: impl FnMut(Column<'_>),
) {
    let switches = topology.switch_count();
    let top = addresses.top().index();
    let mut turned = vec![PortNum::NONE.0; BLOCK * switches];
    for base in (0..=top).step_by(BLOCK) {
        let lids = base..=top.min(base + BLOCK - 1);
        let mut owned = lids.filter_map(|lid| Some((lid, addresses.owner(Lid(lid as u16))?.0)));
        let Some(first) = owned.next() else { continue };
        turn(tables, base, switches, &mut turned);
        for (lid, owner) in std::iter::once(first).chain(owned) {
            let ports = &turned[(lid - base) * switches..][..switches];
            visit(Column { lid: Lid(lid as u16), owner, ports });
        }
    }
}

/// The block of every table that begins with the LID `base`, by LID and then by switch.
fn turn(tables: &[ForwardingTable], base: usize, switches: usize, turned: &mut [u8]) {
    turned.fill(PortNum::NONE.0);
    for (switch, table) in tables.iter().take(switches).enumerate() {
        for (lid, &port) in table.block((base / BLOCK) as u16).iter().enumerate() {
            turned[lid * switches + switch] = port;
        }
    }
}
