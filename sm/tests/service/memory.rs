//! Addresses go from one manager to the other and back: by guid2lid.

use std::fs;
use std::process::Command;

use snin_fabric::dump::guid2lid;
use snin_fabric::ibnet;
use snin_judges::{JudgeError, OpenSm, Simulator};

use crate::daemon::{SNIN_SM, fabric};

#[test]
fn opensm_keeps_our_addresses_and_we_keep_opensms() -> Result<(), JudgeError> {
    let netlist = ibnet::write(&fabric("clos:4,2,3"));
    let bring_up = |simulator: &Simulator, state: &std::path::Path| {
        let mut command = Command::new(SNIN_SM);
        command.args(["--once", "--lmc", "1", "--ibsim", simulator.name(), "--state"]).arg(state);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(state.join("guid2lid")).unwrap()
    };
    // Ours first. An empty fabric, so that only the file can tell.
    let simulator = Simulator::start(&netlist)?;
    let ours = bring_up(&simulator, &simulator.folder().join("state"));
    let second = Simulator::start(&netlist)?;
    let text = String::from_utf8(ours.clone()).unwrap();
    let opensm = OpenSm { lmc: 1, guid2lid: Some(&text), ..OpenSm::default() };
    let kept = opensm.bring_up(&second)?.guid2lid;
    assert_eq!(guid2lid::entries(&kept), guid2lid::entries(&ours));

    // OpenSM's first, with addresses that we would not choose: all 256 further up.
    let moved: std::collections::BTreeMap<_, _> = guid2lid::entries(&ours)
        .unwrap()
        .into_iter()
        .map(|(guid, (lid, lmc))| (guid, (snin_fabric::Lid(lid.0 + 256), lmc)))
        .collect();
    let third = Simulator::start(&netlist)?;
    let text = guid2lid::write_entries(&moved);
    let theirs = OpenSm { guid2lid: Some(&text), ..opensm }.bring_up(&third)?.guid2lid;
    assert_eq!(guid2lid::entries(&theirs).unwrap(), moved);
    let fourth = Simulator::start(&netlist)?;
    let state = fourth.folder().join("state");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("guid2lid"), &theirs).unwrap();
    assert_eq!(guid2lid::entries(&bring_up(&fourth, &state)).unwrap(), moved);
    Ok(())
}

#[test]
fn a_bad_line_is_named_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("guid2lid"), "0x77 0x8 0xb\n\n0x78 0x9 zz\n").unwrap();
    let mut command = Command::new(SNIN_SM);
    let output = command.args(["--once", "--ibsim", "x", "--state"]).arg(folder.path()).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(3));
    let expected = format!(
        "{}:3: `zz` is no LID (expected 0x and up to 4 hex digits): the line is left out",
        folder.path().join("guid2lid").display()
    );
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    // What keeps it from starting is another thing.
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains("WARN") && lines[0].ends_with(&expected), "{said}");
    assert!(lines[1].starts_with("snin-sm: no ibsim listens at x"), "{said}");
}
