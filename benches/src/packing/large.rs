//! Three stages: leaves over groups of trees, then pods over the trees of each group.

use snin_controller_core::packing::{ConnectionId, Packer, Shape};

use super::patterns::{assert_spread, permutation, requests};
use super::{line, middle, timed};
use crate::{Hash, Outcome, Size};

/// Half the ports of a switch: pods are twice as many, of as many leaves, with as many hosts a leaf. And the
/// goal in milliseconds.
const FULL: [(u32, f64); 2] = [(18, 0.7), (32, 4.0)];
const SMALL: [(u32, f64); 1] = [(3, 0.7)];

pub(super) fn run(size: Size) -> Vec<Outcome> {
    let (cases, runs) = if size == Size::Full { (&FULL[..], 61) } else { (&SMALL[..], 3) };
    cases.iter().flat_map(|&(half, goal)| case(half, goal, runs)).collect()
}

fn case(half: u32, goal: f64, runs: u64) -> Vec<Outcome> {
    let leaves = 2 * half * half;
    let pod_of_leaf: Vec<u32> = (0..leaves).map(|leaf| leaf / half).collect();
    let group_of_tree: Vec<u32> = (0..half * half).map(|tree| tree / half).collect();
    let mut packer = Packer::new(Shape::three_stage(pod_of_leaf, group_of_tree));
    let mut times = Vec::new();
    let mut hash = Hash::default();
    for run in 0..runs {
        let ends = permutation(leaves, half, run);
        let requests = requests(&ends);
        let (time, granted) = timed(|| {
            packer.clear();
            packer.apply(&[], &requests).granted.len()
        });
        assert_eq!(granted, ends.len(), "every connection of a permutation fits");
        times.push(time.as_secs_f64() * 1e3);
        let tree = |id| packer.tree_of(ConnectionId(id)).expect("granted").index();
        let trees: Vec<usize> = (0..ends.len() as u32).map(tree).collect();
        trees.iter().for_each(|&tree| hash.number(tree as u64));
        if run == 0 {
            assert_spread(&ends, trees.iter().map(|&tree| tree / half as usize), 1);
            let of_pod = |&(from, to): &(u32, u32)| (from / half, to / half);
            let (between, trees): (Vec<_>, Vec<_>) =
                ends.iter().map(of_pod).zip(trees).filter(|((from, to), _)| from != to).unzip();
            assert_spread(&between, trees, 1);
        }
    }
    let name = format!("permutation, {} hosts in three stages", leaves * half);
    let label = if leaves * half > 49_151 { " (more than LIDs can address)" } else { "" };
    vec![line(format!("{name}{label}"), "ms", middle(times), (goal, "goal"), hash.0)]
}
