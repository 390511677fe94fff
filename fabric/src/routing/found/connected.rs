//! Trees along which all switches of a set reach each other.

use std::collections::BTreeSet;

use super::{NO_SOURCE, TreeChoices};
use crate::hosts::HostId;
use crate::routing::Routing;
use crate::{NodeIndex, TreeId};

impl TreeChoices {
    /// Pairs of a switch with hosts and a tree. Along each tree, an address of every host leads to it from every
    /// other switch that has a pair with that tree. Where a route is missing, the switch that lacks most of them
    /// goes without the tree, so a cut cable takes a tree from one switch and not from all.
    pub fn fully_connected(&self, routing: &Routing) -> BTreeSet<(NodeIndex, TreeId)> {
        let (trees, sources) = (routing.forest.len(), self.sources());
        let words = trees.div_ceil(64).max(1);
        let mut reached = vec![u64::MAX; sources.len() * sources.len() * words];
        for (from, &switch) in sources.iter().enumerate() {
            for (id, host) in routing.hosts.iter() {
                let to = self.source[host.switch.index()] as usize;
                if to == from {
                    continue;
                }
                let at = (from * sources.len() + to) * words;
                let common = self.trees_to(switch, id, words);
                reached[at..at + words].iter_mut().zip(&common).for_each(|(all, own)| *all &= own);
            }
        }
        let leads = |from: usize, to: usize, tree: usize| {
            let word = reached[(from * sources.len() + to) * words + tree / 64];
            from == to || word >> (tree % 64) & 1 != 0
        };
        let mut pairs = BTreeSet::new();
        for tree in 0..trees {
            let connected = connected(sources.len(), |a, b| leads(a, b, tree) && leads(b, a, tree));
            pairs.extend(connected.into_iter().map(|place| (sources[place], TreeId(tree as u16))));
        }
        pairs
    }

    /// The switches with hosts, by their place.
    fn sources(&self) -> Vec<NodeIndex> {
        let placed = self.source.iter().enumerate().filter(|(_, place)| **place != NO_SOURCE);
        let mut placed: Vec<_> = placed.map(|(switch, &place)| (place, switch as u32)).collect();
        placed.sort_unstable();
        placed.into_iter().map(|(_, switch)| NodeIndex(switch)).collect()
    }

    fn trees_to(&self, switch: NodeIndex, host: HostId, words: usize) -> Vec<u64> {
        let mut set = vec![0; words];
        for (tree, _) in self.from(switch, host) {
            set[tree.index() / 64] |= 1 << (tree.index() % 64);
        }
        set
    }
}

/// As many of `count` places as stay when the one with most others that it does not reach goes, until each reaches
/// each. A place that is left alone reaches no other, and goes too.
fn connected(count: usize, reach: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let missing = |place: usize| (0..count).filter(|&other| !reach(place, other)).count();
    let mut missing: Vec<usize> = (0..count).map(missing).collect();
    let mut left: Vec<usize> = (0..count).collect();
    while let Some(most) = left.iter().map(|&place| missing[place]).max().filter(|&most| most > 0) {
        // Of several the last one goes.
        let at = left.iter().rposition(|&place| missing[place] == most).unwrap_or(0);
        let gone = left.remove(at);
        for &place in &left {
            missing[place] -= usize::from(!reach(place, gone));
        }
    }
    if left.len() < 2 && count > 1 { Vec::new() } else { left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_lacks_most_goes() {
        let cut = |lacks: &'static [(usize, usize)]| {
            connected(5, move |a, b| !lacks.contains(&(a.min(b), a.max(b))))
        };
        assert_eq!(cut(&[]), [0, 1, 2, 3, 4]);
        assert_eq!(cut(&[(0, 1), (0, 2), (0, 3), (0, 4)]), [1, 2, 3, 4]);
        assert_eq!(cut(&[(1, 3)]), [0, 1, 2, 4]);
        assert_eq!(connected(3, |a, b| a == b), Vec::<usize>::new());
        assert_eq!(connected(1, |_, _| true), [0]);
    }
}
