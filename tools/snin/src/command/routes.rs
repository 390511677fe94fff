//! `snin topo routes`: how evenly routes load the links, ours beside others'.

mod chart;

use std::io::Write;

use serde::Serialize;
use snin_fabric::check::credit::{Traffic, credit};
use snin_fabric::check::load::{LoadReport, load};
use snin_fabric::routing::{Engine, Lanes, Routing, RoutingOptions};
use snin_fabric::{Lmc, NodeIndex, PortIndex, Topology};

use crate::failure::Failure;
use crate::output::{Output, Progress, Target};
use crate::{Verdict, cli, input};

/// Rises when a key of the document changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// What `snin topo routes --json` prints.
#[derive(Serialize)]
struct Report {
    schema_version: u32,
    hosts: usize,
    matchings: u32,
    seed: u64,
    routes: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    /// "these tables", "snin-sm", "dmodk", "updown", "lanes", "dor" or "minhop".
    routing: String,
    /// 2^lmc addresses a host port; absent of tables that were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    lmc: Option<u8>,
    #[serde(flatten)]
    load: LoadReport,
    /// Whether one lane is enough: links wait for each other in no circle.
    one_lane: bool,
    /// Virtual lanes that the routes take, so that links of none wait for each other in a circle.
    lanes: u8,
}

/// Computes or reads tables, and walks them.
pub(crate) fn run<W: Write>(
    args: &cli::RoutesOfTables,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let json = Target::open(args.format.json.as_deref())?;
    let svg = Target::open(args.svg.as_deref())?;
    Target::one_on_stdout(&[("--json", &json), ("--svg", &svg)])?;
    let name = &args.topology.topology;
    let progress = Progress::new();
    progress.step("reading the topology");
    let topology = input::named_topology(name, &args.topology.names)?;
    let drawn = (args.matchings, args.seed);
    let mut rows = Vec::new();
    if let Some(file) = &args.tables {
        progress.step("walking the tables in force");
        let routing = input::found_routing(name, &topology, file)?;
        rows.push(row("these tables", None, &topology, &routing, drawn));
    }
    let options = RoutingOptions {
        lmc: args.lmc,
        unmanaged_trees: args.unmanaged_trees.into(),
        lanes: args.lanes,
        ..RoutingOptions::default()
    };
    let ours = Routing::with(&topology, &options);
    let ours = ours.map_err(|error| Failure::Routing { name: name.clone(), error })?;
    let hosts = ours.hosts.len();
    progress.step("walking snin-sm's tables");
    let lmc = Some(ours.plan.lmc().bits());
    rows.push(row("snin-sm", lmc, &topology, &ours, drawn));
    let others =
        [Engine::DModK, Engine::UpDown, Engine::Lanes, Engine::DimensionOrder, Engine::MinHop];
    for engine in others {
        progress.step(format!("walking {engine}'s tables"));
        let options = RoutingOptions { engine, lmc: Some(Lmc::ZERO), ..options };
        // D-mod-K is for a Clos, and some need more lanes than there are.
        match Routing::with(&topology, &options) {
            Ok(routing) if routing.engine == engine => {
                rows.push(row(&engine.to_string(), Some(0), &topology, &routing, drawn));
            }
            _ => {}
        }
    }
    drop(progress);
    let (schema_version, matchings, seed) = (SCHEMA_VERSION, args.matchings, args.seed);
    let report = Report { schema_version, hosts, matchings, seed, routes: rows };
    let text = !matches!(svg, Some(Target::Stdout));
    out.report(json, &report, |out| if text { print(&report, out) } else { Ok(()) })?;
    if let Some(target) = svg {
        target.write(&chart::draw(&report.routes), out)?;
    }
    let lost = report.routes[0].load.lost;
    Ok(if lost == 0 { Verdict::Well } else { Verdict::Unwell })
}

fn row(
    name: &str,
    lmc: Option<u8>,
    topology: &Topology,
    routing: &Routing,
    drawn: (u32, u64),
) -> Row {
    let ends: Vec<(PortIndex, NodeIndex)> =
        routing.hosts.iter().map(|(_, host)| (host.port, host.switch)).collect();
    let load = load(topology, routing.plan.addresses(), &routing.tables, &ends, drawn);
    let waits =
        credit(topology, routing.plan.addresses(), &routing.tables, Traffic::Hosts, |_, _| 0);
    let lanes = routing.lanes.as_ref().map_or(1, Lanes::count);
    Row { routing: name.to_owned(), lmc, load, one_lane: waits.is_ok(), lanes }
}

fn print<W: Write>(report: &Report, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format_args!(
        "{} hosts, every one sending to every other at its base address; {} random matchings",
        report.hosts, report.matchings
    ))?;
    out.line("                   pairs on a link        switches on  effective  credit loop")?;
    out.line(
        "routing       LMC    most       mean  the way (most)  bisection  on one lane  lanes",
    )?;
    for Row { routing, lmc, load, one_lane, lanes } in &report.routes {
        let lmc = lmc.map_or_else(|| "-".to_owned(), |lmc| lmc.to_string());
        let LoadReport { most, mean, hops, longest, bisection, .. } = load;
        let loop_ = if *one_lane { "none" } else { "yes" };
        out.line(format_args!(
            "{routing:<12}  {lmc:>3}  {most:>6}  {mean:>9.1}  {hops:>8.2} ({longest:>3})  {bisection:>9.3}  \
             {loop_:>11}  {lanes:>5}"
        ))?;
        if load.lost > 0 {
            out.line(format_args!("  {} of {} pairs do not arrive", load.lost, load.pairs))?;
        }
    }
    let first = &report.routes[0];
    out.line(format_args!("most loaded with {}: {}", first.routing, first.load.most_loaded))
}
