//! From OpenSM to ours and back, by OpenSM's own files.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use rustix::process::Signal;
use snin_fabric::ibnet;
use snin_judges::{JudgeError, OpenSm, Program, ibnetdiscover, smpquery};

use crate::support::{Lab, fabric, id};

/// What an administrator may have set; of times and limits nothing as it is by default.
const CONF: &str = "lmc 2\nsubnet_prefix 0xfec0000000000007\npacket_life_time 0x10\nvl_stall_count 5\n\
                    leaf_vl_stall_count 3\nhead_of_queue_lifetime 0x11\nleaf_head_of_queue_lifetime 0x0f\n\
                    subnet_timeout 14\nlocal_phy_errors_threshold 6\noverrun_errors_threshold 4\nmax_op_vls 3\n\
                    m_key_lease_period 60\nsm_priority 3\n";

/// All that every port and switch holds as infiniband-diags read it back, but what it counts, what has happened
/// to it and who is its manager.
fn held(lab: &Lab) -> Result<BTreeMap<String, String>, JudgeError> {
    const LEFT: [&str; 8] = [
        "SMLid",
        "CapMask",
        "DiagCode",
        "LinkSpeed",
        "MkeyViolations",
        "PkeyViolations",
        "QkeyViolations",
        "StateChange",
    ];
    let topology = &ibnet::parse(&ibnetdiscover(&lab.simulator)?).unwrap();
    let addresses = topology.reported_addresses().unwrap();
    let mut all = BTreeMap::new();
    let mut ask = |what: &[&str], name: String| -> Result<(), JudgeError> {
        let text = smpquery(&lab.simulator, what)?;
        let fields = text.lines().filter(|line| !line.starts_with('#'));
        let fields = fields.filter(|line| !LEFT.iter().any(|left| line.starts_with(left)));
        all.insert(format!("{} of {name}", what[0]), fields.collect::<Vec<_>>().join("\n"));
        Ok(())
    };
    for node in topology.nodes() {
        let of = |port| if topology.is_switch(node) { topology.port0(node) } else { port };
        for (port, _) in topology.cables(node) {
            let lid = addresses.base(of(port)).unwrap().to_string();
            let number = topology.num(port).to_string();
            ask(&["portinfo", &lid, &number], topology.port_name(port).to_string())?;
            if topology.is_switch(node) {
                ask(&["switchinfo", &lid], topology.node(node).name.to_string())?;
            }
        }
    }
    Ok(all)
}

/// Programs that have ended leave the node.
fn free(lab: &Lab, host: &str) -> Result<(), JudgeError> {
    for client in lab.simulator.clients()?.iter().filter(|client| client.node == host) {
        lab.simulator.free(client)?;
    }
    Ok(())
}

/// Every option of OpenSM's is known, with its default.
#[test]
fn every_option_that_opensm_writes_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("opensm.conf");
    let said =
        Command::new(Program::OPENSM.name).arg("--create-config").arg(&file).output().unwrap();
    assert!(file.is_file(), "{said:?}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_snin-sm"));
    let said = command.arg("--opensm-conf").arg(&file).arg("--dump-config").output().unwrap();
    let notes = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!((said.status.code(), &*notes), (Some(0), ""), "its defaults decide nothing");
    let written = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(written.lines().all(|line| line.is_empty() || line.starts_with('#')), "{written}");

    let text = fs::read_to_string(&file).unwrap();
    let options = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let table =
        Command::new(env!("CARGO_BIN_EXE_snin-sm")).arg("--dump-opensm-options").output().unwrap();
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let mut count = 0;
    for option in options.filter_map(|line| line.split_whitespace().next()) {
        assert!(table.contains(&format!("\n| `{option}` | ")), "{option}");
        count += 1;
    }
    assert!(count > 150, "{count}");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/from-opensm.md");
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.ends_with(&table),
        "snin-sm --dump-opensm-options: docs/from-opensm.md ends with it"
    );
}

/// Addresses, limits and times are the same under each; what opensm.conf cannot say is told.
#[test]
fn from_opensm_to_ours_and_back_ports_keep_what_they_have() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:3,2,2"))?;
    let home = id(&lab.topology, lab.home);
    let opensm = OpenSm { host: Some(&home), lmc: 2, options: Some(CONF), ..OpenSm::default() };
    let keeper = opensm.keep(&lab.simulator)?;
    let before = held(&lab)?;
    drop(keeper);
    free(&lab, &home)?;

    let conf = format!("{CONF}routing_engine minhop\nconsole off\n");
    let log = lab.file("snin-sm.log");
    let keeper = lab.keep_as_opensm(&conf, &format!("granted_sl = 0\nlog_file = {log:?}\n"))?;
    keeper.wait(|events| events.iter().any(|event| event["event"] == "SWEEP_DONE"));
    let with_ours = held(&lab)?;
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("of-opensm.conf:14: routing_engine minhop: "), "{told}");
    for (name, ours) in &with_ours {
        assert_eq!(Some(ours), before.get(name), "{name}");
    }
    keeper.end(Signal::TERM);

    free(&lab, &home)?;
    let keeper = opensm.keep(&lab.simulator)?;
    assert_eq!(held(&lab)?, before);
    drop(keeper);
    Ok(())
}
