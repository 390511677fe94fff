//! `snin faults`: the whole system in virtual time, faults by the thousand, and judges that look at every step.

use std::io::Write;

use serde::Serialize;
use snin_lab::faults::{self, Setup, Summary};

use crate::document::SCHEMA_VERSION;
use crate::failure::Failure;
use crate::output::{Output, OutputFile, Progress, Target};
use crate::{Verdict, cli, input};

/// What `snin faults --json` prints. It holds no wall times: the same arguments give the same bytes.
#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    /// Repeats the run.
    command: String,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// Simulates, prints.
pub(crate) fn run<W: Write>(args: &cli::Faults, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let json = Target::open(args.format.json.as_deref())?;
    let log = args.log.as_deref().map(OutputFile::open).transpose()?;
    let progress = Progress::new();
    let setup = Setup {
        seed: args.seed,
        faults: args.faults,
        topology: input::topology(&args.topology)?,
        managers: args.managers.into(),
        controllers: args.controllers.into(),
        planted: None,
        keeps_log: log.is_some(),
    };
    let (summary, lines) =
        faults::run(setup, |done| progress.step(format!("{done} of {} faults", args.faults)))
            .map_err(|error| Failure::content(&args.topology, format_args!(" {error}")))?;
    drop(progress);
    if let Some(file) = log {
        file.write((lines.join("\n") + "\n").as_bytes())?;
    }
    let command = format!(
        "snin faults {} --seed {} --faults {} --managers {} --controllers {}",
        args.topology, args.seed, args.faults, args.managers, args.controllers
    );
    let document = Document { schema_version: SCHEMA_VERSION, command, summary: &summary };
    out.report(json, &document, |out| print(&document, out))?;
    Ok(if summary.violation.is_none() { Verdict::Well } else { Verdict::Unwell })
}

fn print<W: Write>(document: &Document<'_>, out: &mut Output<W>) -> Result<(), Failure> {
    let summary = document.summary;
    let all: u32 = summary.faults.values().sum();
    out.line(format_args!(
        "{all} faults in {} storms, {} of virtual time; after a storm all was well within {}",
        summary.storms, summary.simulated, summary.longest_calm
    ))?;
    for (kind, count) in &summary.faults {
        out.line(format_args!("  {kind:<22}{count:>8}"))?;
    }
    let Summary { pieces, lost, messages, windows, terms, masters, writes, .. } = summary;
    out.line(format_args!(
        "{messages} messages arrived; {pieces} pieces, {lost} of them lost with their way or their receiver; \
         {windows} windows in {terms} terms of controllers; {masters} masters, {writes} writes"
    ))?;
    match &summary.violation {
        None => {
            out.line("no link with two owners, nothing outside its grant, no loop, order kept")?;
        }
        Some(violation) => {
            let faults::Violation { at, faults, rule, what } = violation;
            out.line(format_args!("VIOLATED at {at}, after {faults} faults: {rule}: {what}"))?;
            out.line(format_args!("again: {} --log FILE", document.command))?;
        }
    }
    out.line(format_args!("hash {:016x}", summary.hash))
}
