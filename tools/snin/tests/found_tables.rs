//! Grants on tables that OpenSM wrote: `snin topo trees` on what ibnetdiscover and dump_fts read back from ibsim.
//! Every granted route is walked here, on dump_fts' own text, by code that shares nothing with what granted it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde_json::Value;
use snin_judges::{JudgeError, OpenSm, Simulator, dump_fts, ibnetdiscover};

/// A switch's GUID and a port of it.
type End = (u64, u8);

/// The cables and tables, read from the tools' texts line by line.
struct Walker {
    /// What a switch port is cabled to: another switch's port, or with a port GUID a host.
    cables: BTreeMap<End, Result<End, u64>>,
    /// By switch and LID.
    tables: BTreeMap<(u64, u16), u8>,
    /// The switch port at which a host hangs, by port GUID.
    hosts: BTreeMap<u64, End>,
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

impl Walker {
    fn read(topology: &str, tables: &str) -> Self {
        let mut walker =
            Self { cables: BTreeMap::new(), tables: BTreeMap::new(), hosts: BTreeMap::new() };
        let mut switch = None;
        for line in topology.lines() {
            if line.starts_with("Switch") {
                switch = Some(hex(line.split("\"S-").nth(1).unwrap().split('"').next().unwrap()));
            } else if line.starts_with("Ca") {
                switch = None;
            } else if let (Some(switch), true) = (switch, line.starts_with('[')) {
                // [1] "H-0002c90300000010"[1](2c90300000011)    or    [19] "S-0002..."[1]
                let mut parts =
                    line.split(['[', ']', '"', '(', ')']).filter(|part| !part.trim().is_empty());
                let port: u8 = parts.next().unwrap().parse().unwrap();
                let node = parts.next().unwrap();
                let far: u8 = parts.next().unwrap().parse().unwrap();
                let end = match node.split_once('-').unwrap() {
                    ("S", guid) => Ok((hex(guid), far)),
                    (_, _) => Err(hex(parts.next().unwrap())),
                };
                if let Err(host) = end {
                    walker.hosts.insert(host, (switch, port));
                }
                walker.cables.insert((switch, port), end);
            }
        }
        let mut switch = 0;
        for line in tables.lines() {
            if line.starts_with("Unicast lids") {
                let rest = line.split("guid 0x").nth(1).unwrap();
                switch = hex(rest.split([' ', ')']).next().unwrap());
            } else if line.starts_with("0x") {
                let mut words = line.split_whitespace();
                let (lid, port) = (words.next().unwrap(), words.next().unwrap());
                if let Ok(port) = port.parse() {
                    walker.tables.insert((switch, hex(lid) as u16), port);
                }
            }
        }
        walker
    }

    /// The directed links between switches that a packet takes, as the ports that send on them; none where it does
    /// not arrive at `to`.
    fn links(&self, from: u64, to: u64, lid: u16) -> Option<Vec<End>> {
        let mut links = Vec::new();
        let (mut at, _) = self.hosts[&from];
        for _ in 0..16 {
            let end = (at, *self.tables.get(&(at, lid))?);
            match self.cables.get(&end)? {
                Err(host) => return (*host == to).then_some(links),
                Ok((next, _)) => {
                    links.push(end);
                    at = *next;
                }
            }
        }
        None
    }
}

fn run(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_snin")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// OpenSM brings a fabric up; what it wrote is read back and packed on.
fn packed(engine: &str, lmc: u8) -> Result<(Value, Walker), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let netlist = Command::new(env!("CARGO_BIN_EXE_snin"))
        .args(["topo", "generate", "clos:16,8,8"])
        .output()
        .unwrap();
    let netlist = String::from_utf8(netlist.stdout).unwrap();
    let simulator = Simulator::start(&netlist)?;
    // OpenSM runs on a host: on a switch it waits for ever for an answer of its own.
    let host = netlist.lines().find(|line| line.starts_with("Ca")).unwrap();
    let host = host.split('"').nth(1);
    OpenSm { host, lmc, engine: Some(engine), ..OpenSm::default() }.bring_up(&simulator)?;
    let (topology, tables) = (ibnetdiscover(&simulator)?, dump_fts(&simulator)?);
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let (fabric, dump) = (file("fabric.ibnetdiscover", &topology), file("dump_fts.txt", &tables));
    let report = run(&[
        "topo",
        "trees",
        &fabric,
        "--tables",
        &dump,
        "--traffic",
        "permutation",
        "--permutations",
        "3",
        "--json",
    ]);
    let walker =
        Walker::read(&String::from_utf8_lossy(&topology), &String::from_utf8_lossy(&tables));
    Ok((report, walker))
}

/// Every connection arrives along its address, and no directed link is on two routes.
fn assert_no_link_twice(report: &Value, walker: &Walker, case: &str) {
    let mut owned = BTreeSet::new();
    let connections = report["window"]["connections"].as_array().unwrap();
    assert!(!connections.is_empty(), "{case}");
    for connection in connections {
        let [from, to] = ["from", "to"].map(|key| hex(connection[key].as_str().unwrap()));
        let lid = connection["dlid"].as_u64().unwrap() as u16;
        let links = walker.links(from, to, lid);
        let links = links.unwrap_or_else(|| panic!("{case}: {connection} does not arrive"));
        for link in links {
            assert!(owned.insert(link), "{case}: {connection}: link {link:x?} has two owners");
        }
    }
}

#[test]
fn a_permutation_is_granted_on_tables_that_opensm_wrote() -> Result<(), JudgeError> {
    // ftree routes at LMC 0 only: with more addresses OpenSM 3.3.23 falls back to minhop.
    for engine in ["minhop", "updn", "dfsssp"] {
        let (report, walker) = packed(engine, 3)?;
        assert_eq!((&report["trees"], &report["lmc"]), (&8.into(), &3.into()), "{engine}");
        let window = &report["window"];
        assert_eq!(window["granted"], window["requested"], "{engine}: {}", report["by_lmc"]);
        assert_no_link_twice(&report, &walker, engine);
        // The fewer addresses, the fewer choices; at LMC 0 there is one way a pair.
        let rows = report["by_lmc"].as_array().unwrap();
        let least: Vec<u64> = rows.iter().map(|row| row["least_trees"].as_u64().unwrap()).collect();
        assert_eq!(least, [1, 2, 4, 8], "{engine}");
        let share = |row: &Value| row["granted_share"].as_f64().unwrap();
        assert!(share(&rows[0]) < 0.8 && share(&rows[3]) == 1.0, "{engine}: {rows:?}");
    }
    Ok(())
}

#[test]
fn with_one_address_a_port_admission_still_keeps_connections_apart() -> Result<(), JudgeError> {
    let (report, walker) = packed("minhop", 0)?;
    let window = &report["window"];
    assert!(window["granted"].as_u64() < window["requested"].as_u64(), "{window}");
    assert_no_link_twice(&report, &walker, "minhop at LMC 0");
    Ok(())
}
