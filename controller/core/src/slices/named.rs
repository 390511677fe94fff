//! A slice's links by leaf and tree, and the way back: for a slice that outlives the fabric as it was.

use std::collections::BTreeMap;

use snin_fabric::TreeId;
use snin_fabric::hosts::HostId;

use super::assign::Assignment;
use super::condition::{Set, members};
use super::{JobId, Slice, Slices};
use crate::packing::LeafId;

/// Links of a slice. Each is named by a leaf and a tree, which other numbers in another view may stand for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SliceLinks {
    /// Between a leaf and a group: the leaf, and the first tree of the group.
    pub leaf: Vec<(LeafId, TreeId)>,
    /// Between a pod and a core: a leaf of the pod, and the core's tree.
    pub pod: Vec<(LeafId, TreeId)>,
}

impl Slices {
    /// The links of a slice.
    pub fn links(&self, slice: &Slice) -> SliceLinks {
        let mut named = SliceLinks::default();
        let trees = &self.layout.trees_of_group;
        for &(leaf, groups) in &slice.links.leaf {
            named.leaf.extend(members(groups).map(|group| (LeafId(leaf), trees[group][0])));
        }
        for &(pod, group, cores) in &slice.links.pod {
            let leaf = LeafId(self.layout.leaves_of_pod[pod as usize][0]);
            named.pod.extend(members(cores).map(|place| (leaf, trees[group][place])));
        }
        named
    }

    /// Sets aside for a job what is left of a slice: those of the hosts and links that are there and free.
    /// Whether that was all of it. False too where the job has a slice.
    pub fn claim(&mut self, job: JobId, hosts: &[HostId], links: &SliceLinks) -> bool {
        if self.slices.contains_key(&job) {
            return false;
        }
        let mut whole = true;
        let mut taken: Vec<HostId> = Vec::with_capacity(hosts.len());
        for &host in hosts {
            let free = self.job_of_host.get(host.index()).is_some_and(Option::is_none);
            whole &= free && !taken.contains(&host);
            if free && !taken.contains(&host) {
                taken.push(host);
            }
        }
        let mut leaves: BTreeMap<u32, Set> = BTreeMap::new();
        for &(leaf, tree) in &links.leaf {
            let bit = self.group_bit(leaf, tree).filter(|bit| self.links.leaf(leaf.0) & bit != 0);
            whole &= bit.is_some();
            *leaves.entry(leaf.0).or_default() |= bit.unwrap_or(0);
        }
        let mut pods: BTreeMap<(u32, usize), Set> = BTreeMap::new();
        for &(leaf, tree) in &links.pod {
            let at = self.core_bit(leaf, tree);
            let at = at.filter(|&(pod, group, bit)| self.links.pod(pod, group) & bit != 0);
            whole &= at.is_some();
            if let Some((pod, group, bit)) = at {
                *pods.entry((pod, group)).or_default() |= bit;
            }
        }
        if !whole {
            self.close(&leaves, &mut pods);
        }
        let leaf = leaves.into_iter().filter(|&(_, set)| set != 0).collect();
        let pod = pods.into_iter().map(|((pod, group), set)| (pod, group, set)).collect();
        self.set_aside(job, taken, Assignment { leaf, pod });
        whole
    }

    /// Where a slice over several pods lacks links, none of a pod's cores are its own but those that are named:
    /// else no entry would mean that no connection leaves the pod in that group.
    fn close(&self, leaves: &BTreeMap<u32, Set>, pods: &mut BTreeMap<(u32, usize), Set>) {
        let pod = |leaf: &u32| self.layout.pod_of_leaf[*leaf as usize];
        let known = leaves.iter().filter(|(_, set)| **set != 0);
        let known: Vec<(u32, Set)> = known.map(|(leaf, &set)| (pod(leaf), set)).collect();
        if self.layout.has_cores && known.iter().any(|&(pod, _)| pod != known[0].0) {
            for (pod, set) in known {
                members(set).for_each(|group| *pods.entry((pod, group)).or_default() |= 0);
            }
        }
    }

    fn group_bit(&self, leaf: LeafId, tree: TreeId) -> Option<Set> {
        let group = self.layout.group_of(tree)?;
        (leaf.index() < self.layout.leaves()).then_some(1 << group)
    }

    fn core_bit(&self, leaf: LeafId, tree: TreeId) -> Option<(u32, usize, Set)> {
        let group = self.layout.group_of(tree).filter(|_| self.layout.has_cores)?;
        let pod = *self.layout.pod_of_leaf.get(leaf.index())?;
        let place = self.layout.trees_of_group[group].iter().position(|&other| other == tree)?;
        Some((pod, group, 1 << place))
    }

    /// Whether a connection along a tree, between these leaves, uses a link of the slice.
    pub fn touches(&self, slice: &Slice, ends: (LeafId, LeafId), tree: TreeId) -> bool {
        let Some(group) = self.layout.group_of(tree).filter(|_| ends.0 != ends.1) else {
            return false;
        };
        let place = self.layout.trees_of_group[group].iter().position(|&other| other == tree);
        let pod = |leaf: LeafId| self.layout.pod_of_leaf.get(leaf.index()).copied();
        let (pods, place) = ([pod(ends.0), pod(ends.1)], place.unwrap_or(0));
        let of_leaf = |&(leaf, groups): &(u32, Set)| {
            (leaf == ends.0.0 || leaf == ends.1.0) && groups >> group & 1 != 0
        };
        let of_pod = |&(pod, of, cores): &(u32, usize, Set)| {
            of == group && pods.contains(&Some(pod)) && cores >> place & 1 != 0
        };
        slice.links.leaf.iter().any(of_leaf)
            || (pods[0] != pods[1] && slice.links.pod.iter().any(of_pod))
    }
}
