//! Shortest routes, which turn as they like: without lanes they may close credit loops.

use super::balanced::NextHops;
use super::ranks::distances;
use crate::hosts::Hosts;
use crate::{NodeIndex, PortIndex, PortNum, Topology};

/// Which of several shortest next hops are taken.
#[derive(Clone, Debug)]
pub(super) enum Shortest {
    /// Whichever loads the links least.
    Any,
    /// To the switch behind the lowest port: where each dimension of a grid has its ports before those of the next
    /// one, routes go along one dimension after the other (OpenSM's `dor`).
    LowestPort,
    /// The way of least weight: the same there and back.
    Weighted(Weights),
}

impl NextHops for Shortest {
    fn find(
        &mut self,
        topology: &Topology,
        to: NodeIndex,
        chooses: &dyn Fn(NodeIndex) -> bool,
        each: &mut dyn FnMut(NodeIndex, &[PortNum]),
    ) {
        let (distance, reached) = distances(topology, to);
        let mut weight = vec![0; topology.switch_count()];
        let (mut nearer, mut ports) = (Vec::new(), Vec::new());
        for &switch in reached.iter().skip(1) {
            let links = topology.switch_links(switch);
            nearer.clear();
            nearer.extend(links.filter(|(_, to)| distance[to.index()] < distance[switch.index()]));
            let next = match self {
                Self::Any => None,
                Self::LowestPort => nearer.first().map(|&(_, peer)| peer),
                Self::Weighted(weights) => {
                    let over = |&(port, peer): &(PortNum, NodeIndex)| {
                        let link = topology.port_of(switch, port);
                        let own = link.map_or(0, |link| weights.0[link.index()]);
                        (own + weight[peer.index()], peer)
                    };
                    let least = nearer.iter().map(over).min();
                    weight[switch.index()] = least.map_or(0, |(weight, _)| weight);
                    least.map(|(_, peer)| peer)
                }
            };
            ports.clear();
            if chooses(switch) {
                let taken = nearer.iter().filter(|(_, peer)| next.is_none_or(|next| next == *peer));
                ports.extend(taken.map(|&(port, _)| port));
            }
            each(switch, &ports);
        }
    }
}

/// A weight for every link between switches, by port: the same for both directions of a cable. No two ways weigh
/// the same but by chance, so that the least one from here to there is that from there to here.
#[derive(Clone, Debug)]
pub(super) struct Weights(Vec<u64>);

/// How often weights follow the loads.
const ROUNDS: u64 = 60;
/// What a link weighs at first, by how much that differs, and how far one round moves it at most.
const USUAL: u64 = 1_000_000;
const CHANCE: u64 = 100_000;
const STEP: u64 = 2_500;

impl Weights {
    /// Weights by which the most loaded link carries little: in each round the loaded ones become heavier.
    pub(super) fn new(topology: &Topology) -> Self {
        let hosts = Hosts::of(topology).per_switch(topology);
        let mut weights = vec![0; topology.port_count()];
        let cables: Vec<[PortIndex; 2]> = topology
            .switches()
            .flat_map(|switch| topology.cables(switch))
            .filter(|&(port, peer)| port < peer && topology.is_switch(topology.port(peer).node))
            .map(|(port, peer)| [port, peer])
            .collect();
        for (cable, place) in cables.iter().zip(1..) {
            // SplitMix64's finish: numbers that follow from the place alone, as if drawn.
            let mut drawn: u64 = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(place);
            drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            for port in cable {
                weights[port.index()] = USUAL + (drawn ^ (drawn >> 31)) % CHANCE;
            }
        }
        let mut best = (u64::MAX, weights.clone());
        for round in 0..ROUNDS {
            let mut shortest = Shortest::Weighted(Self(weights));
            let loads = loads(topology, &mut shortest, &hosts);
            let Shortest::Weighted(Self(former)) = shortest else { unreachable!() };
            weights = former;
            let most = loads.iter().copied().max().unwrap_or(0).max(1);
            if most < best.0 {
                best = (most, weights.clone());
            }
            for cable in &cables {
                let load = cable.iter().map(|port| loads[port.index()]).max().unwrap_or(0);
                let step = STEP * 20 / (20 + round);
                // Half of the most loaded link's load moves nothing.
                for port in cable {
                    let weight = &mut weights[port.index()];
                    *weight = (*weight + 2 * step * load / most).saturating_sub(step);
                }
            }
        }
        Self(best.1)
    }
}

/// By port: pairs of hosts that send by it, where all to one switch go the same way; the first of parallel cables
/// counts for all.
fn loads(topology: &Topology, shortest: &mut Shortest, hosts: &[usize]) -> Vec<u64> {
    let mut loads = vec![0; topology.port_count()];
    let mut hops = Vec::new();
    for to in topology.switches().filter(|to| hosts[to.index()] > 0) {
        hops.clear();
        shortest.find(topology, to, &|_| true, &mut |switch, ports| {
            let link = ports.first().and_then(|&port| topology.port_of(switch, port));
            hops.extend(link.map(|link| (switch, link, ports.len() as u64)));
        });
        let mut flow: Vec<u64> = hosts.iter().map(|&hosts| hosts as u64).collect();
        for &(switch, link, cables) in hops.iter().rev() {
            let sent = flow[switch.index()];
            loads[link.index()] += sent * hosts[to.index()] as u64 / cables;
            if let Some(peer) = topology.peer_node(link) {
                flow[peer.index()] += sent;
            }
        }
    }
    loads
}
