//! Which links a job needs so that no traffic between its hosts, in any pattern, waits for another link.
//!
//! Let h_i of a job's n hosts hang on leaf i. At most d_i = min(h_i, n - h_i) connections leave the leaf
//! at a time, as every host sends one and receives one, and as many come. The slice gives leaf i a set
//! T_i of trees (of groups of trees with three stages). Any traffic inside the job has its full rate if
//!
//! - every leaf but at most one has the same set T of as many trees as the greatest d_i, and
//! - the one left over, R, has a part of T of d_R trees.
//!
//! *Proof.* This is edge colouring of a bipartite multigraph G, leaves that send and leaves that
//! receive, where edges at R may only have the colours of R. Let H be the size of T and r = d_R. Pad G
//! with edges until every leaf has degree H and R has degree r on both sides; there is the same number
//! left to pad on either side. It is enough that G without R has a subgraph in which every leaf has
//! degree H - r: that one is coloured with H - r colours (König, 1916), and the rest, in which every
//! leaf has degree r and which holds all of R's edges, with the r colours of R. The subgraph exists, by
//! max-flow min-cut, unless there are sets X of sending and Y of receiving leaves without R, Z being
//! the receiving leaves that are in neither Y nor R, with (H - r)(|X| - |Z|) > e(X, Y). Let m = |X| -
//! |Z| be at least 1 (else the left is not positive). X has H|X| edges, of which at most H|Z| go to Z
//! and at most r to R, so e(X, Y) >= Hm - r >= (H - r)m. That is the contrary. []
//!
//! Jigsaw (Smith and Lowenthal, 2021) has this condition with equal h_i and shows that it cannot be
//! weakened there; LaaS (Zahavi and others, 2016) allots whole leaves.
//!
//! With three stages the leaves' connections are first coloured with groups by the theorem. In the
//! colour of group g each of its leaves then sends at most one connection and receives at most one. Of
//! the job's l leaves that have g let l_p be in pod p: at most min(l_p, l - l_p) connections leave the
//! pod in that colour, and as many come. So the theorem holds again, for each group by itself, with
//! pods for leaves and the cores of the group for trees. A job in one pod needs no core, and a job on
//! one leaf no link at all.

/// A set of trees, groups or cores.
pub(super) type Set = u128;

/// The most members of a [`Set`].
pub(super) const MOST: usize = Set::BITS as usize;

/// The most connections that leave or enter each place, from how many can start there.
pub(super) fn needs(counts: &[u32]) -> impl Iterator<Item = u32> + '_ {
    let all: u32 = counts.iter().sum();
    counts.iter().map(move |&count| count.min(all - count))
}

/// What the places of a job get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Share {
    /// The set that all have but the one left over.
    pub(super) all: Set,
    /// Its place.
    pub(super) left_over: usize,
    /// Its part of the set.
    pub(super) part: Set,
}

impl Share {
    /// What a place gets.
    pub(super) const fn of(&self, place: usize) -> Set {
        if place == self.left_over { self.part } else { self.all }
    }
}

/// A place that needs links, one at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) need: u32,
    pub(super) free: Set,
}

/// Sets by the condition, or `None` where no choice fulfils it. For each place, were it the one left
/// over, `usable` names those of some members that all may have, and a larger set of those that all
/// others may.
pub(super) fn share(
    places: &[Place],
    mut usable: impl FnMut(usize, Set) -> (Set, Set),
) -> Option<Share> {
    let most = places.iter().map(|place| place.need).max()?;
    let (mut missing, mut missing_twice) = (0, 0);
    for place in places {
        missing_twice |= missing & !place.free;
        missing |= !place.free;
    }
    // The less the one left over needs, the more links are spared.
    let mut best: Option<(u32, Share)> = None;
    for (left_over, &Place { need, free }) in places.iter().enumerate() {
        if best.is_some_and(|(least, _)| least <= need) {
            continue;
        }
        let at_others = !missing_twice & (!missing | !free);
        if at_others.count_ones() < most {
            continue;
        }
        let (by_all, by_others) = usable(left_over, at_others);
        let part = lowest(at_others & free & by_all, need);
        let rest = part.and_then(|part| lowest(at_others & by_others & !part, most - need));
        if let (Some(part), Some(rest)) = (part, rest) {
            best = Some((need, Share { all: part | rest, left_over, part }));
        }
    }
    best.map(|(_, share)| share)
}

/// The lowest `count` members of a set, if it has so many.
pub(super) fn lowest(mut set: Set, count: u32) -> Option<Set> {
    if set.count_ones() < count {
        return None;
    }
    let mut chosen = 0;
    for _ in 0..count {
        let bit = set & set.wrapping_neg();
        chosen |= bit;
        set ^= bit;
    }
    Some(chosen)
}

/// The members of a set, lowest first.
pub(super) fn members(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let member = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (member < MOST).then_some(member)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(places: &[(u32, Set)]) -> Option<Share> {
        let places: Vec<Place> = places.iter().map(|&(need, free)| Place { need, free }).collect();
        share(&places, |_, _| (Set::MAX, Set::MAX))
    }

    #[test]
    fn at_most_one_has_less_than_all() {
        let got = any(&[(2, 0b1110), (1, 0b0100), (2, 0b0110)]).unwrap();
        assert_eq!((got.of(0), got.of(1), got.of(2)), (0b0110, 0b0100, 0b0110));
        // Two of them would have to.
        assert_eq!(any(&[(2, 0b110), (1, 0b100), (1, 0b010)]), None);
        // The one left over needs one that the others have.
        assert_eq!(any(&[(1, 0b1), (1, 0b10)]), None);
        assert_eq!(any(&[]), None);
    }

    #[test]
    fn needs_are_what_can_cross() {
        assert_eq!(needs(&[5, 2]).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(needs(&[3, 3, 1]).collect::<Vec<_>>(), [3, 3, 1]);
        assert_eq!(needs(&[9]).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn sets_are_counted_from_their_lowest() {
        assert_eq!((lowest(0b1101, 2), lowest(0b1101, 4)), (Some(0b101), None));
        assert_eq!(members(1 << 127 | 0b101).collect::<Vec<_>>(), [0, 2, 127]);
    }
}
