//! What the library takes over, by its symbols: the functions that connect and end, and none that sends.
#![cfg(feature = "verbs")]

use std::path::PathBuf;
use std::process::Command;

/// The library, which cargo has built beside this test.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().join("libsnin_preload.so")
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).arg(library()).output().expect(program);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn it_takes_over_what_connects_and_ends_and_no_function_of_the_data_path() {
    let defined = said("nm", &["--dynamic", "--defined-only", "--format=posix"]);
    let names: Vec<&str> = defined.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["ibv_create_ah", "ibv_destroy_qp", "ibv_modify_qp"]);
}

#[test]
fn its_own_calls_are_bound_to_libibverbs_versions() {
    // Without a version ibv_query_gid would be the one of 2006, whose structures are others.
    let needed = said("nm", &["--dynamic", "--undefined-only"]);
    assert!(needed.contains("ibv_query_gid@IBVERBS_1.1"), "{needed}");
    let verbs = needed.lines().filter(|line| line.contains(" ibv_"));
    assert!(verbs.clone().all(|line| line.contains("@IBVERBS_1.")), "{needed}");
    // What it defines satisfies references of every version: it has none itself.
    let versions = said("readelf", &["--version-info", "--wide"]);
    assert!(!versions.contains("Version definition section"), "{versions}");
    let libraries = said("readelf", &["--dynamic", "--wide"]);
    assert!(libraries.contains("[libibverbs.so.1]"), "{libraries}");
}
