//! Every traffic pattern of the smallest fabrics.

mod support;

use support::{Ask, Checked, Fabric};

/// Calls `each` with every way to have up to `most` connections from and to each leaf.
fn every_pattern(leaves: usize, most: usize, each: &mut impl FnMut(&[Ask])) {
    let pairs: Vec<(usize, usize)> = (0..leaves)
        .flat_map(|source| (0..leaves).map(move |destination| (source, destination)))
        .filter(|&(source, destination)| source != destination)
        .collect();
    extend(&pairs, &mut vec![most; leaves], &mut vec![most; leaves], &mut Vec::new(), each);
}

fn extend(
    pairs: &[(usize, usize)],
    up: &mut [usize],
    down: &mut [usize],
    asks: &mut Vec<Ask>,
    each: &mut impl FnMut(&[Ask]),
) {
    let Some((&(source, destination), rest)) = pairs.split_first() else {
        return each(asks);
    };
    extend(rest, up, down, asks, each);
    if up[source] > 0 && down[destination] > 0 {
        up[source] -= 1;
        down[destination] -= 1;
        asks.push(Ask::new(asks.len(), source, destination));
        // The same pair once more.
        extend(pairs, up, down, asks, each);
        asks.pop();
        up[source] += 1;
        down[destination] += 1;
    }
}

/// Everything is granted, at once and one by one, and one by one at most `leaves - 1` others move.
fn two_stages(leaves: usize, trees: usize) -> usize {
    let mut patterns = 0;
    every_pattern(leaves, trees, &mut |asks| {
        patterns += 1;
        let fabric = Fabric::two_stage(leaves, trees);
        assert_eq!(Checked::new(fabric.clone()).insert(asks).granted.len(), asks.len());
        let mut packer = Checked::new(fabric);
        for ask in asks {
            let outcome = packer.insert(&[*ask]);
            assert_eq!(outcome.granted.len(), 1, "{ask:?} of {asks:?}");
            assert!(outcome.moved.len() < leaves, "{} moved: {asks:?}", outcome.moved.len());
        }
    });
    patterns
}

#[test]
fn all_patterns_of_small_two_stage_fabrics_are_granted() {
    assert_eq!(two_stages(2, 4), 25);
    assert_eq!(two_stages(3, 2), 129);
    assert_eq!(two_stages(3, 3), 571);
    assert!(two_stages(4, 2) > 2000);
}

#[test]
fn all_patterns_of_the_smallest_three_stage_fabrics_are_granted() {
    // Two pods of two leaves with two hosts, and three pods of one leaf with two hosts.
    for (pods, leaves) in [(2, 2), (3, 1)] {
        every_pattern(pods * leaves, 2, &mut |asks| {
            let fabric = Fabric::three_stage(pods, leaves, 2, leaves);
            assert_eq!(Checked::new(fabric.clone()).insert(asks).granted.len(), asks.len());
            let mut packer = Checked::new(fabric);
            for ask in asks {
                assert_eq!(packer.insert(&[*ask]).granted.len(), 1, "{ask:?} of {asks:?}");
            }
        });
    }
}

/// Every pair of (pattern, one missing cable) on three leaves: never fewer than another way of
/// choosing trees would grant.
#[test]
fn with_one_cable_missing_nothing_better_exists() {
    for tree in 0..2 {
        every_pattern(3, 2, &mut |asks| {
            let mut fabric = Fabric::two_stage(3, 2);
            fabric.missing.insert((0, tree));
            let granted = Checked::new(fabric.clone()).insert(asks).granted.len();
            assert_eq!(granted, most_by_trial(&fabric, asks), "{asks:?}");
        });
    }
}

/// The most connections that can be granted, by trying every tree for every connection.
fn most_by_trial(fabric: &Fabric, asks: &[Ask]) -> usize {
    fn best(fabric: &Fabric, asks: &[Ask], taken: &mut Vec<(usize, usize, usize)>) -> usize {
        let Some((ask, rest)) = asks.split_first() else {
            return 0;
        };
        let mut most = best(fabric, rest, taken);
        for tree in fabric.allowed(ask) {
            let clash = |&(source, destination, other): &(usize, usize, usize)| {
                other == tree && (source == ask.source || destination == ask.destination)
            };
            if !taken.iter().any(clash) {
                taken.push((ask.source, ask.destination, tree));
                most = most.max(1 + best(fabric, rest, taken));
                taken.pop();
            }
        }
        most
    }
    best(fabric, asks, &mut Vec::new())
}
