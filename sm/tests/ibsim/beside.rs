//! Beside OpenSM: the same fabric, the same addresses, the same keyed questions; equal answers, or a named
//! reason why not. And osmtest, OpenSM's own test of an administration.

use std::collections::BTreeMap;
use std::fs;

use snin_fabric::{PortNum, dump};
use snin_judges::{JudgeError, OpenSm, Program, finish, smpquery};
use snin_mad::sa::*;
use snin_mad::{Method, NodeInfo, NodeType, PKey, Status};

use crate::administration::{host, is_up, manager};
use crate::client::Host;
use crate::support::{Lab, PATIENCE, fabric, id};

/// What differs, and why.
const DIFFERENT: &[(&str, &str, &str)] = &[
    (
        "ClassPortInfo",
        "?",
        "optional records and CapabilityMask2 are said to be there, as they are",
    ),
    (
        "LinkRecord",
        "status",
        "OpenSM masks the address asked for by the LMC, which no switch's may be aligned to",
    ),
    ("NodeRecord", "LocalPortNum", "of a switch: by which port the manager's question came"),
    ("PortInfoRecord", "LocalPortNum", "of a switch: by which port the manager's question came"),
    (
        "P_KeyTableRecord",
        "status",
        "of a switch's external ports, whose tables are neither read nor written",
    ),
    (
        "SLtoVLMappingTableRecord",
        "?",
        "OpenSM does not read them without QoS and shows zeros; here they are read when asked for",
    ),
    (
        "SLtoVLMappingTableRecord",
        "OutputPortNum",
        "of an adapter: OpenSM shows 0, here it is the port's number, as in the arbitration's record",
    ),
    ("SMInfoRecord", "ActCount", "it rises all the time"),
    (
        "SwitchInfoRecord",
        "?",
        "PortStateChange: as it was when tables were written; it is cleared since",
    ),
    (
        "VLArbitrationTableRecord",
        "?",
        "OpenSM does not read them without QoS and shows zeros; here they are read when asked for",
    ),
];

/// Fields in which two answers differ, with an example.
type Differences = BTreeMap<(&'static str, String), String>;

struct Both {
    ours: Host,
    theirs: Host,
    different: Differences,
    compared: usize,
}

impl Both {
    /// Puts a question to both managers.
    fn ask<R: Record + PartialEq + std::fmt::Display>(
        &mut self,
        record: &R,
        bits: &[u8],
    ) -> Option<R> {
        let mut ours = self.ours.one(Method::Get, record, bits);
        let theirs = self.theirs.one(Method::Get, record, bits);
        // Ours reads these tables when asked for; once, on a machine with much to do, it answered that there was
        // none. The port's late answer is the likely cause, and was not shown to be it.
        let is_read_now = ["SLtoVLMappingTableRecord", "VLArbitrationTableRecord"];
        if ours.is_err() && theirs.is_ok() && is_read_now.contains(&R::LAYOUT.name) {
            ours = self.ours.one(Method::Get, record, bits);
        }
        self.compared += 1;
        let mut differs = |field: &str, what: String| {
            self.different.entry((R::LAYOUT.name, field.to_owned())).or_insert(what);
        };
        match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) if ours != theirs => {
                let (a, b) = (ours.bytes(), theirs.bytes());
                let fields = R::COMPONENTS.iter().filter(|c| !c.agrees(a.as_ref(), b.as_ref()));
                let before = differs_in(fields.map(|component| component.name).collect());
                for field in before {
                    differs(field, format!("{ours}\n{theirs}"));
                }
            }
            (Err(ours), Err(theirs)) if ours == theirs => {}
            (Ok(_), Ok(_)) => {}
            (ours, theirs) => {
                let status = |answer: &Result<R, Status>| answer.as_ref().err().copied();
                differs("status", format!("{:?} {:?}", status(ours), status(theirs)));
            }
        }
        ours.ok()
    }
}

/// Fields by name; "?" stands for bits that no component names.
fn differs_in(fields: Vec<&'static str>) -> Vec<&'static str> {
    if fields.is_empty() { vec!["?"] } else { fields }
}

fn compare(recipe: &str, lmc: u8) -> Result<Differences, JudgeError> {
    let (mine, other) = (Lab::new(&fabric(recipe))?, Lab::new(&fabric(recipe))?);
    let keeper = mine.keep(&format!("lmc = {lmc}\n"))?;
    is_up(&keeper);
    let manager = manager(&mine);
    let (_, addresses) = mine.told();
    let text = dump::guid2lid::write(&mine.topology, &addresses);
    fs::write(other.simulator.folder().join("guid2lid"), text).unwrap();
    let home = id(&mine.topology, mine.home);
    let opensm = OpenSm { host: Some(&home), lmc, ..OpenSm::default() };
    let _opensm = opensm.keep(&other.simulator)?;
    let name = host(&mine, 1);
    let ours = Host::new(&mine.simulator, &name, manager);
    let theirs = Host::new(&other.simulator, &name, manager);
    let mut both = Both { ours, theirs, different: BTreeMap::new(), compared: 0 };

    let nodes = both.ours.table(&NodeRecord::default(), &[]);
    assert_eq!(nodes.len(), mine.topology.node_count());
    both.ask(&snin_mad::ClassPortInfo::default(), &[]);
    for node in &nodes {
        both.ask(node, &[0]);
        let info: NodeInfo = node.info.parse().unwrap();
        both.ask(
            &NodeRecord { lid: node.lid, info: node.info, ..NodeRecord::default() },
            &[0, 4, 7],
        );
        let lid = node.lid;
        let switch = info.node_type == NodeType::Switch;
        let ports = if switch { 0..=info.num_ports } else { 1..=info.num_ports };
        for port in ports.map(PortNum) {
            both.ask(&PortInfoRecord { lid, port, ..Default::default() }, &[0, 1]);
            both.ask(&PKeyTableRecord { lid, port, ..Default::default() }, &[0, 1, 2]);
            for block in 1..=4 {
                both.ask(
                    &VlArbitrationRecord { lid, port, block, ..Default::default() },
                    &[0, 1, 2],
                );
            }
            let first = if switch && port.0 > 0 { 1 } else { 0 };
            let mapping =
                SlToVlRecord { lid, input: PortNum(first), output: port, ..Default::default() };
            both.ask(&mapping, &[0, 1, 2]);
            both.ask(&LinkRecord { from_lid: lid, from_port: port, ..Default::default() }, &[0, 1]);
        }
        both.ask(&GuidInfoRecord { lid, ..Default::default() }, &[0, 1]);
        both.ask(&SwitchInfoRecord { lid, ..Default::default() }, &[0]);
        both.ask(&SmInfoRecord { lid, ..Default::default() }, &[0]);
        for to in &nodes {
            let path = PathRecord { slid: lid, dlid: to.lid, ..Default::default() };
            both.ask(&path, &[4, 5]);
        }
    }
    // By GID, as hosts ask.
    let gid = |node: &NodeRecord| {
        let info: NodeInfo = node.info.parse().unwrap();
        snin_mad::Gid::new(snin_mad::GidPrefix(0xFE80_0000_0000_0000), info.port_guid)
    };
    for from in &nodes {
        for to in &nodes {
            let path = PathRecord {
                sgid: gid(from),
                dgid: gid(to),
                p_key: PKey(0xFFFF),
                numb_path: 1,
                reversible: true,
                ..Default::default()
            };
            both.ask(&path, &[2, 3, 11, 12, 13]);
        }
    }
    let mgid = [0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
    both.ask(&McMemberRecord { mgid: snin_mad::Gid(mgid), ..Default::default() }, &[0]);
    // What is not there.
    both.ask(&NodeRecord { lid: snin_fabric::Lid(0x7000), ..Default::default() }, &[0]);
    both.ask(&ServiceRecord { id: 1, ..Default::default() }, &[0]);
    println!("{recipe}, LMC {lmc}: {} questions, {:?}", both.compared, both.different.keys());
    Ok(both.different)
}

#[test]
fn keyed_questions_are_answered_as_opensm_answers_them() -> Result<(), JudgeError> {
    let mut all = Differences::new();
    // One of them with two cables between a leaf and a spine.
    for recipe in ["clos:4,2,3", "clos:3,3,2", "clos:3,2,2,2"] {
        for lmc in [0, 4] {
            all.extend(compare(recipe, lmc)?);
        }
    }
    let named = |(table, field): &(&str, String)| {
        DIFFERENT.iter().any(|(t, f, _)| t == table && f == field)
    };
    let unnamed: Vec<_> = all.iter().filter(|(key, _)| !named(key)).collect();
    assert!(unnamed.is_empty(), "{unnamed:#?}");
    for (table, field, _) in DIFFERENT {
        let seen = all.contains_key(&(*table, (*field).to_owned()));
        // By which of several ports a question comes is not the same each time.
        let always = (*table, *field) != ("PortInfoRecord", "LocalPortNum");
        assert!(seen || !always, "{table}.{field} does not differ any more");
    }
    Ok(())
}

/// What ibsim holds of every cabled port and every switch when either manager has brought the same fabric up, with
/// the same addresses.
#[test]
fn ports_and_switches_hold_what_opensm_writes() -> Result<(), JudgeError> {
    let recipe = "clos:3,2,2";
    let (mine, other) = (Lab::new(&fabric(recipe))?, Lab::new(&fabric(recipe))?);
    let keeper = mine.keep("lmc = 0\n")?;
    is_up(&keeper);
    let dumped = mine.file("dump").join("guid2lid");
    let begin = std::time::Instant::now();
    while !dumped.is_file() {
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "no dump");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let (_, addresses) = mine.told();
    let topology = &mine.topology;
    let text = dump::guid2lid::write(topology, &addresses);
    fs::write(other.simulator.folder().join("guid2lid"), text).unwrap();
    let home = id(topology, mine.home);
    let _opensm = OpenSm { host: Some(&home), ..OpenSm::default() }.keep(&other.simulator)?;
    let both = |what: &[&str]| -> Result<[String; 2], JudgeError> {
        Ok([smpquery(&mine.simulator, what)?, smpquery(&other.simulator, what)?])
    };
    for port in topology.ports() {
        let node = topology.port(port).node;
        let is_port0 = topology.is_switch(node) && port == topology.port0(node);
        if topology.peer(port).is_none() && !is_port0 {
            continue;
        }
        let at = if topology.is_switch(node) { topology.port0(node) } else { port };
        let (lid, num) = (addresses.base(at).unwrap().to_string(), topology.num(port).to_string());
        let [ours, theirs] = both(&["portinfo", &lid, &num])?;
        // Another default, said in docs/operating.md.
        let same = |(ours, _): &(&str, &str)| !ours.starts_with("SubnetTimeout");
        for (ours, theirs) in ours.lines().zip(theirs.lines()).filter(same) {
            assert_eq!(ours, theirs, "{}", topology.port_name(port));
        }
        if is_port0 {
            let [ours, theirs] = both(&["switchinfo", &lid])?;
            assert_eq!(ours, theirs, "{}", topology.port_name(port));
        }
    }
    Ok(())
}

/// Three groups behind the broadcast group, of another host than osmtest's: its flow m sees 200 bytes of the table
/// of groups, takes zeros for groups and fails where the broadcast group is not among them, and where one that it
/// made itself is there when it has ended. So does OpenSM's.
fn fill_groups(maker: &mut Host) {
    for number in 1..=3 {
        let group = McMemberRecord {
            mgid: snin_mad::Gid([0xFF, 0x12, 0x50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, number]),
            port_gid: maker.gid(),
            p_key: PKey(0xFFFF),
            q_key: snin_mad::QKey(1),
            join_state: JoinState::FULL,
            ..McMemberRecord::default()
        };
        maker.one(Method::Set, &group, &[0, 1, 2, 6, 7, 12, 13, 16]).unwrap();
    }
}

/// osmtest's inventory with every node: the one that it writes itself through ibsim's preload has the first only,
/// and where that is a switch stress 3, which asks for paths between adapters, runs for ever and asks nothing.
fn inventory(nodes: &[NodeRecord]) -> String {
    let node = |record: &NodeRecord| {
        let info: NodeInfo = record.info.parse().unwrap();
        format!(
            "DEFINE_NODE\nlid {:#x}\nnode_type {:#x}\nnum_ports {:#x}\nnode_guid {}\n\
             port_guid {}\nEND\n",
            record.lid.0,
            info.node_type.code(),
            info.num_ports,
            info.node_guid,
            info.port_guid
        )
    };
    nodes.iter().map(node).collect()
}

#[test]
fn osmtest_passes() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:2,2,2"))?;
    let keeper = lab.keep("lmc = 0\n")?;
    is_up(&keeper);
    let mut maker = Host::new(&lab.simulator, &host(&lab, 2), manager(&lab));
    fill_groups(&mut maker);
    let nodes = maker.table(&NodeRecord::default(), &[]);
    fs::write(lab.simulator.folder().join("every-node"), inventory(&nodes)).unwrap();
    for (arguments, inventory) in [
        (&["-f", "c"][..], "inventory"),
        (&["-f", "e"], "inventory"),
        (&["-f", "q"], "inventory"),
        (&["-f", "m"], "inventory"),
        (&["-f", "m"], "inventory"),
        (&["-f", "f", "-s", "2"], "inventory"),
        (&["-f", "f", "-s", "3"], "every-node"),
        (&["-f", "f", "-s", "4"], "inventory"),
    ] {
        let mut command = lab.simulator.command(Program::OSMTEST, Some(&host(&lab, 1)))?;
        command.args(arguments).args(["-i", inventory, "-l", "osmtest.log"]);
        let begin = std::time::Instant::now();
        let said = finish(&mut command, lab.simulator.folder(), PATIENCE)?;
        let said = String::from_utf8_lossy(&said.out).into_owned();
        assert!(said.contains("PASS"), "osmtest {arguments:?}: {said}");
        println!("osmtest {arguments:?}: {:?}", begin.elapsed());
    }
    Ok(())
}
