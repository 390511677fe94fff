//! Which Clos a fabric is, and every irregularity by name.

mod groups;
mod outside;
mod strays;

use snin_fabric::check::credit::{Traffic, credit};
use snin_fabric::check::tree::{CheckedTree, Stages, trees};
use snin_fabric::check::walk::walk;
use snin_fabric::clos::{Clos, Irregularity, NotClos, recognise};
use snin_fabric::generate::Recipe;
use snin_fabric::hosts::Hosts;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::topology::{Handle, TopologyBuilder};
use snin_fabric::{Guid, Lid, LinkRate, Lmc, NodeIndex, NodeKind, PortNum, Topology, ibnet};

/// A fabric under construction: `pods` x `leaves` x `hosts`, all of it changeable before it is built.
struct Draft {
    builder: TopologyBuilder,
    used: std::collections::BTreeMap<Handle, u8>,
    next: u64,
}

impl Draft {
    fn new() -> Self {
        Self { builder: TopologyBuilder::new(), used: Default::default(), next: 1 }
    }

    fn node(&mut self, kind: NodeKind, name: &str) -> Handle {
        let guid = Guid(self.next << 8);
        self.next += 1;
        let ports = if kind == NodeKind::Switch { 60 } else { 1 };
        self.builder.add(kind, guid, ports, name).unwrap()
    }

    fn switches(&mut self, name: &str, count: usize) -> Vec<Handle> {
        (0..count).map(|n| self.node(NodeKind::Switch, &format!("{name}{n}"))).collect()
    }

    fn end(&mut self, node: Handle) -> (Handle, PortNum) {
        let used = self.used.entry(node).or_insert(0);
        *used += 1;
        (node, PortNum(*used))
    }

    fn cable(&mut self, a: Handle, b: Handle) {
        let (a, b) = (self.end(a), self.end(b));
        self.builder.cable(a, b).unwrap();
    }

    fn end_node(&mut self, kind: NodeKind, name: &str, switch: Handle) -> Handle {
        let node = self.node(kind, name);
        self.cable(switch, node);
        node
    }

    fn hosts(&mut self, switch: Handle, count: usize) {
        (0..count).for_each(|n| {
            self.end_node(NodeKind::Adapter, &format!("h{n}"), switch);
        });
    }

    /// Leaves with hosts and a cable to every spine.
    fn clos(leaves: usize, spines: usize, hosts: usize) -> (Self, Vec<Handle>, Vec<Handle>) {
        let mut draft = Self::new();
        let (leaf, spine) = (draft.switches("leaf", leaves), draft.switches("spine", spines));
        for &l in &leaf {
            draft.hosts(l, hosts);
            spine.iter().for_each(|&s| draft.cable(l, s));
        }
        (draft, leaf, spine)
    }

    fn build(self) -> Topology {
        self.builder.build().unwrap()
    }
}

/// Recognises, and makes sure that what was recognised is routed without loss and without loops.
fn recognised(topology: &Topology) -> Clos {
    let routing = Routing::compute(topology, Engine::Trees, None).unwrap();
    let (addresses, tables) = (routing.plan.addresses(), &routing.tables);
    let walked = walk(topology, addresses, tables, 3);
    assert_eq!(walked.host_routes_lost, 0, "{walked}");
    let loops = credit(topology, addresses, tables, Traffic::All, |_, _| 0);
    assert!(loops.is_ok(), "{loops}");
    let clos = routing.shape.unwrap();
    let roots = routing.forest.trees().iter();
    let checked = |root, plane| {
        let below = Some(clos.below(root, plane));
        CheckedTree { root, plane, below }
    };
    let roots: Vec<_> = roots.map(|tree| checked(tree.root, tree.plane)).collect();
    let stages = if clos.stages() == 2 { Stages::Two } else { Stages::Three };
    let tree_of = |lid: Lid| {
        let (port, offset) = addresses.owner(lid)?;
        routing.plan.tree(port, offset).map(|tree| tree.index())
    };
    let strayed = trees(topology, addresses, tables, &roots, stages, tree_of, 3);
    assert!(strayed.is_ok(), "{strayed}");
    clos
}

/// By name and port alone.
fn named(clos: &Clos) -> Vec<String> {
    let mut texts: Vec<String> = clos.irregularities.iter().map(ToString::to_string).collect();
    for text in &mut texts {
        while let Some(open) = text.find(" (0x") {
            let close = open + text[open..].find(')').unwrap();
            text.replace_range(open..=close, "");
        }
    }
    texts
}

#[test]
fn a_regular_clos_has_nothing_to_name() {
    for recipe in ["clos:4,3,2,2", "fattree:6,3"] {
        let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
        assert_eq!(named(&recognised(&topology)), [""; 0], "{recipe}");
    }
}

#[test]
fn unequal_leaves_and_short_uplinks() {
    let (mut draft, leaf, _) = Draft::clos(4, 3, 3);
    draft.hosts(leaf[2], 2);
    let clos = recognised(&draft.build());
    let expected = [
        "unequal leaf: leaf2 has 5 hosts, most have 3",
        "short of uplinks: leaf2 has 3 cables up for 5 below",
    ];
    assert_eq!(named(&clos), expected);
}

#[test]
fn a_leaf_without_hosts_is_still_a_leaf() {
    let (mut draft, _, spine) = Draft::clos(3, 3, 2);
    let empty = draft.node(NodeKind::Switch, "empty");
    spine.iter().for_each(|&s| draft.cable(empty, s));
    let clos = recognised(&draft.build());
    assert_eq!((clos.stages(), clos.leaves.len(), clos.roots.len()), (2, 4, 3));
    assert_eq!(named(&clos), ["unequal leaf: empty has 0 hosts, most have 2"]);
}

#[test]
fn leaves_of_three_stages_whose_hosts_are_all_off_are_still_leaves() {
    let whole = "fattree:4".parse::<Recipe>().unwrap().build().unwrap();
    let shape = recognised(&whole);
    let off = |leaves: &[usize]| {
        let hosts = leaves.iter().flat_map(|&n| {
            let leaf = shape.leaves[n];
            whole
                .cables(leaf)
                .filter(|&(_, far)| whole.node(whole.port(far).node).kind != NodeKind::Switch)
        });
        let cut: Vec<_> = hosts.map(|(port, _)| port).collect();
        assert_eq!(cut.len(), 2 * leaves.len());
        whole.without_cables(&cut)
    };
    // One leaf, leaves of several pods, a whole pod, all pods but one and a half.
    for leaves in [&[1][..], &[0, 2, 5], &[2, 3], &[0, 3, 4, 5, 6]] {
        let clos = recognised(&off(leaves));
        assert_eq!((clos.leaves.len(), clos.roots.len()), (8, 4), "{leaves:?}");
        assert_eq!(clos.pods(), 4, "{leaves:?}");
    }
}

#[test]
fn with_one_cable_left_a_leaf_without_hosts_is_a_leaf_and_a_core_a_core() {
    let whole = "fattree:4".parse::<Recipe>().unwrap().build().unwrap();
    let shape = recognised(&whole);
    let cables = |switch| whole.cables(switch).map(|(port, _)| port);
    // Its hosts are off, and the first of its two cables up is gone.
    let leaf: Vec<_> = cables(shape.leaves[3]).take(3).collect();
    // Of its cables to four pods one is there.
    let core: Vec<_> = cables(shape.roots[1]).skip(1).collect();
    for cut in [&leaf, &core] {
        let clos = recognised(&whole.without_cables(cut));
        assert_eq!((clos.leaves.len(), &clos.roots), (8, &shape.roots));
    }
}

#[test]
fn extra_and_missing_cables() {
    let (mut draft, leaf, spine) = Draft::clos(4, 3, 2);
    draft.cable(leaf[1], spine[2]);
    let lonely = draft.node(NodeKind::Switch, "leaf9");
    draft.hosts(lonely, 2);
    draft.cable(lonely, spine[0]);
    draft.cable(lonely, spine[1]);
    let clos = recognised(&draft.build());
    assert_eq!(clos.root_planes, 1);
    let expected = [
        "extra cable: leaf1 to spine2 has 2, trees use 1",
        "missing cable: leaf9 to spine2 has 0 of 1",
    ];
    assert_eq!(named(&clos), expected);
}

#[test]
fn aggregation_nodes_and_routers_are_addressed_but_no_hosts() {
    let (mut draft, leaf, spine) = Draft::clos(3, 2, 2);
    draft.end_node(NodeKind::Adapter, "Mellanox Technologies Aggregation Node", leaf[0]);
    // An adapter that does not say so, but shares the SystemImageGUID of its switch.
    let built_in = draft.end_node(NodeKind::Adapter, "built in", spine[1]);
    draft.builder.node_mut(spine[1]).system_image = Guid(0x77);
    draft.builder.node_mut(built_in).system_image = Guid(0x77);
    draft.end_node(NodeKind::Router, "router1", spine[0]);
    let topology = draft.build();
    let hosts = Hosts::of(&topology);
    assert_eq!(hosts.len(), 6);
    let clos = recognised(&topology);
    let names = named(&clos);
    assert_eq!(names, ["router: router1/1 hangs on spine0/4"]);
    let text = clos.irregularities[0].to_string();
    let guid = topology.node(hosts_node(&topology, "router1")).guid;
    let port = Guid(guid.0 + 1);
    assert!(text.contains(&format!("router1/1 ({port})")), "{text}");
    let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
    let addressed = routing.plan.addresses().iter().count();
    assert_eq!(addressed, 5 + 6 + 3, "switches, hosts, and what is no host");
}

/// They have a rate of their own, which neither the hosts' nor the switches' is.
#[test]
fn rates_of_aggregation_nodes_are_compared_with_each_other() {
    let (mut draft, leaf, spine) = Draft::clos(3, 2, 2);
    let rate = |text: &str| text.parse::<LinkRate>().unwrap();
    let switches: Vec<Handle> = leaf.into_iter().chain(spine).collect();
    let mut nodes = Vec::new();
    for &switch in &switches {
        let name = "Mellanox Technologies Aggregation Node";
        nodes.push(draft.end_node(NodeKind::Adapter, name, switch));
    }
    for (node, used) in draft.used.clone() {
        for port in 1..=used {
            // The last cable of every switch leads to its aggregation node.
            let built_in = nodes.contains(&node) || switches.contains(&node) && port == used;
            let text = if built_in { "4xEDR" } else { "2xHDR" };
            draft.builder.set_rate(node, PortNum(port), rate(text)).unwrap();
        }
    }
    assert_eq!(named(&recognised(&draft.build())), [""; 0]);
}

#[test]
fn mixed_speeds_are_named_cable_by_cable() {
    let (mut draft, leaf, spine) = Draft::clos(3, 2, 1);
    let rate = |text: &str| text.parse::<LinkRate>().unwrap();
    for (n, &leaf) in leaf.iter().enumerate() {
        for (port, text) in [(2, "4xNDR"), (3, if n == 1 { "4xHDR" } else { "4xNDR" })] {
            draft.builder.set_rate(leaf, PortNum(port), rate(text)).unwrap();
            let other = spine[usize::from(port) - 2];
            let theirs = if n == 2 && port == 3 { "2xNDR" } else { text };
            draft.builder.set_rate(other, PortNum(n as u8 + 1), rate(theirs)).unwrap();
        }
    }
    let names = named(&recognised(&draft.build()));
    let expected = [
        "rates disagree: leaf2/3 says 4xNDR, spine1/3 says 2xNDR",
        "odd rate: leaf1/3 to spine1/2 runs at 4xHDR, most at 4xNDR",
        "odd rate: leaf2/3 to spine1/3 runs at 2xNDR, most at 4xNDR",
    ];
    assert_eq!(names, expected);
}

#[test]
fn chips_of_one_chassis_are_named_together_and_count_for_themselves() {
    let (mut draft, _, spine) = Draft::clos(4, 4, 2);
    for pair in spine.chunks(2) {
        let image = Guid(0x900 + pair[0].index() as u64);
        pair.iter().for_each(|&chip| draft.builder.node_mut(chip).system_image = image);
    }
    let clos = recognised(&draft.build());
    assert_eq!(clos.roots.len(), 4);
    let names = named(&clos);
    assert_eq!(names.len(), 2);
    assert!(names[0].ends_with(": 2 chips: spine0, spine1"), "{names:?}");
}

#[test]
fn an_adapter_that_no_cable_joins_is_named() {
    let (mut draft, ..) = Draft::clos(3, 2, 1);
    draft.node(NodeKind::Adapter, "spare");
    let topology = draft.build();
    assert_eq!(named(&recognised(&topology)), ["uncabled: spare hangs on no switch"]);
    assert_eq!(ibnet::parse(ibnet::write(&topology).as_bytes()).unwrap(), topology);
}

#[test]
fn hosts_on_cores_do_not_hide_three_stages() {
    let whole = "fattree:6".parse::<Recipe>().unwrap().build().unwrap();
    // The same fabric drawn by hand, with one host on a core and one on an aggregation switch.
    let mut draft = Draft::new();
    let (pods, half) = (5, 3);
    let leaf = draft.switches("leaf", pods * half);
    let aggregation = draft.switches("agg", pods * half);
    let core = draft.switches("core", half * half);
    for pod in 0..pods {
        for n in 0..half {
            draft.hosts(leaf[pod * half + n], 8);
            for a in 0..half {
                draft.cable(leaf[pod * half + n], aggregation[pod * half + a]);
                draft.cable(aggregation[pod * half + n], core[n * half + a]);
            }
        }
    }
    draft.hosts(core[4], 1);
    draft.hosts(aggregation[7], 1);
    let topology = draft.build();
    assert_eq!(recognised(&whole).stages(), 3);
    let clos = recognised(&topology);
    assert_eq!((clos.stages(), clos.pods(), clos.groups()), (3, 5, 3));
    let off = |i: &&Irregularity| matches!(i, Irregularity::HostOffLeaf { .. });
    assert_eq!(clos.irregularities.iter().filter(off).count(), 2);
}

#[test]
fn what_is_no_clos_says_exactly_why() {
    let reason = |topology: &Topology| recognise(topology, &Hosts::of(topology)).unwrap_err();

    let mut bare = Draft::new();
    let two = bare.switches("s", 2);
    bare.cable(two[0], two[1]);
    assert_eq!(reason(&bare.build()), NotClos::NoHosts);
    let mut pair = Draft::new();
    let hosts = ["n1", "n2"].map(|name| pair.node(NodeKind::Adapter, name));
    pair.cable(hosts[0], hosts[1]);
    assert_eq!(reason(&pair.build()), NotClos::BackToBack);

    // Cables within a stage, too many to be called stray.
    let (mut joined, leaf, _) = Draft::clos(3, 2, 1);
    for (a, b) in [(0, 1), (1, 2), (0, 2)] {
        joined.cable(leaf[a], leaf[b]);
    }
    let text = reason(&joined.build()).to_string();
    assert!(text.contains("cabled to each other"), "{text}");

    // What is switched off is in no stage.
    let whole = "clos:4,3,2".parse::<Recipe>().unwrap().build().unwrap();
    for (name, leaves, roots) in [("spine0", 4, 2), ("leaf0", 3, 3)] {
        let off = hosts_node(&whole, name);
        let cut: Vec<_> = whole.cables(off).map(|(port, _)| port).collect();
        let clos = recognised(&whole.without_cables(&cut));
        assert_eq!((clos.leaves.len(), clos.roots.len()), (leaves, roots));
        let names = named(&clos);
        assert_eq!(names[0], format!("uncabled: {name} hangs on no switch"));
    }

    let (mut apart, ..) = Draft::clos(3, 2, 1);
    let island = apart.node(NodeKind::Switch, "island");
    apart.hosts(island, 1);
    assert_eq!(reason(&apart.build()).to_string(), "`leaf0` and `island` are not connected");

    // A long line of switches: every other one a leaf, but most pairs are not cabled.
    let mut line = Draft::new();
    let switches = line.switches("s", 12);
    switches.windows(2).for_each(|pair| line.cable(pair[0], pair[1]));
    switches.iter().for_each(|&s| line.hosts(s, 1));
    let text = reason(&line.build()).to_string();
    assert!(text.ends_with("pairs of leaf and spine are cabled"), "{text}");
}

#[test]
fn a_single_switch_is_the_smallest_clos() {
    let mut lone = Draft::new();
    let one = lone.node(NodeKind::Switch, "one");
    lone.hosts(one, 5);
    let topology = lone.build();
    let clos = recognised(&topology);
    assert_eq!((clos.stages(), clos.leaves.len(), clos.roots.len()), (2, 1, 0));
    assert_eq!(named(&clos), [""; 0]);
    for engine in [Engine::Trees, Engine::MinHop, Engine::DModK] {
        let routing = Routing::compute(&topology, engine, None).unwrap();
        let walked = walk(&topology, routing.plan.addresses(), &routing.tables, 3);
        assert!(walked.joins_all(), "{engine}: {walked}");
    }
}

#[test]
fn irregularities_name_guid_lid_and_port_in_text_and_in_documents() {
    let (mut draft, leaf, spine) = Draft::clos(3, 2, 2);
    draft.end_node(NodeKind::Adapter, "astray", spine[1]);
    draft.cable(leaf[0], leaf[2]);
    for (n, &switch) in leaf.iter().chain(&spine).enumerate() {
        let lid = Lid(n as u16 + 40);
        draft.builder.set_address(switch, PortNum::ZERO, lid, Lmc::ZERO).unwrap();
    }
    let clos = recognised(&draft.build());
    let texts: Vec<String> = clos.irregularities.iter().map(ToString::to_string).collect();
    let guid = |n: u64| Guid(n << 8);
    let (leaf0, leaf2, spine1) = (guid(1), guid(3), guid(5));
    let stray = format!("stray cable: leaf0/5 ({leaf0}, LID 40) to leaf2/5 ({leaf2}, LID 42)");
    assert!(texts[0].starts_with(&stray), "{texts:?}");
    assert!(
        texts[1].ends_with(&format!("hangs on spine spine1/4 ({spine1}, LID 44)")),
        "{texts:?}"
    );
    let json = serde_json::to_value(&clos.irregularities).unwrap();
    let expected = serde_json::json!({
        "kind": "stray_cable",
        "one": { "name": "leaf0", "guid": leaf0.to_string(), "port": 5, "lid": 40 },
        "other": { "name": "leaf2", "guid": leaf2.to_string(), "port": 5, "lid": 42 },
    });
    assert_eq!(json[0], expected);
}

fn hosts_node(topology: &Topology, name: &str) -> NodeIndex {
    topology.nodes().find(|&node| &*topology.node(node).name == name).unwrap()
}
