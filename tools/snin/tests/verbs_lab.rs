//! `snin lab --verbs` in the virtual machine: the whole story on a small fabric, the same with a wrong table
//! entry, and on a machine that lacks what it takes.
#![cfg(feature = "verbs")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const SNIN: &str = env!("CARGO_BIN_EXE_snin");
/// Four hosts, three trees. Links are slow, so that a machine which runs other tests too is idle enough.
const LAB: &str = "snin lab --verbs clos:2,3,2 --bandwidth 1.5M --windows 24";

/// Runs a shell command in the virtual machine; gives what it said and where what it left is.
fn in_machine(command: &str, with: &[&Path]) -> (Output, TempDir) {
    let out = TempDir::new().unwrap();
    let run = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../vm/run");
    let mut machine = Command::new(run);
    machine.args(["--limit", "400", "--out"]).arg(out.path()).args(["--with", SNIN]);
    for file in with {
        machine.arg("--with").arg(file);
    }
    let output = machine.args(["--", "bash", "-c", command]).output().expect("tools/vm/run");
    (output, out)
}

fn document(out: &TempDir, name: &str) -> Value {
    let text = fs::read(out.path().join(name)).expect("the document came back");
    serde_json::from_slice(&text).expect("it is JSON")
}

fn list<'a>(document: &'a Value, pointer: &str) -> &'a Vec<Value> {
    document.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{pointer}"))
}

fn number(document: &Value, pointer: &str) -> f64 {
    document.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}"))
}

/// Tables as the manager writes them, but that one leaf sends one address along another tree: the changed
/// dump, and the address.
fn one_wrong_entry(folder: &Path) -> (PathBuf, u16) {
    let simulate = ["sm", "simulate", "clos:2,3,2", "--lfts"];
    let written = Command::new(SNIN).args(simulate).arg(folder).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let file = folder.join("dump_fts.txt");
    let text = fs::read_to_string(&file).unwrap();
    // host2, on the other leaf, along its second tree.
    let wrong = "0x0012 004 : ";
    assert!(text.contains(wrong), "{text}");
    fs::write(&file, text.replacen(wrong, "0x0012 005 : ", 1)).unwrap();
    (file, 0x12)
}

#[test]
fn the_story_is_true_in_the_virtual_machine() {
    let folder = TempDir::new().unwrap();
    let (tables, wrong) = one_wrong_entry(folder.path());
    let mut script = String::new();
    // Where the lab says that it measured a busy machine, it measures again.
    writeln!(
        script,
        "for turn in 1 2 3 4; do {LAB} --json $OUT/right.json --html $OUT/right.html; echo $? >$OUT/right; \
         grep -q 'the machine was busy' $OUT/right.json || break; done"
    )
    .unwrap();
    writeln!(script, "ip rule >$OUT/rules; ip -brief link >$OUT/links").unwrap();
    let dump = tables.file_name().unwrap().to_str().unwrap();
    writeln!(script, "{LAB} --lfts {dump} --json $OUT/wrong.json; echo $? >$OUT/wrong").unwrap();
    writeln!(
        script,
        "rm /dev/net/tun; snin lab --verbs clos:2,2,1 2>$OUT/none; echo $? >$OUT/no-tun"
    )
    .unwrap();
    let (output, out) = in_machine(&script, &[&tables]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let code = |name: &str| fs::read_to_string(out.path().join(name)).unwrap().trim().to_owned();

    let right = document(&out, "right.json");
    // What is not as it should be says more than the code.
    assert!(list(&right, "/failures").is_empty(), "{right:#}\n{said}");
    assert_eq!(code("right"), "0", "{said}");
    follows_the_scenario(&right);
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("36 of 36 flows"), "{table}");
    assert!(fs::read_to_string(out.path().join("right.html")).unwrap().contains("</svg>"));
    // The machine is left as it was found.
    assert!(code("rules").starts_with("0:\tfrom all lookup local"), "{}", code("rules"));
    assert_eq!(code("rules").lines().count(), 3, "{}", code("rules"));
    assert!(!code("links").contains("snin"), "{}", code("links"));

    assert_eq!(code("wrong"), "1", "{said}");
    let document = document(&out, "wrong.json");
    // Two hosts send to that address from the leaf with the wrong entry.
    assert_eq!(number(&document, "/crossings/right") as u64, 34);
    let named = list(&document, "/crossings/wrong");
    let text = format!("to {wrong} crossed spine2, not spine1");
    assert_eq!(named.len(), 2);
    assert!(named.iter().all(|n| n.as_str().is_some_and(|n| n.contains(&text))), "{named:?}");

    assert_eq!(code("no-tun"), "3");
    let said = code("none");
    let last = said.lines().last().unwrap();
    assert!(last.contains("/dev/net/tun is missing") && last.contains("make lab"), "{said}");
}

/// What must stand in the document of a lab where all is well.
fn follows_the_scenario(document: &Value) {
    assert_eq!(number(document, "/crossings/flows") as u64, 4 * 3 * 3);
    // Three trees and all that was granted afterwards, each queue pair exchanged once.
    assert_eq!(number(document, "/agents/pairs") as u64, 4 * 3 * 3);
    assert!(number(document, "/agents/messages") > 300.0, "{document:#}");
    assert_eq!(number(document, "/agents/messages"), number(document, "/agents/taken"));
    assert!(number(document, "/agents/leases") > 20.0, "{document:#}");
    let windows = list(document, "/exclusive/windows");
    assert!(windows.len() >= 24);
    let most = windows.iter().map(|window| number(window, "/connections") as u64).max();
    assert_eq!(most, Some(4), "all four hosts send at once");
    assert!(windows.iter().all(|window| list(window, "/shared").is_empty()), "{document:#}");
    for moved in list(document, "/rearrangement/moved") {
        assert_ne!(moved.pointer("/before"), moved.pointer("/after"));
    }
    assert!(!list(document, "/uplink/forced/shared").is_empty());
    assert!(list(document, "/uplink/snin/shared").is_empty());
    let of = |way: &str, what: &str| number(document, &format!("/uplink/{way}/{what}"));
    assert!(of("forced", "goodput") < 0.8 * of("snin", "goodput"), "{document:#}");
    assert!(of("forced", "p99_ns") > 2.0 * of("snin", "p99_ns"), "{document:#}");
    assert!(
        list(document, "/busy").iter().all(|busy| number(busy, "/share") <= 0.5),
        "{document:#}"
    );
}

#[test]
fn without_root_or_devices_it_says_in_one_line_what_is_missing() {
    // This machine may have all else, so a user asks who is not root.
    let mut command =
        Command::new(if rustix::process::geteuid().is_root() { "setpriv" } else { SNIN });
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", SNIN]);
    }
    let output = command.args(["lab", "--verbs", "clos:2,2,1"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.lines().last().unwrap().contains("root is missing"), "{said}");
}

#[test]
fn without_devices_lat_says_in_one_line_what_is_missing() {
    for side in [
        &["lat", "--device", "no_such_device"][..],
        &["lat", "--device", "no_such_device", "--peer", "localhost"],
    ] {
        let output = Command::new(SNIN).args(side).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(3), 1), "{side:?}: {said}");
        // On a machine that has devices the name is wrong; without any it says how to get one.
        let why = snin_verbs::choose(Some("no_such_device"), None).unwrap_err();
        assert_eq!(said, format!("snin: {why}\n"));
    }
}
