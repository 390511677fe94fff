//! `snin plan slices`: what a list of jobs makes of a fabric when each has links of its own.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use snin_controller_core::plan::packing_shape;
use snin_controller_core::slices::{
    self, Job, JobId, Limits, Refusal, Replay, Room, Slices, generate, replay,
};
use snin_fabric::routing::{Engine, Routing};

use crate::document::SCHEMA_VERSION;
use crate::failure::Failure;
use crate::output::{Output, Progress, Target};
use crate::{Verdict, cli, input};

/// Replays, measures, reports.
pub(crate) fn run<W: Write>(args: &cli::Slices, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let json = Target::open(args.format.json.as_deref())?;
    let progress = Progress::new();
    progress.step("reading the topology");
    let mut slices = fabric(&args.topology)?;
    let jobs = jobs(args, &slices)?;
    progress.step(format!("replaying {} jobs", jobs.len()));
    let mut timed = Timed { slices: &mut slices, times: Times::default() };
    let replay = replay(&mut timed, &jobs);
    let times = timed.times;
    drop(progress);
    let report = Report::new(&slices, &jobs, &replay, times);
    out.report(json, &report, |out| print(&report, out))?;
    Ok(if report.impossible.is_empty() { Verdict::Well } else { Verdict::Unwell })
}

fn fabric(name: &str) -> Result<Slices, Failure> {
    let topology = input::topology(name)?;
    let routing = Routing::compute(&topology, Engine::Trees, None)
        .map_err(|error| Failure::Routing { name: name.to_owned(), error })?;
    let unsuitable = |what: String| Failure::content(name, format_args!(" {what}"));
    let (shape, leaf_of_host) = packing_shape(&topology, &routing).ok_or_else(|| {
        let why = routing.shape.as_ref().err().map(ToString::to_string);
        unsuitable(format!("no Clos, so there are no trees: {}", why.unwrap_or_default()))
    })?;
    Slices::new(&shape, &leaf_of_host, Limits::default())
        .map_err(|error| unsuitable(error.to_string()))
}

fn jobs(args: &cli::Slices, slices: &Slices) -> Result<Vec<Job>, Failure> {
    match (&args.list.jobs, args.list.generate) {
        (Some(path), _) => read(path),
        (None, count) => {
            let most = u32::try_from(slices.hosts()).unwrap_or(u32::MAX);
            Ok(generate(count.unwrap_or(0), args.seed, most))
        }
    }
}

fn read(path: &Path) -> Result<Vec<Job>, Failure> {
    let text = input::file(path)?;
    slices::parse(&text).map_err(|error| Failure::content(&path.display().to_string(), error))
}

/// How long every attempt took.
#[derive(Default)]
struct Times {
    all: Vec<Duration>,
    granted: Vec<Duration>,
    refused: Vec<Duration>,
}

impl Times {
    fn add(&mut self, time: Duration, answer: &Result<(), Refusal>) {
        self.all.push(time);
        if answer.is_ok() { &mut self.granted } else { &mut self.refused }.push(time);
    }
}

/// Microseconds.
#[derive(Serialize)]
struct Percentiles {
    count: usize,
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Percentiles {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |thousandths: usize| {
            // The smallest time that at least so many are no longer than.
            let rank = (times.len() * thousandths).div_ceil(1000);
            times.get(rank.saturating_sub(1)).map_or(0.0, |time| time.as_nanos() as f64 / 1000.0)
        };
        Self { count: times.len(), p50: at(500), p99: at(990), p999: at(999), max: at(1000) }
    }
}

/// Slices whose searches are timed.
struct Timed<'a> {
    slices: &'a mut Slices,
    times: Times,
}

impl Room for Timed<'_> {
    fn hosts(&self) -> usize {
        self.slices.hosts()
    }

    fn begin(&mut self, job: JobId, hosts: u32, _now: u64) -> Result<(), Refusal> {
        let start = Instant::now();
        let answer = self.slices.allocate(job, hosts).map(drop);
        self.times.add(start.elapsed(), &answer);
        answer
    }

    fn end(&mut self, job: JobId, _now: u64) {
        self.slices.release(job);
    }
}

#[derive(Serialize)]
struct Impossible {
    job: u64,
    reason: String,
}

/// What `snin plan slices --json` prints.
#[derive(Serialize)]
struct Report {
    schema_version: u32,
    hosts: usize,
    jobs: usize,
    started: usize,
    impossible: Vec<Impossible>,
    /// Node-time used, of the node-time there is until the last job begins; absent when all began at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    utilisation: Option<f64>,
    /// When the last job began.
    last_start: u64,
    /// How often the job at the head of the queue had to wait for others to end, and how often although
    /// enough hosts were free.
    refused: usize,
    refused_for_links: usize,
    allocation_us: Percentiles,
    granted_us: Percentiles,
    refused_us: Percentiles,
}

impl Report {
    fn new(slices: &Slices, jobs: &[Job], replay: &Replay, times: Times) -> Self {
        let impossible = replay.impossible.iter();
        Self {
            schema_version: SCHEMA_VERSION,
            hosts: slices.hosts(),
            jobs: jobs.len(),
            started: replay.started.len(),
            impossible: impossible
                .map(|(job, reason)| Impossible { job: job.0, reason: reason.to_string() })
                .collect(),
            utilisation: replay.utilisation(),
            last_start: replay.started.last().map_or(0, |start| start.at),
            refused: replay.refused,
            refused_for_links: replay.refused_for_links,
            allocation_us: Percentiles::of(times.all),
            granted_us: Percentiles::of(times.granted),
            refused_us: Percentiles::of(times.refused),
        }
    }
}

fn print<W: Write>(report: &Report, out: &mut Output<W>) -> Result<(), Failure> {
    let mut row = |key: &str, value: String| out.line(format_args!("{key:<18}{value}"));
    row("hosts", report.hosts.to_string())?;
    row("jobs", format!("{}, {} started", report.jobs, report.started))?;
    if let Some(utilisation) = report.utilisation {
        let last = report.last_start;
        row("utilisation", format!("{:.2} % until {last}", 100.0 * utilisation))?;
    }
    let (waits, links) = (report.refused, report.refused_for_links);
    row("refused", format!("{waits} times, {links} of them though enough hosts were free"))?;
    let times = [
        ("allocation", &report.allocation_us),
        ("  granted", &report.granted_us),
        ("  refused", &report.refused_us),
    ];
    for (what, Percentiles { count, p50, p99, p999, max }) in times {
        let text =
            format!("p50 {p50:.1}  p99 {p99:.1}  p99.9 {p999:.1}  max {max:.1} us, of {count}");
        row(what, text)?;
    }
    let impossible = report.impossible.iter();
    impossible.take(10).try_for_each(|Impossible { job, reason }| {
        row("impossible", format!("job {job}: {reason}"))
    })?;
    match report.impossible.len().checked_sub(10) {
        Some(more @ 1..) => row("impossible", format!("and {more} more")),
        _ => Ok(()),
    }
}
