//! A grant says how fast its way forwards, as the view's cables have it.

mod window_support;

use snin_controller_core::Core;
use snin_controller_core::events::{Event, Output};
use snin_fabric::topology::TopologyBuilder;
use snin_fabric::{Guid, LinkRate, NodeKind, PortNum, Topology, TreeId};
use snin_protocol::message::{
    AgentMessage, Ask, Change, ControllerMessage, FromAgent, Grant, Hello, Request,
};
use snin_protocol::{ConnectionNumber, Session, Term, Time};
use window_support::fabric::Fabric;
use window_support::life::Life;

/// Two leaves and two spines; one uplink and one host are slow.
fn mixed() -> Topology {
    let mut builder = TopologyBuilder::new();
    let mut switches = Vec::new();
    for (number, name) in ["leaf0", "leaf1", "spine0", "spine1"].into_iter().enumerate() {
        let guid = Guid(0x100 + number as u64);
        switches.push(builder.add(NodeKind::Switch, guid, 4, name).unwrap());
    }
    let mut ends = Vec::new();
    for (leaf, spine, rate) in [(0, 2, "4xEDR"), (0, 3, "4xEDR"), (1, 2, "4xEDR"), (1, 3, "4xQDR")]
    {
        let up = PortNum(spine as u8 + 1);
        ends.push(((switches[leaf], up), (switches[spine], PortNum(leaf as u8 + 1)), rate));
    }
    for (host, rate) in ["4xEDR", "4xEDR", "4xEDR", "4xFDR"].into_iter().enumerate() {
        let guid = Guid(0x1000 + 0x10 * host as u64);
        let adapter = builder.add(NodeKind::Adapter, guid, 1, &format!("host{host}")).unwrap();
        builder.set_port_guid(adapter, PortNum(1), port(host)).unwrap();
        let at = PortNum((host % 2) as u8 + 1);
        ends.push(((adapter, PortNum(1)), (switches[host / 2], at), rate));
    }
    for (one, other, rate) in ends {
        for (node, num) in [one, other] {
            builder.set_rate(node, num, rate.parse().unwrap()).unwrap();
        }
        builder.cable(one, other).unwrap();
    }
    builder.build().unwrap()
}

fn port(host: usize) -> Guid {
    Guid(0x1001 + 0x10 * host as u64)
}

/// What a host is granted that asks for another along a tree, in a fabric without other traffic.
fn granted(fabric: &Fabric, from: usize, to: usize, tree: TreeId) -> Grant {
    let mut core = Core::new(Life::config(), fabric.view(1), Time::ZERO).unwrap();
    let request = Request {
        connection: ConnectionNumber(0),
        destination: port(to),
        windows: 0,
        rate: 0,
        class: 0,
        pinned: true,
        tree: Some(tree),
    };
    let changes = vec![Change::Request(request)].into();
    let hello = Hello { port: port(from), term: Term(0) };
    for body in [AgentMessage::Hello(hello), AgentMessage::Ask(Ask { number: 1, changes })] {
        let message = FromAgent { session: Session(1), body };
        core.handle(Event::Received { from: port(from), message }, Time::micros(1));
    }
    for _ in 0..100 {
        while let Some(output) = core.poll_output() {
            if let Output::Send { message, .. } = output
                && let ControllerMessage::Lease(lease) = message.body
                && let Some(&grant) = lease.grants.first()
            {
                return grant;
            }
        }
        let now = core.next_deadline().unwrap();
        core.handle_deadline(now);
    }
    panic!("nothing is granted");
}

#[test]
fn a_grant_carries_the_rate_of_the_slowest_link_of_its_way() {
    let fabric = Fabric::new(mixed());
    let rate = |text: &str| text.parse::<LinkRate>().unwrap().bits_per_second();
    let root = |tree: TreeId| {
        let tree = fabric.routing.forest.trees()[tree.index()].root;
        fabric.topology.node(tree).name.to_string()
    };
    let [slow, fast] = ["spine1", "spine0"]
        .map(|spine| (0..2).map(TreeId).find(|&tree| root(tree) == spine).unwrap());
    for (from, to, tree, expected) in [
        (0, 2, fast, "4xEDR"),
        (0, 2, slow, "4xQDR"),
        (2, 0, slow, "4xQDR"),
        (0, 3, fast, "4xFDR"),
        (3, 0, fast, "4xFDR"),
        (0, 1, fast, "4xEDR"),
    ] {
        let grant = granted(&fabric, from, to, tree);
        assert_eq!(grant.rate, rate(expected), "{from} to {to} along {tree}");
    }
}
