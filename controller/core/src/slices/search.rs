//! Where to put a job: a leaf, else a pod, else several pods; the fullest first that it fits in.
//!
//! Each search proposes a few placements and lets [`assign`] find the links. A leaf's hosts are taken up
//! to some number that differs from proposal to proposal: high ones keep a job together, low ones need
//! fewer trees that are free on all of its leaves. What the proposals miss, `exhaust` may find.

use std::cell::Cell;

use super::assign::{Assignment, Placement, assign};
use super::layout::{Layout, Links};

/// What a search looks at.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    pub(super) layout: &'a Layout,
    pub(super) links: &'a Links,
    /// Free hosts by leaf.
    pub(super) free: &'a [u32],
    /// How many more sets of links it may look at.
    pub(super) work: Cell<u32>,
}

/// A placement and its links.
pub(super) type Found = (Placement, Assignment);

impl View<'_> {
    /// Puts `hosts` hosts somewhere.
    pub(super) fn search(&self, hosts: u32) -> Option<Found> {
        self.one_leaf(hosts).or_else(|| self.one_pod(hosts)).or_else(|| self.several_pods(hosts))
    }

    pub(super) fn free(&self, leaf: u32) -> u32 {
        self.free[leaf as usize]
    }

    /// Some work; `None` when there has been too much.
    pub(super) fn pay(&self, sets: usize) -> Option<()> {
        let left = self.work.get().checked_sub(u32::try_from(sets).unwrap_or(u32::MAX));
        self.work.set(left.unwrap_or(0));
        left.map(drop)
    }

    pub(super) fn with_links(&self, placement: Placement) -> Option<Found> {
        let pod = |&(leaf, _): &(u32, u32)| self.layout.pod_of_leaf[leaf as usize];
        let one_pod = placement.iter().all(|leaf| pod(leaf) == pod(&placement[0]));
        self.pay(placement.len() * if one_pod { 1 } else { self.layout.groups() })?;
        let assignment = assign(self.layout, self.links, &placement)?;
        Some((placement, assignment))
    }

    fn one_leaf(&self, hosts: u32) -> Option<Found> {
        let leaf = best_fit(self.free, hosts, |&free| free)?;
        (self.free[leaf] >= hosts).then(|| (vec![(leaf as u32, hosts)], Assignment::default()))
    }

    fn one_pod(&self, hosts: u32) -> Option<Found> {
        let mut pods: Vec<(u32, u32)> = (0..self.layout.leaves_of_pod.len() as u32)
            .map(|pod| (self.free_in(pod), pod))
            .filter(|&(free, _)| free >= hosts)
            .collect();
        pods.sort_unstable();
        pods.into_iter().find_map(|(_, pod)| {
            let leaves = self.with_free_hosts(pod);
            self.two_leaves(&leaves, hosts).or_else(|| self.many_leaves(&leaves, hosts))
        })
    }

    fn several_pods(&self, hosts: u32) -> Option<Found> {
        if !self.layout.has_cores {
            return None;
        }
        let leaves = 0..self.free.len() as u32;
        self.many_leaves(&leaves.filter(|&leaf| self.free(leaf) > 0).collect::<Vec<_>>(), hosts)
    }

    fn free_in(&self, pod: u32) -> u32 {
        self.layout.leaves_of_pod[pod as usize].iter().map(|&leaf| self.free(leaf)).sum()
    }

    fn with_free_hosts(&self, pod: u32) -> Vec<u32> {
        let leaves = self.layout.leaves_of_pod[pod as usize].iter().copied();
        leaves.filter(|&leaf| self.free(leaf) > 0).collect()
    }

    /// Two leaves, one of them emptied: only as many trees as the other gives hosts.
    fn two_leaves(&self, leaves: &[u32], hosts: u32) -> Option<Found> {
        self.pay(leaves.len() * leaves.len() / 4)?;
        let fits = |first: u32, second: u32| {
            let left = hosts.checked_sub(self.free(first)).filter(|&left| left > 0)?;
            let common = self.links.leaf(first) & self.links.leaf(second);
            let fits = first != second
                && self.free(second) >= left
                && common.count_ones() >= left.min(self.free(first));
            fits.then(|| (self.free(second) - left, first, second, left))
        };
        let pairs = leaves.iter().flat_map(|&a| leaves.iter().filter_map(move |&b| fits(a, b)));
        let (_, first, second, left) = pairs.min()?;
        self.with_links(vec![(first, self.free(first)), (second, left)])
    }
}

/// The place of the smallest that is large enough, else of the largest; the first among equals.
pub(super) fn best_fit<T>(items: &[T], wanted: u32, size: impl Fn(&T) -> u32) -> Option<usize> {
    (0..items.len()).min_by_key(|&place| {
        let size = size(&items[place]);
        if size >= wanted { (false, size) } else { (true, u32::MAX - size) }
    })
}
