//! Today's programs beside those of an earlier commit, in one run: the benchmarks of both take turns, so that a
//! machine that is shared slows both.
//!
//! Each tree runs its own benchmarks with its own programs. Figures are compared that both trees print under the
//! same name. A figure is worse where the median of `now / then` over the rounds is beyond [`TOLERANCE`] and the
//! best round of today is beyond the median of then as well: one slow round is noise.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use serde_json::Value;

/// The loss from which on a figure counts as worse.
pub const TOLERANCE: f64 = 0.10;
/// What is run where nothing is named: bring-up and repair, packing, subnet administration, a window.
pub const BENCHES: [&str; 4] = ["sm", "packing", "administration", "window"];
/// A figure by itself: so small a time is that of the clock.
const LEAST: f64 = 1e-3;

/// The figures of one tree, by name, one a round.
pub type Figures = BTreeMap<String, Vec<f64>>;

/// One figure of both trees.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// Benchmark, case and unit.
    pub name: String,
    /// The median of the earlier commit.
    pub then: f64,
    /// The median of today.
    pub now: f64,
    /// The median of `now / then` over the rounds, so that more is worse; of a rate its inverse.
    pub ratio: f64,
    /// Beyond [`TOLERANCE`].
    pub is_worse: bool,
}

/// Takes in the lines of one round, as benchmarks append them to `results.jsonl`.
///
/// # Errors
/// Names the line that is no result.
pub fn read(figures: &mut Figures, lines: &str) -> Result<(), String> {
    // A case that is held against several peers is one figure.
    let mut round: BTreeMap<String, f64> = BTreeMap::new();
    for (number, line) in lines.lines().enumerate() {
        let refuse = || format!("line {}: no result of a benchmark: {line}", number + 1);
        let told: Value = serde_json::from_str(line).map_err(|_| refuse())?;
        let text = |key: &str| told[key].as_str().ok_or_else(refuse);
        let name = format!("{} {} [{}]", text("bench")?, text("case")?, text("unit")?);
        round.insert(name, told["ours"].as_f64().ok_or_else(refuse)?);
    }
    for (name, value) in round {
        figures.entry(name).or_default().push(value);
    }
    Ok(())
}

/// The figures that both trees have.
pub fn compare(then: &Figures, now: &Figures) -> Vec<Compared> {
    let both = now.iter().filter_map(|(name, now)| Some((name, then.get(name)?, now)));
    both.filter_map(|(name, then, now)| {
        let is_rate = name.ends_with("/s]");
        let worse = |then: f64, now: f64| match is_rate {
            true => then / now,
            false => now.max(LEAST) / then.max(LEAST),
        };
        let ratio = median(then.iter().zip(now).map(|(&then, &now)| worse(then, now)).collect())?;
        let (middle_then, middle_now) = (median(then.clone())?, median(now.clone())?);
        let best = now.iter().map(|&now| worse(middle_then, now)).fold(f64::INFINITY, f64::min);
        let is_worse = ratio.min(best) > 1.0 + TOLERANCE;
        Some(Compared { name: name.clone(), then: middle_then, now: middle_now, ratio, is_worse })
    })
    .collect()
}

/// A table for people, what is worse at its end.
pub fn table(compared: &[Compared], revision: &str) -> String {
    let mut text = format!("{:<92} {revision:>12} {:>12} {:>7}\n", "figure", "now", "ratio");
    for Compared { name, then, now, ratio, is_worse } in compared {
        let mark = if *is_worse { "  WORSE" } else { "" };
        let _ = writeln!(text, "{name:<92} {then:>12.3} {now:>12.3} {ratio:>7.3}{mark}");
    }
    let worse = compared.iter().filter(|figure| figure.is_worse).count();
    let _ = writeln!(
        text,
        "{} figures, {worse} worse than at {revision} by more than {:.0} %",
        compared.len(),
        TOLERANCE * 100.0
    );
    text
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// One of the two trees, built.
struct Tree {
    folder: PathBuf,
    target: PathBuf,
    figures: Figures,
}

impl Tree {
    fn build(folder: PathBuf, target: PathBuf, benches: &[String]) -> io::Result<Self> {
        let mut build = Command::new("cargo");
        build.current_dir(&folder).env("CARGO_TARGET_DIR", &target);
        build.args(["build", "--release", "--quiet", "-p", "snin-benches"]);
        for bench in benches {
            build.args(["--bin", bench]);
        }
        // Those that measure daemons, as Makefile builds them.
        let measures = |names: &[&str]| benches.iter().any(|bench| names.contains(&&**bench));
        if measures(&["sm", "administration", "reconfiguration", "failover", "election"]) {
            build.args(["-p", "snin-sm", "--bin", "snin-sm"]);
        }
        if measures(&["jobs"]) {
            build.args([
                "-p",
                "snin",
                "-p",
                "snin-controller",
                "--bin",
                "snin",
                "--bin",
                "snin-controller",
            ]);
        }
        must(&mut build)?;
        Ok(Self { folder, target, figures: Figures::new() })
    }

    /// Runs one benchmark once.
    fn run(&mut self, bench: &str, arguments: &[String]) -> io::Result<()> {
        let results = tempfile::tempdir()?;
        let mut run = Command::new(self.target.join("release").join(bench));
        run.current_dir(&self.folder).env("CARGO_TARGET_DIR", results.path());
        must(run.args(arguments).stdout(std::process::Stdio::null()))?;
        let lines = fs::read_to_string(results.path().join("bench/results.jsonl"))?;
        read(&mut self.figures, &lines).map_err(io::Error::other)
    }
}

fn must(command: &mut Command) -> io::Result<()> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("{command:?}: {status}"))),
    }
}

/// The files of a commit, below `target/against`; the commit's short name.
fn take_out(root: &Path, revision: &str) -> io::Result<(PathBuf, String)> {
    let git = |arguments: &[&str]| Command::new("git").arg("-C").arg(root).args(arguments).output();
    let commit = format!("{revision}^{{commit}}");
    let found = git(&["rev-parse", "--verify", "--quiet", "--short", &commit])?;
    if !found.status.success() {
        return Err(io::Error::other(format!(
            "{revision} is no commit: make bench-against REV=COMMIT"
        )));
    }
    let name = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let folder = root.join("target/against").join(&name);
    if !folder.join("Cargo.toml").exists() {
        fs::create_dir_all(&folder)?;
        let archive = folder.with_extension("tar");
        let file = archive.display().to_string();
        must(
            Command::new("git").arg("-C").arg(root).args(["archive", "--output", &file, &commit]),
        )?;
        must(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&folder))?;
        fs::remove_file(&archive)?;
    }
    Ok((folder, name))
}

/// How far it is.
fn tell(what: fmt::Arguments<'_>) -> io::Result<()> {
    writeln!(io::stderr(), "{what}")
}

/// Builds both trees, runs the benchmarks in turns, and prints the table; whether nothing is worse.
///
/// # Errors
/// When a tree is not built, or a benchmark does not run.
pub fn run(
    revision: &str,
    benches: &[String],
    rounds: usize,
    arguments: &[String],
) -> io::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let (folder, name) = take_out(&root, revision)?;
    tell(format_args!("building {name} and today's tree"))?;
    let target = root.join("target/against/target");
    let mut then = Tree::build(folder, target, benches)?;
    let mut now = Tree::build(root.clone(), root.join("target"), benches)?;
    for bench in benches {
        for round in 0..rounds {
            tell(format_args!("{bench}: round {} of {rounds}", round + 1))?;
            // The first to run has the colder caches, so the two take turns in that too.
            let mut order = [&mut then, &mut now];
            order.rotate_left(round % 2);
            for tree in order {
                tree.run(bench, arguments)?;
            }
        }
    }
    let compared = compare(&then.figures, &now.figures);
    io::stdout().write_all(table(&compared, &name).as_bytes())?;
    Ok(!compared.is_empty() && compared.iter().all(|figure| !figure.is_worse))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(rounds: &[(f64, f64)]) -> Figures {
        let mut figures = Figures::new();
        for (time, rate) in rounds {
            let line = |case: &str, unit: &str, ours: f64, peer: &str| {
                format!(
                    "{{\"bench\":\"b\",\"case\":\"{case}\",\"unit\":\"{unit}\",\"ours\":{ours},\
                     \"peer\":1.0,\"peer_name\":\"{peer}\",\"ratio\":1.0,\"hash\":\"0\"}}\n"
                )
            };
            let lines = line("up", "ms", *time, "opensm") + &line("up", "ms", *time, "floor");
            read(&mut figures, &(lines + &line("grants", "M/s", *rate, "euler"))).unwrap();
        }
        figures
    }

    #[test]
    fn a_planted_loss_is_found_and_one_slow_round_is_none() {
        let then = figures(&[(100.0, 5.0), (110.0, 5.1), (90.0, 4.9)]);
        let found = |now: &[(f64, f64)]| {
            let compared = compare(&then, &figures(now));
            assert_eq!(compared.len(), 2, "{compared:?}");
            let worse = compared.into_iter().filter(|figure| figure.is_worse);
            worse.map(|figure| figure.name).collect::<Vec<_>>()
        };
        assert_eq!(found(&[(101.0, 5.0), (108.0, 5.0), (250.0, 1.0)]), [""; 0]);
        assert_eq!(found(&[(115.0, 5.0), (125.0, 5.0), (112.0, 5.0)]), ["b up [ms]"]);
        assert_eq!(found(&[(100.0, 4.0), (100.0, 4.1), (90.0, 4.2)]), ["b grants [M/s]"]);
    }

    #[test]
    fn a_line_that_is_no_result_is_named() {
        let wrong = read(&mut Figures::new(), "{\"bench\":\"b\"}\n").unwrap_err();
        assert_eq!(wrong, "line 1: no result of a benchmark: {\"bench\":\"b\"}");
    }
}
