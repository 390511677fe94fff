//! A walker of the tests' own, and a judge of circles: they share nothing with the planner.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::routing::Routing;
use snin_fabric::{Lid, NodeIndex, PortIndex, PortNum, Topology};

/// By link: the links that it waits for.
pub(crate) type Waits = BTreeMap<PortIndex, BTreeSet<PortIndex>>;

/// The links between switches that a packet leaves by.
pub(crate) fn walk(
    topology: &Topology,
    routing: &Routing,
    from: NodeIndex,
    lid: Lid,
) -> Vec<PortIndex> {
    let (mut switch, mut links) = (from, Vec::new());
    loop {
        assert!(links.len() < 64, "{lid:?} is not reached");
        let port = routing.tables[switch.index()].get(lid);
        assert_ne!(port, PortNum::NONE, "{lid:?} is dropped");
        let out = topology.port_of(switch, port).unwrap();
        let next = topology.port(topology.peer(out).unwrap()).node;
        if !topology.is_switch(next) {
            return links;
        }
        links.push(out);
        switch = next;
    }
}

/// Whether links wait for each other in a circle. Links that nothing waits behind are taken away, until
/// none is left or only circles are.
pub(crate) fn has_a_circle(mut waits: Waits) -> bool {
    loop {
        let before = waits.len();
        let left: BTreeSet<PortIndex> = waits.keys().copied().collect();
        waits.retain(|_, next| next.iter().any(|link| left.contains(link)));
        if waits.len() == before {
            return before > 0;
        }
    }
}
