//! `snin replay`: a daemon's core, told again what it was told while its daemon recorded.

use std::fmt::Debug;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use snin_daemon::record::{self, Outcome};
use snin_protocol::Time;

use crate::Verdict;
use crate::cli::Replay;
use crate::failure::Failure;
use crate::output::{Output, Target};

/// A replay, as it is reported.
#[derive(Serialize)]
struct Report {
    core: String,
    /// Events, and deadlines that had come.
    entries: u64,
    /// By the core's clock.
    began: Time,
    ended: Time,
    /// What came out.
    outputs: u64,
    digest: Option<u64>,
    /// What came out of the recorded core; none of a recording that did not end well.
    recorded: Option<Outcome>,
    /// Whether both are the same, where both are known.
    same: Option<bool>,
    /// How the core ends.
    state: String,
}

/// Replays, and says whether the same came out.
pub(crate) fn run<W: Write>(asked: &Replay, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let json = Target::open(asked.format.json.as_deref())?;
    let core = record::core_of(&asked.file).map_err(Failure::recording)?;
    let mut lines = Lines { out, shown: asked.outputs };
    let report = match core.as_str() {
        snin_sm::daemon::recording::CORE => manager(&asked.file, &mut lines)?,
        snin_controller::recording::CORE => controller(&asked.file, &mut lines)?,
        snin_agent::replay::CORE => agent(&asked.file, &mut lines)?,
        other => {
            return Err(Failure::recording(format!(
                "{}:1: a recording of `{other}`: of sm, controller and agent they are replayed",
                asked.file.display()
            )));
        }
    };
    out.report(json, &report, |out| print(&report, out))?;
    Ok(if report.same == Some(false) { Verdict::Unwell } else { Verdict::Well })
}

/// Where outputs go as they come, if they are wanted.
struct Lines<'a, W: Write> {
    out: &'a mut Output<W>,
    shown: bool,
}

impl<W: Write> Lines<'_, W> {
    fn add(&mut self, at: Time, output: &dyn Debug) {
        if self.shown {
            // Output that is not wanted any more does not end the replay.
            let _ = self.out.line(format!("{at} {output:?}"));
        }
    }
}

fn manager<W: Write>(file: &Path, lines: &mut Lines<'_, W>) -> Result<Report, Failure> {
    let replayed = snin_sm::daemon::recording::replay(file, |at, output| lines.add(at, output));
    let replayed = replayed.map_err(Failure::recording)?;
    let manager = &replayed.manager;
    let view = manager.view().map_or(0, |view| view.version());
    let state = manager.state().name().unwrap_or("unknown").to_lowercase();
    Ok(Report {
        core: snin_sm::daemon::recording::CORE.to_owned(),
        entries: replayed.entries,
        began: replayed.began,
        ended: replayed.ended,
        outputs: replayed.outcome.outputs,
        digest: Some(replayed.outcome.digest),
        recorded: replayed.recorded,
        same: replayed.recorded.map(|recorded| recorded == replayed.outcome),
        state: format!("{state}, view {view}"),
    })
}

fn controller<W: Write>(file: &Path, lines: &mut Lines<'_, W>) -> Result<Report, Failure> {
    let replayed = snin_controller::recording::replay(file, |at, output| lines.add(at, output));
    let replayed = replayed.map_err(Failure::recording)?;
    let (granted, windows) = (replayed.core.grants().count(), replayed.core.metrics().windows);
    Ok(Report {
        core: snin_controller::recording::CORE.to_owned(),
        entries: replayed.entries,
        began: replayed.began,
        ended: replayed.ended,
        outputs: replayed.outcome.outputs,
        digest: Some(replayed.outcome.digest),
        recorded: replayed.recorded,
        same: replayed.recorded.map(|recorded| recorded == replayed.outcome),
        state: format!("{windows} windows, {granted} grants"),
    })
}

fn agent<W: Write>(file: &Path, lines: &mut Lines<'_, W>) -> Result<Report, Failure> {
    let (mut outputs, mut ended) = (0, Time::ZERO);
    let replayed = snin_agent::replay::replay(file, |at, output| {
        outputs += 1;
        ended = at;
        lines.add(at, &output);
    });
    let mesh = replayed.map_err(Failure::recording)?;
    let counters = mesh.counters();
    Ok(Report {
        core: snin_agent::replay::CORE.to_owned(),
        entries: 0,
        began: Time::ZERO,
        ended,
        outputs,
        digest: None,
        recorded: None,
        same: None,
        state: format!("{} messages sent, {} received", counters.messages, counters.received),
    })
}

fn print<W: Write>(report: &Report, out: &mut Output<W>) -> Result<(), Failure> {
    let Report { core, entries, began, ended, outputs, state, .. } = report;
    out.line(format!(
        "{core}: {entries} entries from {began} to {ended}, {outputs} outputs; {state}"
    ))?;
    match (report.same, report.recorded) {
        (Some(true), _) => out.line("the same came out as when it was recorded"),
        (Some(false), Some(recorded)) => {
            let recorded = recorded.outputs;
            out.line(format!("something else came out: {recorded} outputs were recorded"))
        }
        _ => out.line("the recording does not say what came out"),
    }
}
