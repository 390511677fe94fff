//! `snin replay`: a daemon's core, told again what it was told while its daemon recorded.

use std::fmt::Debug;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use snin_daemon::record::{self, OutputDigest};
use snin_daemon::replay::{Replay, Replayed};
use snin_protocol::Time;

use crate::Verdict;
use crate::cli::Replay as Asked;
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
    digest: u64,
    /// What came out of the recorded core; none of a recording that did not end well.
    recorded: Option<OutputDigest>,
    /// Whether both are the same, where both are known.
    same: Option<bool>,
    /// Whether the file ends within an entry, which is left out.
    cut: bool,
    /// How the core ends.
    state: String,
}

/// Replays, and says whether the same came out.
pub(crate) fn run<W: Write>(asked: &Asked, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let json = Target::open(asked.format.json.as_deref())?;
    let core = record::core_of(&asked.file).map_err(Failure::recording)?;
    let mut lines = Lines { out, shown: asked.outputs };
    let report = match core.as_str() {
        snin_sm::daemon::recording::CORE => replay(&asked.file, &mut lines, manager)?,
        snin_controller::recording::CORE => replay(&asked.file, &mut lines, controller)?,
        snin_agent::replay::CORE => replay(&asked.file, &mut lines, agent)?,
        other => {
            return Err(Failure::recording(format!(
                "{}: a recording of `{other}`: of sm, controller and agent they are replayed",
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

fn replay<C: Replay, W: Write>(
    file: &Path,
    lines: &mut Lines<'_, W>,
    state: impl FnOnce(&C) -> String,
) -> Result<Report, Failure> {
    let replayed = snin_daemon::replay::replay::<C>(file, |at, output| lines.add(at, output));
    let Replayed { core, outcome, recorded, cut, entries, began, ended } =
        replayed.map_err(Failure::recording)?;
    Ok(Report {
        core: C::CORE.to_owned(),
        entries,
        began,
        ended,
        outputs: outcome.outputs,
        digest: outcome.digest,
        recorded,
        same: recorded.map(|recorded| recorded == outcome),
        cut,
        state: state(&core),
    })
}

fn manager(core: &snin_sm::daemon::recording::Replaying) -> String {
    let core = &core.core;
    let view = core.view().map_or(0, |view| view.version());
    format!("{}, view {view}", core.manager().state().name().unwrap_or("unknown").to_lowercase())
}

fn controller(core: &snin_controller::recording::Replaying) -> String {
    let (windows, grants) = (core.0.metrics().windows, core.0.grants().count());
    format!("{windows} windows, {grants} grants")
}

fn agent(core: &snin_agent::replay::Replaying) -> String {
    let counters = core.0.counters();
    format!("{} messages sent, {} received", counters.messages, counters.received)
}

fn print<W: Write>(report: &Report, out: &mut Output<W>) -> Result<(), Failure> {
    let Report { core, entries, began, ended, outputs, state, .. } = report;
    out.line(format!(
        "{core}: {entries} entries from {began} to {ended}, {outputs} outputs; {state}"
    ))?;
    if report.cut {
        out.line("the recording is cut short: what it ends within is left out")?;
    }
    match (report.same, report.recorded) {
        (Some(true), _) => out.line("the same came out as when it was recorded"),
        (Some(false), Some(recorded)) => {
            let recorded = recorded.outputs;
            out.line(format!("something else came out: {recorded} outputs were recorded"))
        }
        _ => out.line("the recording does not say what came out"),
    }
}
