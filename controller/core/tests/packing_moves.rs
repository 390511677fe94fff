//! A rearrangement takes the chain with the fewest moves over all pairs of free trees: held against every
//! chain there is, found here from who has which tree.

mod support;

use rand::RngExt;
use rand::seq::IteratorRandom;
use support::{Ask, Checked, Fabric, rng};

/// The moves that the best chain takes; 0 where a tree is free at both ends.
fn fewest(packer: &Checked, ask: &Ask) -> usize {
    let fabric = &packer.fabric;
    let at = |source: Option<usize>, destination: Option<usize>, tree: usize| {
        let is_it = |(other, has): &&(Ask, usize)| {
            *has == tree
                && source.is_none_or(|source| other.source == source)
                && destination.is_none_or(|destination| other.destination == destination)
        };
        packer.held.values().find(is_it).map(|(other, _)| *other)
    };
    let usable = |leaf, tree| !fabric.missing.contains(&(leaf, tree));
    let free_up: Vec<usize> = (0..fabric.trees)
        .filter(|&tree| usable(ask.source, tree) && at(Some(ask.source), None, tree).is_none())
        .collect();
    let free_down: Vec<usize> = (0..fabric.trees)
        .filter(|&tree| {
            usable(ask.destination, tree) && at(None, Some(ask.destination), tree).is_none()
        })
        .collect();
    if free_up.iter().any(|tree| free_down.contains(tree)) {
        return 0;
    }
    let pairs = free_up.iter().flat_map(|&a| free_down.iter().map(move |&b| (a, b)));
    let lengths = pairs.flat_map(|(a, b)| {
        // From where the connection ends, over `a`; and from where it starts, over `b`.
        [(false, ask.destination, a, b), (true, ask.source, b, a)].map(
            |(mut up, mut leaf, mut has, mut gets)| {
                let mut length = 0;
                loop {
                    let (source, destination) =
                        if up { (Some(leaf), None) } else { (None, Some(leaf)) };
                    let Some(other) = at(source, destination, has) else {
                        return usable(leaf, has).then_some(length);
                    };
                    if !usable(other.source, gets) || !usable(other.destination, gets) {
                        return None;
                    }
                    length += 1;
                    leaf = if up { other.destination } else { other.source };
                    up = !up;
                    (has, gets) = (gets, has);
                }
            },
        )
    });
    lengths.flatten().min().unwrap_or(usize::MAX)
}

#[test]
fn insertions_move_as_few_as_any_chain_does() {
    let (mut chains, mut moved) = (0, 0);
    for seed in 0..40 {
        let mut rng = rng(seed);
        let (leaves, trees) = (rng.random_range(3..10), rng.random_range(2..8));
        let mut fabric = Fabric::two_stage(leaves, trees);
        for _ in 0..seed % 3 {
            fabric.missing.insert((rng.random_range(0..leaves), rng.random_range(0..trees)));
        }
        let mut packer = Checked::new(fabric);
        for id in 0..800 {
            let room = |packer: &Checked, leaf: usize, up: bool| {
                let end = |ask: &Ask| if up { ask.source } else { ask.destination };
                let used = packer.held.values().filter(|(ask, _)| end(ask) == leaf).count();
                used < packer.fabric.capacity(leaf)
            };
            let source = (0..leaves).filter(|&leaf| room(&packer, leaf, true)).choose(&mut rng);
            let destination =
                (0..leaves).filter(|&leaf| room(&packer, leaf, false)).choose(&mut rng);
            let ask = source.zip(destination).filter(|(from, to)| from != to);
            if let Some((source, destination)) = ask {
                let ask = Ask::new(id, source, destination);
                if packer.fabric.allowed(&ask).is_empty() {
                    continue;
                }
                let expected = fewest(&packer, &ask);
                let outcome = packer.insert(&[ask]);
                // Where no chain leads anywhere, other means are tried.
                if expected < usize::MAX {
                    assert_eq!(outcome.granted.len(), 1);
                    assert_eq!(outcome.moved.len(), expected, "seed {seed}, {ask:?}");
                    chains += usize::from(expected > 0);
                    moved += expected;
                }
            }
            if rng.random_bool(0.4) {
                let gone = packer.held.keys().copied().choose(&mut rng);
                packer.apply(gone.as_slice(), &[]);
            }
        }
    }
    assert!(chains > 150 && moved > chains, "{chains} chains of {moved} moves show too little");
}
