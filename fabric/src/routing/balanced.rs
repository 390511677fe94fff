//! Where there are no trees: of all legal routes that are as short as any, those that load no link more than they
//! have to.
//!
//! For each address every switch takes, the nearest first, the next hop by which the most loaded link of the whole
//! route is loaded least, then by which the loads of its links add up to the least, then the lowest port. The load
//! of a link is how many hosts send over it. When all base addresses have routes, each is routed once more beside
//! all others. DFSSSP (Domke, Hoefler, Nagel, 2011) weighs by the sum alone, once; that leaves links with more.

use super::Ranks;
use super::reach::{Links, Reach};
use crate::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// The addresses of the hosts on a switch.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) switch: NodeIndex,
    pub(super) lids: &'a [Lid],
}

/// A legal next hop: the port there, and the switch behind it.
#[derive(Clone, Copy)]
struct Hop {
    port: PortNum,
    link: PortIndex,
    to: NodeIndex,
}

/// What a route costs from a switch on: its most loaded link, then all of them.
type Cost = (u64, u64);

/// Fills in the routes to the addresses, of which each host has so many. Those of base addresses are weighed as if
/// there were no others; the others are laid beside them, so that a host's addresses lead along different ways.
pub(super) fn fill(
    topology: &Topology,
    links: &Links,
    ranks: &Ranks,
    ends: &[Ends<'_>],
    offsets: usize,
    tables: &mut [ForwardingTable],
) {
    let mut balance = Balance::new(topology);
    let mut reach = Reach::new(links);
    let mut lay = |is_laid: &dyn Fn(Lid) -> bool, again: bool| {
        for &Ends { switch, lids } in ends {
            let mut lids = lids.iter().copied().filter(|&lid| is_laid(lid)).peekable();
            if lids.peek().is_none() {
                continue;
            }
            reach.compute(links, ranks, switch);
            balance.find_hops(topology, links, ranks, &reach, switch);
            for lid in lids {
                if again {
                    balance.take_out(lid, tables);
                }
                balance.put_in(switch, lid, tables);
            }
        }
    };
    let is_base = |lid: Lid| lid.index().is_multiple_of(offsets);
    lay(&is_base, false);
    lay(&is_base, true);
    lay(&|lid| !is_base(lid), false);
}

struct Balance {
    /// By port of a switch: how many hosts send by it.
    loads: Vec<u64>,
    /// By switch: hosts on it.
    hosts: Vec<u64>,
    /// The hops to one switch, those of each switch together: the nearest switch first, from each only to those
    /// before it.
    hops: Vec<(NodeIndex, Vec<Hop>)>,
    cost: Vec<Cost>,
    flow: Vec<u64>,
}

impl Balance {
    fn new(topology: &Topology) -> Self {
        let switches = topology.switch_count();
        let hosts = topology.switches().map(|switch| {
            let ends = topology.cables(switch).map(|(_, peer)| topology.port(peer).node);
            ends.filter(|&node| !topology.is_switch(node)).count() as u64
        });
        Self {
            loads: vec![0; topology.ports().count()],
            hosts: hosts.collect(),
            hops: Vec::new(),
            cost: vec![(0, 0); switches],
            flow: vec![0; switches],
        }
    }

    /// The nearest legal hops of every switch that has some.
    fn find_hops(
        &mut self,
        topology: &Topology,
        links: &Links,
        ranks: &Ranks,
        reach: &Reach,
        to: NodeIndex,
    ) {
        let mut is_above = vec![false; topology.switch_count()];
        reach.above().iter().for_each(|switch| is_above[switch.index()] = true);
        let others = ranks.descending().iter().filter(|switch| !is_above[switch.index()]);
        self.hops.clear();
        let mut ports = Vec::new();
        for &switch in reach.above().iter().filter(|&&switch| switch != to).chain(others) {
            reach.nearest(links, switch, &mut ports);
            let hop = |&port: &PortNum| {
                let link = topology.port_of(switch, port)?;
                let to = topology.port(topology.peer(link)?).node;
                Some(Hop { port, link, to })
            };
            let hops: Vec<Hop> = ports.iter().filter_map(hop).collect();
            if !hops.is_empty() {
                self.hops.push((switch, hops));
            }
        }
    }

    fn put_in(&mut self, to: NodeIndex, lid: Lid, tables: &mut [ForwardingTable]) {
        self.cost[to.index()] = (0, 0);
        for (switch, hops) in &self.hops {
            let over = |hop: &&Hop| {
                let (load, (most, sum)) = (self.loads[hop.link.index()], self.cost[hop.to.index()]);
                (most.max(load), sum + load)
            };
            let Some(best) = hops.iter().min_by_key(over) else { continue };
            self.cost[switch.index()] = over(&best);
            tables[switch.index()].set(lid, best.port);
        }
        self.add(lid, tables, |load, flow| *load += flow);
    }

    /// The address has no route again.
    fn take_out(&mut self, lid: Lid, tables: &[ForwardingTable]) {
        self.add(lid, tables, |load, flow| *load -= flow);
    }

    /// Changes the loads of the links of an address's routes, the farthest first.
    fn add(&mut self, lid: Lid, tables: &[ForwardingTable], change: impl Fn(&mut u64, u64)) {
        self.flow.copy_from_slice(&self.hosts);
        for (switch, hops) in self.hops.iter().rev() {
            let out = tables[switch.index()].get(lid);
            let Some(hop) = hops.iter().find(|hop| hop.port == out) else { continue };
            let flow = self.flow[switch.index()];
            change(&mut self.loads[hop.link.index()], flow);
            self.flow[hop.to.index()] += flow;
        }
    }
}
