//! Planted bugs: in a copy of the crate, one at a time, to see whether a test notices.
#![allow(unreachable_pub, reason = "a module of several test files")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A file below `src/`, a text that it holds once, and what to write instead.
pub type Mutant = (&'static str, &'static str, &'static str);

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Otherwise a list of bugs would rot in silence.
pub fn assert_can_be_planted(mutants: &[Mutant]) {
    for (file, text, _) in mutants {
        let source = fs::read_to_string(package().join("src").join(file)).unwrap();
        assert_eq!(source.matches(text).count(), 1, "{file}: {text}");
    }
}

/// Plants each bug, and returns those with which the tests of all these files still pass.
pub fn survivors(tests: &[&str], mutants: &[Mutant]) -> Vec<Mutant> {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutants-{}", tests[0]));
    let _ = fs::remove_dir_all(&copy);
    for part in ["fabric", "controller"] {
        copy_tree(&package().join("..").join(part), &copy.join(part));
    }
    let manifest = fs::read_to_string(package().join("../Cargo.toml")).unwrap();
    let members = |line: &str| {
        let own = line.starts_with("members = ");
        if own { MEMBERS.to_owned() } else { format!("{line}\n") }
    };
    fs::write(copy.join("Cargo.toml"), manifest.lines().map(members).collect::<String>()).unwrap();
    fs::copy(package().join("../Cargo.lock"), copy.join("Cargo.lock")).unwrap();
    let pass = || tests.iter().all(|test| builds(&copy, test) && passes(&copy, test));
    assert!(pass(), "the copy itself must pass");
    let survives = |&&(file, text, instead): &&Mutant| {
        let path = copy.join("controller/src").join(file);
        let source = fs::read_to_string(&path).unwrap();
        fs::write(&path, source.replacen(text, instead, 1)).unwrap();
        assert!(compiles(&copy), "does not compile: {file}: {instead}");
        let passes = pass();
        let found = if passes { "SURVIVED" } else { "found" };
        let _ = writeln!(std::io::stderr().lock(), "{found}: {file}: {text} -> {instead}");
        fs::write(&path, source).unwrap();
        passes
    };
    mutants.iter().filter(survives).copied().collect()
}

const MEMBERS: &str = "members = [\"fabric\", \"fabric/protocol\", \"controller\"]\n";

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The crate alone, so that a bug which is none in Rust is not taken for one that was found.
fn compiles(copy: &Path) -> bool {
    cargo(copy, &["build"])
}

fn builds(copy: &Path, test: &str) -> bool {
    cargo(copy, &["test", "--no-run", "--test", test])
}

fn cargo(copy: &Path, arguments: &[&str]) -> bool {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(copy).env("CARGO_TARGET_DIR", copy.join("target"));
    cargo.args(arguments).args(["--offline", "--quiet", "-p", "snin-controller"]);
    cargo.stderr(Stdio::null()).status().unwrap().success()
}

/// Runs the tests that were built last. Not through cargo: a bug may well make one go round for ever, and
/// then it is this process that must be ended.
fn passes(copy: &Path, test: &str) -> bool {
    let built =
        fs::read_dir(copy.join("target/debug/deps")).unwrap().map(|file| file.unwrap().path());
    let is_test = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(test).is_some_and(|rest| rest.starts_with('-'))
            && path.extension().is_none_or(|ending| ending == "exe")
    };
    let test =
        built.filter(is_test).max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    let mut run = Command::new(test.unwrap());
    run.current_dir(copy.join("controller")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = run.spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(120);
    while Instant::now() < patience {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}
