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
