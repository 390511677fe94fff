//! The fabric as Slurm's `topology.conf`, or `topology.yaml`.
//!
//! A leaf becomes a switch with its nodes. Two stages: all leaves under one switch. Three stages: the leaves of
//! a pod under one, and the pods under one. Slurm places a job under as few of them as it can, which is where
//! slices fit.

mod tree;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;
use snin_daemon::store;
use snin_fabric::Guid;
use snin_fabric::names::NodeNameMap;
use snin_protocol::operator::controller::{GetFabric, Host};

use super::hooks::run_slurm;
use super::settings::Checked;
use super::{ask, open_to_all, read};
use crate::Verdict;
use crate::cli::jobs::TopologyOf;
use crate::failure::Failure;
use crate::input;
use crate::output::{Output, Target, note};
use tree::{End, Switch, Tree};

/// Prints it, or keeps a file as the fabric is.
pub(super) fn run<W: Write>(asked: &TopologyOf, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let settings = read(&asked.settings)?;
    let mut warned = Vec::new();
    let Some(path) = &asked.write else {
        let tree = tree(asked, &settings)?;
        warn(&tree, &mut warned);
        return print(&tree, asked, out);
    };
    let Some(every) = asked.every else {
        let said =
            if keep(path, asked, &settings, &mut warned)? { "changed" } else { "is so already" };
        out.line(format!("{}: {said}", path.display()))?;
        return Ok(Verdict::Well);
    };
    loop {
        // A controller or slurmctld that is down now is asked again.
        match keep(path, asked, &settings, &mut warned) {
            Ok(true) => note(format!("{}: changed", path.display())),
            Ok(false) => {}
            Err(failure) => note(failure),
        }
        sleep(Duration::from_nanos(every.nanos()));
    }
}

/// What cannot be said to Slurm as the fabric has it; once, as long as it stays the same.
fn warn(tree: &Tree, before: &mut Vec<String>) {
    if tree.warnings != *before {
        tree.warnings.iter().for_each(note);
        before.clone_from(&tree.warnings);
    }
}

/// Whether the file had to be changed. Slurm is told then.
fn keep(
    path: &Path,
    asked: &TopologyOf,
    settings: &Checked,
    warned: &mut Vec<String>,
) -> Result<bool, Failure> {
    let tree = tree(asked, settings)?;
    warn(&tree, warned);
    let text = written(&tree.switches, asked.yaml);
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(false);
    }
    store::replace(path, text.as_bytes())?;
    open_to_all(path)?;
    run_slurm("scontrol", &["reconfigure"])?;
    Ok(true)
}

fn tree(asked: &TopologyOf, settings: &Checked) -> Result<Tree, Failure> {
    let tree = match &asked.topology {
        Some(name) => tree::of_topology(&input::named_topology(name, &asked.names)?),
        None => {
            let map = input::node_names(&asked.names)?.unwrap_or_default();
            let fabric = ask(settings, &GetFabric::default())?.answer;
            let ends: Vec<End> = fabric.hosts.iter().map(|host| end(host, &map)).collect();
            tree::under_one(&ends)
        }
    };
    if tree.switches.is_empty() {
        let why = tree.warnings.join("; ");
        return Err(Failure::Job(format!("no host of the fabric has a name for Slurm; {why}")));
    }
    Ok(tree)
}

/// A host as the controller tells of it.
fn end(host: &Host, map: &NodeNameMap) -> End {
    let named = |guid: Guid, name: &str| map.get(guid).unwrap_or(name).to_owned();
    End {
        leaf: host.switch_guid,
        leaf_name: named(host.switch_guid, &host.switch),
        description: named(host.node_guid, &host.name),
        port: host.port,
    }
}

fn print<W: Write>(
    tree: &Tree,
    asked: &TopologyOf,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let row = |of: &Switch| json!({ "switch": of.name, "nodes": of.nodes, "switches": of.below });
    let switches: Vec<_> = tree.switches.iter().map(row).collect();
    let json = Target::open(asked.settings.format.json.as_deref())?;
    out.report(json, &json!({ "switches": switches, "warnings": tree.warnings }), |out| {
        out.line(written(&tree.switches, asked.yaml).trim_end())
    })?;
    Ok(if tree.lacks { Verdict::Unwell } else { Verdict::Well })
}

/// The file.
fn written(switches: &[Switch], yaml: bool) -> String {
    let head = "- topology: snin\n  cluster_default: true\n  tree:\n    switches:\n";
    let lines = switches.iter().map(|switch| switch.line(yaml) + "\n");
    yaml.then(|| head.to_owned()).into_iter().chain(lines).collect()
}
