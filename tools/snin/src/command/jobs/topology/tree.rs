//! Switches and nodes by names that Slurm takes, each of them once.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::clos::recognise;
use snin_fabric::hosts::Hosts;
use snin_fabric::names::{adapter, node_name};
use snin_fabric::{Guid, NodeIndex, Topology};

/// How many of a kind are named in a warning.
const NAMED: usize = 8;
/// The switch over all others.
const TOP: &str = "fabric";

/// A switch of Slurm's: its name, and its nodes or the switches below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Switch {
    pub(super) name: String,
    pub(super) nodes: Vec<String>,
    pub(super) below: Vec<String>,
}

impl Switch {
    /// Its line in the file.
    pub(super) fn line(&self, yaml: bool) -> String {
        let (name, nodes, below) = (&self.name, self.nodes.join(","), self.below.join(","));
        match (yaml, self.below.is_empty()) {
            (false, true) => format!("SwitchName={name} Nodes={nodes}"),
            (false, false) => format!("SwitchName={name} Switches={below}"),
            (true, true) => format!("      - switch: {name}\n        nodes: {nodes}"),
            (true, false) => format!("      - switch: {name}\n        children: {below}"),
        }
    }
}

/// A port of a host and the leaf that it hangs on; without any switch the leaf is GUID 0.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) leaf: Guid,
    pub(super) leaf_name: String,
    pub(super) description: String,
    pub(super) port: Guid,
}

/// What is written, and what of the fabric it does not say.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) switches: Vec<Switch>,
    pub(super) warnings: Vec<String>,
    /// Whether hosts are left out.
    pub(super) lacks: bool,
}

/// All leaves under one switch.
pub(super) fn under_one(ends: &[End]) -> Tree {
    let (mut tree, leaves) = leaves(ends, &BTreeSet::from([TOP.to_owned()]));
    let below = leaves.into_values().collect();
    top(&mut tree, below);
    tree
}

/// Of three stages, pods between them and the leaves.
pub(super) fn of_topology(topology: &Topology) -> Tree {
    let hosts = Hosts::of(topology);
    let name = |node: NodeIndex| topology.node(node).name.to_string();
    let end = |port, leaf: Option<NodeIndex>| End {
        leaf: leaf.map_or(Guid(0), |leaf| topology.node(leaf).guid),
        leaf_name: leaf.map_or_else(|| TOP.to_owned(), name),
        description: name(topology.port(port).node),
        port: topology.port(port).guid,
    };
    if topology.switch_count() == 0 {
        // Hosts back to back: Slurm has to be told of some switch.
        let cabled = topology.ports().filter(|&port| topology.peer(port).is_some());
        let ends: Vec<End> = cabled.map(|port| end(port, None)).collect();
        return leaves(&ends, &BTreeSet::new()).0;
    }
    let ends: Vec<End> = hosts.iter().map(|(_, host)| end(host.port, Some(host.switch))).collect();
    let clos = recognise(topology, &hosts).ok().filter(|clos| clos.stages() == 3);
    let Some(clos) = clos else { return under_one(&ends) };
    let pod_of = |guid: Guid| {
        let leaf = topology.switches().find(|&leaf| topology.node(leaf).guid == guid);
        format!("pod{}", leaf.map_or(0, |leaf| clos.pod(leaf)))
    };
    let pods = (0..clos.pods()).map(|pod| format!("pod{pod}"));
    let (mut tree, leaves) = leaves(&ends, &pods.chain([TOP.to_owned()]).collect());
    let mut pods: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for (guid, leaf) in leaves {
        let pod = pod_of(guid);
        // pod2 before pod10.
        pods.entry((pod.len(), pod)).or_default().push(leaf);
    }
    let mut names = Vec::new();
    for ((_, name), below) in pods {
        names.push(name.clone());
        tree.switches.push(Switch { name, nodes: Vec::new(), below });
    }
    top(&mut tree, names);
    tree
}

fn top(tree: &mut Tree, below: Vec<String>) {
    if !below.is_empty() {
        tree.switches.push(Switch { name: TOP.to_owned(), nodes: Vec::new(), below });
    }
}

/// The leaves with their nodes, and their names by GUID; none is called as a name in `others`.
fn leaves(ends: &[End], others: &BTreeSet<String>) -> (Tree, BTreeMap<Guid, String>) {
    let mut tree = Tree::default();
    let (nodes, unnamed) = by_node(ends);
    if !unnamed.is_empty() {
        tree.lacks = true;
        let port = |end: &&End| {
            format!("{} on {} (`{}`)", end.port, end.leaf_name, end.description.trim())
        };
        tree.warnings.push(format!(
            "{} ports have no name of a host and are left out: {}: have rdma-ndd name them, or give \
             --node-name-map",
            unnamed.len(),
            listed(unnamed.iter().map(port))
        ));
    }
    let mut on: BTreeMap<Guid, BTreeSet<&str>> = BTreeMap::new();
    let mut several = Vec::new();
    for (&node, ends) in &nodes {
        let places: BTreeMap<Guid, &str> =
            ends.iter().map(|end| (end.leaf, end.leaf_name.as_str())).collect();
        // The first adapter as the host counts them: mlx5_2 is before mlx5_10.
        let order = |end: &&&End| {
            let adapter = adapter(&end.description);
            (adapter.len(), adapter.to_owned(), end.leaf, end.port)
        };
        let Some(first) = ends.iter().min_by_key(order) else { continue };
        on.entry(first.leaf).or_default().insert(node);
        if places.len() > 1 {
            let names: Vec<&str> = places.into_values().collect();
            several.push(format!("{node} on {}, put at {}", names.join(" and "), first.leaf_name));
        }
    }
    if !several.is_empty() {
        tree.warnings.push(format!(
            "{} hosts have adapters on several leaves, and in Slurm's tree a node has one: {}",
            several.len(),
            listed(several.into_iter())
        ));
    }
    let called: BTreeMap<Guid, &str> =
        ends.iter().map(|end| (end.leaf, end.leaf_name.as_str())).collect();
    let called = called.into_iter().filter(|(leaf, _)| on.contains_key(leaf)).collect();
    let names = unlike(&called, others, &mut tree.warnings);
    let switch = |(leaf, name): (&Guid, &String)| {
        let nodes = on[leaf].iter().map(|&node| node.to_owned()).collect();
        Switch { name: name.clone(), nodes, below: Vec::new() }
    };
    tree.switches = names.iter().map(switch).collect();
    (tree, names)
}

/// Ports by their host's name, and those without one.
fn by_node(ends: &[End]) -> (BTreeMap<&str, Vec<&End>>, Vec<&End>) {
    let (mut nodes, mut unnamed) = (BTreeMap::<&str, Vec<&End>>::new(), Vec::new());
    for end in ends {
        match node_name(&end.description).filter(|name| plain(name) == **name) {
            Some(node) => nodes.entry(node).or_default().push(end),
            None => unnamed.push(end),
        }
    }
    (nodes, unnamed)
}

/// Names that Slurm takes, no two the same: switches whose names would be, have their GUID added.
fn unlike(
    called: &BTreeMap<Guid, &str>,
    others: &BTreeSet<String>,
    warnings: &mut Vec<String>,
) -> BTreeMap<Guid, String> {
    let mut same: BTreeMap<String, Vec<Guid>> = BTreeMap::new();
    for (&leaf, name) in called {
        same.entry(plain(name)).or_default().push(leaf);
    }
    let mut names = BTreeMap::new();
    for (name, leaves) in &same {
        if let ([leaf], false, false) = (&leaves[..], name.is_empty(), others.contains(name)) {
            names.insert(*leaf, name.clone());
            continue;
        }
        let mut given = Vec::new();
        for &leaf in leaves {
            let mut longer = format!("{name}_{:016x}", leaf.0);
            // Somebody may have called another switch just so.
            while same.contains_key(&longer) || others.contains(&longer) {
                longer.push('_');
            }
            given.push(format!("{longer} ({leaf} `{}`)", called[&leaf]));
            names.insert(leaf, longer);
        }
        warnings.push(format!(
            "switches that Slurm could not tell apart as `{name}` have their GUID in the name: {}: \
             --node-name-map gives them better ones",
            listed(given.into_iter())
        ));
    }
    names
}

/// A name as Slurm takes it.
fn plain(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.trim().chars().map(fits).collect()
}

fn listed(mut all: impl Iterator<Item = String>) -> String {
    let first: Vec<String> = all.by_ref().take(NAMED).collect();
    match all.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use snin_fabric::generate::Recipe;

    use super::*;

    fn lines(recipe: &str) -> Vec<String> {
        let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
        of_topology(&topology).switches.iter().map(|switch| switch.line(false)).collect()
    }

    /// Hosts by (leaf's GUID and name, what their adapters say).
    fn tree(ends: &[(u64, &str, &str)]) -> (Vec<String>, Vec<String>, bool) {
        let end = |(n, &(leaf, leaf_name, description)): (u64, &(u64, &str, &str))| End {
            leaf: Guid(leaf),
            leaf_name: leaf_name.to_owned(),
            description: description.to_owned(),
            port: Guid(n),
        };
        let ends: Vec<End> = (0xa0..).zip(ends).map(end).collect();
        let tree = under_one(&ends);
        let lines = tree.switches.iter().map(|switch| switch.line(false)).collect();
        (lines, tree.warnings, tree.lacks)
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

    #[test]
    fn switches_of_one_name_stay_several() {
        let ends = [(1, "row 1", "a"), (2, "row_1", "b"), (3, "fabric", "c"), (4, "row", "d")];
        let (lines, warnings, lacks) = tree(&ends);
        assert_eq!(
            lines,
            [
                "SwitchName=row_1_0000000000000001 Nodes=a",
                "SwitchName=row_1_0000000000000002 Nodes=b",
                "SwitchName=fabric_0000000000000003 Nodes=c",
                "SwitchName=row Nodes=d",
                "SwitchName=fabric Switches=row_1_0000000000000001,row_1_0000000000000002,\
                 fabric_0000000000000003,row",
            ]
        );
        assert!(!lacks && warnings.len() == 2, "{warnings:?}");
        let both = ["(0x0000000000000001 `row 1`)", "(0x0000000000000002 `row_1`)"];
        assert!(both.iter().all(|one| warnings[1].contains(one)), "{warnings:?}");
        // The order of reading changes nothing.
        assert_eq!(tree(&[ends[3], ends[2], ends[1], ends[0]]).0, lines);
    }

    #[test]
    fn a_host_hangs_on_the_leaf_of_its_first_adapter() {
        let ends = [(1, "A", "n1 mlx5_10"), (2, "B", "n1 mlx5_2"), (1, "A", "n2"), (1, "A", "n2")];
        let (lines, warnings, lacks) = tree(&ends);
        assert_eq!(lines[..2], ["SwitchName=A Nodes=n2", "SwitchName=B Nodes=n1"]);
        assert!(!lacks && warnings.len() == 1, "{warnings:?}");
        assert!(warnings[0].ends_with("n1 on A and B, put at B"), "{warnings:?}");
    }

    #[test]
    fn what_nobody_named_is_left_out_and_named() {
        let model = "MT4119 ConnectX5   Mellanox Technologies";
        let (lines, warnings, lacks) =
            tree(&[(1, "A", model), (2, "B", "n2"), (3, "C", "localhost mlx5_0")]);
        assert_eq!(lines, ["SwitchName=B Nodes=n2", "SwitchName=fabric Switches=B"]);
        assert!(lacks && warnings.len() == 1, "{warnings:?}");
        for port in ["0x00000000000000a0 on A", "0x00000000000000a2 on C", "--node-name-map"] {
            assert!(warnings[0].contains(port), "{warnings:?}");
        }
    }
}
