//! How evenly do tables load the links, where programs use base addresses?

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::{Addresses, ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// What [`load()`] found.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct LoadReport {
    /// Ordered pairs of hosts on different switches.
    pub pairs: u64,
    /// Those of them whose route does not arrive.
    pub lost: u64,
    /// Pairs on the most loaded direction of a cable between switches, if every host sends to every other.
    pub most: u64,
    /// Pairs on a direction of such a cable, on average over all cables.
    pub mean: f64,
    /// The port that sends on the most loaded one: node description and port number.
    pub most_loaded: String,
    /// Switches on the way, on average over the pairs.
    pub hops: f64,
    /// The most switches on any way.
    pub longest: u64,
    /// Pairs on every direction of a cable between switches, the most loaded first.
    #[serde(skip)]
    pub links: Vec<u64>,
    /// In random matchings, where every host sends to one other and receives from one: what a flow gets of its
    /// link, at most one part of the most loaded link on its way; 1: no two flows share a link.
    pub bisection: f64,
}

/// Where hosts are: the port, and the switch at its other end.
pub type Ends = [(PortIndex, NodeIndex)];

/// Walks all pairs of hosts at base addresses, then `matchings` random matchings from `seed` on.
pub fn load(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    hosts: &Ends,
    (matchings, seed): (u32, u64),
) -> LoadReport {
    let walker = Walker { topology, tables };
    let mut hosts_on = vec![0_u64; topology.node_count()];
    hosts.iter().for_each(|(_, switch)| hosts_on[switch.index()] += 1);
    let sources: Vec<NodeIndex> =
        topology.switches().filter(|switch| hosts_on[switch.index()] > 0).collect();
    let mut load = vec![0_u64; topology.port_count()];
    let (mut pairs, mut lost, mut hops, mut longest) = (0, 0, 0, 0);
    let mut way = Vec::new();
    for &(to, switch) in hosts {
        let lid = addresses.base(to).unwrap_or(Lid::NONE);
        for &from in sources.iter().filter(|&&from| from != switch) {
            let count = hosts_on[from.index()];
            pairs += count;
            if !walker.walk(from, lid, to, &mut way) {
                lost += count;
                continue;
            }
            let switches = way.len() as u64 + 1;
            hops += count * switches;
            longest = longest.max(switches);
            way.iter().for_each(|port| load[port.index()] += count);
        }
    }
    let cables = topology.switches().flat_map(|switch| {
        topology.switch_links(switch).filter_map(move |(port, _)| topology.port_of(switch, port))
    });
    let links: Vec<PortIndex> = cables.collect();
    let sum: u64 = links.iter().map(|port| load[port.index()]).sum();
    // The first of several.
    let most = links.iter().rev().max_by_key(|port| load[port.index()]);
    let mut loads: Vec<u64> = links.iter().map(|port| load[port.index()]).collect();
    loads.sort_unstable_by(|a, b| b.cmp(a));
    LoadReport {
        pairs,
        lost,
        most: most.map_or(0, |port| load[port.index()]),
        mean: sum as f64 / links.len().max(1) as f64,
        most_loaded: most.map_or_else(String::new, |&port| topology.port_name(port)),
        hops: hops as f64 / (pairs - lost).max(1) as f64,
        longest,
        links: loads,
        bisection: walker.bisection(addresses, hosts, (matchings, seed)),
    }
}

pub(super) struct Walker<'a> {
    pub(super) topology: &'a Topology,
    pub(super) tables: &'a [ForwardingTable],
}

impl Walker<'_> {
    /// The ports between switches on the way from a switch to the port that has the address, or that it does
    /// not arrive there.
    pub(super) fn walk(
        &self,
        from: NodeIndex,
        lid: Lid,
        to: PortIndex,
        way: &mut Vec<PortIndex>,
    ) -> bool {
        way.clear();
        let mut switch = from;
        while way.len() <= self.topology.switch_count() {
            let port =
                self.tables.get(switch.index()).map_or(PortNum::NONE, |table| table.get(lid));
            let out = self.topology.port_of(switch, port).filter(|_| port != PortNum::ZERO);
            let Some((out, peer)) = out.and_then(|out| Some((out, self.topology.peer(out)?)))
            else {
                return false;
            };
            if peer == to {
                return true;
            }
            switch = self.topology.port(peer).node;
            if !self.topology.is_switch(switch) {
                return false;
            }
            way.push(out);
        }
        false
    }

    fn bisection(&self, addresses: &Addresses, hosts: &Ends, (matchings, seed): (u32, u64)) -> f64 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut order: Vec<usize> = (0..hosts.len()).collect();
        let (mut sum, mut flows) = (0.0, 0_u64);
        let mut load = vec![0_u32; self.topology.port_count()];
        let mut ways: Vec<Vec<PortIndex>> = Vec::new();
        for _ in 0..matchings {
            order.shuffle(&mut random);
            ways.clear();
            load.fill(0);
            for pair in order.chunks_exact(2) {
                for (from, to) in [(pair[0], pair[1]), (pair[1], pair[0])] {
                    let ((_, from), (to, _)) = (hosts[from], hosts[to]);
                    let mut way = Vec::new();
                    let lid = addresses.base(to).unwrap_or(Lid::NONE);
                    if self.walk(from, lid, to, &mut way) {
                        way.iter().for_each(|port| load[port.index()] += 1);
                        ways.push(way);
                    }
                    flows += 1;
                }
            }
            let most = |way: &Vec<PortIndex>| way.iter().map(|port| load[port.index()]).max();
            sum += ways.iter().map(|way| 1.0 / f64::from(most(way).unwrap_or(1))).sum::<f64>();
        }
        sum / flows.max(1) as f64
    }
}
