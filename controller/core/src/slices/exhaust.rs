//! Every placement there is, one after the other, as far as a limit on the work allows.

use super::assign::Placement;
use super::search::{Found, View};

/// What a search through everything came to.
pub(super) enum Exhausted {
    /// There is a placement.
    Found(Found),
    /// There is none.
    Nothing,
    /// The limit came first.
    Limit,
}

impl View<'_> {
    /// Tries every number of hosts of every leaf.
    pub(super) fn exhaust(&self, hosts: u32) -> Exhausted {
        let mut leaves: Vec<u32> =
            (0..self.free.len() as u32).filter(|&leaf| self.free(leaf) > 0).collect();
        // Leaves that are alike come together.
        leaves.sort_by_key(|&leaf| (self.kind(leaf), leaf));
        let mut search = Exhaustion {
            view: self,
            left_from: suffix_sums(&leaves.iter().map(|&l| self.free(l)).collect::<Vec<_>>()),
            leaves,
            placement: Vec::new(),
            found: None,
        };
        let done = search.step(0, hosts, u32::MAX);
        match search.found {
            Some(found) => Exhausted::Found(found),
            None if done => Exhausted::Nothing,
            None => Exhausted::Limit,
        }
    }

    /// Leaves of one kind can stand for each other.
    fn kind(&self, leaf: u32) -> (u32, u128, u32) {
        (self.layout.pod_of_leaf[leaf as usize], self.links.leaf(leaf), self.free(leaf))
    }
}

fn suffix_sums(numbers: &[u32]) -> Vec<u32> {
    let mut sums = vec![0; numbers.len() + 1];
    for place in (0..numbers.len()).rev() {
        sums[place] = sums[place + 1] + numbers[place];
    }
    sums
}

struct Exhaustion<'a> {
    view: &'a View<'a>,
    leaves: Vec<u32>,
    /// Free hosts on this leaf and all that follow.
    left_from: Vec<u32>,
    placement: Placement,
    found: Option<Found>,
}

impl Exhaustion<'_> {
    /// Decides for the leaf at `place` and all that follow; of leaves that are alike, one has no more
    /// hosts than that before it (`at_most`). False when the search ended before it was through.
    fn step(&mut self, place: usize, hosts: u32, at_most: u32) -> bool {
        if hosts == 0 {
            return self.try_placement();
        }
        if self.left_from[place] < hosts {
            return true;
        }
        if self.view.pay(1).is_none() {
            return false;
        }
        let leaf = self.leaves[place];
        let next = self.leaves.get(place + 1).copied();
        let alike = next.is_some_and(|next| self.view.kind(next) == self.view.kind(leaf));
        for taken in (0..=self.view.free(leaf).min(hosts).min(at_most)).rev() {
            if taken > 0 {
                self.placement.push((leaf, taken));
            }
            let done = self.step(place + 1, hosts - taken, if alike { taken } else { u32::MAX });
            if taken > 0 {
                self.placement.pop();
            }
            if !done {
                return false;
            }
        }
        true
    }

    fn try_placement(&mut self) -> bool {
        self.found = self.view.with_links(self.placement.clone());
        self.found.is_none() && self.view.work.get() > 0
    }
}
