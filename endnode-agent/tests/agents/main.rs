//! Whole agents on real verbs, and what they are made from. All tests but one are ignored here: they run in a
//! virtual machine with rdma_rxe, in one boot, which that one starts.
#![cfg(feature = "verbs")]
#![allow(clippy::disallowed_macros, reason = "what is measured is printed")]

mod controller;
mod devices;
mod faults;
mod guest;
mod host;
mod limits;
mod quiet;

use std::path::PathBuf;
use std::process::Command;

#[global_allocator]
static COUNTING: quiet::Counting = quiet::Counting;

/// Where the workspace is.
fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn agents_in_the_virtual_machine() {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().unwrap().parent().unwrap();
    let with =
        [&own, &PathBuf::from(env!("CARGO_BIN_EXE_snin-agent")), &built.join("examples/echo")];
    let size = |name: &str| {
        std::env::var(name).map(|value| format!("{name}={value} ")).unwrap_or_default()
    };
    let filter = std::env::var("SNIN_ONLY").unwrap_or_default();
    let command = format!(
        "{}{}MALLOC_ARENA_MAX=1 {} --ignored --test-threads=1 --nocapture {filter}",
        size("SNIN_CHANGES"),
        size("SNIN_MESHES"),
        own.file_name().unwrap().to_str().unwrap()
    );
    let limit = std::env::var("SNIN_LIMIT").unwrap_or_else(|_| "600".to_owned());
    let mut run = Command::new(root().join("tools/vm/run"));
    run.args(["--rxe", "4", "--memory", "1024", "--limit", &limit]);
    // The guest's own cannot give up a capability for good.
    run.args(["--with", "/usr/bin/setpriv"]);
    for file in with {
        run.arg("--with").arg(file);
    }
    let status = run.args(["--", "bash", "-c", &command]).status().expect("tools/vm/run");
    assert!(status.success(), "{status}: see its output");
}
