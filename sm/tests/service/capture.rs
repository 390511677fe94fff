//! `--capture`: what passed, as tshark reads it, is what the program says that it sent.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use snin_fabric::ibnet;
use snin_judges::{JudgeError, Program, Simulator};

use crate::daemon::{SNIN_SM, fabric};

/// Method and attribute of every MAD in the file, and how often each is there.
fn dissected(file: &Path) -> BTreeMap<(u64, u64), u64> {
    let fields =
        ["-T", "fields", "-e", "infiniband.mad.method", "-e", "infiniband.mad.attributeid"];
    let said = Command::new("tshark").arg("-r").arg(file).args(fields).output();
    let said = said.expect("install the Debian package tshark");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let mut found = BTreeMap::new();
    for line in String::from_utf8_lossy(&said.stdout).lines() {
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let (method, attribute) = line.split_once('\t').unwrap();
        *found.entry((number(method), number(attribute))).or_default() += 1;
    }
    found
}

#[test]
fn tshark_reads_what_passed() -> Result<(), JudgeError> {
    let simulator = Simulator::start(&ibnet::write(&fabric("clos:4,2,2")))?;
    let file = simulator.folder().join("mads.pcap");
    let through_the_library = simulator.command(Program { name: SNIN_SM, package: "" }, None)?;
    let mut natively = Command::new(SNIN_SM);
    natively.args(["--ibsim", simulator.name()]);
    for mut command in [natively, through_the_library] {
        let said = command.args(["--once", "--json", "--capture"]).arg(&file).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        let said: Value = serde_json::from_slice(&said.stdout).unwrap();
        let read = dissected(&file);
        for (name, attribute) in [
            ("NodeInfo", 0x11),
            ("SwitchInfo", 0x12),
            ("PortInfo", 0x15),
            ("LinearForwardingTable", 0x19),
        ] {
            for (method, number) in [("Get", 1), ("Set", 2)] {
                let told = said["smps"]["by_name"][format!("{method}({name})")].as_u64();
                let sent = read.get(&(number, attribute)).copied();
                assert_eq!(sent, told, "{method}({name})");
            }
            let asked: u64 =
                [1, 2].iter().filter_map(|method| read.get(&(*method, attribute))).sum();
            assert_eq!(read.get(&(0x81, attribute)), Some(&asked), "answers: {name}");
        }
    }
    Ok(())
}

/// ibsim guards nothing and keeps no key; what can be seen there is that each port is sent it.
#[test]
fn every_port_is_sent_the_key() -> Result<(), JudgeError> {
    let topology = fabric("clos:4,2,2");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let (file, config) = (simulator.folder().join("mads.pcap"), simulator.folder().join("sm.toml"));
    let keys =
        "m_key = \"0x0123456789abcdef\"\nm_key_protection_level = 2\nm_key_lease_period = 60\n";
    std::fs::write(&config, keys).unwrap();
    let mut command = Command::new(SNIN_SM);
    command.args(["--ibsim", simulator.name(), "--once", "--config"]).arg(&config);
    let said = command.arg("--capture").arg(&file).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let fields = ["m_key", "m_keyleaseperiod", "m_keyprotectbits", "lid"];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&file).args(["-T", "fields"]);
    // What is written to ports that get an address.
    tshark.args(["-Y", "infiniband.mad.method == 2 && infiniband.portinfo.lid > 0"]);
    for field in fields {
        tshark.arg("-e").arg(format!("infiniband.portinfo.{field}"));
    }
    let said = tshark.output().expect("install the Debian package tshark");
    let said = String::from_utf8(said.stdout).unwrap();
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split('\t').collect()).collect();
    assert!(rows.iter().all(|row| row[..3] == ["0x0123456789abcdef", "0x003c", "0x02"]), "{said}");
    let addressed: std::collections::BTreeSet<&str> = rows.iter().map(|row| row[3]).collect();
    assert_eq!(addressed.len(), topology.node_count(), "{said}");
    Ok(())
}
