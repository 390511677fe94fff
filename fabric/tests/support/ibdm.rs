//! ibdmchk as a judge: writes a subnet in the formats it reads (those OpenSM dumps) and reads its verdict.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use snin_fabric::{Addresses, ForwardingTable, NodeKind, PortIndex, Topology};

/// What ibdmchk says of a subnet. It knows hosts only, and one address each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    /// Pairs of hosts.
    pub(crate) host_routes: u64,
    /// Those without a way from one to the other.
    pub(crate) lost: u64,
    /// Whether credit loops exist. Not looked for where routes are lost.
    pub(crate) credit_loop: Option<bool>,
}

/// Asks ibdmchk. Its exit status says nothing (Debian's crashes after its verdict); its words are read.
pub(crate) fn ask(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    folder: &Path,
) -> Verdict {
    std::fs::create_dir_all(folder).unwrap();
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let said = Command::new("ibdmchk")
        .arg("-s")
        .arg(file("opensm-subnet.lst", subnet(topology, addresses)))
        .arg("-f")
        .arg(file("opensm.fdbs", fdbs(topology, tables)))
        .arg("-m")
        .arg(file("opensm.mcfdbs", String::new()))
        .output()
        .unwrap_or_else(|error| {
            panic!("cannot run ibdmchk ({error}): install the Debian package ibutils")
        });
    let said = String::from_utf8_lossy(&said.stdout);
    verdict(&said).unwrap_or_else(|| panic!("no verdict by ibdmchk in {folder:?}:\n{said}"))
}

fn verdict(said: &str) -> Option<Verdict> {
    let numbers = |line: &str| -> Vec<u64> {
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
    };
    let line = |start: &str| said.lines().find(|line| line.starts_with(start)).map(numbers);
    if let Some(numbers) = line("-E- Found ") {
        let &[lost, host_routes] = numbers.as_slice() else { return None };
        return Some(Verdict { host_routes, lost, credit_loop: None });
    }
    let &[host_routes] = line("-I- Scanned:")?.as_slice() else { return None };
    let credit_loop =
        match (said.contains("no credit loops found"), said.contains("-E- credit loops")) {
            (true, false) => false,
            (false, true) => true,
            _ => return None,
        };
    Some(Verdict { host_routes, lost: 0, credit_loop: Some(credit_loop) })
}

/// Every cable, once from each end.
fn subnet(topology: &Topology, addresses: &Addresses) -> String {
    let mut text = String::new();
    for node in topology.nodes() {
        for (port, end) in topology.cables(node) {
            let (here, there) = (side(topology, addresses, port), side(topology, addresses, end));
            writeln!(text, "{here} {there} PHY=4x LOG=ACT SPD=2.5").unwrap();
        }
    }
    text
}

fn side(topology: &Topology, addresses: &Addresses, port: PortIndex) -> String {
    let index = topology.port(port).node;
    let node = topology.node(index);
    let switch = node.kind == NodeKind::Switch;
    let kind = if switch { "SW" } else { "CA" };
    let lid = addresses.base(if switch { topology.port0(index) } else { port });
    format!(
        "{{ {kind} Ports:{:02x} SystemGUID:{:016x} NodeGUID:{:016x} PortGUID:{:016x} VenID:000000 \
         DevID:0000 Rev:00000000 {{{}}} LID:{:04x} PN:{:02x} }}",
        node.ports,
        node.guid.0,
        node.guid.0,
        topology.port(port).guid.0,
        node.name,
        lid.unwrap_or_default().0,
        topology.num(port).0,
    )
}

fn fdbs(topology: &Topology, tables: &[ForwardingTable]) -> String {
    let mut text = String::new();
    for (switch, table) in topology.switches().zip(tables) {
        writeln!(text, "dump_ucast_routes: Switch {}", topology.node(switch).guid).unwrap();
        writeln!(text, "LID    : Port : Hops : Optimal").unwrap();
        for (lid, port) in table.iter() {
            writeln!(text, "0x{:04x} : {:03}  : 00   : yes", lid.0, port.0).unwrap();
        }
    }
    text
}
