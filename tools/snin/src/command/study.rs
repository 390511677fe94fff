//! `snin study`: experiments of others repeated, with our own beside them.

use std::io::Write;
use std::time::Instant;

use serde::Serialize;
use snin_lab::reconfiguration::{
    Case, Change, Costs, Mechanism, Plan, Study, Survival, Way, study,
};

use crate::document::SCHEMA_VERSION;
use crate::failure::Failure;
use crate::output::{Output, OutputFile, Progress, Target};
use crate::{Verdict, cli};

/// What `snin study reconfiguration --json` prints. It holds no wall times and no dates: the same arguments give
/// the same bytes.
#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    #[serde(flatten)]
    study: &'a Study,
}

/// Measures, draws, prints.
pub(crate) fn reconfiguration<W: Write>(
    args: &cli::Reconfiguration,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let json = Target::open(args.format.json.as_deref())?;
    let html = args.html.as_deref().map(OutputFile::open).transpose()?;
    let wall = args.wall.as_deref().map(OutputFile::open).transpose()?;
    let mut clock = Wall { file: wall, steps: Vec::new() };
    let mut sizes = args.switches.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let plan = Plan {
        sizes,
        seeds: args.seeds,
        packet_seeds: args.packet_seeds,
        clos: args.clos,
        scale: args.scale.clone(),
        costs: Costs::default(),
    };
    let progress = Progress::new();
    let study = study(&plan, |what| {
        progress.step(what.clone());
        clock.step(what);
    })?;
    clock.finish()?;
    if let Some(file) = html {
        progress.step("drawing");
        let switches: Vec<String> = plan.sizes.iter().map(ToString::to_string).collect();
        let mut command = format!(
            "snin study reconfiguration --switches {} --seeds {} --packet-seeds {}{}",
            switches.join(","),
            plan.seeds,
            plan.packet_seeds,
            if plan.clos { " --clos" } else { "" }
        );
        for (recipe, place) in plan.scale.iter().zip(0..) {
            command += &format!("{} {recipe}", if place == 0 { " --scale" } else { "" });
        }
        let made = format!("by snin {}, in virtual time", env!("CARGO_PKG_VERSION"));
        let page = snin_report::reconfiguration::html(&study, &made, &command);
        file.write(page.as_bytes())?;
    }
    drop(progress);
    let document = Document { schema_version: SCHEMA_VERSION, study: &study };
    out.report(json, &document, |out| print(&study, out))?;
    Ok(if is_well(&study) { Verdict::Well } else { Verdict::Unwell })
}

/// How long each step took, in a file of its own: the document and the page hold no time of this machine.
struct Wall {
    file: Option<OutputFile>,
    steps: Vec<(String, Instant)>,
}

impl Wall {
    fn step(&mut self, what: String) {
        self.steps.push((what, Instant::now()));
    }

    /// A line a step: milliseconds, a tab, what was done.
    fn finish(mut self) -> Result<(), Failure> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let end = Instant::now();
        let ends = self.steps.iter().skip(1).map(|step| step.1).chain([end]);
        for ((what, begin), end) in self.steps.iter().zip(ends) {
            let ms = end.duration_since(*begin).as_secs_f64() * 1e3;
            file.line(format_args!("{ms:.3}\t{what}"))?;
        }
        file.publish()
    }
}

/// Nothing that the checkers object to.
fn is_well(study: &Study) -> bool {
    let cases = || study.sizes.iter().chain(&study.clos).flat_map(|size| &size.cases);
    let loops = |case: &Case| case.mechanism == Mechanism::Ours && case.looping_states > 0;
    let survived = |one: &Survival| one.sound && (one.way == Way::Baseline || one.rounds == 0);
    cases().all(|case| case.unsound == 0 && !loops(case)) && study.scale.iter().all(survived)
}

fn print<W: Write>(study: &Study, out: &mut Output<W>) -> Result<(), Failure> {
    if let Some(line) = &study.time_line {
        out.line(format_args!(
            "time line: {} of {} switches and {} hosts goes; {} packets/s a host, saturation {}",
            line.switch, line.switches, line.hosts, line.rate, line.saturation
        ))?;
        for outcome in &line.outcomes {
            let lost: u64 = outcome.lost.values().sum();
            let phases: Vec<String> = outcome
                .phases
                .iter()
                .map(|(phase, time)| format!("{} {time}", phase.name()))
                .collect();
            out.line(format_args!(
                "  {:<9}{} SMPs, {} blocks, {}; {lost} of {} packets lost",
                outcome.mechanism.name(),
                outcome.smps.values().sum::<u64>(),
                outcome.blocks,
                phases.join(", "),
                outcome.sent
            ))?;
        }
    }
    for size in study.sizes.iter().chain(&study.clos) {
        out.line(format_args!("{} switches, {} fabrics", size.name, size.fabrics))?;
        for change in Change::ALL {
            for case in size.cases.iter().filter(|case| case.change == change) {
                out.line(describe(case))?;
            }
        }
    }
    if !study.factors.is_empty() {
        out.line(format_args!(
            "{} switches, with one thing of ours after the other",
            study.factors_of
        ))?;
    }
    for rung in &study.factors {
        out.line(&rung.name)?;
        for case in &rung.cases {
            out.line(describe(case))?;
        }
    }
    let first = |one: &&Survival| {
        one.failure == "a cable" && matches!(one.way, Way::Baseline | Way::Ordered)
    };
    for one in study.scale.iter().filter(first) {
        let whose = if one.way == Way::Baseline { Mechanism::Baseline } else { Mechanism::Ours };
        out.line(format_args!(
            "{} ({} hosts), {}: up after {}, {} SMPs",
            one.fabric,
            one.hosts,
            whose.name(),
            one.bring_up,
            one.bring_up_smps
        ))?;
    }
    for one in &study.scale {
        out.line(format_args!(
            "{} ({} hosts), {}, {}: {} in all, {} SMPs, {} blocks; {} of {} flows without a way for {} on \
             average, {} at most",
            one.fabric,
            one.hosts,
            one.failure,
            one.way.name(),
            one.time,
            one.smps,
            one.blocks,
            one.hit,
            one.flows,
            one.mean_outage,
            one.longest_outage
        ))?;
    }
    Ok(())
}

fn describe(case: &Case) -> String {
    let of = |sum: u64| sum as f64 / case.changes.max(1) as f64;
    let ms = |time: snin_protocol::Time| of(time.nanos()) / 1e6;
    let mut text = format!(
        "  {:<9}{:<9}{:>9.3} ms ({:.3} after detection), {:.1} SMPs, {:.1} blocks, {:.2} % of entries changed",
        case.change.name(),
        case.mechanism.name(),
        ms(case.time),
        ms(case.after_detection()),
        of(case.all_smps()),
        of(case.blocks),
        100.0 * case.entries.0 as f64 / case.entries.1.max(1) as f64,
    );
    if case.under_traffic > 0 {
        let lost = case.all_lost() as f64 / case.under_traffic as f64;
        text += &format!(", {lost:.0} packets lost");
        if case.held > 0 {
            text += &format!(", {:.0} held back", case.held as f64 / case.under_traffic as f64);
        }
    }
    if case.looping_states > 0 {
        text += &format!(", {} states with a loop", case.looping_states);
    }
    if case.unsound > 0 {
        text += &format!("; {} of {} NOT sound afterwards", case.unsound, case.changes);
    }
    text
}
