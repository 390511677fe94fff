//! Fabrics and tables made the simplest way there is, for checkers to be tried on: nothing here is what
//! snin plans with.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::collections::VecDeque;

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use snin_fabric::generate::Recipe;
use snin_fabric::topology::TopologyBuilder;
use snin_fabric::{
    Addresses, ForwardingTable, Guid, Lid, Lmc, NodeIndex, NodeKind, PortIndex, PortNum, Topology,
};

/// A fabric with addresses and a table for every switch.
pub(crate) struct Subnet {
    pub(crate) topology: Topology,
    pub(crate) addresses: Addresses,
    pub(crate) tables: Vec<ForwardingTable>,
}

impl Subnet {
    /// Addresses for every switch and adapter, 2^`lmc` for an adapter's ports; tables that forward nothing.
    pub(crate) fn new(topology: Topology, lmc: u8) -> Self {
        let lmc = Lmc::new(lmc).unwrap();
        let mut addresses = Addresses::none(topology.port_count());
        let mut next = lmc.addresses() as u16;
        for port in topology.ports().filter(|&port| is_host(&topology, port)) {
            addresses.assign(port, Lid(next), lmc).unwrap();
            next += lmc.addresses() as u16;
        }
        for switch in topology.switches() {
            addresses.assign(topology.port0(switch), Lid(next), Lmc::ZERO).unwrap();
            next += 1;
        }
        let tables = vec![ForwardingTable::up_to(addresses.top()); topology.switch_count()];
        Self { topology, addresses, tables }
    }

    /// Every address takes a shortest path; `pick` chooses among the ports that begin one.
    pub(crate) fn shortest(
        topology: Topology,
        lmc: u8,
        mut pick: impl FnMut(NodeIndex, Lid, &[PortNum]) -> PortNum,
    ) -> Self {
        let mut subnet = Self::new(topology, lmc);
        let (topology, addresses) = (&subnet.topology, &subnet.addresses);
        for home in topology.switches() {
            let toward = ports_toward(topology, home);
            let ends = topology.cables(home).map(|(port, end)| (topology.num(port), end));
            let ends = ends.filter(|&(_, end)| is_host(topology, end));
            for (last, end) in ends.chain([(PortNum::ZERO, topology.port0(home))]) {
                for lid in addresses.of(end) {
                    for switch in topology.switches() {
                        let choices = &toward[switch.index()];
                        let port = match (switch == home, choices.as_slice()) {
                            (true, _) => last,
                            (false, []) => continue,
                            (false, choices) => pick(switch, lid, choices),
                        };
                        subnet.tables[switch.index()].set(lid, port);
                    }
                }
            }
        }
        subnet
    }

    pub(crate) fn host(&self, number: usize) -> PortIndex {
        self.hosts()[number]
    }

    pub(crate) fn hosts(&self) -> Vec<PortIndex> {
        self.topology.ports().filter(|&port| is_host(&self.topology, port)).collect()
    }

    pub(crate) fn lid(&self, host: usize) -> Lid {
        self.addresses.base(self.host(host)).unwrap()
    }

    pub(crate) fn switch(&self, name: &str) -> NodeIndex {
        let named = |&node: &NodeIndex| &*self.topology.node(node).name == name;
        self.topology.switches().find(named).unwrap()
    }

    pub(crate) fn set(&mut self, switch: &str, lid: Lid, port: u8) {
        let switch = self.switch(switch);
        self.tables[switch.index()].set(lid, PortNum(port));
    }

    /// Everything a table says from `switch` on, one hop at a time: the path and the port it arrives at,
    /// if it does within `limit` hops.
    pub(crate) fn trace(
        &self,
        switch: NodeIndex,
        lid: Lid,
        limit: usize,
    ) -> (Vec<(NodeIndex, PortNum)>, Option<PortIndex>) {
        let mut path = Vec::new();
        let mut at = switch;
        while path.len() < limit {
            let out = self.tables[at.index()].get(lid);
            path.push((at, out));
            let Some(port) = self.topology.port_of(at, out) else { break };
            let end = if out == PortNum::ZERO { Some(port) } else { self.topology.peer(port) };
            match end {
                Some(end) if out != PortNum::ZERO && end_is_switch(&self.topology, end) => {
                    at = self.topology.port(end).node;
                }
                end => return (path, end),
            }
        }
        (path, None)
    }
}

pub(crate) fn is_host(topology: &Topology, port: PortIndex) -> bool {
    let node = topology.node(topology.port(port).node);
    node.kind == NodeKind::Adapter && topology.num(port) != PortNum::ZERO
}

fn end_is_switch(topology: &Topology, end: PortIndex) -> bool {
    topology.is_switch(topology.port(end).node)
}

/// For each switch, the ports that begin a shortest path to `home`.
fn ports_toward(topology: &Topology, home: NodeIndex) -> Vec<Vec<PortNum>> {
    let mut distance = vec![usize::MAX; topology.switch_count()];
    distance[home.index()] = 0;
    let mut queue = VecDeque::from([home]);
    while let Some(at) = queue.pop_front() {
        for (_, next) in topology.switch_links(at) {
            if distance[next.index()] == usize::MAX {
                distance[next.index()] = distance[at.index()] + 1;
                queue.push_back(next);
            }
        }
    }
    let nearer = |switch: NodeIndex| {
        let mine = distance[switch.index()];
        let nearer = |next: NodeIndex| distance[next.index()] < mine;
        topology.switch_links(switch).filter(|&(_, n)| nearer(n)).map(|(port, _)| port).collect()
    };
    topology.switches().map(nearer).collect()
}

pub(crate) fn build(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

/// Any of the shortest paths, as `rng` has it.
pub(crate) fn any<'r>(
    rng: &'r mut impl rand::Rng,
) -> impl FnMut(NodeIndex, Lid, &[PortNum]) -> PortNum + 'r {
    |_, _, choices| *choices.choose(rng).unwrap()
}

/// The n-th of the shortest paths for the n-th address of a port: on a whole Clos, one tree an address.
pub(crate) fn by_offset(
    addresses_a_port: u16,
) -> impl FnMut(NodeIndex, Lid, &[PortNum]) -> PortNum + Clone {
    move |_, lid, choices| choices[usize::from(lid.0 % addresses_a_port) % choices.len()]
}

/// Switches `s0` upwards with `hosts` hosts each, joined by `links`; hosts are on the first ports.
pub(crate) fn graph(switches: usize, hosts: usize, links: &[(usize, usize)]) -> Topology {
    let mut builder = TopologyBuilder::new();
    let mut used = vec![hosts as u8; switches];
    let handle: Vec<_> = (0..switches)
        .map(|s| {
            let guid = Guid(0x0200_0100_0000_0000 + s as u64);
            builder.add(NodeKind::Switch, guid, 64, &format!("s{s}")).unwrap()
        })
        .collect();
    for (s, &switch) in handle.iter().enumerate() {
        for h in 0..hosts {
            let number = s * hosts + h;
            let guid = Guid(0x0200_1000_0000_0000 + 0x100 * number as u64);
            let host = builder.add(NodeKind::Adapter, guid, 1, &format!("h{number}")).unwrap();
            builder.cable((switch, PortNum(h as u8 + 1)), (host, PortNum(1))).unwrap();
        }
    }
    for &(a, b) in links {
        used[a] += 1;
        let from = (handle[a], PortNum(used[a]));
        used[b] += 1;
        builder.cable(from, (handle[b], PortNum(used[b]))).unwrap();
    }
    builder.build().unwrap()
}

/// A ring of switches; from each the first link port leads on clockwise (but `s0`'s second).
pub(crate) fn ring(switches: usize, hosts: usize) -> Topology {
    let links: Vec<_> = (0..switches).map(|s| (s, (s + 1) % switches)).collect();
    graph(switches, hosts, &links)
}

/// Tables of a ring that go round it one way only.
pub(crate) fn clockwise(topology: Topology) -> Subnet {
    let switches = topology.switch_count();
    let mut subnet = Subnet::shortest(topology, 0, |_, _, choices| choices[0]);
    for at in 0..switches {
        let (from, to) = (NodeIndex(at as u32), NodeIndex(((at + 1) % switches) as u32));
        let on = subnet.topology.switch_links(from).find(|&(_, next)| next == to).unwrap().0;
        for (port, lid, _) in subnet.addresses.iter().collect::<Vec<_>>() {
            let node = subnet.topology.port(port).node;
            let here = node == from || subnet.topology.peer_node(port) == Some(from);
            if !here {
                subnet.tables[at].set(lid, on);
            }
        }
    }
    subnet
}

/// A copy with `count` switch-to-switch cables cut at random.
pub(crate) fn cut(topology: &Topology, count: usize, rng: &mut impl rand::Rng) -> Topology {
    let cables: Vec<PortIndex> = topology
        .switches()
        .flat_map(|switch| topology.cables(switch).collect::<Vec<_>>())
        .filter(|&(port, end)| port < end && end_is_switch(topology, end))
        .map(|(port, _)| port)
        .collect();
    let cut: Vec<PortIndex> = cables.sample(rng, count).copied().collect();
    topology.without_cables(&cut)
}

/// Overwrites `count` random entries for hosts' addresses with random ports, or none.
pub(crate) fn corrupt(subnet: &mut Subnet, count: usize, rng: &mut impl rand::Rng) {
    let hosts = subnet.hosts();
    for _ in 0..count {
        let lid = subnet.addresses.base(*hosts.choose(rng).unwrap()).unwrap();
        let switch = rng.random_range(0..subnet.tables.len());
        let ports = subnet.topology.node(NodeIndex(switch as u32)).ports;
        let port = if rng.random_bool(0.2) { 255 } else { rng.random_range(0..=ports) };
        subnet.tables[switch].set(lid, PortNum(port));
    }
}
