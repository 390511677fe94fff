//! `snin plan`: tables, and one window of connections.

use std::collections::BTreeMap;
use std::io::Write;

use snin_controller_core::plan::{Plan, plan_window};
use snin_fabric::Topology;
use snin_fabric::check::owner::{OwnerReport, PlannedPath, owner};
use snin_fabric::clos::NotClos;
use snin_fabric::routing::{Routing, RoutingOptions};
use snin_fabric::traffic::Demand;

use crate::command::tables;
use crate::document::{PlanDocument, ReasonEntry};
use crate::failure::Failure;
use crate::output::{Output, Progress, Target, note};
use crate::{Verdict, cli, input};

/// How many violations are named; all are counted.
const NAMED: usize = 10;

/// Computes, packs, writes.
pub(crate) fn run<W: Write>(args: &cli::Plan, out: &mut Output<W>) -> Result<Verdict, Failure> {
    // Required, unless a subcommand was given instead.
    let fabric = args.topology.as_deref().unwrap_or_default();
    let json = Target::open(args.format.json.as_deref())?;
    let svg = Target::open(args.svg.as_deref())?;
    Target::one_on_stdout(&[("--json", &json), ("--svg", &svg)])?;
    let progress = Progress::new();
    progress.step("reading the topology");
    let topology = input::named_topology(fabric, &args.names)?;
    progress.step("computing addresses, trees and tables");
    let options = RoutingOptions {
        engine: args.routing,
        lmc: args.lmc,
        unmanaged_trees: args.unmanaged_trees.into(),
        ..RoutingOptions::default()
    };
    let routing = Routing::with(&topology, &options);
    let routing = routing.map_err(|error| Failure::Routing { name: fabric.to_owned(), error })?;
    let demands = match &args.traffic {
        None => Vec::new(),
        Some(traffic) => input::traffic(traffic, args.seed, &topology, &routing)?,
    };
    progress.step(format!("packing {} connections", demands.len()));
    let plan = plan_window(&topology, &routing, &demands);
    progress.step("checking the owner of every link");
    let certificate = certify(&topology, &routing, &demands, &plan);
    if let Some(directory) = &args.lfts {
        progress.step("writing the tables");
        tables::write(directory, &topology, routing.plan.addresses(), &routing.tables)?;
    }
    let mut wants_text = true;
    if let Some(target) = svg {
        progress.step("drawing");
        let drawing = snin_report::svg::draw(&topology, &routing, &demands, &plan);
        wants_text = target.write(&drawing, out)?;
    }
    drop(progress);

    let load = certificate.max_link_load;
    let document = PlanDocument::new(&topology, &routing, &demands, &plan, load);
    out.report(json, &document, |out| match wants_text {
        true => print(&topology, &routing, &document, args.traffic.is_some(), out),
        false => Ok(()),
    })?;
    let violations = certificate.violations.total;
    if violations > 0 {
        note(format_args!("{fabric}: {certificate}"));
        return Ok(Verdict::Unwell);
    }
    let left_over = !plan.deferred.is_empty() || !plan.refused.is_empty();
    if args.strict && left_over {
        let first = document.refused.first().or_else(|| document.deferred.first());
        if let Some(entry) = first {
            let (waiting, never) = (plan.deferred.len(), plan.refused.len());
            note(format_args!(
                "{}: {waiting} deferred and {never} refused with --strict; first {} -> {}: {}",
                args.traffic.as_deref().unwrap_or_default(),
                entry.source.0,
                entry.destination.0,
                entry.reason
            ));
        }
        return Ok(Verdict::Unwell);
    }
    Ok(Verdict::Well)
}

/// The independent checker's word on the plan.
fn certify(topology: &Topology, routing: &Routing, demands: &[Demand], plan: &Plan) -> OwnerReport {
    let port = |host| routing.hosts.get(host).map(|host| host.port);
    let paths = plan.grants.iter().filter_map(|grant| {
        let demand = demands[grant.demand];
        Some(PlannedPath {
            source: port(demand.source)?,
            destination: port(demand.destination)?,
            dlid: grant.dlid.0,
            path: grant.path.iter().map(|hop| (hop.switch, hop.port)).collect(),
        })
    });
    let paths: Vec<PlannedPath> = paths.collect();
    owner(topology, routing.plan.addresses(), &routing.tables, &paths, NAMED)
}

fn print<W: Write>(
    topology: &Topology,
    routing: &Routing,
    document: &PlanDocument,
    traffic: bool,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let shape = match &routing.shape {
        Ok(clos) if clos.roots.is_empty() => "one switch".to_owned(),
        Ok(clos) if clos.stages() == 2 => {
            format!("Clos, {} leaves x {} spines", clos.leaves.len(), clos.roots.len())
        }
        Ok(clos) => format!(
            "Clos, {} pods, {} leaves, {} cores",
            clos.pods(),
            clos.leaves.len(),
            clos.roots.len()
        ),
        Err(NotClos::BackToBack) => {
            "no switch: hosts back to back, one path each way, which nobody shares".to_owned()
        }
        Err(reason) => format!("no Clos: {reason}"),
    };
    let back_to_back = match &routing.shape {
        Err(NotClos::BackToBack) => 2 * topology.cable_count(),
        _ => 0,
    };
    let lmc = routing.plan.lmc();
    // Nothing has to be packed there: a pattern would be one of no hosts.
    let traffic = traffic && back_to_back == 0;
    let lids = routing.plan.addresses().iter().map(|(_, _, lmc)| lmc.addresses()).sum::<usize>();
    let routes: usize = routing.tables.iter().map(|table| table.iter().count()).sum();
    let mut row = |key: &str, value: String| out.line(format_args!("{key:<18}{value}"));
    row("fabric", shape)?;
    row("hosts", format!("{}", routing.hosts.len() + back_to_back))?;
    row("switches", format!("{}", topology.switch_count()))?;
    row("routing", format!("{}, {} trees", routing.engine, routing.forest.len()))?;
    if let Some(lanes) = routing.lanes.as_ref().filter(|lanes| lanes.count() > 1) {
        let what = "virtual lanes, which snin-sm writes and the tables alone do not say";
        row("lanes", format!("{} {what}", lanes.count()))?;
    }
    row("addresses", format!("{lids} LIDs, LMC {lmc} ({} a host port)", lmc.addresses()))?;
    row("table entries", format!("{routes}"))?;
    if !routing.unreachable.is_empty() {
        row("unreachable", format!("{} pairs of switches", routing.unreachable.len()))?;
    }
    if !traffic {
        return Ok(());
    }
    let summary = &document.summary;
    let of_requested = 100.0 * summary.granted as f64 / summary.requested.max(1) as f64;
    row("requested", format!("{}", summary.requested))?;
    row("granted", format!("{} ({of_requested:.1} %)", summary.granted))?;
    row("deferred", format!("{}", summary.deferred))?;
    row("refused", format!("{}", summary.refused))?;
    row("bound", format!("{} (what hosts and leaves' links allow)", summary.bound))?;
    row("max link load", format!("{}", summary.max_link_load))?;
    reasons("deferred because", &document.deferred, out)?;
    reasons("refused because", &document.refused, out)
}

/// How often each reason was given.
fn reasons<W: Write>(
    title: &str,
    entries: &[ReasonEntry],
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let mut count = BTreeMap::<&str, usize>::new();
    entries.iter().for_each(|entry| *count.entry(&entry.reason).or_default() += 1);
    count.iter().try_for_each(|(reason, n)| out.line(format_args!("{title}: {reason}: {n}")))
}
