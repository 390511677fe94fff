//! Fabrics that are no plain Clos.

use snin_fabric::topology::{Handle, TopologyBuilder};
use snin_fabric::{Guid, NodeKind, PortNum, Topology};

/// A builder that knows names.
struct Fabric {
    builder: TopologyBuilder,
    guid: u64,
}

impl Fabric {
    fn new() -> Self {
        Self { builder: TopologyBuilder::new(), guid: 0x100 }
    }

    fn add(&mut self, kind: NodeKind, ports: u64, name: &str) -> Handle {
        self.guid += 0x10;
        let guid = self.guid;
        let handle = self.builder.add(kind, Guid(guid), ports, name).unwrap();
        if kind == NodeKind::Adapter {
            for port in 1..=ports {
                let number = PortNum(port as u8);
                self.builder.set_port_guid(handle, number, Guid(guid + port)).unwrap();
            }
        }
        handle
    }

    fn cable(&mut self, (a, p): (Handle, u8), (b, q): (Handle, u8)) {
        self.builder.cable((a, PortNum(p)), (b, PortNum(q))).unwrap();
    }
}

/// Six leaves of 18 hosts, two spines with 16 hosts each, and two servers with both ports in the subnet: one
/// on two leaves, the other on a leaf and a spine. 144 adapters.
pub(crate) fn dual_ported() -> Topology {
    let mut fabric = Fabric::new();
    let mut switches = Vec::new();
    for (kind, count) in [("leaf", 6), ("spine", 2)] {
        for n in 0..count {
            switches.push(fabric.add(NodeKind::Switch, 36, &format!("{kind}{n}")));
        }
    }
    let (leaves, spines) = switches.split_at(6);
    for (l, &leaf) in leaves.iter().enumerate() {
        for (s, &spine) in spines.iter().enumerate() {
            for cable in 0..2 {
                let up = (30 + 2 * s + cable) as u8;
                fabric.cable((leaf, up), (spine, (1 + 2 * l + cable) as u8));
            }
        }
    }
    let mut host = 0;
    for (&switch, hosts) in switches.iter().zip([18, 18, 18, 18, 19, 19, 16, 16]) {
        for n in 0..hosts {
            let first = if spines.contains(&switch) { 20 } else { 1 };
            let adapter = fabric.add(NodeKind::Adapter, 1, &format!("host{host}"));
            fabric.cable((adapter, 1), (switch, first + n));
            host += 1;
        }
    }
    for (name, one, other) in [
        ("server0", (leaves[0], 25), (leaves[1], 25)),
        ("server1", (leaves[2], 25), (spines[1], 36)),
    ] {
        let adapter = fabric.add(NodeKind::Adapter, 2, name);
        fabric.cable((adapter, 1), one);
        fabric.cable((adapter, 2), other);
    }
    fabric.builder.build().unwrap()
}

/// Two adapters and a cable.
pub(crate) fn back_to_back() -> Topology {
    let mut fabric = Fabric::new();
    let [a, b] = ["host0", "host1"].map(|name| fabric.add(NodeKind::Adapter, 2, name));
    fabric.cable((a, 1), (b, 2));
    fabric.builder.build().unwrap()
}

/// A mesh of five switches with a host each at three of them. The ways of `c` and `d` to the first host lead over
/// `hub`, and others do too.
pub(crate) fn meshed() -> Topology {
    let mut fabric = Fabric::new();
    let [a, hub, b, c, d] =
        ["a", "hub", "b", "c", "d"].map(|name| fabric.add(NodeKind::Switch, 4, name));
    for (one, other) in [
        ((a, 1), (hub, 1)),
        ((a, 2), (b, 1)),
        ((hub, 2), (c, 1)),
        ((hub, 3), (d, 1)),
        ((b, 2), (c, 2)),
        ((c, 3), (d, 2)),
    ] {
        fabric.cable(one, other);
    }
    for (name, switch) in [("host0", a), ("host1", c), ("host2", d)] {
        let host = fabric.add(NodeKind::Adapter, 1, name);
        fabric.cable((host, 1), (switch, 4));
    }
    fabric.builder.build().unwrap()
}
