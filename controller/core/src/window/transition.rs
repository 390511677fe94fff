//! Who must stop so that others can change trees.
//!
//! A connection that moves needs links that others still have, and they may move too. Where no connections wait
//! in a circle an order does it, one after the other, and none stops. But two neighbours of a Kempe
//! chain each want the other's link: one of them must let go first. In a chain these pairs alternate
//! between two classes; the smaller one pauses, the other moves, and the first resumes in its place.

use std::collections::BTreeSet;

/// Given for every mover those whose links it waits for: the movers that have to pause. Without them
/// no connections wait in a circle.
pub(super) fn pausing(waits_for: &[Vec<usize>]) -> BTreeSet<usize> {
    let tangled = tangled(waits_for);
    let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); waits_for.len()];
    for (mover, others) in waits_for.iter().enumerate() {
        for &other in others.iter().filter(|&&other| tangled[mover] && tangled[other]) {
            neighbours[mover].push(other);
            neighbours[other].push(mover);
        }
    }
    let mut pausing = BTreeSet::new();
    let mut class: Vec<Option<bool>> = vec![None; waits_for.len()];
    for start in (0..waits_for.len()).filter(|&mover| tangled[mover]) {
        if class[start].is_none() {
            let (members, alternate) = component(start, &neighbours, &mut class);
            if alternate {
                let first = members.iter().filter(|&&m| class[m] == Some(true)).count();
                let smaller = first < members.len() - first;
                pausing.extend(members.into_iter().filter(|&m| class[m] == Some(smaller)));
            } else {
                pause_all_but_some(members, &neighbours, &mut pausing);
            }
        }
    }
    pausing
}

/// Movers that are part of a circle or lie between two: the others wait for no mover in the end, or no mover waits
/// for them.
fn tangled(waits_for: &[Vec<usize>]) -> Vec<bool> {
    let mut tangled = vec![true; waits_for.len()];
    loop {
        let mut waited_for = vec![false; waits_for.len()];
        let mut waits = vec![false; waits_for.len()];
        for mover in (0..waits_for.len()).filter(|&mover| tangled[mover]) {
            for &other in waits_for[mover].iter().filter(|&&other| tangled[other]) {
                waits[mover] = true;
                waited_for[other] = true;
            }
        }
        let free = |mover: &usize| tangled[*mover] && !(waits[*mover] && waited_for[*mover]);
        let free: Vec<usize> = (0..waits_for.len()).filter(free).collect();
        if free.is_empty() {
            return tangled;
        }
        free.into_iter().for_each(|mover| tangled[mover] = false);
    }
}

/// Everyone that `start` is tied to, in classes that alternate; whether they do everywhere.
fn component(
    start: usize,
    neighbours: &[Vec<usize>],
    class: &mut [Option<bool>],
) -> (Vec<usize>, bool) {
    let (mut members, mut alternate) = (vec![start], true);
    class[start] = Some(true);
    let mut next = 0;
    while let Some(&mover) = members.get(next) {
        next += 1;
        for &other in &neighbours[mover] {
            match class[other] {
                None => {
                    class[other] = class[mover].map(|class| !class);
                    members.push(other);
                }
                Some(_) => alternate &= class[other] != class[mover],
            }
        }
    }
    (members, alternate)
}

/// Several chains at once can tie movers in other ways than by two classes: then everyone pauses but some
/// that do not want each other's links.
fn pause_all_but_some(
    mut members: Vec<usize>,
    neighbours: &[Vec<usize>],
    pausing: &mut BTreeSet<usize>,
) {
    members.sort_unstable();
    let mut moving = BTreeSet::new();
    for mover in members {
        if neighbours[mover].iter().any(|other| moving.contains(other)) {
            pausing.insert(mover);
        } else {
            moving.insert(mover);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses, then all others move as soon as their links are free.
    fn all_can_move(waits_for: &[Vec<usize>], pausing: &BTreeSet<usize>) -> bool {
        let mut gone = pausing.clone();
        loop {
            let free =
                |m: &usize| !gone.contains(m) && waits_for[*m].iter().all(|o| gone.contains(o));
            let free: Vec<usize> = (0..waits_for.len()).filter(free).collect();
            if free.is_empty() {
                return gone.len() == waits_for.len();
            }
            gone.extend(free);
        }
    }

    #[test]
    fn what_pauses() {
        // Who waits for whom, and who has to pause.
        #[allow(clippy::type_complexity)] // A table of cases.
        let cases: [(&str, &[&[usize]], &[usize]); 9] = [
            ("nobody moves", &[], &[]),
            ("one moves to a free tree", &[&[]], &[]),
            ("one follows the other", &[&[1], &[]], &[]),
            ("a train", &[&[1], &[2], &[3], &[]], &[]),
            ("two change places", &[&[1], &[0]], &[1]),
            ("a chain of three", &[&[1], &[0, 2], &[1]], &[1]),
            ("a chain of five", &[&[1], &[0, 2], &[1, 3], &[2, 4], &[3]], &[1, 3]),
            ("a ring of three", &[&[1], &[2], &[0]], &[1, 2]),
            (
                "a pair that others wait for and that waits for others",
                &[&[1, 2], &[0], &[], &[1]],
                &[1],
            ),
        ];
        for (name, waits_for, expected) in cases {
            let waits_for: Vec<Vec<usize>> = waits_for.iter().map(|w| w.to_vec()).collect();
            let paused = pausing(&waits_for);
            assert!(all_can_move(&waits_for, &paused), "{name}");
            assert_eq!(paused.into_iter().collect::<Vec<_>>(), expected, "{name}");
        }
    }

    #[test]
    fn every_tangle_of_four_comes_apart() {
        for ties in 0..1_u32 << 12 {
            let mut waits_for = vec![Vec::new(); 4];
            let pairs = (0..4).flat_map(|a| (0..4).filter(move |&b| b != a).map(move |b| (a, b)));
            for (bit, (a, b)) in pairs.enumerate() {
                if ties >> bit & 1 != 0 {
                    waits_for[a].push(b);
                }
            }
            let paused = pausing(&waits_for);
            assert!(all_can_move(&waits_for, &paused), "{waits_for:?}: {paused:?}");
            if all_can_move(&waits_for, &BTreeSet::new()) {
                assert!(paused.is_empty(), "{waits_for:?}: {paused:?}");
            }
        }
    }
}
