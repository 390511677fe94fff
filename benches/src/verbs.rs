//! `snin lat` and whole agents beside perftest: the same devices of one virtual machine, by turns.
//!
//! Every round runs each case with perftest, with ours, and with perftest once more; who begins changes from
//! round to round, and every other round goes the other way about, so that nobody always follows the same one.
//! Each runs from beginning to end before the next one starts, as one would type them. Where messages are short,
//! all are also started at once and run by turns of a second while the others are stopped (`-slices`): so what
//! changes the machine's speed, which happens every half second, strikes all of them alike. The first says what
//! whoever runs both sees, the second tells apart what is nearer than that.
//! What counts is the median over rounds of ours by perftest's. Perftest's second run by its first is the
//! *control*: it says what no difference looks like on this machine at this hour. Of its ratios the quartiles are
//! told, which is what ours are held to, and between what nine in ten are.
//!
//! The machine is booted several times, for Linux places itself and what it allocates by chance, and QEMU's tables
//! of translations like some places less: of six boots with the same programs, an agent took from 1.07 to 1.27 of
//! perftest's time.
//!
//! `SNIN_PAIRS=10` takes so many rounds, `SNIN_CASE=send-64B` only cases with that in their name. Every single run
//! is a line `CASE WHO TYPICAL TAIL` in `target/bench/verbs.runs`, for whoever asks for another figure.

pub mod agents;
mod sides;
pub mod turns;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Hash, Outcome, Size, built};

use self::turns::{Case, Who};

/// Rounds at full size: so many in each boot that all begin twice.
const PAIRS: usize = 40;
const ROUNDS: usize = 8;
/// What a run says, by perftest's columns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Said {
    /// The median latency in microseconds, or the average bandwidth in MB/s.
    pub typical: f64,
    /// The 99th percentile of the latency; of a bandwidth, the messages a second in millions.
    pub tail: f64,
}

/// One of them.
type Figure = fn(&Said) -> f64;

/// Boots the machine, takes turns in it, and judges what comes back.
///
/// # Panics
/// Where a program is missing or fails.
pub fn run(size: Size) -> Vec<Outcome> {
    measure(&std::env::current_exe().expect("this program's path"), size)
}

/// The same with this program as the one that takes turns.
///
/// # Panics
/// Where a program is missing or fails.
pub fn measure(program: &Path, size: Size) -> Vec<Outcome> {
    let pairs = std::env::var("SNIN_PAIRS").map_or(PAIRS, |text| text.parse().expect("a number"));
    let only = std::env::var("SNIN_CASE").unwrap_or_default();
    // After so many seconds a program hangs, and the machine is stopped.
    let (name, pairs, limit) = match size {
        Size::Small => ("small", 2, "300"),
        Size::Full => ("full", pairs, "7200"),
    };
    let machine = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/vm/run"));
    let mut text = String::new();
    let boots = pairs.div_ceil(ROUNDS);
    for (boot, done) in (1..).zip((0..pairs).step_by(ROUNDS)) {
        // Progress that nobody can see is no reason to stop.
        let _ = writeln!(io::stderr(), "boot {boot} of {boots}");
        let rounds = ROUNDS.min(pairs - done).to_string();
        let out = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(&machine);
        command.args(["--pair", "--limit", limit, "--out"]).arg(out.path());
        command.arg("--with").arg(program).arg("--with").arg(built("snin"));
        command.args(["--", "verbs", "turns", name, &rounds, &only]);
        let status = command.status().expect("tools/vm/run");
        assert!(status.success(), "the virtual machine: {status}");
        let runs = fs::read_to_string(out.path().join("runs")).expect("what was measured");
        if size == Size::Full {
            crate::append("verbs.runs", &runs).expect("target/bench/verbs.runs");
        }
        text += &runs;
    }
    let outcomes = judge(&turns::cases(name, &only), &text);
    assert!(
        outcomes.iter().all(|outcome| outcome.ours > 0.0 && outcome.peer > 0.0),
        "{outcomes:?}"
    );
    outcomes
}

/// `ours` and the control of every case, from lines `CASE WHO TYPICAL TAIL` in the order of the rounds.
fn judge(cases: &[Case], text: &str) -> Vec<Outcome> {
    let mut runs: BTreeMap<(&str, &str), Vec<Said>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [case, who, typical, tail] = words[..] else { panic!("`{line}`") };
        let number = |word: &str| word.parse::<f64>().expect("a number");
        let said = Said { typical: number(typical), tail: number(tail) };
        runs.entry((case, who)).or_default().push(said);
    }
    let mut outcomes = Vec::new();
    for case in cases {
        let name = case.name();
        let of = |who: Who| runs.get(&(name.as_str(), who.name())).expect("runs of every case");
        let figures: &[(&str, &'static str, Figure)] = if case.is_latency() {
            &[("median", "us", |said| said.typical), ("p99", "us", |said| said.tail)]
        } else {
            &[("average", "MB/s", |said| said.typical)]
        };
        for &(figure, unit, take) in figures {
            let values = |who| of(who).iter().map(take).collect::<Vec<f64>>();
            let peer = values(Who::Perftest);
            let spread = Spread::of(&values(Who::Again), &peer);
            for &who in &case.who()[1..] {
                let (ours, is_control) = (values(who), who == Who::Again);
                let mut hash = Hash::default();
                hash.bytes(name.as_bytes());
                hash.number(ours.len() as u64);
                outcomes.push(Outcome {
                    bench: "verbs",
                    case: format!("{name} {figure}: {}", who.title(case)),
                    unit,
                    ours: median(ours.clone()),
                    peer: median(peer.clone()),
                    peer_name: if is_control {
                        case.perftest().to_owned()
                    } else {
                        let Spread { least, low, high, most, .. } = spread;
                        let half = format!("{low:.3} to {high:.3}");
                        format!("{} (itself: {half}; {least:.3} to {most:.3})", case.perftest())
                    },
                    paired: Some(Spread::of(&ours, &peer).middle),
                    hash: hash.0,
                });
            }
        }
    }
    outcomes
}

/// The median of paired ratios, the quartiles around it, and between what nine in ten are.
#[derive(Clone, Copy, Debug)]
struct Spread {
    least: f64,
    low: f64,
    middle: f64,
    high: f64,
    most: f64,
}

impl Spread {
    fn of(ours: &[f64], peer: &[f64]) -> Self {
        assert_eq!(ours.len(), peer.len(), "one of each a round");
        let mut ratios: Vec<f64> = ours.iter().zip(peer).map(|(ours, peer)| ours / peer).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let at = |twentieths: usize| ratios[(ratios.len() - 1) * twentieths / 20];
        let middle = median(ratios.clone());
        Self { least: at(1), low: at(5), middle, high: at(15), most: at(19) }
    }
}

/// Of an even number, the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[half - 1], values[half])
    } else {
        values[half]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_forty_one_ratios_half_lie_between_the_quartiles_and_two_beyond_each_end_of_nine_in_ten() {
        let ours: Vec<f64> = (0..41).rev().map(f64::from).collect();
        let Spread { least, low, middle, high, most } = Spread::of(&ours, &[1.0; 41]);
        assert_eq!([least, low, middle, high, most], [2.0, 10.0, 20.0, 30.0, 38.0]);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let cases = turns::cases("small", "");
        let mut text = String::new();
        // The machine is slower from round to round; ours is always a tenth slower, the control is not.
        for round in [1.0, 2.0, 4.0] {
            for case in &cases {
                for who in case.who() {
                    let factor = if matches!(who, Who::Snin | Who::Agent) { 1.1 } else { 1.0 };
                    let (median, tail) = (50.0 * round * factor, 90.0 * round);
                    text += &format!("{} {} {median} {tail}\n", case.name(), who.name());
                }
            }
        }
        for outcome in judge(&cases, &text) {
            let tenth = outcome.case.contains("snin") && !outcome.case.contains("p99");
            let expected = if tenth { 1.1 } else { 1.0 };
            assert!((outcome.ratio() - expected).abs() < 1e-9, "{outcome:?}");
        }
    }
}
