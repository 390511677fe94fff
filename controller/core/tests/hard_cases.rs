//! The cases that decide whether real fabrics can be packed: missing cables, few addresses.

mod support;

use rand::RngExt;
use snin_controller_core::packing::{ConnectionId, LeafId, Packer, Refusal, Request, SetId, Shape};
use snin_fabric::TreeId;
use support::{Checked, Fabric, equal_leaves, permutation, rng};

#[test]
fn full_permutations_fill_regular_fabrics() {
    for (leaves, hosts) in [(36, 18), (64, 32), (128, 64), (20, 70)] {
        let mut packer = Checked::new(Fabric::two_stage(leaves, hosts));
        let asks = permutation(&equal_leaves(leaves, hosts), |_| None, &mut rng(1));
        assert_eq!(packer.insert(&asks).granted.len(), asks.len());
    }
    let mut packer = Checked::new(Fabric::three_stage(36, 18, 18, 18));
    let asks = permutation(&equal_leaves(648, 18), |_| None, &mut rng(1));
    assert_eq!(packer.insert(&asks).granted.len(), asks.len());
}

#[test]
fn missing_cables_cost_no_more_than_the_leaves_force() {
    for cuts in [10, 60] {
        for seed in 0..10 {
            let mut rng = rng(seed);
            let mut fabric = Fabric::two_stage(36, 18);
            while fabric.missing.len() < cuts {
                fabric.missing.insert((rng.random_range(0..36), rng.random_range(0..18)));
            }
            let asks = permutation(&equal_leaves(36, 18), |_| None, &mut rng);
            let bound = fabric.bound(&asks);
            let granted = Checked::new(fabric).insert(&asks).granted.len();
            assert_eq!(granted, bound, "{cuts} cuts, seed {seed}");
        }
    }
}

/// 31 leaves of 16 to 19 hosts, nine spines with two cables a leaf, four leaves without one spine.
#[test]
fn unequal_leaves_cost_no_more_than_they_force() {
    for seed in 0..10 {
        let mut rng = rng(seed);
        let mut fabric = Fabric::two_stage(31, 18);
        for leaf in [3, 11, 12, 20] {
            let spine = rng.random_range(0..9);
            fabric.missing.extend([(leaf, 2 * spine), (leaf, 2 * spine + 1)]);
        }
        let hosts: Vec<usize> =
            (0..31).flat_map(|leaf| vec![leaf; rng.random_range(16..=19)]).collect();
        let asks = permutation(&hosts, |_| None, &mut rng);
        let bound = fabric.bound(&asks);
        let granted = Checked::new(fabric).insert(&asks).granted.len();
        assert_eq!(granted, bound, "seed {seed}");
    }
}

/// 2,048 hosts with 16 addresses for 32 trees.
#[test]
fn half_the_trees_addressed_carry_everything() {
    for seed in 0..5 {
        let mut fabric = Fabric::two_stage(64, 32);
        let rotated = |host: usize| (0..16).map(|i| (host % 32 + host / 32 + i) % 32).collect();
        fabric.sets = (0..2048).map(rotated).collect();
        let asks = permutation(&equal_leaves(64, 32), Some, &mut rng(seed));
        let granted = Checked::new(fabric).insert(&asks).granted.len();
        assert_eq!(granted, asks.len(), "seed {seed}");
    }
}

/// 11,664 hosts with 4 addresses for 324 trees: one core for all hosts of a leaf, in four groups.
#[test]
fn four_addresses_of_324_trees_carry_most_at_once_and_all_in_four_windows() {
    for seed in 0..2 {
        let mut fabric = Fabric::three_stage(36, 18, 18, 18);
        let trees = |host: usize| {
            let (place, leaf) = (host % 18, host / 18 % 18);
            (0..4).map(|i| (place + i) % 18 * 18 + leaf).collect()
        };
        fabric.sets = (0..11_664).map(trees).collect();
        let mut asks = permutation(&equal_leaves(648, 18), Some, &mut rng(seed));
        let all = asks.len();
        let mut packer = Checked::new(fabric);
        let mut granted = Vec::new();
        for window in 0.. {
            assert!(window < 4, "{} left after four windows", asks.len());
            let outcome = packer.apply(&granted, &asks);
            granted = outcome.granted.iter().map(|grant| grant.0.0).collect();
            assert!(window > 0 || granted.len() * 100 >= all * 74, "{} of {all}", granted.len());
            let done: std::collections::BTreeSet<u32> = granted.iter().copied().collect();
            asks.retain(|ask| !done.contains(&ask.id));
            if asks.is_empty() {
                break;
            }
        }
    }
}

/// Two connections exchange destinations, again and again, on leaves that are nearly full.
#[test]
fn insertions_into_a_nearly_full_fabric_move_at_most_one_connection_a_leaf() {
    for (leaves, hosts, load) in [(36, 18, 99), (64, 32, 95)] {
        let mut rng = rng(3);
        let mut packer = Checked::new(Fabric::two_stage(leaves, hosts));
        let mut asks = permutation(&equal_leaves(leaves, hosts), |_| None, &mut rng);
        asks.truncate(asks.len() * load / 100);
        packer.insert(&asks);
        for _ in 0..100 {
            let [a, b] = [0; 2].map(|_| rng.random_range(0..asks.len()));
            let crossed = asks[a].source == asks[b].destination;
            if a == b || crossed || asks[b].source == asks[a].destination {
                continue;
            }
            packer.apply(&[asks[a].id, asks[b].id], &[]);
            (asks[a].destination, asks[b].destination) = (asks[b].destination, asks[a].destination);
            for ask in [asks[a], asks[b]] {
                let outcome = packer.insert(&[ask]);
                assert_eq!(outcome.granted.len(), 1);
                assert!(outcome.moved.len() < leaves);
            }
        }
    }
}

/// A wish may come from another view, in which there were more trees, or from an agent that makes it up.
#[test]
fn trees_that_are_not_there_are_not_given() {
    let mut packer = Packer::new(Shape::two_stage(2, 2));
    let request = |id, pinned, tree| Request {
        id: ConnectionId(id),
        source: LeafId(0),
        destination: LeafId(1),
        allowed: SetId::ALL,
        pinned,
        tree: Some(TreeId(tree)),
    };
    let outcome = packer.apply(&[], &[request(0, false, 2), request(1, true, u16::MAX)]);
    assert_eq!(outcome.granted.len(), 1, "{outcome:?}");
    assert_eq!(outcome.refused, [(ConnectionId(1), Refusal::TreeNotAllowed)]);
}
