//! Are the tests of admission any good? Bugs are planted in a copy of the crate, one at a time, and the
//! tests must fail. `cargo test -p snin-controller --test admission_mutants -- --ignored` takes minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A file below `src/`, a text that it holds once, and what to write instead.
type Mutant = (&'static str, &'static str, &'static str);

const MUTANTS: [Mutant; 20] = [
    // The busiest lanes.
    ("admission/cover.rs", "== greatest;", "== greatest && lane != 1;"),
    ("admission/cover.rs", "for side in Side::BOTH", "for side in [Side::Sends]"),
    ("admission/cover.rs", "< self.greatest", "<= self.greatest"),
    ("admission/cover.rs", "if before == NONE", "if before != id"),
    ("admission/cover.rs", "*seen == room.search ||", "*seen != 0 ||"),
    ("admission/cover.rs", "> self.goal.until", "> self.goal.until + 1"),
    // The oldest first.
    (
        "admission/fill.rs",
        "table.arrival(id) < table.arrival(held)",
        "table.arrival(id) > table.arrival(held)",
    ),
    ("admission/fill.rs", "matching.free(Side::Sends, lane);", ""),
    (
        "admission/turn.rs",
        "Lap::UpToStart => self.up_to_start(next)",
        "Lap::UpToStart => self.up_to_start(self.start)",
    ),
    // Those that have waited too long.
    ("admission.rs", "if oldest != NONE && self", "if oldest == NONE && self"),
    ("admission.rs", ">= self.overdue_after", "> self.overdue_after"),
    (
        "admission.rs",
        "let until = window.saturating_sub(self.overdue_after);",
        "let until = oldest;",
    ),
    ("admission/table.rs", "if self.cohort == oldest", "if self.cohort.is_some()"),
    // Counting.
    ("admission/table.rs", "self.count(id, |degree| *degree -= 1);", ""),
    ("admission/table.rs", "self.count(id, |degree| *degree -= left);", "let _ = left;"),
    ("admission.rs", "*cursor = self.table.next(side, id);", "*cursor += 0;"),
    // Rates.
    ("admission/matching.rs", ">= rate)", "> 0)"),
    ("admission/matching.rs", "-= links.unit();", "-= 0;"),
    ("admission/matching.rs", "for _ in room..count", "for _ in count..count"),
    (
        "admission.rs",
        "lanes.min_by_key(|&lane| self.table.degrees(side)[lane as usize])",
        "lanes.min_by_key(|&lane| self.table.degrees(side)[lane as usize] * 0)",
    ),
];

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Otherwise the list below would rot in silence.
#[test]
fn every_bug_can_be_planted() {
    for (file, text, _) in MUTANTS {
        let source = fs::read_to_string(package().join("src").join(file)).unwrap();
        assert_eq!(source.matches(text).count(), 1, "{file}: {text}");
    }
}

#[test]
#[ignore = "compiles the crate twenty times"]
fn every_planted_bug_is_found() {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    let _ = fs::remove_dir_all(&copy);
    for part in ["fabric", "controller"] {
        copy_tree(&package().join("..").join(part), &copy.join(part));
    }
    let manifest = fs::read_to_string(package().join("../Cargo.toml")).unwrap();
    let members = |line: &str| {
        let own = line.starts_with("members = ");
        if own {
            "members = [\"fabric\", \"controller\"]\n".to_owned()
        } else {
            format!("{line}\n")
        }
    };
    fs::write(copy.join("Cargo.toml"), manifest.lines().map(members).collect::<String>()).unwrap();
    fs::copy(package().join("../Cargo.lock"), copy.join("Cargo.lock")).unwrap();
    assert!(builds(&copy) && passes(&copy), "the copy itself must pass");
    let mut survivors = Vec::new();
    for mutant @ (file, text, instead) in MUTANTS {
        let path = copy.join("controller/src").join(file);
        let source = fs::read_to_string(&path).unwrap();
        fs::write(&path, source.replacen(text, instead, 1)).unwrap();
        assert!(builds(&copy), "does not compile: {mutant:?}");
        if passes(&copy) {
            survivors.push(mutant);
        }
        fs::write(&path, source).unwrap();
    }
    assert_eq!(survivors, [], "nobody noticed");
}

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

fn builds(copy: &Path) -> bool {
    let test = ["test", "--offline", "--quiet", "--no-run", "-p", "snin-controller"];
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(copy).env("CARGO_TARGET_DIR", copy.join("target"));
    build.args(test).args(["--test", "admission"]).stderr(Stdio::null());
    build.status().unwrap().success()
}

/// Runs the tests that were built last. Not through cargo: a bug may well make one go round for ever, and
/// then it is this process that must be ended.
fn passes(copy: &Path) -> bool {
    let built =
        fs::read_dir(copy.join("target/debug/deps")).unwrap().map(|file| file.unwrap().path());
    let is_test = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("admission-") && path.extension().is_none_or(|ending| ending == "exe")
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
