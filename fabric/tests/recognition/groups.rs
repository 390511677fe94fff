//! Pods in which several aggregation switches lead to the same cores.

use snin_fabric::clos::{Clos, NotClos, recognise};
use snin_fabric::generate::{Recipe, cut_cables};
use snin_fabric::hosts::Hosts;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{NodeKind, PortIndex, Topology, TreeId};

use crate::{Draft, hosts_node, named, recognised};

fn fabric(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

/// Every link that a tree has, found by following its ports up from the leaves: by tree, the ports that send up
/// from the stage below the root.
fn last_links(topology: &Topology, clos: &Clos, routing: &Routing) -> Vec<Vec<PortIndex>> {
    let forest = &routing.forest;
    let of_tree = |tree: TreeId| {
        let up = |switch| forest.up(switch, tree).and_then(|port| topology.port_of(switch, port));
        let mut links: Vec<PortIndex> = clos.aggregation.iter().filter_map(|&s| up(s)).collect();
        for &leaf in &clos.leaves {
            let above =
                up(leaf).and_then(|port| topology.peer_node(port)).expect("a tree covers all");
            let last = up(above).expect("and so at the next stage");
            assert!(links.contains(&last));
            assert_eq!(topology.peer_node(last), Some(forest.trees()[tree.index()].root));
        }
        links.sort_unstable();
        links
    };
    (0..forest.len() as u16).map(|tree| of_tree(TreeId(tree))).collect()
}

#[test]
fn aggregation_switches_that_share_cores_grow_trees_of_their_own() {
    // Recipe, trees, groups of trees that share the leaves' cables.
    for (recipe, trees, groups) in [
        ("pods:4,4,4,8,4,2", 16, 4),
        ("pods:3,2,6,6,3,2", 18, 6),
        ("pods:2,4,2,2,2,1", 4, 2),
        ("pods:4,2,3,3,3,3", 3, 3),
    ] {
        let topology = fabric(recipe);
        let clos = recognised(&topology);
        let short =
            clos.irregularities.iter().all(|i| i.to_string().starts_with("short of uplinks"));
        assert!(short, "{recipe}: {:?}", named(&clos));
        let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
        assert_eq!((routing.forest.len(), routing.forest.groups()), (trees, groups), "{recipe}");
        // Every cable to a core is one tree's, and each tree has one in each pod.
        let links = last_links(&topology, &clos, &routing);
        let mut all: Vec<PortIndex> = links.concat();
        let cables: usize = clos.aggregation.iter().map(|&s| clos.uplinks(&topology, s)).sum();
        assert!(links.iter().all(|of_tree| of_tree.len() == clos.pods() as usize), "{recipe}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), cables, "{recipe}");
    }
}

#[test]
fn what_is_missing_in_a_group_is_named_and_the_rest_stays() {
    let whole = fabric("pods:4,4,4,8,4,2");
    for seed in 0..20 {
        let cut = cut_cables(&whole, 6, seed);
        let clos = recognised(&cut);
        assert_eq!(clos.group_width, 2);
        let missing = named(&clos);
        let missing = missing.iter().filter(|name| name.starts_with("missing cable")).count();
        assert_eq!(missing, 6, "seed {seed}");
    }
    // A switch is gone: its pod has one less to that group.
    let gone = hosts_node(&whole, "agg5");
    let cables: Vec<PortIndex> = whole.cables(gone).map(|(port, _)| port).collect();
    let clos = recognised(&whole.without_cables(&cables));
    let names = named(&clos);
    let lacks = "missing aggregation switch: pod of leaf4 has none to group of core0";
    assert_eq!(names.iter().filter(|name| *name == lacks).count(), 1, "{names:?}");
}

#[test]
fn a_pod_with_more_switches_to_a_group_than_others_is_said() {
    let mut draft = Draft::new();
    let (leaf, core) = (draft.switches("leaf", 6), draft.switches("core", 4));
    let aggregation = draft.switches("agg", 7);
    for (n, &l) in leaf.iter().enumerate() {
        draft.hosts(l, 2);
        let pod = n / 2;
        aggregation[pod * 2..pod * 2 + 2].iter().for_each(|&a| draft.cable(l, a));
        if pod == 2 {
            draft.cable(l, aggregation[6]);
        }
    }
    for (n, &a) in aggregation.iter().enumerate() {
        let group = if n == 6 { 0 } else { n % 2 };
        core[group * 2..group * 2 + 2].iter().for_each(|&c| draft.cable(a, c));
    }
    let topology = draft.build();
    let reason = recognise(&topology, &Hosts::of(&topology)).unwrap_err();
    assert!(matches!(reason, NotClos::SharedCores(_, _)), "{reason}");
    assert!(topology.nodes().any(|node| topology.node(node).kind == NodeKind::Adapter));
    // It is routed all the same.
    let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
    assert!(routing.unreachable.is_empty() && routing.forest.is_empty());
}
