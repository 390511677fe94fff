//! Switches that hang on a Clos and are no part of it.

use snin_fabric::clos::{Clos, Level};
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::topology::Handle;
use snin_fabric::{NodeIndex, PortIndex, Topology, TreeId};

use crate::{Draft, named, recognised};

/// What hangs on the Clos; its switches are named `x0` upwards.
type Corner = fn(&mut Draft, &[Handle], &[Handle]);

/// Switches with hosts, without cables.
fn racks(draft: &mut Draft, count: usize) -> Vec<Handle> {
    let racks = draft.switches("x", count);
    racks.iter().for_each(|&rack| draft.hosts(rack, 2));
    racks
}

fn below_a_leaf(draft: &mut Draft, leaf: &[Handle], _: &[Handle]) {
    let x = racks(draft, 1);
    draft.cable(x[0], leaf[0]);
}

fn below_two_leaves(draft: &mut Draft, leaf: &[Handle], _: &[Handle]) {
    let x = racks(draft, 2);
    x.iter().for_each(|&x| leaf[..2].iter().for_each(|&leaf| draft.cable(x, leaf)));
}

fn a_chain(draft: &mut Draft, leaf: &[Handle], _: &[Handle]) {
    let x = racks(draft, 3);
    draft.cable(leaf[2], x[0]);
    x.windows(2).for_each(|pair| draft.cable(pair[0], pair[1]));
}

fn a_ring(draft: &mut Draft, leaf: &[Handle], _: &[Handle]) {
    let x = racks(draft, 4);
    (0..4).for_each(|n| draft.cable(x[n], x[(n + 1) % 4]));
    draft.cable(x[0], leaf[1]);
    draft.cable(x[2], leaf[5]);
}

fn a_full_mesh_below_a_spine(draft: &mut Draft, _: &[Handle], spine: &[Handle]) {
    let x = racks(draft, 5);
    (0..5).for_each(|n| (0..n).for_each(|m| draft.cable(x[n], x[m])));
    draft.cable(x[0], spine[1]);
    draft.cable(x[3], spine[1]);
}

fn two_corners(draft: &mut Draft, leaf: &[Handle], spine: &[Handle]) {
    let x = racks(draft, 5);
    [(0, 1), (1, 2), (2, 0)].iter().for_each(|&(n, m)| draft.cable(x[n], x[m]));
    draft.cable(x[0], spine[0]);
    draft.cable(x[1], spine[3]);
    draft.cable(x[3], x[4]);
    draft.cable(x[3], leaf[7]);
}

const CORNERS: [(&str, usize, Corner); 6] = [
    ("below a leaf", 1, below_a_leaf),
    ("below two leaves", 2, below_two_leaves),
    ("a chain", 3, a_chain),
    ("a ring", 4, a_ring),
    ("a full mesh below a spine", 5, a_full_mesh_below_a_spine),
    ("two corners", 5, two_corners),
];

fn fabric(corner: Corner) -> Topology {
    let (mut draft, leaf, spine) = Draft::clos(8, 4, 4);
    corner(&mut draft, &leaf, &spine);
    draft.build()
}

fn outside_names(topology: &Topology, clos: &Clos) -> Vec<String> {
    let outside = topology.switches().filter(|&switch| clos.level(switch) == Level::Outside);
    outside.map(|switch| topology.node(switch).name.to_string()).collect()
}

#[test]
fn the_clos_keeps_its_trees_and_what_hangs_on_it_is_named() {
    for (what, switches, corner) in CORNERS {
        let topology = fabric(corner);
        // Reachable, free of credit loops, each address along its tree.
        let clos = recognised(&topology);
        let names: Vec<String> = (0..switches).map(|n| format!("x{n}")).collect();
        assert_eq!(outside_names(&topology, &clos), names, "{what}");
        let said: Vec<String> =
            named(&clos).into_iter().filter(|name| !name.starts_with("short of uplinks")).collect();
        let outside = |name: &String| {
            format!("outside: {name} hangs on the Clos and is no part of it, 2 hosts are on it")
        };
        assert_eq!(said, names.iter().map(outside).collect::<Vec<_>>(), "{what}");

        // The trees, and what base addresses do, are those of the Clos alone.
        let (draft, ..) = Draft::clos(8, 4, 4);
        let alone = draft.build();
        let whole = Routing::compute(&topology, Engine::Trees, None).unwrap();
        let part = Routing::compute(&alone, Engine::Trees, None).unwrap();
        assert_eq!((whole.forest.len(), whole.plan.lmc()), (4, part.plan.lmc()), "{what}");
        let same = |guid| topology.switches().find(|&s| topology.node(s).guid == guid).unwrap();
        for switch in alone.switches() {
            let here = same(alone.node(switch).guid);
            for tree in (0..4).map(TreeId) {
                assert_eq!(whole.forest.up(here, tree), part.forest.up(switch, tree), "{what}");
            }
        }
        let outside = |s: &NodeIndex| clos.level(*s) == Level::Outside;
        for switch in topology.switches().filter(outside) {
            assert!((0..4).all(|tree| !whole.forest.covers(switch, TreeId(tree))), "{what}");
        }
    }
}

/// Whichever cable is cut, the Clos has the same trees. What is outside is the same, unless the cable is one of
/// the corner's own: a rack that has only its cable to a spine left is a leaf.
#[test]
fn a_cut_cable_does_not_change_what_is_outside() {
    for (what, switches, corner) in CORNERS {
        let topology = fabric(corner);
        let inner = |&port: &PortIndex| {
            let peer = topology.peer(port);
            peer.is_some_and(|peer| {
                port < peer
                    && topology.is_switch(topology.port(port).node)
                    && topology.is_switch(topology.port(peer).node)
            })
        };
        for port in topology.ports().filter(inner) {
            let cut = topology.without_cables(&[port]);
            let routing = Routing::compute(&cut, Engine::Trees, None).unwrap();
            let Ok(clos) = &routing.shape else {
                let islands = routing.unreachable.len();
                assert!(islands > 0, "{what}: {:?}", routing.shape);
                continue;
            };
            let mut ends = [Some(port), topology.peer(port)].into_iter().flatten();
            let is_inner =
                |end: PortIndex| topology.node(topology.port(end).node).name.starts_with('x');
            let where_cut = topology.port_name(port);
            if !ends.all(is_inner) {
                assert_eq!(outside_names(&cut, clos).len(), switches, "{what}: {where_cut}");
            }
            assert_eq!(routing.forest.len(), 4, "{what}: {where_cut}");
            assert!(routing.unreachable.is_empty(), "{what}");
        }
    }
}
