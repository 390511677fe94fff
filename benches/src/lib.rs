//! Common parts of the benchmarks: sizes, medians, hashes, and the line that a result is.
//!
//! Each benchmark is a module here with a `run(Size) -> Vec<Outcome>` and a thin binary. The tests run every
//! one at [`Size::Small`], so none rots; `make bench` runs them at [`Size::Full`].

pub mod administration;
pub mod against;
pub mod bring_up;
pub mod election;
pub mod emulator_data;
pub mod emulator_mgmt;
pub mod failover;
pub mod found;
pub mod jobs;
pub mod packing;
pub mod reconfiguration;
pub mod sm;
pub mod tables;
#[cfg(feature = "verbs")]
pub mod verbs;
pub mod window;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How large a benchmark runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// In the tests: shows that it works, not how fast.
    Small,
    /// By hand.
    Full,
}

/// One result.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The benchmark.
    pub bench: &'static str,
    /// The measured case.
    pub case: String,
    /// Of `ours` and `peer`.
    pub unit: &'static str,
    /// The median.
    pub ours: f64,
    /// What it is held against: another program's figure in the same run, or a goal.
    pub peer: f64,
    /// Whose figure `peer` is.
    pub peer_name: String,
    /// The median of `ours / peer` over runs that took turns, where they did.
    pub paired: Option<f64>,
    /// Of the answer, so that a faster answer is the same answer.
    pub hash: u64,
}

impl Outcome {
    /// As it should be judged.
    pub fn ratio(&self) -> f64 {
        self.paired.unwrap_or(self.ours / self.peer)
    }

    fn json(&self) -> String {
        let Self { bench, case, unit, ours, peer, peer_name, hash, .. } = self;
        let ratio = self.ratio();
        format!(
            "{{\"bench\":\"{bench}\",\"case\":\"{case}\",\"unit\":\"{unit}\",\"ours\":{ours:.4},\
             \"peer\":{peer:.4},\"peer_name\":\"{peer_name}\",\"ratio\":{ratio:.4},\"hash\":\"{hash:016x}\"}}"
        )
    }
}

/// Runs a benchmark at the size that the command line asks for (`--small`), tells people, and appends a line
/// an outcome to `target/bench/results.jsonl`.
///
/// # Errors
/// Where the file cannot be written.
pub fn main(run: impl FnOnce(Size) -> Vec<Outcome>) -> io::Result<()> {
    let small = std::env::args().any(|argument| argument == "--small");
    let outcomes = run(if small { Size::Small } else { Size::Full });
    let mut out = io::stdout().lock();
    for outcome in &outcomes {
        let Outcome { bench, case, unit, ours, peer, peer_name, hash, .. } = outcome;
        let ratio = outcome.ratio();
        writeln!(
            out,
            "{bench:<12} {case:<44} {ours:>12.3} {unit:<8} {peer_name} {peer:.3} ({ratio:.3}) {hash:016x}"
        )?;
    }
    let lines: String = outcomes.iter().map(|outcome| outcome.json() + "\n").collect();
    append("results.jsonl", &lines)
}

/// Adds lines to a file in `target/bench`.
fn append(name: &str, lines: &str) -> io::Result<()> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let folder = target.join("bench");
    std::fs::create_dir_all(&folder)?;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(folder.join(name))?;
    file.write_all(lines.as_bytes())
}

/// A program of the workspace, built as this one was.
///
/// # Panics
/// Where it is not built.
pub fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("this program's path");
    let mut folders = own.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    let found = folders.find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} is not built: cargo build -p {name}, in this profile"))
}

/// The median time of `runs` runs, and what the last one gave.
///
/// # Panics
/// Without runs.
pub fn median<T>(runs: usize, mut run: impl FnMut() -> T) -> (Duration, T) {
    let mut times = Vec::with_capacity(runs);
    let mut last = None;
    for _ in 0..runs {
        let begin = Instant::now();
        last = Some(std::hint::black_box(run()));
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    (times[runs / 2], last.expect("at least one run"))
}

/// Small, and twice with the same answers.
#[cfg(test)]
fn assert_repeats(run: fn(Size) -> Vec<Outcome>) {
    for (one, other) in run(Size::Small).iter().zip(&run(Size::Small)) {
        assert_eq!((&one.case, one.hash), (&other.case, other.hash));
    }
}

/// FNV-1a, over all parts of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hash(pub u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Mixes bytes in.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Mixes a number in.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }
}
