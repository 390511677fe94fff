//! The promises of the packer, over random fabrics and histories.

mod support;

use std::collections::BTreeSet;

use proptest::prelude::*;
use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use snin_controller_core::packing::{ConnectionId, Deferral, Refusal};
use support::{Ask, Checked, Fabric, rng};

/// A connection between leaves that have a link left in `room`, which it takes.
fn fitting(room: &mut [(usize, usize)], id: u32, rng: &mut ChaCha8Rng) -> Option<Ask> {
    let sources: Vec<usize> = (0..room.len()).filter(|&leaf| room[leaf].0 > 0).collect();
    let &source = sources.choose(rng)?;
    let other = |&leaf: &usize| leaf != source && room[leaf].1 > 0;
    let destinations: Vec<usize> = (0..room.len()).filter(other).collect();
    let &destination = destinations.choose(rng)?;
    room[source].0 -= 1;
    room[destination].1 -= 1;
    Some(Ask::new(id as usize, source, destination))
}

/// Connections come and go one by one, never more at a leaf than it has links.
fn churn(fabric: Fabric, seed: u64, mut each: impl FnMut(usize, bool)) {
    let mut rng = rng(seed);
    let mut room: Vec<_> = (0..fabric.leaves).map(|l| fabric.capacity(l)).map(|c| (c, c)).collect();
    let mut packer = Checked::new(fabric);
    for _ in 0..60 {
        let held: Vec<u32> = packer.held.keys().copied().collect();
        let unused = (0..).find(|id| !packer.held.contains_key(id)).unwrap();
        let ask = if rng.random_bool(0.8) { fitting(&mut room, unused, &mut rng) } else { None };
        if let Some(ask) = ask {
            let outcome = packer.insert(&[ask]);
            assert!(outcome.evicted.is_empty());
            each(outcome.moved.len(), outcome.granted.len() == 1);
        } else if let Some(id) = held.choose(&mut rng) {
            let (gone, _) = packer.held[id];
            room[gone.source].0 += 1;
            room[gone.destination].1 += 1;
            packer.apply(&[*id], &[]);
        }
    }
}

/// Random missing cables, address sets and connections, some pinned: nothing is promised here but
/// what the checker looks at after every call.
fn anything(seed: u64, three_stages: bool) -> (Checked, Vec<Ask>, ChaCha8Rng) {
    let mut rng = rng(seed);
    let mut fabric = if three_stages {
        let [pods, leaves, groups, cores] = [2..4, 1..4, 1..4, 1..4].map(|r| rng.random_range(r));
        Fabric::three_stage(pods, leaves, groups, cores)
    } else {
        Fabric::two_stage(rng.random_range(2..6), rng.random_range(1..6))
    };
    let (leaves, trees) = (fabric.leaves, fabric.trees);
    for _ in 0..rng.random_range(0..leaves * trees / 2 + 1) {
        fabric.missing.insert((rng.random_range(0..leaves), rng.random_range(0..trees)));
    }
    for _ in 0..4 {
        fabric.sets.push((0..trees).filter(|_| rng.random_bool(0.6)).collect());
    }
    let asks = (0..leaves * trees)
        .map(|id| Ask {
            set: rng.random_bool(0.5).then(|| rng.random_range(0..4)),
            pinned: rng.random_bool(0.2),
            tree: rng.random_bool(0.4).then(|| rng.random_range(0..trees)),
            ..Ask::new(id, rng.random_range(0..leaves), rng.random_range(0..leaves))
        })
        .collect();
    (Checked::new(fabric), asks, rng)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn with_nothing_missing_everything_is_granted_and_few_move(
        leaves in 2usize..7, trees in 1usize..7, seed: u64,
    ) {
        churn(Fabric::two_stage(leaves, trees), seed, |moved, granted| {
            assert!(granted);
            assert!(moved < leaves, "{moved} moved");
        });
    }

    #[test]
    fn with_twice_the_trees_nothing_moves(leaves in 2usize..7, hosts in 1usize..5, seed: u64) {
        let mut packer = Checked::new(Fabric::two_stage(leaves, 2 * hosts - 1));
        let mut rng = rng(seed);
        let mut room = vec![(hosts, hosts); leaves];
        for id in 0.. {
            let Some(ask) = fitting(&mut room, id, &mut rng) else { break };
            let outcome = packer.insert(&[ask]);
            prop_assert_eq!((outcome.granted.len(), outcome.moved.len()), (1, 0));
        }
    }

    #[test]
    fn three_stages_with_nothing_missing_grant_everything(
        pods in 2usize..5, leaves in 1usize..5, groups in 1usize..5, seed: u64,
    ) {
        churn(Fabric::three_stage(pods, leaves, groups, leaves), seed, |_, granted| assert!(granted));
    }

    /// Borodin, Kostochka and Woodall: each list exactly as long as the larger degree of its leaves.
    #[test]
    fn lists_as_long_as_the_larger_degree_are_enough(
        leaves in 2usize..6, count in 1usize..16, seed: u64,
    ) {
        let mut rng = rng(seed);
        let mut asks: Vec<Ask> = (0..count)
            .map(|id| {
                let source = rng.random_range(0..leaves);
                let other = rng.random_range(0..leaves - 1);
                Ask::new(id, source, other + usize::from(other >= source))
            })
            .collect();
        let length = |ask: &Ask| {
            let out = asks.iter().filter(|other| other.source == ask.source).count();
            out.max(asks.iter().filter(|other| other.destination == ask.destination).count())
        };
        let lengths: Vec<usize> = asks.iter().map(length).collect();
        let trees = lengths.iter().max().unwrap() + rng.random_range(0..3);
        let mut fabric = Fabric::two_stage(leaves, trees);
        let mut all: Vec<usize> = (0..trees).collect();
        for (ask, length) in asks.iter_mut().zip(lengths) {
            all.shuffle(&mut rng);
            ask.set = Some(fabric.sets.len());
            fabric.sets.push(all[..length].to_vec());
        }
        prop_assert_eq!(Checked::new(fabric.clone()).insert(&asks).granted.len(), count);
        // And with none known beforehand.
        let mut packer = Checked::new(fabric);
        for ask in &asks {
            prop_assert_eq!(packer.insert(&[*ask]).granted.len(), 1);
        }
    }

    #[test]
    fn overfull_leaves_lose_no_more_than_they_must(
        leaves in 2usize..7, trees in 1usize..5, count in 0usize..40, three: bool, seed: u64,
    ) {
        let mut rng = rng(seed);
        let fabric = if three {
            Fabric::three_stage(2, leaves, trees, leaves)
        } else {
            Fabric::two_stage(leaves, trees)
        };
        let mut end = || rng.random_range(0..fabric.leaves);
        let asks: Vec<Ask> = (0..count)
            .map(|id| Ask::new(id, end(), end()))
            .filter(|ask| ask.source != ask.destination)
            .collect();
        let bound = fabric.bound(&asks);
        prop_assert_eq!(Checked::new(fabric).insert(&asks).granted.len(), bound);
    }

    #[test]
    fn no_link_ever_has_two_owners_and_pinned_never_move(three: bool, seed: u64) {
        let (mut packer, asks, mut rng) = anything(seed, three);
        let (mut again, ..) = anything(seed, three);
        for _ in 0..8 {
            let held: Vec<u32> = packer.held.keys().copied().collect();
            let gone: Vec<u32> = held.into_iter().filter(|_| rng.random_bool(0.2)).collect();
            let new: Vec<Ask> = asks
                .iter()
                .filter(|ask| !packer.held.contains_key(&ask.id) && rng.random_bool(0.4))
                .copied()
                .collect();
            let outcome = packer.apply(&gone, &new);
            prop_assert_eq!(&outcome, &again.apply(&gone, &new), "not the same twice");
            // Others only ever make way for more, or for a forced tree: one on each of its links.
            let weight = |id: u32| {
                let forced = asks.iter().any(|ask| ask.id == id && ask.pinned && ask.tree.is_some());
                if forced { 4 } else { 1 }
            };
            let gain: usize = outcome.granted.iter().map(|grant| weight(grant.0.0)).sum();
            prop_assert!(outcome.evicted.len() <= gain);
        }
    }
}

/// A random permutation of hosts where up to an eighth of the cables are missing: how many are asked for, how many
/// the leaves' links could carry, and how many are granted.
fn permuted(seed: u64) -> [usize; 3] {
    let mut rng = rng(seed);
    let (leaves, trees) = (rng.random_range(8..20), rng.random_range(6..20));
    let mut fabric = Fabric::two_stage(leaves, trees);
    for _ in 0..leaves * trees * rng.random_range(0..12) / 100 {
        fabric.missing.insert((rng.random_range(0..leaves), rng.random_range(0..trees)));
    }
    let asks = support::permutation(&support::equal_leaves(leaves, trees), |_| None, &mut rng);
    let asks: Vec<Ask> = asks.into_iter().filter(|ask| !fabric.allowed(ask).is_empty()).collect();
    let bound = fabric.bound(&asks);
    [asks.len(), bound, Checked::new(fabric).insert(&asks).granted.len()]
}

/// Seldom less than the leaves' links could carry, and then less by two percent at most, or by two connections
/// where those are more. More than the links of leaves limits: in a fabric of 9 leaves and 6 trees they could
/// carry 42 of 44 connections, and by an exact solver 41 is the most (docs/measurements/2026-11-26.md).
#[test]
fn missing_cables_defer_hardly_more_than_the_leaves_force() {
    let mut less = 0;
    for seed in 0..300 {
        let [asked, bound, granted] = permuted(seed);
        let deferred = bound - granted;
        assert!(deferred * 50 <= asked.max(100), "seed {seed}: {granted} of {asked} below {bound}");
        less += usize::from(deferred > 0);
    }
    assert!(less <= 3, "less than the leaves' links could carry in {less} of 300 fabrics");
}

#[test]
fn reasons_are_told_apart() {
    let mut fabric = Fabric::two_stage(5, 2);
    fabric.missing = BTreeSet::from([(0, 0), (0, 1), (1, 0), (2, 1)]);
    fabric.sets = vec![vec![0]];
    let mut packer = Checked::new(fabric);
    let to = |id, source, destination, set| Ask { set, ..Ask::new(id, source, destination) };
    let forced = Ask { pinned: true, tree: Some(0), ..Ask::new(5, 1, 4) };
    let outcome = packer.insert(&[
        to(0, 0, 3, None),
        to(1, 3, 0, None),
        to(2, 1, 2, None),
        to(3, 1, 3, Some(0)),
        to(4, 3, 3, None),
        forced,
    ]);
    let reasons: Vec<Refusal> = outcome.refused.iter().map(|refused| refused.1).collect();
    use Refusal::{
        DestinationCut, NoCommonTree, NotAddressed, SameLeaf, SourceCut, TreeNotAllowed,
    };
    let expected =
        [SourceCut, DestinationCut, NoCommonTree, NotAddressed, SameLeaf, TreeNotAllowed];
    assert_eq!(reasons, expected);

    let mut packer = Checked::new(Fabric::two_stage(4, 1));
    packer.insert(&[Ask { pinned: true, ..Ask::new(0, 0, 1) }]);
    let forced = Ask { pinned: true, tree: Some(0), ..Ask::new(3, 3, 1) };
    let outcome = packer.insert(&[Ask::new(1, 0, 2), Ask::new(2, 3, 1), forced]);
    let reasons: Vec<Deferral> = outcome.deferred.iter().map(|deferred| deferred.1).collect();
    assert_eq!(reasons, [Deferral::SourceFull, Deferral::DestinationFull, Deferral::PinnedAway]);
}

/// A pinned connection gets its tree at once: others make room, or go if there is none.
#[test]
fn others_make_room_for_a_forced_tree() {
    let mut packer = Checked::new(Fabric::two_stage(3, 2));
    packer.insert(&[Ask { tree: Some(0), ..Ask::new(0, 0, 1) }]);
    let outcome = packer.insert(&[Ask { pinned: true, tree: Some(0), ..Ask::new(1, 0, 2) }]);
    assert_eq!((outcome.granted.len(), outcome.moved.len()), (1, 1));

    let mut packer = Checked::new(Fabric::two_stage(3, 1));
    packer.insert(&[Ask::new(0, 0, 1)]);
    let outcome = packer.insert(&[Ask { pinned: true, tree: Some(0), ..Ask::new(1, 0, 2) }]);
    assert_eq!((outcome.granted.len(), outcome.evicted.len()), (1, 1));
}

/// Preferred trees are kept where they are free, however the pattern around them changes.
#[test]
fn preferred_trees_are_kept() {
    let mut packer = Checked::new(Fabric::two_stage(4, 4));
    let asks = [(0, 1, 3), (1, 2, 3), (2, 3, 0), (3, 0, 2)];
    let asks: Vec<Ask> = asks
        .iter()
        .enumerate()
        .map(|(id, &(source, destination, tree))| Ask {
            tree: Some(tree),
            ..Ask::new(id, source, destination)
        })
        .collect();
    let granted: Vec<usize> = packer.insert(&asks).granted.iter().map(|g| g.1.index()).collect();
    assert_eq!(granted, [3, 3, 0, 2]);
}

/// A number that is asked for again gives up what it had, granted anew or not.
#[test]
fn a_number_asked_for_again_is_removed_first() {
    let mut packer = Checked::new(Fabric::two_stage(3, 1));
    packer.insert(&[Ask::new(0, 0, 1), Ask::new(1, 1, 2)]);
    let outcome = packer.insert(&[Ask::new(0, 0, 2), Ask::new(1, 2, 1)]);
    assert_eq!((outcome.granted.len(), outcome.moved.len()), (2, 0));
    let outcome = packer.insert(&[Ask::new(0, 1, 1), Ask::new(2, 0, 2)]);
    assert_eq!((outcome.granted.len(), outcome.refused.len()), (1, 1));
}

/// A number that is asked for twice at once is heard once.
#[test]
fn of_requests_with_one_number_the_first_counts() {
    for three in [false, true] {
        let fabric = if three { Fabric::three_stage(3, 1, 2, 1) } else { Fabric::two_stage(3, 2) };
        for mut asks in [
            vec![Ask::new(0, 0, 1), Ask::new(0, 1, 2)],
            vec![Ask::new(0, 0, 1), Ask::new(1, 0, 1), Ask::new(2, 0, 1), Ask::new(2, 1, 2)],
        ] {
            let mut packer = Checked::new(fabric.clone());
            let requests: Vec<_> = asks.iter().map(|ask| packer.request(ask)).collect();
            let outcome = packer.packer.apply(&[], &requests).clone();
            // And when the numbers are known, which is another way in.
            packer.packer.clear();
            assert_eq!(&outcome, packer.packer.apply(&[], &requests));
            asks.dedup_by_key(|ask| ask.id);
            assert_eq!(outcome, packer.insert(&asks));
        }
    }
}

#[test]
fn whole_patterns_may_hold_what_stays_within_a_leaf() {
    let mut packer = Checked::new(Fabric::two_stage(3, 2));
    for _ in 0..2 {
        let outcome = packer.insert(&[Ask::new(0, 0, 1), Ask::new(1, 1, 1), Ask::new(2, 1, 2)]);
        assert_eq!(outcome.granted.len(), 2);
        assert_eq!(outcome.refused, [(ConnectionId(1), Refusal::SameLeaf)]);
        packer.packer.clear();
        packer.held.clear();
    }
}
