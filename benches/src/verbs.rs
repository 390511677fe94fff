//! `snin lat` and whole agents beside perftest: the same devices of one virtual machine, by turns.
//!
//! Every round runs each case with perftest, with ours, and with perftest once more; who begins changes from
//! round to round. Told is the median over rounds of ours by perftest's, beside perftest's second run by its
//! first: the *control* says what no difference looks like on this machine. There is no goal: a latency in an
//! emulated machine is no product.

pub mod agents;
mod sides;
pub mod turns;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Hash, Outcome, Size, built};

use self::turns::{Case, Who};

/// Rounds at full size: about ten minutes.
const ROUNDS: usize = 5;
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
    // A program that hangs for so many seconds is stopped with the machine.
    let (name, rounds, limit) = match size {
        Size::Small => ("small", 2, "300"),
        Size::Full => ("full", ROUNDS, "3600"),
    };
    let machine = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/vm/run"));
    let out = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(&machine);
    command.args(["--pair", "--limit", limit, "--out"]).arg(out.path());
    command.arg("--with").arg(program).arg("--with").arg(built("snin"));
    command.args(["--", "verbs", "turns", name, &rounds.to_string()]);
    let status = command.status().expect("tools/vm/run");
    assert!(status.success(), "the virtual machine: {status}");
    let text = fs::read_to_string(out.path().join("runs")).expect("what was measured");
    let outcomes = judge(&turns::cases(name), &text);
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
                        let Spread { least, most, .. } = spread;
                        format!("{} (itself: {least:.3} to {most:.3})", case.perftest())
                    },
                    paired: Some(Spread::of(&ours, &peer).middle),
                    hash: hash.0,
                });
            }
        }
    }
    outcomes
}

/// Of paired ratios the least, the median and the greatest.
#[derive(Clone, Copy, Debug)]
struct Spread {
    least: f64,
    middle: f64,
    most: f64,
}

impl Spread {
    fn of(ours: &[f64], peer: &[f64]) -> Self {
        assert_eq!(ours.len(), peer.len(), "one of each a round");
        let ratios: Vec<f64> = ours.iter().zip(peer).map(|(ours, peer)| ours / peer).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        Self { least, middle: median(ratios), most }
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
    fn ratios_are_taken_within_a_round() {
        let cases = turns::cases("small");
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
