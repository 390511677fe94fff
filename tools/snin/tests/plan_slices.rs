//! `snin plan slices` as an admin meets it.

use std::fs;
use std::process::{Command, Output};

fn snin(arguments: &[&str]) -> Output {
    let arguments = ["plan", "slices"].iter().chain(arguments);
    Command::new(env!("CARGO_BIN_EXE_snin")).args(arguments).output().unwrap()
}

fn file(name: &str, text: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_list_is_replayed() {
    let jobs = file("jobs.csv", "id,hosts,arrival,run\n1,8,0,10\n2,9,0,10\n3,4,2,10\n");
    let output = snin(&["clos:4,4,4", "--jobs", &jobs, "--json"]);
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["started"], 3);
    // Job 2 waits for 1, and 3 begins beside it.
    assert_eq!(report["last_start"], 10);
    assert_eq!(report["utilisation"], 0.5);
    assert_eq!(report["allocation_us"]["count"], 4);
}

#[test]
fn made_lists_are_the_same_for_the_same_seed() {
    let run = |seed| {
        let arguments = ["fattree:8", "--generate", "300", "--json", "--seed", seed];
        let output = snin(&arguments);
        assert!(output.status.success(), "{output:?}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (report["utilisation"].clone(), report["last_start"].clone(), report["refused"].clone())
    };
    assert_eq!(run("5"), run("5"));
    assert_ne!(run("5"), run("6"));
}

#[test]
fn what_is_wrong_is_told_with_file_and_line() {
    let jobs = file("bad.csv", "id,hosts,arrival,run\n1,8,0,10\n2,none,0,10\n");
    let output = snin(&["clos:4,4,4", "--jobs", &jobs]);
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told, format!("snin: {jobs}:3: hosts `none` is no whole number\n"));

    let jobs = file("large.csv", "1,17,0,10\n");
    let output = snin(&["clos:4,4,4", "--jobs", &jobs]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("job 1: 17 hosts wanted, but 16 are free"), "{told}");

    assert_eq!(snin(&["clos:4,4,4"]).status.code(), Some(2));
}
