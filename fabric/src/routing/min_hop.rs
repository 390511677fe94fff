//! Min-hop with load balancing, as subnet managers route by default: a baseline.

use super::Unreachable;
use super::ranks::distances;
use crate::{Addresses, ForwardingTable, Lid, NodeIndex, PortNum, Topology};

/// Tables by shortest paths: each address takes the least used of a switch's shortest ways, the lowest
/// port among equals. Nothing here keeps credit loops away on fabrics that are no tree.
pub(super) fn fill(
    topology: &Topology,
    addresses: &Addresses,
) -> (Vec<ForwardingTable>, Vec<Unreachable>) {
    let top = addresses.top();
    let mut tables = vec![ForwardingTable::up_to(top); topology.switch_count()];
    let mut unreachable = Vec::new();
    let mut load: Vec<[u32; 256]> = vec![[0; 256]; topology.switch_count()];
    for destination in topology.switches() {
        let (distance, _) = distances(topology, destination);
        for switch in topology.switches() {
            if switch == destination {
                addresses
                    .of(topology.port0(switch))
                    .for_each(|lid| tables[switch.index()].set(lid, PortNum::ZERO));
            }
            let shortest: Vec<PortNum> = topology
                .switch_links(switch)
                .filter(|(_, peer)| {
                    let peer = distance[peer.index()];
                    peer != u32::MAX && peer + 1 == distance[switch.index()]
                })
                .map(|(port, _)| port)
                .collect();
            if shortest.is_empty() && switch != destination {
                unreachable.push(Unreachable { from: switch, to: destination });
            }
            for (lid, direct) in lids_on(topology, addresses, destination) {
                let load = &mut load[switch.index()];
                let port = match direct {
                    Some(port) if switch == destination => Some(port),
                    _ => shortest.iter().copied().min_by_key(|port| (load[port.index()], *port)),
                };
                if let Some(port) = port {
                    load[port.index()] += 1;
                    tables[switch.index()].set(lid, port);
                }
            }
        }
    }
    (tables, unreachable)
}

/// The addresses on a switch with the port that leads to them; `None` for its own, which only other
/// switches look up here.
fn lids_on<'a>(
    topology: &'a Topology,
    addresses: &'a Addresses,
    switch: NodeIndex,
) -> impl Iterator<Item = (Lid, Option<PortNum>)> + 'a {
    let ends = topology.cables(switch).filter_map(move |(port, peer)| {
        let end = !topology.is_switch(topology.port(peer).node);
        end.then(|| (peer, topology.num(port)))
    });
    let own = addresses.of(topology.port0(switch)).map(|lid| (lid, None));
    own.chain(
        ends.flat_map(move |(peer, port)| addresses.of(peer).map(move |lid| (lid, Some(port)))),
    )
}
