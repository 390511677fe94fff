//! [`Topology`] to text, in the very form ibnetdiscover prints and ibsim loads.

use std::fmt::Write as _;

use crate::{NodeIndex, NodeKind, PortIndex, Topology};

/// The text: one record a node, switches first, in the topology's order. Reading it gives the same
/// topology back.
pub fn write(topology: &Topology) -> String {
    let mut text = String::with_capacity(topology.cable_count() * 160);
    text.push_str("#\n# Topology file: written by snin\n#\n");
    for node in topology.nodes() {
        record(&mut text, topology, node);
    }
    text
}

fn record(text: &mut String, topology: &Topology, index: NodeIndex) {
    let node = topology.node(index);
    let (guid_key, word) = match node.kind {
        NodeKind::Switch => ("switchguid", "Switch"),
        NodeKind::Adapter => ("caguid", "Ca"),
        NodeKind::Router => ("rtguid", "Rt"),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\nvendid=0x{:x}\ndevid=0x{:x}", node.vendor, node.device);
    if node.system_image.0 != 0 {
        let _ = writeln!(text, "sysimgguid=0x{:x}", node.system_image.0);
    }
    let _ = write!(text, "{guid_key}=0x{:x}", node.guid.0);
    if node.kind == NodeKind::Switch {
        let _ = write!(text, "({:x})", node.guid.0);
    }
    let _ =
        write!(text, "\n{word}\t{} \"{}\"\t\t# \"{}\"", node.ports, id(topology, index), node.name);
    if node.kind == NodeKind::Switch {
        let port0 = topology.port(topology.port0(index));
        let kind = if node.enhanced_port0 { "enhanced" } else { "base" };
        let _ = write!(text, " {kind} port 0 lid {} lmc {}", port0.lid, port0.lmc);
    }
    text.push('\n');
    for port in topology.external_ports(index) {
        let plugged = topology.port(port).loopback.then_some(port);
        if let Some(peer) = topology.peer(port).or(plugged) {
            port_line(text, topology, port, peer);
        }
    }
}

fn port_line(text: &mut String, topology: &Topology, index: PortIndex, peer_index: PortIndex) {
    let (port, peer) = (topology.port(index), topology.port(peer_index));
    let is_switch = topology.is_switch(port.node);
    let _ = write!(text, "[{}]", topology.num(index));
    if !is_switch {
        let _ = write!(text, "({:x}) ", port.guid.0);
    }
    let _ = write!(text, "\t\"{}\"[{}]", id(topology, peer.node), topology.num(peer_index));
    let peer_lid = if topology.is_switch(peer.node) {
        topology.port(topology.port0(peer.node)).lid
    } else {
        let _ = write!(text, "({:x}) ", peer.guid.0);
        peer.lid
    };
    text.push_str("\t\t#");
    if !is_switch {
        let _ = write!(text, " lid {} lmc {}", port.lid, port.lmc);
    }
    let _ = write!(text, " \"{}\" lid {peer_lid}", topology.node(peer.node).name);
    if let Some(rate) = port.rate {
        let _ = write!(text, " {rate}");
    }
    text.push('\n');
}

fn id(topology: &Topology, index: NodeIndex) -> String {
    let node = topology.node(index);
    let letter = match node.kind {
        NodeKind::Switch => 'S',
        NodeKind::Adapter => 'H',
        NodeKind::Router => 'R',
    };
    format!("{letter}-{:016x}", node.guid.0)
}
