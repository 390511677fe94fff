//! Grants on tables that OpenSM wrote: `snin topo trees` on what ibnetdiscover and dump_fts read back from ibsim.
//! Every granted route is walked here, on dump_fts' own text, by code that shares nothing with what granted it.

mod walking;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;
use snin_judges::{JudgeError, OpenSm, Simulator, dump_fts, ibnetdiscover};

use crate::walking::{Walker, hex};

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
        assert_eq!(rows.len(), 6, "{engine}: beyond these tables what others could carry");
        let (rows, beyond) = rows.split_at(4);
        assert!(beyond.iter().all(|row| row["own_granted_share"] == 1.0), "{engine}: {beyond:?}");
        assert!(beyond.iter().all(|row| row.get("granted_share").is_none()), "{engine}");
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
    let advice = &report["advice"];
    assert_eq!((&advice["lmc"], &advice["routing_engine"]), (&3.into(), &"minhop".into()));
    assert_eq!(advice["lids"], 128 * 8);
    let window = &report["window"];
    assert!(window["granted"].as_u64() < window["requested"].as_u64(), "{window}");
    assert_no_link_twice(&report, &walker, "minhop at LMC 0");
    Ok(())
}
