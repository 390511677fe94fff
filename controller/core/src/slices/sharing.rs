//! Leaves that have trees in common, chosen greedily, and hosts taken from them.

use std::cmp::Reverse;

use super::assign::Placement;
use super::condition::{MOST, Set, members};
use super::search::{Found, View, best_fit};

impl View<'_> {
    /// Several of some leaves, in as few pods as can be.
    pub(super) fn many_leaves(&self, leaves: &[u32], hosts: u32) -> Option<Found> {
        let most = leaves.iter().map(|&leaf| self.free(leaf)).max()?.min(hosts);
        (1..=most).rev().find_map(|each| self.of_each_leaf(leaves, hosts, each))
    }

    /// Up to `each` hosts a leaf, of leaves that have as many groups in common.
    fn of_each_leaf(&self, leaves: &[u32], hosts: u32, each: u32) -> Option<Found> {
        let (common, sharing) = self.sharing(leaves, hosts, each)?;
        let left_over = self.left_over(leaves, common, hosts, &sharing, each);
        let mut pods = self.by_pod(&sharing);
        let widest = pods.iter().map(|pod| pod.len()).max()?;
        // Few pods, unless they have not so many cores in common as the leaves of one of them need.
        for deep in (1..=widest).rev() {
            pods.iter_mut().for_each(|pod| pod.truncate(deep));
            let mut placement = self.fill(&pods, hosts, each);
            let placed: u32 = placement.iter().map(|&(_, hosts)| hosts).sum();
            if placed < hosts {
                placement.push((left_over?, hosts - placed));
            }
            let found = self.with_links(placement);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Group after group, so that the leaves whose links to all of them are free have the most hosts.
    /// `None` where these are too few, even with one leaf more.
    fn sharing(&self, leaves: &[u32], hosts: u32, each: u32) -> Option<(Set, Vec<u32>)> {
        let (mut common, mut sharing): (Set, _) = (0, leaves.to_vec());
        let capacity = |leaves: &[u32]| leaves.iter().map(|&l| self.free(l).min(each)).sum::<u32>();
        for _ in 0..each {
            if capacity(&sharing) + each <= hosts {
                return None;
            }
            self.pay(sharing.len())?;
            let mut of_group = [0; MOST];
            for &leaf in &sharing {
                let own = self.free(leaf).min(each);
                members(self.links.leaf(leaf) & !common).for_each(|group| of_group[group] += own);
            }
            let groups = 0..self.layout.groups();
            let best = groups.max_by_key(|&group| (of_group[group], Reverse(group)))?;
            common |= 1 << best;
            sharing.retain(|&leaf| self.links.leaf(leaf) >> best & 1 != 0);
        }
        (capacity(&sharing) + each > hosts).then_some((common, sharing))
    }

    /// A leaf beside those that share that gives the hosts which they lack, by a part of the groups.
    fn left_over(
        &self,
        leaves: &[u32],
        common: Set,
        hosts: u32,
        sharing: &[u32],
        each: u32,
    ) -> Option<u32> {
        let shared: u32 = sharing.iter().map(|&leaf| self.free(leaf).min(each)).sum();
        let lacking = hosts.checked_sub(shared).filter(|&lacking| lacking > 0)?;
        let part = |leaf: u32| (self.links.leaf(leaf) & common).count_ones();
        let mut others = leaves.iter().copied().filter(|leaf| !sharing.contains(leaf));
        others.find(|&leaf| self.free(leaf).min(part(leaf)) >= lacking)
    }

    /// The leaves of each pod, those with the most free hosts first.
    fn by_pod(&self, leaves: &[u32]) -> Vec<Vec<u32>> {
        let mut pods: Vec<Vec<u32>> = vec![Vec::new(); self.layout.leaves_of_pod.len()];
        for &leaf in leaves {
            pods[self.layout.pod_of_leaf[leaf as usize] as usize].push(leaf);
        }
        pods.retain(|pod| !pod.is_empty());
        pods.iter_mut().for_each(|pod| pod.sort_by_key(|&leaf| Reverse(self.free(leaf))));
        pods
    }

    /// Takes the smallest pod, and in it the smallest leaf, that has what is left; else the largest.
    fn fill(&self, pods: &[Vec<u32>], hosts: u32, each: u32) -> Placement {
        let capacity = |pod: &Vec<u32>| pod.iter().map(|&leaf| self.free(leaf).min(each)).sum();
        let mut pods: Vec<(u32, &Vec<u32>)> = pods.iter().map(|pod| (capacity(pod), pod)).collect();
        let mut placement = Vec::new();
        let mut left = hosts;
        while let Some(pod) = best_fit(&pods, left, |pod| pod.0).filter(|_| left > 0) {
            let mut leaves = pods.swap_remove(pod).1.clone();
            while let Some(leaf) =
                best_fit(&leaves, left.min(each), |&leaf| self.free(leaf)).filter(|_| left > 0)
            {
                let leaf = leaves.swap_remove(leaf);
                let taken = self.free(leaf).min(each).min(left);
                placement.push((leaf, taken));
                left -= taken;
            }
        }
        placement
    }
}
