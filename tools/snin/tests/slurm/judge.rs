//! Whether slices were exclusive at every instant, by nothing but the controller's events and the fabric's cables.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use snin_fabric::Topology;
use snin_fabric::hosts::Hosts;

/// What the events say.
#[derive(Default, Debug)]
pub(super) struct Verdict {
    /// Owners, each once, in the order of their first slices.
    pub(super) owners: Vec<String>,
    /// What was wrong.
    pub(super) faults: Vec<String>,
    /// The most slices at one instant.
    pub(super) most: usize,
    /// Slices that have links between switches.
    pub(super) linked: usize,
}

type Taken = (BTreeSet<String>, BTreeSet<String>);

/// Reads events, a JSON object a line.
pub(super) fn judge(events: &str, topology: &Topology) -> Verdict {
    let hosts = Hosts::of(topology);
    let leaf_of: BTreeMap<String, String> = hosts
        .iter()
        .map(|(_, host)| {
            let port = topology.port(host.port).guid.to_string();
            (port, topology.node(host.switch).guid.to_string())
        })
        .collect();
    let mut verdict = Verdict::default();
    let mut standing: BTreeMap<String, Taken> = BTreeMap::new();
    let mut kept: BTreeSet<String> = BTreeSet::new();
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).expect("an event");
        let owner = event["owner"].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str() {
            Some("SLICE_CREATED" | "SLICE_RESIZED" | "SLICE_KEPT") => {
                let taken = (texts(&event["ports"]), texts(&event["pairs"]));
                standing.remove(&owner);
                if event["event"] == "SLICE_KEPT" {
                    kept.insert(owner.clone());
                }
                verdict.compare(&owner, &taken, &standing);
                verdict.suffices(&owner, &taken, &leaf_of);
                verdict.linked += usize::from(!taken.1.is_empty());
                standing.insert(owner.clone(), taken);
                verdict.most = verdict.most.max(standing.len());
                if !verdict.owners.contains(&owner) {
                    verdict.owners.push(owner);
                }
            }
            Some("SLICE_DELETED") => drop(standing.remove(&owner)),
            // One that was killed may have given a slice back and not said so: what it does not keep is gone.
            Some("READY") => standing.retain(|owner, _| kept.remove(owner)),
            _ => {}
        }
    }
    if !standing.is_empty() {
        verdict.faults.push(format!("left over: {:?}", standing.keys()));
    }
    verdict
}

fn texts(value: &Value) -> BTreeSet<String> {
    let texts = value.as_array().into_iter().flatten();
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

impl Verdict {
    /// No host and no (leaf, tree) pair is another's.
    fn compare(&mut self, owner: &str, taken: &Taken, standing: &BTreeMap<String, Taken>) {
        for (other, theirs) in standing {
            let shared: Vec<&String> =
                taken.0.intersection(&theirs.0).chain(taken.1.intersection(&theirs.1)).collect();
            if !shared.is_empty() {
                self.faults.push(format!("{owner} and {other} both have {shared:?}"));
            }
        }
    }

    /// A leaf with h of n hosts has links for the min(h, n - h) connections that can leave it.
    fn suffices(&mut self, owner: &str, taken: &Taken, leaf_of: &BTreeMap<String, String>) {
        let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
        for port in &taken.0 {
            *hosts.entry(leaf_of[port].as_str()).or_default() += 1;
        }
        for (leaf, count) in hosts {
            let needed = count.min(taken.0.len() - count);
            let has = taken.1.iter().filter(|pair| pair.starts_with(leaf)).count();
            if has < needed {
                self.faults.push(format!("{owner} has {has} links at {leaf}, needs {needed}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use snin_fabric::generate::Recipe;

    use super::*;

    #[test]
    fn shared_hosts_and_links_and_what_is_left_over_are_found() {
        let topology = "clos:2,2,2".parse::<Recipe>().unwrap().build().unwrap();
        let hosts = Hosts::of(&topology);
        let port = |at: usize| {
            let (_, host) = hosts.iter().nth(at).unwrap();
            topology.port(host.port).guid.to_string()
        };
        let leaf = |at: usize| {
            let (_, host) = hosts.iter().nth(at).unwrap();
            topology.node(host.switch).guid.to_string()
        };
        let slice = |owner: &str, hosts: [usize; 2], tree: u16| {
            let pairs = hosts.map(|host| format!("{}/{tree}", leaf(host)));
            serde_json::json!({
                "event": "SLICE_CREATED", "owner": owner, "ports": hosts.map(port), "pairs": pairs,
            })
        };
        let (a, b) = (slice("a", [0, 2], 0), slice("b", [1, 3], 1));
        let end = |owner: &str| serde_json::json!({ "event": "SLICE_DELETED", "owner": owner });
        let told = format!("{a}\n{b}\n{}\n{}\n", end("a"), end("b"));
        let verdict = judge(&told, &topology);
        assert!(verdict.faults.is_empty(), "{verdict:?}");
        assert_eq!((verdict.most, verdict.linked), (2, 2));
        let wrong = format!("{a}\n{}\n{}\n", slice("b", [1, 3], 0), end("a"));
        assert_eq!(judge(&wrong, &topology).faults.len(), 2);
        let mut few = a;
        few["pairs"] = serde_json::json!([]);
        assert_eq!(judge(&few.to_string(), &topology).faults.len(), 3);
    }
}
