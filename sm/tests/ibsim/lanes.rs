//! Tables of lanes as infiniband-diags read them back from every port of every cable: those of granted traffic,
//! and the administrator's beside OpenSM's.

use std::collections::BTreeMap;

use rustix::process::Signal;
use snin_fabric::{PortIndex, PortNum, Topology, ibnet};
use snin_judges::{JudgeError, OpenSm, Simulator, ibnetdiscover, smpquery};

use crate::administration::is_up;
use crate::support::{Lab, fabric};

/// Entries of a table of arbitration, lane and weight.
type Turns = Vec<(u8, u8)>;

/// The tables of a port. ibsim keeps no VLHighLimit.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Lanes {
    /// By the port that a packet comes in by.
    pub(crate) mapping: BTreeMap<u8, Vec<u8>>,
    low: Turns,
    high: Turns,
    vls: String,
    sm_sl: u16,
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

fn read(simulator: &Simulator, lid: u16, port: PortNum) -> Result<Lanes, JudgeError> {
    let ask = |what: &str| smpquery(simulator, &[what, &lid.to_string(), &port.to_string()]);
    let rows = ask("sl2vl")?;
    let rows = rows.lines().filter_map(|line| line.strip_prefix("ports: in"));
    let input = |row: &str| number(row.split(',').next().unwrap());
    let mapping = rows.map(|line| (input(line), row(line))).collect();
    let tables = ask("vlarb")?;
    let table = |head: &str| -> Turns {
        let mut lines = tables.lines().skip_while(|line| !line.contains(head)).skip(1);
        let mut next = || row(lines.next().unwrap_or_else(|| panic!("{tables}")));
        let (vls, weights) = (next(), next());
        vls.into_iter().zip(weights).collect()
    };
    let info = ask("portinfo")?;
    let field = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap_or_else(|| panic!("{info}")).trim_start_matches([':', '.'])
    };
    let (low, high) = (table("Low priority"), table("High priority"));
    let sm_sl = field("SMSL").parse().unwrap();
    Ok(Lanes { mapping, low, high, vls: field("OperVLs").to_owned(), sm_sl })
}

/// Ports from which a packet may leave by this one, as SLtoVLMappingTable names them.
fn inputs(topology: &Topology, port: PortIndex) -> Vec<u8> {
    let node = topology.port(port).node;
    if !topology.is_switch(node) {
        return vec![0];
    }
    let others = topology.cables(node).map(|(end, _)| end).filter(|&end| end != port);
    let others = others.map(|end| topology.num(end).0);
    std::iter::once(0).chain(others).collect()
}

/// What all ports hold, each by its name; of mappings only those that a packet may take.
pub(crate) fn all(simulator: &Simulator) -> Result<BTreeMap<String, Lanes>, JudgeError> {
    let topology = &ibnet::parse(&ibnetdiscover(simulator)?).unwrap();
    let addresses = topology.reported_addresses().unwrap();
    let mut all = BTreeMap::new();
    for port in topology.ports().filter(|&port| topology.peer(port).is_some()) {
        let node = topology.port(port).node;
        let speaks = if topology.is_switch(node) { topology.port0(node) } else { port };
        let lid = addresses.base(speaks).unwrap();
        let mut lanes = read(simulator, lid.0, topology.num(port))?;
        let inputs = inputs(topology, port);
        lanes.mapping.retain(|input, _| inputs.contains(input));
        assert_eq!(lanes.mapping.len(), inputs.len());
        all.insert(topology.port_name(port), lanes);
    }
    Ok(all)
}

/// By default, with nothing set: level 1 alone on lane 1, which goes first. With `granted_sl = 0`, or nothing
/// granted, ports are as the simulator made them.
#[test]
fn what_is_granted_has_a_lane_of_its_own_at_every_port() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:2,2,2"))?;
    for settings in ["granted_sl = 0\n", "policy = \"off\"\n", "qos = false\n"] {
        let keeper = lab.keep(settings)?;
        is_up(&keeper);
        let is_default = settings.starts_with("qos");
        for (name, held) in all(&lab.simulator)? {
            for (input, mapping) in &held.mapping {
                let levels: Vec<usize> = (0..16).filter(|&level| mapping[level] == 1).collect();
                assert_eq!(levels, [1], "{name} from {input}: {mapping:?}");
                assert_eq!(mapping[0], 0, "{name} from {input}: {mapping:?}");
            }
            // So it is after a reset, too, with eight lanes; but there granted traffic does not go first.
            let has_turn = |turns: &Turns, vl| turns.iter().any(|&(lane, n)| lane == vl && n > 0);
            let [high, low] =
                [&held.high, &held.low].map(|turns| [0, 1].map(|vl| has_turn(turns, vl)));
            let comes_first = (high, low) == ([false, true], [true, false]);
            assert_eq!(comes_first, is_default, "{name}: {held:?}");
        }
        keeper.end(Signal::TERM);
    }
    Ok(())
}

/// Sets of keys, as OpenSM spells them.
const SETS: [&[(&str, &str)]; 12] = [
    &[],
    &[("qos_sl2vl", "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0")],
    &[("qos_sl2vl", "0,1,2,3,4,5,6,7,15,15,2,3,4,5,6,15")],
    &[("qos_vlarb_high", "1:255,0:10"), ("qos_high_limit", "7")],
    &[
        ("qos_vlarb_low", "14:1,9:2,3:200"),
        ("qos_vlarb_high", "0:1,1:2,2:3,3:4,4:5,5:6,6:7,7:8,8:9,9:10"),
    ],
    &[("qos_ca_sl2vl", "7,6,5,4,3,2,1,0,7,6,5,4,3,2,1,0")],
    &[("qos_swe_sl2vl", "1,1,1,1,2,2,2,2,3,3,3,3,4,4,4,4"), ("qos_ca_high_limit", "3")],
    &[("qos_swe_vlarb_high", "2:64,3:32"), ("qos_ca_vlarb_low", "5:9"), ("qos_high_limit", "12")],
    &[("qos_ca_high_limit", "255"), ("qos_swe_high_limit", "1"), ("qos_high_limit", "9")],
    &[
        ("qos_rtr_sl2vl", "3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3"),
        ("qos_sw0_high_limit", "8"),
        ("qos_sw0_vlarb_low", "1:1"),
    ],
    &[("max_op_vls", "2")],
    &[("max_op_vls", "3"), ("sm_sl", "5"), ("qos_sl2vl", "14,13,12,11,10,9,8,7,6,5,4,3,2,1,0,15")],
];

/// Every table, limit and number of lanes as OpenSM has it by the same opensm.conf. Not compared: mappings
/// between a port and itself or ports without a cable, which OpenSM writes and no packet takes. OpenSM masks
/// lanes by what ports had before it told them otherwise, so it has a second run.
#[test]
fn the_administrators_tables_are_as_opensm_has_them() -> Result<(), JudgeError> {
    let topology = fabric("clos:2,2,1");
    for set in SETS {
        let theirs = Simulator::start(&ibnet::write(&topology))?;
        let lines: Vec<String> =
            set.iter().map(|(key, value)| format!("{key} {value}\n")).collect();
        let options = format!("qos TRUE\n{}", lines.concat());
        let opensm = OpenSm { options: Some(&options), ..OpenSm::default() };
        opensm.bring_up(&theirs)?;
        opensm.bring_up(&theirs)?;
        let theirs = all(&theirs)?;

        let lab = Lab::new(&topology)?;
        let keeper = lab.keep_as_opensm(&options, "lmc = 0\n")?;
        is_up(&keeper);
        let ours = all(&lab.simulator)?;
        keeper.end(Signal::TERM);
        assert_eq!(ours.len(), theirs.len());
        for (name, ours) in &ours {
            assert_eq!(Some(ours), theirs.get(name), "{name} with {set:?}");
        }
    }
    Ok(())
}
