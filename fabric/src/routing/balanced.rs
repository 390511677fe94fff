//! Where there are no trees: of all legal routes that are as short as any, those that load no link more than they
//! have to.
//!
//! For each address every switch takes, the nearest first, the next hop by which the most loaded link of the whole
//! route is loaded least, then by which the loads of its links add up to the least, then the lowest port. The load
//! of a link is how many hosts send over it. When all base addresses have routes, each is routed once more beside
//! all others. DFSSSP (Domke, Hoefler, Nagel, 2011) weighs by the sum alone, once; that leaves links with more.

use crate::hosts::Hosts;
use crate::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// Which next hops routes may take.
pub(super) trait NextHops {
    /// Calls `each` for every other switch with a route to `to`, with the ports of its nearest next hops: the
    /// nearest switch first, so that each hop leads to a switch before. A switch that is not to choose has no
    /// ports.
    fn find(
        &mut self,
        topology: &Topology,
        to: NodeIndex,
        chooses: &dyn Fn(NodeIndex) -> bool,
        each: &mut dyn FnMut(NodeIndex, &[PortNum]),
    );
}

/// The addresses of the hosts on a switch.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) switch: NodeIndex,
    pub(super) lids: &'a [Lid],
}

/// A next hop: the port there, and the switch behind it.
#[derive(Clone, Copy)]
struct Hop {
    port: PortNum,
    link: PortIndex,
    to: NodeIndex,
}

impl Hop {
    /// Over a switch's port; `None` where that leads to no switch.
    fn over(topology: &Topology, switch: NodeIndex, port: PortNum) -> Option<Self> {
        let link = topology.port_of(switch, port).filter(|_| port != PortNum::ZERO)?;
        let to = topology.port(topology.peer(link)?).node;
        topology.is_switch(to).then_some(Self { port, link, to })
    }
}

/// What routes cost: the most loaded link, then all of them.
pub(super) type Cost = (u64, u64);

/// Fills in the routes to the addresses, of which each host has so many. Those of base addresses are weighed as if
/// there were no others; the others are laid beside them, so that a host's addresses lead along different ways.
/// Returns what base addresses cost.
pub(super) fn fill(
    topology: &Topology,
    next_hops: &mut dyn NextHops,
    ends: &[Ends<'_>],
    offsets: usize,
    tables: &mut [ForwardingTable],
) -> Cost {
    let mut balance = Balance::new(topology);
    let mut lay = |balance: &mut Balance, is_laid: &dyn Fn(Lid) -> bool, again: bool| {
        for &Ends { switch, lids } in ends {
            let mut lids = lids.iter().copied().filter(|&lid| is_laid(lid)).peekable();
            if lids.peek().is_none() {
                continue;
            }
            balance.find_hops(topology, next_hops, switch, &|_| true);
            for lid in lids {
                if again {
                    balance.take_out(topology, lid, tables);
                }
                balance.put_in(topology, (switch, lid), tables, |_| true);
            }
        }
    };
    let is_base = |lid: Lid| lid.index().is_multiple_of(offsets);
    lay(&mut balance, &is_base, false);
    lay(&mut balance, &is_base, true);
    let cost = balance.cost();
    lay(&mut balance, &|lid| !is_base(lid), false);
    cost
}

/// What the links carry while routes are chosen.
pub(super) struct Balance {
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
    pub(super) fn new(topology: &Topology) -> Self {
        let switches = topology.switch_count();
        let hosts = Hosts::of(topology).per_switch(topology);
        Self {
            loads: vec![0; topology.ports().count()],
            hosts: topology.switches().map(|switch| hosts[switch.index()] as u64).collect(),
            hops: Vec::new(),
            cost: vec![(0, 0); switches],
            flow: vec![0; switches],
        }
    }

    /// What all routes that were put in cost.
    pub(super) fn cost(&self) -> Cost {
        (self.loads.iter().copied().max().unwrap_or(0), self.loads.iter().sum())
    }

    /// The switches with a route to `to`, and the nearest hops of those that are to choose.
    pub(super) fn find_hops(
        &mut self,
        topology: &Topology,
        next_hops: &mut dyn NextHops,
        to: NodeIndex,
        chooses: &dyn Fn(NodeIndex) -> bool,
    ) {
        self.hops.clear();
        next_hops.find(topology, to, chooses, &mut |switch, ports| {
            let hops = ports.iter().filter_map(|&port| Hop::over(topology, switch, port));
            self.hops.push((switch, hops.collect()));
        });
    }

    /// Chooses the hops of an address on the switch that hops were found to, where a switch is free to; elsewhere
    /// its table says where it leads.
    pub(super) fn put_in(
        &mut self,
        topology: &Topology,
        (to, lid): (NodeIndex, Lid),
        tables: &mut [ForwardingTable],
        is_free: impl Fn(NodeIndex) -> bool,
    ) {
        self.cost[to.index()] = (0, 0);
        for (switch, hops) in &self.hops {
            let over = |hop: &Hop| {
                let (load, (most, sum)) = (self.loads[hop.link.index()], self.cost[hop.to.index()]);
                (most.max(load), sum + load)
            };
            let table = &mut tables[switch.index()];
            let best = hops.iter().copied().min_by_key(over).filter(|_| is_free(*switch));
            let chosen = best.or_else(|| Hop::over(topology, *switch, table.get(lid)));
            let Some(chosen) = chosen else { continue };
            self.cost[switch.index()] = over(&chosen);
            if best.is_some() {
                table.set(lid, chosen.port);
            }
        }
        self.add(topology, lid, tables, |load, flow| *load += flow);
    }

    /// The address has no route again.
    pub(super) fn take_out(&mut self, topology: &Topology, lid: Lid, tables: &[ForwardingTable]) {
        self.add(topology, lid, tables, |load, flow| *load -= flow);
    }

    /// The routes of an address, as they are in the tables, are put in.
    pub(super) fn count(&mut self, topology: &Topology, lid: Lid, tables: &[ForwardingTable]) {
        self.add(topology, lid, tables, |load, flow| *load += flow);
    }

    /// Changes the loads of the links of an address's routes, the farthest first.
    fn add(
        &mut self,
        topology: &Topology,
        lid: Lid,
        tables: &[ForwardingTable],
        change: impl Fn(&mut u64, u64),
    ) {
        self.flow.copy_from_slice(&self.hosts);
        for (switch, _) in self.hops.iter().rev() {
            let flow = self.flow[switch.index()];
            let port = tables[switch.index()].get(lid);
            let Some(hop) = Hop::over(topology, *switch, port).filter(|_| flow > 0) else {
                continue;
            };
            change(&mut self.loads[hop.link.index()], flow);
            self.flow[hop.to.index()] += flow;
        }
    }
}
