//! What is there to check: do the addresses cover the fabric, and do its cables join it?

use std::fmt;

use serde::Serialize;

use super::Findings;
use crate::{Addresses, NodeIndex, PortIndex, Topology, place::Place};

/// Switches that hang together, apart from the part with the most end ports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Part {
    /// One of its switches.
    pub with: Place,
    /// How many there are.
    pub switches: u64,
    /// Ports of adapters and routers on them.
    pub end_ports: u64,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { with, switches, end_ports } = self;
        write!(f, "no cable to {with} and what hangs together with it: ")?;
        write!(f, "{switches} switches, {end_ports} end ports")
    }
}

/// What [`cover()`] found. A verdict on tables covers what has an address and what cables join: this says what
/// else there is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CoverReport {
    /// Ports of adapters and routers that are cabled to a switch.
    pub end_ports: u64,
    /// Those of them, and the switches, that have no address: no checker has looked at the routes to them.
    pub unaddressed: Findings<Place>,
    /// Adapters and routers that no cable joins to a switch.
    pub uncabled: Findings<Place>,
    /// Parts of the fabric that no cable joins to its largest part.
    pub parts: Findings<Part>,
}

impl CoverReport {
    /// True when there are end ports, and all of them are addressed and joined.
    pub const fn is_ok(&self) -> bool {
        let Self { end_ports, unaddressed, uncabled, parts } = self;
        *end_ports > 0 && unaddressed.is_empty() && uncabled.is_empty() && parts.is_empty()
    }
}

impl fmt::Display for CoverReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end_ports, unaddressed, uncabled, parts } = self;
        write!(f, "covered: {end_ports} end ports on switches")?;
        if *end_ports == 0 {
            write!(f, ", so nothing was checked")?;
        }
        if !unaddressed.is_empty() {
            write!(f, "; {} switches and end ports without a LID{unaddressed}", unaddressed.total)?;
        }
        if !uncabled.is_empty() {
            write!(f, "; {} adapters or routers on no switch{uncabled}", uncabled.total)?;
        }
        if !parts.is_empty() {
            write!(f, "; {} parts that no cable joins to the largest{parts}", parts.total)?;
        }
        Ok(())
    }
}

/// Looks for ports without an address and for parts without a cable, and records the first `limit` of each.
pub fn cover(topology: &Topology, addresses: &Addresses, limit: usize) -> CoverReport {
    let mut report = CoverReport {
        end_ports: 0,
        unaddressed: Findings::new(limit),
        uncabled: Findings::new(limit),
        parts: Findings::new(limit),
    };
    let part = connected_parts(topology);
    // By the lowest switch of each part: its switches, and the end ports on them.
    let mut sizes = vec![(0, 0); topology.switch_count()];
    let mut addressed = |port: PortIndex| {
        if addresses.base(port).is_none() {
            report.unaddressed.add(|| Place::port(topology, port));
        }
    };
    for switch in topology.switches() {
        addressed(topology.port0(switch));
        let size = &mut sizes[part[switch.index()].index()];
        size.0 += 1;
        for port in end_ports(topology, switch) {
            size.1 += 1;
            report.end_ports += 1;
            addressed(port);
        }
    }
    let on_a_switch = |node: NodeIndex| {
        topology.cables(node).any(|(_, peer)| topology.is_switch(topology.port(peer).node))
    };
    let ends = topology.nodes().skip(topology.switch_count());
    for node in ends.filter(|&node| !on_a_switch(node)) {
        report.uncabled.add(|| Place::node(topology, node));
    }
    let of = |switch: NodeIndex| sizes[switch.index()];
    let lowest = |&switch: &NodeIndex| part[switch.index()] == switch;
    let order = |switch: &NodeIndex| (of(*switch).1, of(*switch).0, std::cmp::Reverse(*switch));
    let largest = topology.switches().filter(lowest).max_by_key(order);
    for switch in topology.switches().filter(lowest).filter(|&switch| Some(switch) != largest) {
        let (switches, end_ports) = of(switch);
        let with = || Place::node(topology, switch);
        report.parts.add(|| Part { with: with(), switches, end_ports });
    }
    report
}

/// Ports of adapters and routers on a switch.
fn end_ports(topology: &Topology, switch: NodeIndex) -> impl Iterator<Item = PortIndex> + '_ {
    let peers = topology.cables(switch).map(|(_, peer)| peer);
    peers.filter(|&peer| !topology.is_switch(topology.port(peer).node))
}

/// For every switch, the lowest switch that cables between switches join it to.
pub(super) fn connected_parts(topology: &Topology) -> Vec<NodeIndex> {
    const UNSEEN: NodeIndex = NodeIndex(u32::MAX);
    let mut part = vec![UNSEEN; topology.switch_count()];
    let mut todo = Vec::new();
    for start in topology.switches() {
        if part[start.index()] != UNSEEN {
            continue;
        }
        part[start.index()] = start;
        todo.push(start);
        while let Some(switch) = todo.pop() {
            for (_, next) in topology.switch_links(switch) {
                if part[next.index()] == UNSEEN {
                    part[next.index()] = start;
                    todo.push(next);
                }
            }
        }
    }
    part
}
