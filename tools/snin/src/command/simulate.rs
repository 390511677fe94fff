//! `snin sm simulate`: bring an emulated fabric up in virtual time, and see what each event costs.

use std::fs;
use std::io::{self, Write};

use serde::Serialize;
use snin_emulator::Noise;
use snin_fabric::check::cover::CoverReport;
use snin_fabric::check::credit::CreditReport;
use snin_fabric::check::walk::WalkReport;
use snin_protocol::Time;
use snin_sm_core::Report as ManagerReport;
use snin_sm_database::config::Config;
use snin_sweep::Report as SweepReport;

use crate::command::tables;
use crate::document::SCHEMA_VERSION;
use crate::failure::Failure;
use crate::output::{Output, Progress, Target};
use crate::{Verdict, cli, input};
use snin_lab::event::When;
use snin_lab::subnet::{Cost, Judged, Subnet};

/// How much virtual time the manager has to deal with anything.
const PATIENCE: Time = Time::secs(60);
const NAMED: usize = 10;

/// What `snin sm simulate --json` prints.
#[derive(Serialize)]
struct Simulated {
    schema_version: u32,
    healthy: bool,
    /// What the manager has found: of nodes, as many as `nodes_in_file` at best.
    nodes: usize,
    nodes_in_file: usize,
    switches: usize,
    hosts: usize,
    trees: usize,
    lmc: u8,
    bring_up: CostEntry,
    /// SMPs of the bring-up by method and attribute.
    smps: Vec<(String, u64)>,
    events: Vec<EventEntry>,
    cables: usize,
    /// Cables that are not cut, between nodes that have power.
    cables_up: usize,
    active_cables: usize,
    missing: Vec<String>,
    /// The checkers' word on what the switches hold at the end; absent where addresses contradict each
    /// other.
    cover: Option<CoverReport>,
    routes: Option<WalkReport>,
    credit: Option<CreditReport>,
}

#[derive(Serialize)]
struct EventEntry {
    event: String,
    cost: CostEntry,
}

#[derive(Serialize)]
struct CostEntry {
    smps: u64,
    smps_to_view: Option<u64>,
    sets: u64,
    lft_blocks: u64,
    /// Of those, written first with entries dropped and then as they shall be.
    lft_blocks_rewritten: u64,
    virtual_ns: u64,
}

impl From<Cost> for CostEntry {
    fn from(cost: Cost) -> Self {
        Self {
            smps: cost.smps,
            smps_to_view: cost.smps_to_view,
            sets: cost.sets,
            lft_blocks: cost.blocks,
            lft_blocks_rewritten: cost.rewritten,
            virtual_ns: cost.time.nanos(),
        }
    }
}

/// Brings up, lets happen, judges.
pub(crate) fn run<W: Write>(args: &cli::Simulate, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let json = Target::open(args.format.json.as_deref())?;
    let progress = Progress::new();
    progress.step("reading the topology");
    let topology = input::topology(&args.topology)?;
    let mut acts = Vec::with_capacity(args.event.len());
    for happening in &args.event {
        let When::Time(at) = happening.at else {
            let what = format!("`{}`: there are no windows here, only times", happening.text);
            return Err(Failure::Event { what });
        };
        let act = happening.act(&topology);
        acts.push((at, happening, act.map_err(|what| Failure::Event { what })?));
    }
    acts.sort_by_key(|&(at, ..)| at);
    let hardware = snin_emulator::Config {
        seed: args.seed,
        agent_latency: args.agent_latency,
        noise: Noise { drop: args.drop.0, ..Noise::NONE },
        ..snin_emulator::Config::default()
    };
    let config = Config {
        lmc: args.lmc.map(snin_fabric::Lmc::bits),
        qos: args.qos,
        seed: args.seed,
        ..Config::default()
    };
    let mut subnet = Subnet::new(&topology, hardware, config)
        .map_err(|error| Failure::content(&args.topology, format_args!(" {error}")))?;

    if let Some(file) = &args.capture {
        let to = fs::File::create(file).map_err(Failure::file(file))?;
        subnet.record(Box::new(io::BufWriter::new(to)));
    }
    progress.step(format!("bringing up {} nodes", topology.node_count()));
    let bring_up = subnet.bring_up(PATIENCE);
    let smps = subnet.metrics().by_name();
    let mut events = Vec::with_capacity(acts.len());
    for (at, happening, act) in acts {
        progress.step(happening.text.clone());
        subnet.run_until(at);
        let cost = subnet.strike(act, PATIENCE).into();
        events.push(EventEntry { event: happening.text.clone(), cost });
    }
    if let Some(file) = &args.capture {
        subnet.end_recording().map_err(Failure::file(file))?;
    }
    progress.step("judging the tables");
    let judged = subnet.judge(NAMED);
    if let (Some(directory), Some((addresses, held))) = (&args.lfts, subnet.read_back()) {
        progress.step("writing the tables that the switches hold");
        tables::write(directory, &topology, &addresses, &held)?;
    }
    drop(progress);

    let missing: Vec<String> = subnet.missing().iter().map(ToString::to_string).collect();
    let cables = subnet.cables();
    let sound = judged.as_ref().is_some_and(Judged::is_ok);
    let view = subnet.view();
    let report = Simulated {
        schema_version: SCHEMA_VERSION,
        healthy: sound && missing.is_empty() && view.is_some() && cables.active == cables.up,
        nodes: view.map_or(0, |view| view.topology().node_count()),
        nodes_in_file: topology.node_count(),
        switches: view.map_or(0, |view| view.topology().switch_count()),
        hosts: view.map_or(0, |view| view.routing().hosts.len()),
        trees: view.map_or(0, |view| view.routing().forest.len()),
        lmc: view.map_or(0, |view| view.routing().plan.lmc().bits()),
        bring_up: bring_up.into(),
        smps,
        events,
        cables: cables.all,
        cables_up: cables.up,
        active_cables: cables.active,
        missing,
        cover: judged.as_ref().map(|judged| judged.cover.clone()),
        routes: judged.as_ref().map(|judged| judged.routes.clone()),
        credit: judged.map(|judged| judged.credit),
    };
    out.report(json, &report, |out| {
        print(&report, out)?;
        // What came up, and how many blocks were written, is said above.
        let said = subnet.reports().iter().filter(|told| {
            !matches!(
                told,
                ManagerReport::Sweep(SweepReport::Ready { .. } | SweepReport::Tables { .. })
            )
        });
        said.into_iter().try_for_each(|told| out.line(format_args!("the manager says: {told}")))?;
        out.line(if report.healthy { "healthy" } else { "NOT healthy" })
    })?;
    Ok(if report.healthy { Verdict::Well } else { Verdict::Unwell })
}

fn print<W: Write>(report: &Simulated, out: &mut Output<W>) -> Result<(), Failure> {
    let Simulated { nodes, nodes_in_file, switches, hosts, trees, lmc, .. } = report;
    out.line(format_args!(
        "the manager found {nodes} of {nodes_in_file} nodes: {switches} switches, {hosts} hosts; {trees} \
         trees, LMC {lmc}"
    ))?;
    let Simulated { cables, cables_up, active_cables, .. } = report;
    out.line(format_args!("{cables_up} of {cables} cables up, {active_cables} of them active"))?;
    for (name, count) in &report.smps {
        out.line(format_args!("  {name:<34}{count:>9}"))?;
    }
    cost("bring-up", &report.bring_up, out)?;
    for event in &report.events {
        cost(&event.event, &event.cost, out)?;
    }
    for missing in &report.missing {
        out.line(format_args!("missing: {missing}"))?;
    }
    match (&report.cover, &report.routes, &report.credit) {
        (Some(cover), Some(routes), Some(credit)) => {
            out.line(cover)?;
            out.line(routes)?;
            out.line(credit)?;
        }
        _ => out.line("ports hold addresses that contradict each other")?,
    }
    Ok(())
}

fn cost<W: Write>(what: &str, cost: &CostEntry, out: &mut Output<W>) -> Result<(), Failure> {
    let milliseconds = cost.virtual_ns as f64 / 1e6;
    let to_view = cost.smps_to_view.map_or_else(String::new, |n| format!(", view after {n}"));
    let twice = match cost.lft_blocks_rewritten {
        0 => String::new(),
        blocks => format!(" ({blocks} to be written again)"),
    };
    let CostEntry { smps, sets, lft_blocks, .. } = cost;
    out.line(format_args!(
        "{what}: {smps} SMPs{to_view}, {sets} writes of which {lft_blocks} table blocks{twice}, \
         {milliseconds:.3} ms virtual"
    ))
}
