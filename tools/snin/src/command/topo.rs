//! `snin topo`: make a fabric, or say what a fabric is.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use snin_fabric::clos::{Clos, Irregularity, NotClos, recognise};
use snin_fabric::generate::{Recipe, cut_cables};
use snin_fabric::hosts::{Hosts, is_aggregation_node};
use snin_fabric::{NodeKind, Topology, ibnet};

use crate::Verdict;
use crate::cli::TopologyFile;
use crate::failure::Failure;
use crate::input;
use crate::output::{Output, Target};

/// Prints a generated fabric.
pub(crate) fn generate<W: Write>(
    recipe: Recipe,
    cut: usize,
    seed: u64,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let topology = recipe.build()?;
    let inner: usize =
        topology.switches().map(|switch| topology.switch_links(switch).count()).sum();
    let cables = inner / 2;
    if cut > cables {
        return Err(Failure::TooManyCuts { cut, cables });
    }
    out.text(&ibnet::write(&cut_cables(&topology, cut, seed)))?;
    Ok(Verdict::Well)
}

/// Rises when a key of the check changes its meaning or goes.
const CHECK_VERSION: u32 = 2;

/// What `snin topo check --json` prints.
#[derive(Serialize)]
struct Check {
    /// Of this document: 2 since irregularities name places, not only names.
    schema_version: u32,
    hosts: usize,
    switches: usize,
    cables: usize,
    aggregation_nodes: usize,
    routers: usize,
    /// Cables from host to host, where there is no switch.
    back_to_back: usize,
    /// Absent when the fabric is no Clos.
    clos: Option<ClosSummary>,
    /// Absent when it is one.
    not_clos: Option<String>,
    irregularities: Vec<Irregularity>,
    /// What that means for who wants links granted. One line.
    verdict: String,
}

#[derive(Serialize)]
struct ClosSummary {
    stages: usize,
    leaves: usize,
    aggregation_switches: usize,
    /// Spines of two stages, cores of three.
    roots: usize,
    pods: u32,
    planes: usize,
    trees: usize,
}

/// Says which Clos a fabric is.
pub(crate) fn check<W: Write>(
    file: &TopologyFile,
    json: Option<&Path>,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let json = Target::open(json)?;
    let topology = input::named_topology(&file.topology, &file.names)?;
    let hosts = Hosts::of(&topology);
    let shape = recognise(&topology, &hosts);
    let check = summarise(&topology, &hosts, shape);
    out.report(json, &check, |out| print(&check, out))?;
    let regular =
        check.irregularities.is_empty() && (check.not_clos.is_none() || check.back_to_back > 0);
    Ok(if regular { Verdict::Well } else { Verdict::Unwell })
}

fn summarise(topology: &Topology, hosts: &Hosts, shape: Result<Clos, NotClos>) -> Check {
    let count = |kind| topology.nodes().filter(|&n| topology.node(n).kind == kind).count();
    let built_in = topology.nodes().filter(|&node| is_aggregation_node(topology, node)).count();
    let back_to_back = match &shape {
        Err(NotClos::BackToBack) => topology.cable_count(),
        _ => 0,
    };
    let (clos, not_clos, irregularities) = match shape {
        Err(reason) => (None, Some(reason.to_string()), Vec::new()),
        Ok(clos) => {
            let summary = ClosSummary {
                stages: clos.stages(),
                leaves: clos.leaves.len(),
                aggregation_switches: clos.aggregation.len(),
                roots: clos.roots.len(),
                pods: clos.pods(),
                planes: clos.leaf_planes,
                trees: clos.roots.len() * clos.root_planes,
            };
            (Some(summary), None, clos.irregularities)
        }
    };
    let verdict = match back_to_back {
        0 => verdict(clos.as_ref(), &irregularities),
        _ => "regular: each pair of hosts has its cable for itself".to_owned(),
    };
    Check {
        schema_version: CHECK_VERSION,
        hosts: hosts.len() + 2 * back_to_back,
        switches: topology.switch_count(),
        cables: topology.cable_count(),
        aggregation_nodes: built_in,
        routers: count(NodeKind::Router),
        back_to_back,
        clos,
        not_clos,
        irregularities,
        verdict,
    }
}

/// What a fabric is good for, in one line.
fn verdict(clos: Option<&ClosSummary>, irregularities: &[Irregularity]) -> String {
    let Some(clos) = clos else {
        return "no Clos: it is routed, and no links are granted between its leaves".to_owned();
    };
    let (mut none, mut fewer, mut others) = (0, 0, 0);
    for irregularity in irregularities {
        match irregularity {
            Irregularity::MissingCable { have: 0, .. } => none += 1,
            Irregularity::MissingCable { .. } => fewer += 1,
            Irregularity::MissingAggregation { .. }
            | Irregularity::ShortOfUplinks { .. }
            | Irregularity::HostOffLeaf { .. }
            | Irregularity::OutsideSwitch { .. }
            | Irregularity::OddRate { .. }
            | Irregularity::NoTransit { .. }
            | Irregularity::Uncabled { .. } => others += 1,
            Irregularity::StrayCable { .. }
            | Irregularity::LoopbackPlug { .. }
            | Irregularity::ExtraCable { .. }
            | Irregularity::UnequalHosts { .. }
            | Irregularity::Router { .. }
            | Irregularity::RatesDisagree { .. }
            | Irregularity::Chassis { .. } => {}
        }
    }
    let fits = "every pattern that asks no host for more than its link can be granted";
    if irregularities.is_empty() {
        return format!("regular: {fits}");
    }
    if none + fewer + others == 0 {
        return format!("irregular, and nothing of it takes a link from what is granted: {fits}");
    }
    let mut lacks = Vec::new();
    for (count, what) in [
        (none, "pairs of switches have no cable"),
        (fewer, "pairs of switches have fewer cables than the others"),
        (others, "other things named above are in the way"),
    ] {
        if count > 0 {
            lacks.push(format!("{count} {what}"));
        }
    }
    let trees = clos.trees;
    format!(
        "links can be granted on {trees} trees, but perhaps not for every pattern: {}; `snin plan` says what fits",
        lacks.join(", ")
    )
}

fn print<W: Write>(check: &Check, out: &mut Output<W>) -> Result<(), Failure> {
    let Check { hosts, switches, cables, aggregation_nodes, routers, .. } = check;
    out.line(format_args!("{hosts} hosts, {switches} switches, {cables} cables"))?;
    if *aggregation_nodes > 0 {
        out.line(format_args!("{aggregation_nodes} aggregation nodes: addressed, but no hosts"))?;
    }
    if *routers > 0 {
        out.line(format_args!("{routers} routers: addressed, but no hosts"))?;
    }
    match (&check.clos, &check.not_clos) {
        _ if check.back_to_back > 0 => {
            out.line("no switch: hosts are cabled back to back, each pair has its cable for itself")?;
        }
        (Some(c), _) if c.roots == 0 => {
            out.line("one switch, the smallest Clos: its hosts need no routing tree")?;
        }
        (Some(c), _) if c.stages == 2 => out.line(format_args!(
            "two-stage Clos: {} leaves, {} spines, {} plane(s), {} routing trees",
            c.leaves, c.roots, c.planes, c.trees
        ))?,
        (Some(c), _) => out.line(format_args!(
            "three-stage Clos: {} pods, {} leaves, {} aggregation switches, {} cores, {} routing trees",
            c.pods, c.leaves, c.aggregation_switches, c.roots, c.trees
        ))?,
        (None, reason) => {
            let reason = reason.as_deref().unwrap_or_default();
            out.line(format_args!("no Clos: {reason}"))?;
            out.line("it can be routed up*/down*, without trees (`snin plan --lfts`)")?;
            return out.line(format_args!("verdict: {}", check.verdict));
        }
    }
    match check.irregularities.len() {
        0 => {}
        count => {
            out.line(format_args!("{count} irregularities:"))?;
            check.irregularities.iter().try_for_each(|i| out.line(format_args!("  {i}")))?;
        }
    }
    out.line(format_args!("verdict: {}", check.verdict))
}
