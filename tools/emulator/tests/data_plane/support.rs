//! Fabrics to send over.

use snin_emulator::data::{Agenda, Config, Network};
use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::topology::TopologyBuilder;
use snin_fabric::traffic::{Demand, Pattern, Shape};
use snin_fabric::{Guid, Lid, LinkRate, NodeKind, PortIndex, PortNum, Topology};

/// 400 Gbit/s: a byte takes 20 ps.
pub(crate) const PS_PER_BYTE: u64 = 20;

/// A topology with its tables.
pub(crate) struct Fabric {
    pub(crate) topology: Topology,
    pub(crate) routing: Routing,
}

impl Fabric {
    pub(crate) fn new(topology: Topology, engine: Engine) -> Self {
        let routing = Routing::compute(&topology, engine, None).unwrap();
        Self { topology, routing }
    }

    pub(crate) fn of(recipe: &str, engine: Engine) -> Self {
        Self::new(recipe.parse::<Recipe>().unwrap().build().unwrap(), engine)
    }

    pub(crate) fn network(&self, config: Config) -> Network {
        self.network_with(config)
    }

    pub(crate) fn network_with<Q: Agenda>(&self, config: Config) -> Network<Q> {
        let mut network = Network::with_agenda(&self.topology, config).unwrap();
        network.set_addresses(self.routing.plan.addresses());
        network.set_tables(&self.routing.tables);
        network
    }

    pub(crate) fn hosts(&self) -> u32 {
        self.routing.hosts.len() as u32
    }

    pub(crate) fn port(&self, host: u32) -> PortIndex {
        self.routing.hosts.get(snin_fabric::hosts::HostId(host)).unwrap().port
    }

    /// The base address of a host.
    pub(crate) fn lid(&self, host: u32) -> Lid {
        self.routing.plan.addresses().base(self.port(host)).unwrap()
    }

    pub(crate) fn demands(&self, pattern: Pattern, seed: u64) -> Vec<Demand> {
        let leaf_of: Vec<u32> = self.routing.hosts.iter().map(|(_, host)| host.switch.0).collect();
        let uplinks = self.routing.shape.as_ref().map_or(1, |_| self.routing.forest.len() as u32);
        pattern.generate(Shape { leaf_of: &leaf_of, uplinks }, seed).unwrap()
    }
}

/// One switch with `hosts` hosts.
pub(crate) fn star(hosts: u32) -> Topology {
    ring(1, hosts)
}

/// A switch with a host at each of these rates.
pub(crate) fn star_of(rates: &[&str]) -> Topology {
    let mut builder = TopologyBuilder::new();
    let switch = builder.add(NodeKind::Switch, Guid(1), rates.len() as u64, "switch").unwrap();
    for (number, rate) in (1..).zip(rates) {
        let guid = Guid(0x100 * u64::from(number));
        let host = builder.add(NodeKind::Adapter, guid, 1, &format!("host{number}")).unwrap();
        let rate: LinkRate = rate.parse().unwrap();
        builder.set_rate(host, PortNum(1), rate).unwrap();
        builder.set_rate(switch, PortNum(number), rate).unwrap();
        builder.cable((host, PortNum(1)), (switch, PortNum(number))).unwrap();
    }
    builder.build().unwrap()
}

/// Switches in a ring, each with `hosts` hosts; one switch alone has no cable to itself.
pub(crate) fn ring(switches: u32, hosts: u32) -> Topology {
    let mut builder = TopologyBuilder::new();
    let ports = u64::from(hosts) + 2;
    let add = |builder: &mut TopologyBuilder, n: u32| {
        let guid = Guid(0x1000 + u64::from(n));
        builder.add(NodeKind::Switch, guid, ports, &format!("s{n}")).unwrap()
    };
    let nodes: Vec<_> = (0..switches).map(|n| add(&mut builder, n)).collect();
    for (n, &switch) in nodes.iter().enumerate() {
        for h in 0..hosts {
            let guid = Guid(0x10_0000 + (n as u64) * 0x1000 + u64::from(h) * 4);
            let name = format!("h{n}-{h}");
            let host = builder.add(NodeKind::Adapter, guid, 1, &name).unwrap();
            builder.cable((switch, PortNum(h as u8 + 1)), (host, PortNum(1))).unwrap();
        }
        let next = nodes[(n + 1) % nodes.len()];
        if next != switch {
            let (out, into) = (PortNum(hosts as u8 + 1), PortNum(hosts as u8 + 2));
            builder.cable((switch, out), (next, into)).unwrap();
        }
    }
    builder.build().unwrap()
}

/// What a packet with `payload` bytes has on the wire.
pub(crate) fn wire(payload: u64) -> u64 {
    payload.next_multiple_of(4) + 8 + 12 + 4 + 2
}
