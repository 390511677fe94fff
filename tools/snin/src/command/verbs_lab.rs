//! `snin lab --verbs`: the story on real verbs.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::process::Command;

use snin_fabric::hosts::HostId;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::traffic::Demand;
use snin_lab::verbs::{Document, Fabric, Settings};

use crate::failure::Failure;
use crate::output::{Output, OutputFile, Progress, Target, note};
use crate::{Verdict, cli, input};

/// Slow enough to be what limits real verbs on an emulated machine.
const BANDWIDTH: u64 = 10_000_000;
/// Permutations, or the pattern's flows for as many seeds.
const PATTERNS: u64 = 3;

/// For programs on the stage: more than they can send.
const STAGE_BANDWIDTH: u64 = 1_000_000_000;

/// Brings the fabric up, runs a command on it, and reports what crossed which link.
fn stage<W: Write>(
    args: &cli::Lab,
    command: &str,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let json = Target::open(args.format.json.as_deref())?;
    let topology = input::topology(args.topology.as_deref().unwrap_or_default())?;
    let fabric = match &args.lfts {
        Some(file) => Fabric::found(&topology, input::tables(file, &topology)?)?,
        None => Fabric::bring_up(&topology, args.lmc, args.unmanaged_trees())?,
    };
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]);
    let bandwidth = args.bandwidth.unwrap_or(STAGE_BANDWIDTH);
    let carried = snin_lab::verbs::stage(&fabric, bandwidth, &mut shell)?;
    out.report(json, &carried, |out| {
        carried.links.iter().try_for_each(|link| {
            let pairs = link.connections.iter().map(|(from, to)| format!("{from} to {to}"));
            let pairs = pairs.collect::<Vec<_>>().join(", ");
            out.line(format_args!("{:<16}data of hosts {pairs}", link.link))
        })?;
        out.line(format_args!(
            "exit code {}, {} frames dropped",
            carried.exit_code, carried.dropped
        ))
    })?;
    Ok(if carried.exit_code == 0 { Verdict::Well } else { Verdict::Unwell })
}

/// Brings the fabric up, tells the story, reports.
pub(crate) fn run<W: Write>(args: &cli::Lab, out: &mut Output<W>) -> Result<Verdict, Failure> {
    if let Some(command) = &args.run {
        return stage(args, command, out);
    }
    let json = Target::open(args.format.json.as_deref())?;
    let html = args.html.as_deref().map(OutputFile::open).transpose()?;
    let name = args.topology.as_deref().unwrap_or_default();
    let topology = input::topology(name)?;
    let routing = Routing::compute(&topology, Engine::Trees, args.lmc);
    let routing = routing.map_err(|error| Failure::Routing { name: name.to_owned(), error })?;
    let pattern =
        |number| input::traffic(&args.traffic, args.seed.wrapping_add(number), &topology, &routing);
    let patterns: Result<Vec<_>, Failure> = (0..PATTERNS).map(pattern).collect();
    let patterns = patterns?;
    if !patterns.iter().all(|pattern| is_permutation(pattern)) {
        let what = " a host has several partners; --verbs takes permutations, such as shift:3";
        return Err(Failure::content(&args.traffic, what));
    }
    let bandwidth = args.bandwidth.unwrap_or(BANDWIDTH);
    let windows = args.windows.unwrap_or(cli::WINDOWS) as usize;
    let settings = Settings { name: name.to_owned(), bandwidth, windows, patterns };

    let progress = Progress::new();
    // Inside a virtual machine there is a stderr, but no terminal.
    let is_terminal = io::stderr().is_terminal();
    let told = |what: String| if is_terminal { progress.step(what) } else { note(what) };
    told(format!("bringing up {} nodes", topology.node_count()));
    let mut fabric = Fabric::bring_up(&topology, args.lmc, args.unmanaged_trees())?;
    if let Some(file) = &args.lfts {
        fabric.replace_tables(input::tables(file, &topology)?);
    }
    let document = snin_lab::verbs::run(fabric, &settings, &told)?;
    drop(progress);

    if let Some(file) = html {
        file.write(snin_report::verbs::html(&document).as_bytes())?;
    }
    out.report(json, &document, |out| print(&document, out))?;
    Ok(if document.failures.is_empty() { Verdict::Well } else { Verdict::Unwell })
}

/// Whether no host sends to several, and none receives from several.
fn is_permutation(pattern: &[Demand]) -> bool {
    let unique = |hosts: BTreeSet<HostId>| hosts.len() == pattern.len();
    unique(pattern.iter().map(|demand| demand.source).collect())
        && unique(pattern.iter().map(|demand| demand.destination).collect())
}

fn print<W: Write>(document: &Document, out: &mut Output<W>) -> Result<(), Failure> {
    for (key, value) in snin_report::verbs::facts(document) {
        out.line(format_args!("{key:<13}{value}"))?;
    }
    out.line("")?;
    for [name, forced, snin] in snin_report::verbs::table(document) {
        out.line(format_args!("{name:<36}{forced:>14}{snin:>14}"))?;
    }
    out.line("")?;
    for failure in &document.failures {
        out.line(format_args!("WRONG        {failure}"))?;
    }
    if document.failures.is_empty() { out.line("All of it is as it should be.") } else { Ok(()) }
}
