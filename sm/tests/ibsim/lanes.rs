//! A lane of its own for what is granted, as infiniband-diags read it back from every port of every cable.

use std::collections::BTreeMap;

use rustix::process::Signal;
use snin_fabric::{PortIndex, PortNum, Topology};
use snin_judges::{JudgeError, smpquery};

use crate::administration::is_up;
use crate::support::{Lab, fabric};

/// Entries of a table of arbitration that have a turn.
type Turns = Vec<(u8, u8)>;

/// The tables of a port.
#[derive(PartialEq, Eq, Debug)]
struct Lanes {
    /// By the port that a packet comes in by.
    mapping: BTreeMap<u8, Vec<u8>>,
    low: Turns,
    high: Turns,
    limit: u16,
    mtu: u16,
}

fn number(text: &str) -> u8 {
    let text = text.trim();
    let read =
        text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u8::from_str_radix(hex, 16));
    read.unwrap_or_else(|_| panic!("`{text}`"))
}

fn row(line: &str) -> Vec<u8> {
    let cells = line.split('|').skip(1).filter(|cell| !cell.trim().is_empty());
    cells.map(number).collect()
}

fn read(lab: &Lab, lid: u16, port: PortNum) -> Result<Lanes, JudgeError> {
    let ask = |what: &str| smpquery(&lab.simulator, &[what, &lid.to_string(), &port.to_string()]);
    let rows = ask("sl2vl")?;
    let rows = rows.lines().filter_map(|line| line.strip_prefix("ports: in"));
    let input = |row: &str| number(row.split(',').next().unwrap());
    let mapping = rows.map(|line| (input(line), row(line))).collect();
    let tables = ask("vlarb")?;
    let table = |head: &str| -> Turns {
        let mut lines = tables.lines().skip_while(|line| !line.contains(head)).skip(1);
        let mut next = || row(lines.next().unwrap_or_else(|| panic!("{tables}")));
        let (vls, weights) = (next(), next());
        vls.into_iter().zip(weights).filter(|&(_, weight)| weight > 0).collect()
    };
    let info = ask("portinfo")?;
    let field = |name: &str| -> u16 {
        let value = info.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap_or_else(|| panic!("{info}")).trim_matches([':', '.']).parse().unwrap()
    };
    let (low, high) = (table("Low priority"), table("High priority"));
    Ok(Lanes { mapping, low, high, limit: field("VLHighLimit"), mtu: field("NeighborMTU") })
}

/// Ports from which a packet may leave by this one, as SLtoVLMappingTable names them.
fn inputs(topology: &Topology, port: PortIndex) -> Vec<u8> {
    let node = topology.port(port).node;
    if !topology.is_switch(node) {
        return vec![0];
    }
    let others = topology.cables(node).map(|(end, _)| end).filter(|&end| end != port);
    others.map(|end| topology.num(end).0).collect()
}

/// What all ports hold, each by its name.
fn all(lab: &Lab) -> Result<BTreeMap<String, (Vec<u8>, Lanes)>, JudgeError> {
    let (topology, (_, addresses)) = (&lab.topology, lab.told());
    let mut all = BTreeMap::new();
    for port in topology.ports().filter(|&port| topology.peer(port).is_some()) {
        let node = topology.port(port).node;
        let speaks = if topology.is_switch(node) { topology.port0(node) } else { port };
        let lid = addresses.base(speaks).unwrap();
        let lanes = read(lab, lid.0, topology.num(port))?;
        all.insert(topology.port_name(port), (inputs(topology, port), lanes));
    }
    Ok(all)
}

/// By default, with nothing set: level 1 alone on lane 1, which goes first until ordinary traffic would get less than
/// 5 %. With `granted_sl = 0`, or nothing granted, ports are as the simulator made them.
#[test]
fn what_is_granted_has_a_lane_of_its_own_at_every_port() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:2,2,2"))?;
    for settings in ["granted_sl = 0\n", "policy = \"off\"\n", "qos = false\n"] {
        let keeper = lab.keep(settings)?;
        is_up(&keeper);
        let is_default = settings.starts_with("qos");
        for (name, (inputs, held)) in all(&lab)? {
            for input in inputs {
                let mapping = &held.mapping[&input];
                let levels: Vec<usize> = (0..16).filter(|&level| mapping[level] == 1).collect();
                assert_eq!(levels, [1], "{name} from {input}: {mapping:?}");
                assert_eq!(mapping[0], 0, "{name} from {input}: {mapping:?}");
            }
            // So it is after a reset, too, with eight lanes; but there granted traffic does not go first.
            let first = [(1, 255)] == *held.high && !held.low.iter().any(|&(vl, _)| vl == 1);
            assert_eq!(first && held.low.contains(&(0, 255)), is_default, "{name}: {held:?}");
            // 19 of 20 packets, in units of 4 KiB.
            let limit = if is_default { 19 * held.mtu / 4_096 } else { 0 };
            assert_eq!(held.limit, limit, "{name}: {held:?}");
        }
        keeper.end(Signal::TERM);
    }
    Ok(())
}
