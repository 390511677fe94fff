//! The fabric as Slurm's `topology.conf`, or `topology.yaml`.
//!
//! A leaf becomes a switch with its nodes. Two stages: all leaves under one switch. Three stages: the leaves of
//! a pod under one, and the pods under one. Slurm places a job under as few of them as it can, which is where
//! slices fit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;
use snin_daemon::store;
use snin_fabric::Topology;
use snin_fabric::clos::recognise;
use snin_fabric::hosts::Hosts;

use super::hooks::run_slurm;
use super::settings::Checked;
use super::{ask, open_to_all, read};
use crate::Verdict;
use crate::cli::jobs::TopologyOf;
use crate::command::controller::{rows, text};
use crate::failure::Failure;
use crate::input;
use crate::output::{Output, Target, note};

/// A switch of Slurm's: its name, and its nodes or the switches below it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Switch {
    name: String,
    nodes: Vec<String>,
    below: Vec<String>,
}

/// Prints it, or keeps a file as the fabric is.
pub(super) fn run<W: Write>(asked: &TopologyOf, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let settings = read(&asked.settings)?;
    let Some(path) = &asked.write else {
        return print(&switches(asked, &settings)?, asked, out);
    };
    let Some(every) = asked.every else {
        let said = if keep(path, asked, &settings)? { "changed" } else { "is so already" };
        out.line(format!("{}: {said}", path.display()))?;
        return Ok(Verdict::Well);
    };
    loop {
        // A controller or slurmctld that is down now is asked again.
        match keep(path, asked, &settings) {
            Ok(true) => note(format!("{}: changed", path.display())),
            Ok(false) => {}
            Err(failure) => note(failure),
        }
        sleep(Duration::from_nanos(every.nanos()));
    }
}

/// Whether the file had to be changed. Slurm is told then.
fn keep(path: &Path, asked: &TopologyOf, settings: &Checked) -> Result<bool, Failure> {
    let text = written(&switches(asked, settings)?, asked.yaml);
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(false);
    }
    store::replace(path, text.as_bytes())?;
    open_to_all(path)?;
    run_slurm("scontrol", &["reconfigure"])?;
    Ok(true)
}

fn switches(asked: &TopologyOf, settings: &Checked) -> Result<Vec<Switch>, Failure> {
    if let Some(name) = &asked.topology {
        return Ok(of_topology(&input::topology(name)?));
    }
    let fabric = ask(settings, &json!({ "command": "fabric" }))?;
    let hosts = rows(&fabric["hosts"]).iter();
    let hosts = hosts.map(|host| (text(&host["switch"]), text(&host["name"])));
    Ok(under_one(leaves(hosts), "fabric"))
}

fn print<W: Write>(
    switches: &[Switch],
    asked: &TopologyOf,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let row = |of: &Switch| json!({ "switch": of.name, "nodes": of.nodes, "switches": of.below });
    let rows: Vec<_> = switches.iter().map(row).collect();
    let json = Target::open(asked.settings.format.json.as_deref())?;
    out.report(json, &json!({ "switches": rows }), |out| {
        out.line(written(switches, asked.yaml).trim_end())
    })?;
    Ok(Verdict::Well)
}

/// The file.
fn written(switches: &[Switch], yaml: bool) -> String {
    let head = "- topology: snin\n  cluster_default: true\n  tree:\n    switches:\n";
    let lines = switches.iter().map(|switch| line(switch, yaml) + "\n");
    yaml.then(|| head.to_owned()).into_iter().chain(lines).collect()
}

fn line(Switch { name, nodes, below }: &Switch, yaml: bool) -> String {
    let (key, members) =
        if below.is_empty() { ("nodes", nodes.join(",")) } else { ("children", below.join(",")) };
    if yaml {
        return format!("      - switch: {name}\n        {key}: {members}");
    }
    let key = if below.is_empty() { "Nodes" } else { "Switches" };
    format!("SwitchName={name} {key}={members}")
}

/// A name as Slurm takes it.
fn plain(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.chars().map(fits).collect()
}

/// Leaves by name, from (leaf, host) pairs. A node with several ports on a leaf is there once.
fn leaves(hosts: impl Iterator<Item = (String, String)>) -> Vec<Switch> {
    let mut nodes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut order = Vec::new();
    for (leaf, host) in hosts {
        let node = plain(host.split_whitespace().next().unwrap_or(&host));
        if !nodes.contains_key(&leaf) {
            order.push(leaf.clone());
        }
        nodes.entry(leaf).or_default().insert(node);
    }
    let of = |leaf: String| {
        let nodes = nodes.remove(&leaf).unwrap_or_default().into_iter().collect();
        Switch { name: plain(&leaf), nodes, below: Vec::new() }
    };
    order.into_iter().map(of).collect()
}

fn under_one(mut leaves: Vec<Switch>, name: &str) -> Vec<Switch> {
    let below = leaves.iter().map(|leaf| leaf.name.clone()).collect();
    leaves.push(Switch { name: name.to_owned(), nodes: Vec::new(), below });
    leaves
}

fn of_topology(topology: &Topology) -> Vec<Switch> {
    let hosts = Hosts::of(topology);
    let name = |node| topology.node(node).name.to_string();
    let ends = hosts.iter();
    let ends = ends.map(|(_, host)| (name(host.switch), name(topology.port(host.port).node)));
    let mut switches = leaves(ends);
    let pods = recognise(topology, &hosts).ok().filter(|clos| clos.stages() == 3);
    let Some(clos) = pods else { return under_one(switches, "fabric") };
    let mut pods: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (_, host) in hosts.iter() {
        let leaf = plain(&name(host.switch));
        let pod = clos.pod(host.switch);
        let leaves = pods.entry(pod).or_default();
        if !leaves.contains(&leaf) {
            leaves.push(leaf);
        }
    }
    let mut below = Vec::new();
    for (pod, leaves) in pods {
        let pod = format!("pod{pod}");
        switches.push(Switch { name: pod.clone(), nodes: Vec::new(), below: leaves });
        below.push(pod);
    }
    switches.push(Switch { name: "fabric".to_owned(), nodes: Vec::new(), below });
    switches
}

#[cfg(test)]
mod tests {
    use snin_fabric::generate::Recipe;

    use super::*;

    fn lines(recipe: &str) -> Vec<String> {
        let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
        of_topology(&topology).iter().map(|switch| line(switch, false)).collect()
    }

    #[test]
    fn leaves_have_nodes_and_pods_have_leaves() {
        assert_eq!(
            lines("clos:2,2,2"),
            [
                "SwitchName=leaf0 Nodes=host0,host1",
                "SwitchName=leaf1 Nodes=host2,host3",
                "SwitchName=fabric Switches=leaf0,leaf1",
            ]
        );
        let three = lines("fattree:4");
        assert_eq!(three.len(), 8 + 4 + 1, "{three:?}");
        assert!(three[8].starts_with("SwitchName=pod0 Switches="), "{three:?}");
        assert!(three[12].starts_with("SwitchName=fabric Switches=pod0,pod1,pod2,pod3"));
    }
}
