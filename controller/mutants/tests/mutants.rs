//! Are the tests of packer, admission, slices and the window loop any good? Bugs are planted in a copy of the
//! crate, which is this test program, and tests must fail with each of them alone. Without any they pass: that
//! they are here too is the proof that it is not the copy that is at fault.
#![allow(warnings, clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

extern crate self as snin_controller_core;

include!(concat!(env!("OUT_DIR"), "/planted/lib.rs"));

#[path = "../bugs.rs"]
mod bugs;

#[path = "../../core/tests/admission.rs"]
mod admission_tests;
#[path = "../../core/tests/exhaustive.rs"]
mod exhaustive_tests;
#[path = "../../core/tests/packing_moves.rs"]
mod packing_moves_tests;
#[path = "../../core/tests/packing_soak.rs"]
mod packing_soak_tests;
#[path = "../../core/tests/promises.rs"]
mod promises_tests;
#[path = "../../core/tests/slices.rs"]
mod slices_tests;
#[path = "../../core/tests/window_slices.rs"]
mod window_slices_tests;

/// Names the bug that is awake.
const AWAKE: &str = "SNIN_BUG";
/// A bug that makes a test go round for ever is found by that.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a bug is awake.
pub(crate) fn bug(number: usize) -> bool {
    static AWAKE_NOW: LazyLock<Option<usize>> =
        LazyLock::new(|| std::env::var(AWAKE).ok().and_then(|number| number.parse().ok()));
    *AWAKE_NOW == Some(number)
}

/// The tests that must notice a bug in a file.
fn judges(file: &str) -> &'static [&'static str] {
    match file.split(['/', '.']).next() {
        Some("packing") => {
            &["packing_moves_tests", "packing_soak_tests", "exhaustive_tests", "promises_tests"]
        }
        Some("admission") => &["admission_tests"],
        Some("window") => &["window_slices_tests"],
        _ => &["slices_tests"],
    }
}

#[test]
fn every_planted_bug_is_found() {
    if std::env::var_os(AWAKE).is_some() {
        return;
    }
    let all: Vec<bugs::Bug> = bugs::all().collect();
    let next = AtomicUsize::new(0);
    let (survivor, survivors) = mpsc::channel();
    let cores = std::thread::available_parallelism().map_or(1, Into::into);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(bug) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let number = all.iter().position(|other| other == bug).unwrap();
                    let begin = Instant::now();
                    let found = is_found(number, judges(bug.0));
                    let what = if found { "found" } else { "SURVIVED" };
                    let (file, right, wrong) = bug;
                    let line =
                        format!("{what} in {:.1?}: {file}: {right} -> {wrong}", begin.elapsed());
                    let _ = writeln!(std::io::stderr().lock(), "{line}");
                    if !found {
                        survivor.send(line).unwrap();
                    }
                }
            });
        }
    });
    drop(survivor);
    assert_eq!(survivors.iter().collect::<Vec<_>>(), [""; 0], "nobody noticed");
}

/// Runs tests with a bug until the first of them fails.
fn is_found(number: usize, tests: &[&str]) -> bool {
    let mut tests_again = Command::new(std::env::current_exe().unwrap());
    tests_again.args(tests).args(["--test-threads", "1"]).env(AWAKE, number.to_string());
    // What fails with a bug is no regression of the crate to be remembered in its sources.
    tests_again.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    let mut child = tests_again.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (line, lines) = mpsc::channel();
    let output = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        output.lines().map_while(Result::ok).try_for_each(|text| line.send(text))
    });
    let end = Instant::now() + PATIENCE;
    let found = loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(text) if text.contains("FAILED") => break true,
            Ok(_) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => break true,
            // It is over: well, or by a crash.
            Err(mpsc::RecvTimeoutError::Disconnected) => break !child.wait().unwrap().success(),
        }
    };
    let _ = child.kill();
    child.wait().unwrap();
    found
}
