//! `snin topo trees`: what can be granted on the tables in force, OpenSM's for example.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde::Serialize;
use snin_controller_core::plan::{Plan, plan_on_found, plan_window};
use snin_fabric::hosts::HostId;
use snin_fabric::routing::{Engine, Routing, TreeChoices, TreeChoicesReport};
use snin_fabric::traffic::Demand;
use snin_fabric::{Lmc, NodeIndex, Topology, TreeId};

use crate::failure::Failure;
use crate::output::{Output, Progress, Target};
use crate::{Verdict, cli, input};

/// How many routes that are no choice are named; all are counted.
const NAMED: usize = 5;
/// Rises when a key of the document changes its meaning or goes.
const SCHEMA_VERSION: u32 = 2;
/// LMCs that are compared, of those tables and beyond.
const COMPARED: u8 = 5;

/// What `snin topo trees --json` prints.
#[derive(Serialize)]
struct Report {
    schema_version: u32,
    hosts: usize,
    /// Of the fabric.
    trees: usize,
    /// Of the tables' addresses: the least of any host.
    lmc: u8,
    routes: TreeChoicesReport,
    /// Trees along which an address of every host leads to it from every switch with hosts: slices can be made of
    /// these anywhere.
    connected_trees: usize,
    /// For the first 1, 2, 4, ... addresses of every host, as if there were no others; beyond the tables' LMC what
    /// other tables could carry.
    by_lmc: Vec<AtLmc>,
    /// What would carry more; none where these tables grant what the cables carry.
    advice: Option<Advice>,
    /// Only with `--traffic`.
    window: Option<Window>,
}

/// Settings of OpenSM.
#[derive(Serialize)]
struct Advice {
    lmc: u8,
    routing_engine: &'static str,
    /// Addresses that all host ports take then.
    lids: usize,
}

#[derive(Serialize)]
struct AtLmc {
    lmc: u8,
    /// In these tables; absent beyond their LMC.
    #[serde(flatten)]
    found: Option<FoundAtLmc>,
    /// Of the connections of random permutations, those that would get links of their own in one window on the
    /// tables that snin-sm would write at this LMC; absent where the LMC does not fit.
    own_granted_share: Option<f64>,
}

#[derive(Serialize)]
struct FoundAtLmc {
    /// Trees that lead from a switch with hosts to a host elsewhere: of the pair that has fewest, and on average.
    least_trees: usize,
    mean_trees: f64,
    /// Of the same connections, those that get links of their own.
    granted_share: f64,
}

#[derive(Serialize)]
struct Window {
    requested: usize,
    granted: usize,
    deferred: usize,
    refused: usize,
    /// The most that any packing could grant, as far as the links of hosts and leaves tell.
    bound: usize,
    connections: Vec<Connection>,
}

#[derive(Serialize)]
struct Connection {
    from: String,
    to: String,
    /// The tree; absent within a leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<u16>,
    dlid: u16,
}

/// Reads tables, walks them, packs on them.
pub(crate) fn run<W: Write>(
    args: &cli::TreesOfTables,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let json = Target::open(args.format.json.as_deref())?;
    let name = &args.topology.topology;
    let progress = Progress::new();
    progress.step("reading the topology");
    let topology = input::named_topology(name, &args.topology.names)?;
    progress.step("reading the tables");
    let routing = input::found_routing(name, &topology, &args.tables)?;
    let Ok(clos) = &routing.shape else {
        let why = routing.shape.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let what = format!(" no Clos, so it has no trees that could be granted: {why}");
        return Err(Failure::content(name, what));
    };
    if routing.plan.addresses().iter().next().is_none() {
        let what = " it reports no LIDs: is the subnet up? (ibnetdiscover prints them)";
        return Err(Failure::content(name, what));
    }
    progress.step("walking every route");
    let (choices, routes) = TreeChoices::of(&topology, &routing, NAMED);
    let lmc = routing.hosts.iter().map(|(_, host)| routing.plan.addresses().lmc(host.port)).min();
    let lmc = lmc.unwrap_or_default();
    let permutations: Vec<Vec<Demand>> = (0..args.permutations)
        .map(|n| input::traffic("permutation", args.seed + n, &topology, &routing))
        .collect::<Result<_, _>>()?;
    let mut by_lmc = Vec::new();
    let in_tables = lmc;
    for lmc in (0..=lmc.bits().max(COMPARED)).filter_map(Lmc::new) {
        progress.step(format!("packing {} permutations at LMC {lmc}", permutations.len()));
        let found = (lmc <= in_tables).then(|| {
            let limited = choices.with_lmc(&routing, lmc);
            let (least_trees, mean_trees) = trees_of_pairs(&routing, &limited);
            let plan = |demands: &[Demand]| plan_on_found(&topology, &routing, &limited, demands);
            FoundAtLmc { least_trees, mean_trees, granted_share: share(&permutations, plan) }
        });
        let own = Routing::compute(&topology, Engine::Trees, Some(lmc)).ok();
        let own =
            own.map(|own| share(&permutations, |demands| plan_window(&topology, &own, demands)));
        by_lmc.push(AtLmc { lmc: lmc.bits(), found, own_granted_share: own });
    }
    let window = match &args.traffic {
        None => None,
        Some(traffic) => {
            let demands = input::traffic(traffic, args.seed, &topology, &routing)?;
            let plan = plan_on_found(&topology, &routing, &choices, &demands);
            Some(window(&topology, &routing, &demands, &plan))
        }
    };
    drop(progress);
    let trees = clos.roots.len() * clos.root_planes;
    let report = Report {
        schema_version: SCHEMA_VERSION,
        hosts: routing.hosts.len(),
        trees,
        lmc: lmc.bits(),
        routes,
        connected_trees: connected_trees(&routing, &choices),
        advice: advice(&by_lmc, (trees, clos.stages()), &routing),
        by_lmc,
        window,
    };
    out.report(json, &report, |out| print(&report, out))?;
    Ok(if report.routes.off() == 0 { Verdict::Well } else { Verdict::Unwell })
}

/// Trees along which every switch with hosts reaches the hosts of every other.
fn connected_trees(routing: &Routing, choices: &TreeChoices) -> usize {
    let switches: BTreeSet<NodeIndex> = routing.hosts.iter().map(|(_, host)| host.switch).collect();
    let mut reached: BTreeMap<TreeId, usize> = BTreeMap::new();
    for (_, tree) in choices.fully_connected(routing) {
        *reached.entry(tree).or_default() += 1;
    }
    reached.values().filter(|&&count| count == switches.len()).count()
}

/// Different trees from a switch with hosts to a host elsewhere: the fewest of any pair, and the mean.
fn trees_of_pairs(routing: &Routing, choices: &TreeChoices) -> (usize, f64) {
    let mut sources: Vec<NodeIndex> = routing.hosts.iter().map(|(_, host)| host.switch).collect();
    sources.dedup();
    let (mut pairs, mut sum, mut least) = (0_usize, 0_usize, usize::MAX);
    for &source in &sources {
        for (id, _) in routing.hosts.iter().filter(|(_, host)| host.switch != source) {
            let mut trees: Vec<_> =
                choices.from(source, id).iter().map(|(tree, _)| *tree).collect();
            trees.sort_unstable();
            trees.dedup();
            (pairs, sum, least) = (pairs + 1, sum + trees.len(), least.min(trees.len()));
        }
    }
    if pairs == 0 { (0, 0.0) } else { (least, sum as f64 / pairs as f64) }
}

/// Of all connections of some windows, how many are granted.
fn share(windows: &[Vec<Demand>], plan: impl Fn(&[Demand]) -> Plan) -> f64 {
    let requested: usize = windows.iter().map(Vec::len).sum();
    let granted: usize = windows.iter().map(|demands| plan(demands).grants.len()).sum();
    granted as f64 / requested.max(1) as f64
}

fn window(topology: &Topology, routing: &Routing, demands: &[Demand], plan: &Plan) -> Window {
    let host = |id: HostId| routing.hosts.get(id);
    let name = |id: HostId| {
        host(id).map_or_else(String::new, |host| topology.port(host.port).guid.to_string())
    };
    let connections = plan.grants.iter().map(|grant| {
        let Demand { source, destination, .. } = demands[grant.demand];
        let switch = |id| host(id).map(|host| host.switch);
        let crosses = switch(source) != switch(destination);
        Connection {
            from: name(source),
            to: name(destination),
            tree: crosses.then_some(grant.tree.0),
            dlid: grant.dlid.0.0,
        }
    });
    Window {
        requested: demands.len(),
        granted: plan.grants.len(),
        deferred: plan.deferred.len(),
        refused: plan.refused.len(),
        bound: plan.bound,
        connections: connections.collect(),
    }
}

fn print<W: Write>(report: &Report, out: &mut Output<W>) -> Result<(), Failure> {
    let Report { hosts, trees, lmc, routes, .. } = report;
    out.line(format_args!("{hosts} hosts, {trees} trees, LMC {lmc} in these tables"))?;
    out.line(format_args!(
        "{} routes from switches with hosts to addresses of hosts elsewhere: {} along one tree",
        routes.routes, routes.on_one_tree
    ))?;
    if routes.off() > 0 {
        let TreeChoicesReport { lost, looped, up_again, mixed, .. } = routes;
        out.line(format_args!(
            "never granted: {lost} that do not arrive, {looped} that loop, {up_again} that go up again, {mixed} \
             along links of several trees"
        ))?;
        for route in &routes.off_tree {
            out.line(format_args!("  {route}"))?;
        }
    }
    out.line("LMC  trees a pair (least, mean)  permutation granted  on snin-sm's tables")?;
    for row in &report.by_lmc {
        let own = row.own_granted_share.map_or_else(|| "-".to_owned(), percent);
        let found = row.found.as_ref();
        let trees = found.map(|at| format!("{}, {:>9.2}", at.least_trees, at.mean_trees));
        let (trees, granted) =
            (trees.unwrap_or_default(), found.map(|at| percent(at.granted_share)));
        let granted = granted.unwrap_or_default();
        out.line(format_args!("{:>3}  {trees:>28}  {granted:>19}  {own:>19}", row.lmc))?;
    }
    out.line(format_args!(
        "slices: {} of {trees} trees lead from every leaf to every host",
        report.connected_trees
    ))?;
    out.line(advised(report))?;
    if let Some(window) = &report.window {
        let Window { requested, granted, deferred, refused, bound, .. } = window;
        out.line(format_args!(
            "this traffic: {granted} of {requested} granted (at most {bound} by the links), {deferred} deferred, \
             {refused} refused"
        ))?;
    }
    Ok(())
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Unicast LIDs that there are (IBA 4.1.3).
const LIDS: usize = 49_151;

/// The engine of OpenSM's whose addresses of a port lead along most trees: `make bench-found`.
fn advice(by_lmc: &[AtLmc], (trees, stages): (usize, usize), routing: &Routing) -> Option<Advice> {
    let last = by_lmc.iter().filter_map(|row| row.found.as_ref()).next_back()?;
    if last.least_trees >= trees {
        return None;
    }
    let lmc = Lmc::at_least(trees).unwrap_or(Lmc::MAX);
    // Minhop leads all addresses of a port along few of the cores of three stages.
    let routing_engine = if stages == 3 { "dfsssp" } else { "minhop" };
    Some(Advice { lmc: lmc.bits(), routing_engine, lids: routing.hosts.len() * lmc.addresses() })
}

/// What to do next: the settings, and what they cost.
fn advised(report: &Report) -> String {
    let Some(Advice { lmc, routing_engine, lids }) = report.advice else {
        return "every pair has every tree: the tables grant what the cables carry".to_owned();
    };
    let settings = format!("in opensm.conf `lmc {lmc}` and `routing_engine {routing_engine}`");
    match () {
        () if lids > LIDS => format!(
            "more addresses, more choice: {settings} would take {lids} LIDs, but there are {LIDS}: take a \
             smaller lmc"
        ),
        () if report.lmc >= lmc => format!(
            "LMC {} has an address for each of {} trees, yet some pairs have fewer: {settings} may do better",
            report.lmc, report.trees
        ),
        () => format!(
            "more addresses, more choice: {settings} reach up to {} trees a pair; cost: {} LIDs a host port, \
             {lids} of {LIDS} in all, and LIDs change: a maintenance window; nothing else",
            report.trees.min(1 << lmc),
            1 << lmc
        ),
    }
}
