//! A walker of the tests' own: it shares nothing with the planner.

use snin_fabric::routing::Routing;
use snin_fabric::{Lid, NodeIndex, PortIndex, PortNum, Topology};

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
