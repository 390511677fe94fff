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
    }
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
            return out.line("it can be routed up*/down*, without trees (`snin plan --lfts`)");
        }
    }
    match check.irregularities.len() {
        0 => out.line("regular"),
        count => {
            out.line(format_args!("{count} irregularities:"))?;
            check.irregularities.iter().try_for_each(|i| out.line(format_args!("  {i}")))
        }
    }
}
