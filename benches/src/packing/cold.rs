//! Whole patterns into an empty fabric: a full random permutation, on one core.

use rustworkx_core::bipartite_coloring::bipartite_edge_color;
use rustworkx_core::petgraph::Undirected;
use rustworkx_core::petgraph::graph::{EdgeIndex, Graph};
use snin_controller_core::packing::{ConnectionId, Packer, Shape};

use super::euler::EulerSplit;
use super::patterns::{Ends, assert_spread, permutation, requests};
use super::{line, middle, rate, timed};
use crate::{Hash, Outcome, Size};

/// Leaves, hosts a leaf, the goal in millions of connections a second.
const CASES: [(u32, u32, Option<f64>); 5] = [
    (16, 32, None),
    (36, 18, Some(90.0)),
    (32, 32, None),
    (64, 32, Some(90.0)),
    (128, 64, Some(85.0)),
];
/// The packed connections of a full-size case, all runs together.
const CONNECTIONS: u32 = 2_000_000;
/// One run of the slow peer to so many of ours.
const RARELY: usize = 16;

pub(super) fn run(size: Size) -> Vec<Outcome> {
    let full = size == Size::Full;
    let cases = if full { &CASES[..] } else { &CASES[..2] };
    let runs = |hosts| if full { CONNECTIONS.div_ceil(hosts) | 1 } else { 3 };
    cases
        .iter()
        .flat_map(|&(leaves, hosts, goal)| case(leaves, hosts, goal, runs(leaves * hosts)))
        .collect()
}

/// Millions of connections a second, in each run.
#[derive(Default)]
struct Rates {
    ours: Vec<f64>,
    euler: Vec<f64>,
    rustworkx: Vec<f64>,
}

fn case(leaves: u32, hosts: u32, goal: Option<f64>, runs: u32) -> Vec<Outcome> {
    let mut packer = Packer::new(Shape::two_stage(leaves as usize, hosts as usize));
    let mut euler = EulerSplit::new(leaves as usize);
    let mut classes = vec![0; (leaves * hosts) as usize];
    let (mut rates, mut hash) = (Rates::default(), Hash::default());
    for run in 0..runs as usize {
        let ends = permutation(leaves, hosts, run as u64);
        let requests = requests(&ends);
        let (time, granted) = timed(|| {
            packer.clear();
            packer.apply(&[], &requests).granted.len()
        });
        assert_eq!(granted, ends.len(), "every connection of a permutation fits");
        let tree = |id| packer.tree_of(ConnectionId(id)).expect("granted").index();
        let trees: Vec<usize> = (0..ends.len() as u32).map(tree).collect();
        trees.iter().for_each(|&tree| hash.number(tree as u64));
        rates.ours.push(rate(granted, time));

        let (time, ()) = timed(|| euler.pack(&ends, hosts.next_multiple_of(4), &mut classes));
        rates.euler.push(rate(ends.len(), time));
        if run % RARELY == 0 {
            assert_spread(&ends, trees, 1);
            assert_spread(
                &ends,
                classes.iter().map(|&class| class.into()).take(ends.len()),
                hosts.div_ceil(4),
            );
            rates.rustworkx.push(colour(leaves, hosts, &ends));
        }
    }
    let case = format!("permutation, {} hosts as {leaves} x {hosts}", leaves * hosts);
    let ours = middle(rates.ours);
    let peers = [
        (Some(middle(rates.euler)), "Euler split into four classes"),
        (Some(middle(rates.rustworkx)), "rustworkx-core"),
        (goal, "goal"),
    ];
    let peers = peers.into_iter().filter_map(|(peer, name)| Some((peer?, name)));
    peers.map(|peer| line(&case, "M/s", ours, peer, hash.0)).collect()
}

/// The rate of rustworkx-core's colouring; it gets its graph ready made.
fn colour(leaves: u32, hosts: u32, ends: &Ends) -> f64 {
    let edges = ends.iter().map(|&(from, to)| (from, leaves + to));
    let graph = Graph::<(), (), Undirected>::from_edges(edges);
    let (time, colours) = timed(|| bipartite_edge_color(&graph).expect("bipartite"));
    let colour = |edge: usize| colours[&EdgeIndex::new(edge)];
    assert_spread(ends, (0..ends.len()).map(colour), 1);
    assert!((0..ends.len()).all(|edge| colour(edge) < hosts as usize));
    rate(ends.len(), time)
}
