//! `snin audit`: which jobs of a site met on which links, and what they may have lost by that. It reads files and
//! writes nothing anywhere else.

mod accounting;

use std::io::Write;

use serde::Serialize;
use snin_controller_core::plan::packing_shape;
use snin_controller_core::slices::{JobId, Limits, Slices};
use snin_fabric::check::sharing::{
    JobRun, JobShare, Loads, PairShare, Sharing, Ways, loads, sharing,
};
use snin_fabric::hosts::HostId;
use snin_fabric::names::HostNames;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{Lmc, NodeIndex, PortIndex, Topology};

use self::accounting::{Accounting, moment};
use crate::failure::Failure;
use crate::output::{Output, Progress, Target};
use crate::{Verdict, cli, input};

/// Rises when a key of the document changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// What `snin audit --json` prints.
#[derive(Serialize)]
struct Report {
    schema_version: u32,
    hosts: usize,
    jobs: usize,
    /// Jobs that never had nodes.
    without_nodes: usize,
    begin: String,
    end: String,
    node_hours: f64,
    /// Jobs that shared a link with another one, on the tables in force.
    jobs_that_shared: usize,
    pairs_that_shared: usize,
    /// Ordered pairs of a job's ports that the tables in force do not join.
    lost: u64,
    ways: Vec<Way>,
    slices: Option<SlicesOfJobs>,
    /// On the tables in force, those that lost most first.
    pairs: Vec<Pair>,
    /// Jobs that lost anything to others on the tables in force, those that lost most first.
    slowed: Vec<Slowed>,
}

/// What a way of routing would have made of the jobs.
#[derive(Serialize)]
struct Way {
    /// "these tables", "dmodk" or "adaptive".
    routing: String,
    node_hours_lost: f64,
    /// Jobs that lost more than one part in a hundred.
    slowed: usize,
    /// What the worst job got of what it gets alone.
    worst: f64,
}

/// What slices would have made of them, on the nodes that they had.
#[derive(Serialize)]
struct SlicesOfJobs {
    /// Jobs with links of their own.
    granted: usize,
    /// Jobs for which there were not enough links beside the others.
    refused: Vec<String>,
    /// Of those.
    refused_node_hours: f64,
}

#[derive(Serialize)]
struct Pair {
    jobs: [String; 2],
    links: usize,
    seconds: u64,
    kept: [f64; 2],
    node_hours_lost: f64,
    /// The port that sends on the link that both load most.
    most: String,
}

#[derive(Serialize)]
struct Slowed {
    job: String,
    nodes: usize,
    #[serde(flatten)]
    share: JobShare,
}

/// A job with its nodes found.
struct Found {
    name: String,
    /// By node, its ports.
    nodes: Vec<Vec<HostId>>,
    time: std::ops::Range<u64>,
}

/// Reads, reckons, reports.
pub(crate) fn run<W: Write>(args: &cli::Audit, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let json = Target::open(args.format.json.as_deref())?;
    let name = &args.topology.topology;
    let progress = Progress::new();
    progress.step("reading the topology");
    let topology = input::named_topology(name, &args.topology.names)?;
    progress.step("reading the tables");
    let routing = match &args.tables {
        Some(tables) => input::found_routing(name, &topology, tables)?,
        None => Routing::compute(&topology, Engine::Trees, None)
            .map_err(|error| Failure::Routing { name: name.clone(), error })?,
    };
    progress.step("reading the jobs");
    let file = args.jobs.display().to_string();
    let accounting = accounting::parse(&input::file(&args.jobs)?)
        .map_err(|what| Failure::content(&file, what))?;
    let (without_nodes, jobs) =
        (accounting.without_nodes, found(accounting, &topology, &routing, &file)?);
    let mut ways = Vec::new();
    progress.step("walking the tables in force");
    let tables = Ways::Tables(routing.plan.addresses(), &routing.tables);
    let (in_force, lost) = share(&topology, &routing, &jobs, tables);
    ways.push(way("these tables", &in_force));
    // D-mod-K is for a Clos.
    let dmodk = Routing::compute(&topology, Engine::DModK, Some(Lmc::ZERO)).ok();
    if let Some(dmodk) = dmodk {
        progress.step("walking dmodk's tables");
        let tables = Ways::Tables(dmodk.plan.addresses(), &dmodk.tables);
        ways.push(way("dmodk", &share(&topology, &routing, &jobs, tables).0));
    }
    progress.step("dividing over all shortest ways");
    ways.push(way("adaptive", &share(&topology, &routing, &jobs, Ways::Spread).0));
    progress.step("giving jobs links of their own");
    let slices = slices(&topology, &jobs);
    drop(progress);

    let pairs = in_force.pairs.iter().take(args.pairs);
    let pairs = pairs.map(|pair| named(&topology, &jobs, pair)).collect();
    let report = Report {
        schema_version: SCHEMA_VERSION,
        hosts: routing.hosts.len(),
        jobs: jobs.len(),
        without_nodes,
        begin: moment(jobs.iter().map(|job| job.time.start).min().unwrap_or(0)),
        end: moment(jobs.iter().map(|job| job.time.end).max().unwrap_or(0)),
        node_hours: jobs.iter().map(Found::node_hours).sum(),
        jobs_that_shared: in_force.jobs.iter().filter(|share| share.others > 0).count(),
        pairs_that_shared: in_force.pairs.len(),
        lost,
        ways,
        slices,
        pairs,
        slowed: slowed(&jobs, &in_force.jobs),
    };
    out.report(json, &report, |out| print(&report, out))?;
    Ok(if report.pairs_that_shared == 0 && lost == 0 { Verdict::Well } else { Verdict::Unwell })
}

impl Found {
    fn node_hours(&self) -> f64 {
        hours(self.nodes.len() as f64 * (self.time.end - self.time.start) as f64)
    }
}

fn hours(seconds: f64) -> f64 {
    seconds / 3600.0
}

/// The jobs, their nodes found on the fabric. One that still runs lasts until the last moment of the file.
fn found(
    accounting: Accounting,
    topology: &Topology,
    routing: &Routing,
    file: &str,
) -> Result<Vec<Found>, Failure> {
    let names = HostNames::of(topology, &routing.hosts);
    let jobs = accounting.jobs;
    let last = jobs.iter().map(|job| job.end.unwrap_or(job.begin)).max().unwrap_or(0);
    let found = jobs.into_iter().map(|job| {
        let nodes = names
            .find_nodes(&job.nodes)
            .map_err(|error| Failure::content(file, format_args!("{}: {error}", job.line)))?;
        Ok(Found { name: job.name, nodes, time: job.begin..job.end.unwrap_or(last).max(job.begin) })
    });
    found.collect()
}

/// What each job sends, and who met whom.
fn share(topology: &Topology, routing: &Routing, jobs: &[Found], ways: Ways<'_>) -> (Sharing, u64) {
    let mut lost = 0;
    let runs = jobs.iter().map(|job| {
        let mut all = Loads::new();
        for rail in rails(job) {
            let ends = rail.iter().filter_map(|&host| routing.hosts.get(host));
            let ends: Vec<(PortIndex, NodeIndex)> =
                ends.map(|host| (host.port, host.switch)).collect();
            let (loads, without_way) = loads(topology, ways, &ends);
            lost += without_way;
            all.extend(loads);
        }
        all.sort_unstable();
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        JobRun { hosts: job.nodes.len(), time: job.time.clone(), loads: all }
    });
    let runs: Vec<JobRun> = runs.collect();
    (sharing(topology, &runs), lost)
}

/// The ports that send to each other: where all nodes have equally many, those of one rail.
fn rails(job: &Found) -> Vec<Vec<HostId>> {
    let most = job.nodes.iter().map(Vec::len).max().unwrap_or(0);
    if job.nodes.iter().any(|ports| ports.len() != most) {
        return vec![job.nodes.concat()];
    }
    (0..most).map(|rail| job.nodes.iter().map(|ports| ports[rail]).collect()).collect()
}

fn way(routing: &str, sharing: &Sharing) -> Way {
    let kept = |share: &JobShare| share.mean / share.alone;
    Way {
        routing: routing.to_owned(),
        node_hours_lost: hours(sharing.jobs.iter().map(|share| share.lost).sum()),
        slowed: sharing.jobs.iter().filter(|share| kept(share) < 0.99).count(),
        worst: sharing.jobs.iter().map(kept).fold(1.0, f64::min),
    }
}

/// In the order in which they began each gets a slice on its nodes, as long as there are links; none where the
/// fabric is no Clos.
fn slices(topology: &Topology, jobs: &[Found]) -> Option<SlicesOfJobs> {
    let routing = Routing::compute(topology, Engine::Trees, None).ok()?;
    let (shape, leaf_of_host) = packing_shape(topology, &routing)?;
    let mut slices = Slices::new(&shape, &leaf_of_host, Limits::default()).ok()?;
    let mut found = SlicesOfJobs { granted: 0, refused: Vec::new(), refused_node_hours: 0.0 };
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&n| jobs[n].time.start);
    let mut running = Vec::<usize>::new();
    for n in order {
        let job = &jobs[n];
        running.retain(|&other| {
            let goes_on = jobs[other].time.end > job.time.start;
            if !goes_on {
                slices.release(JobId(other as u64));
            }
            goes_on
        });
        let hosts = job.nodes.concat();
        match slices.allocate_on(JobId(n as u64), &hosts) {
            Ok(_) => {
                found.granted += 1;
                running.push(n);
            }
            Err(refusal) => {
                found.refused.push(format!("{}: {refusal}", job.name));
                found.refused_node_hours += job.node_hours();
            }
        }
    }
    Some(found)
}

fn named(topology: &Topology, jobs: &[Found], pair: &PairShare) -> Pair {
    Pair {
        jobs: pair.jobs.map(|n| jobs[n].name.clone()),
        links: pair.links,
        seconds: pair.seconds,
        kept: pair.kept,
        node_hours_lost: hours(pair.lost),
        most: topology.port_name(pair.most),
    }
}

fn slowed(jobs: &[Found], shares: &[JobShare]) -> Vec<Slowed> {
    let mut slowed: Vec<Slowed> = jobs
        .iter()
        .zip(shares)
        .filter(|(_, share)| share.lost > 0.0)
        .map(|(job, &share)| Slowed { job: job.name.clone(), nodes: job.nodes.len(), share })
        .collect();
    slowed.sort_by(|a, b| b.share.lost.total_cmp(&a.share.lost));
    slowed
}

fn print<W: Write>(report: &Report, out: &mut Output<W>) -> Result<(), Failure> {
    let Report { hosts, jobs, begin, end, node_hours, pairs_that_shared, .. } = report;
    out.line(format_args!(
        "{hosts} hosts, {jobs} jobs from {begin} to {end}, {node_hours:.1} node-hours"
    ))?;
    if report.without_nodes > 0 {
        out.line(format_args!("{} jobs never had nodes", report.without_nodes))?;
    }
    if report.lost > 0 {
        out.line(format_args!(
            "{} pairs of a job's ports are not joined by these tables",
            report.lost
        ))?;
    }
    out.line(format_args!(
        "{} jobs used a link that another one used at the same time: {pairs_that_shared} pairs of jobs",
        report.jobs_that_shared
    ))?;
    out.line("                node-hours lost    jobs slowed   the worst")?;
    out.line("                      to others  by 1 % and more    job gets")?;
    for Way { routing, node_hours_lost, slowed, worst } in &report.ways {
        let part = 100.0 * node_hours_lost / node_hours.max(f64::MIN_POSITIVE);
        let (lost, worst) = (format!("{node_hours_lost:.1} ({part:.1} %)"), 100.0 * worst);
        out.line(format_args!("{routing:<14}  {lost:>15}  {slowed:>15}  {worst:>8.1} %"))?;
    }
    match &report.slices {
        None => out.line("links of their own: no Clos, so there are no trees")?,
        Some(SlicesOfJobs { granted, refused, refused_node_hours }) => {
            out.line(format_args!(
                "links of their own, on the nodes that they had: {granted} of {jobs} jobs; {} had to share \
                 ({refused_node_hours:.1} node-hours)",
                refused.len()
            ))?;
            refused.iter().take(SHOWN).try_for_each(|line| out.line(format_args!("  {line}")))?;
            if let Some(more) = refused.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                out.line(format_args!("  and {more} more"))?;
            }
        }
    }
    if !report.pairs.is_empty() {
        out.line(format_args!("the worst of {pairs_that_shared} pairs, on these tables:"))?;
    }
    for Pair { jobs: [a, b], links, seconds, kept, node_hours_lost, most } in &report.pairs {
        let time = humantime::format_duration(std::time::Duration::from_secs(*seconds));
        out.line(format_args!(
            "  {a} and {b}: {links} links for {time}; {:.0} % and {:.0} % of what each gets alone, \
             {node_hours_lost:.1} node-hours; most at {most}",
            100.0 * kept[0],
            100.0 * kept[1]
        ))?;
    }
    out.line(
        "Reckoned as if each port sent to all others of its job (of its rail, where nodes have several) at its \
         link's rate; what a link cannot carry is missing to all on it.",
    )
}

/// Refusals that the text names.
const SHOWN: usize = 5;
