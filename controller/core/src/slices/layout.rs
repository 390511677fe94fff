//! The fabric as slices see it: leaves in pods, groups of trees, and which of their links are free.

use snin_fabric::TreeId;
use snin_fabric::hosts::HostId;

use super::Unsuitable;
use super::condition::{MOST, Set};
use crate::packing::{LeafId, Shape};

/// What never changes. Two stages are one pod whose groups are the trees and that has no cores.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) pod_of_leaf: Vec<u32>,
    pub(super) leaves_of_pod: Vec<Vec<u32>>,
    pub(super) leaf_of_host: Vec<u32>,
    pub(super) hosts_of_leaf: Vec<Vec<HostId>>,
    /// The trees of a group: a tree's place here is its number among the cores.
    pub(super) trees_of_group: Vec<Vec<TreeId>>,
    pub(super) has_cores: bool,
    /// The trees without a cable, leaf by leaf.
    usable: Shape,
}

impl Layout {
    pub(super) fn new(shape: &Shape, leaf_of_host: &[LeafId]) -> Result<Self, Unsuitable> {
        let mut trees_of_group = vec![Vec::new(); shape.groups()];
        for tree in (0..shape.trees() as u16).map(TreeId) {
            trees_of_group[shape.group_of(tree)].push(tree);
        }
        let widest = trees_of_group.iter().map(Vec::len).max().unwrap_or(0);
        if shape.groups().max(widest) > MOST {
            return Err(Unsuitable::Width(shape.groups().max(widest)));
        }
        let mut hosts_of_leaf = vec![Vec::new(); shape.leaves()];
        for (host, leaf) in leaf_of_host.iter().enumerate() {
            let host = HostId(host as u32);
            let hosts = hosts_of_leaf.get_mut(leaf.index());
            hosts.ok_or(Unsuitable::Leaf { host, leaf: leaf.0 })?.push(host);
        }
        let mut leaves_of_pod = vec![Vec::new(); shape.pods().max(1)];
        let pod_of_leaf: Vec<u32> = (0..shape.leaves() as u32)
            .map(|leaf| shape.pod_of(LeafId(leaf)).unwrap_or(0) as u32)
            .collect();
        for (leaf, &pod) in pod_of_leaf.iter().enumerate() {
            leaves_of_pod[pod as usize].push(leaf as u32);
        }
        Ok(Self {
            pod_of_leaf,
            leaves_of_pod,
            leaf_of_host: leaf_of_host.iter().map(|leaf| leaf.0).collect(),
            hosts_of_leaf,
            trees_of_group,
            has_cores: shape.is_three_stage(),
            usable: shape.clone(),
        })
    }

    pub(super) const fn leaves(&self) -> usize {
        self.pod_of_leaf.len()
    }

    pub(super) const fn groups(&self) -> usize {
        self.trees_of_group.len()
    }

    /// The group of a tree, if there is such a tree.
    pub(super) fn group_of(&self, tree: TreeId) -> Option<usize> {
        (tree.index() < self.usable.trees()).then(|| self.usable.group_of(tree))
    }

    pub(super) fn is_usable(&self, leaf: u32, tree: TreeId) -> bool {
        self.usable.is_usable(LeafId(leaf), tree)
    }
}

/// The links that no job has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Links {
    /// By leaf: the groups that its link to is free.
    leaf: Vec<Set>,
    /// By pod and group: the cores that its link to is free.
    pod: Vec<Set>,
    groups: usize,
}

impl Links {
    /// Every link with a cable. A leaf has its link to a group where it reaches one of the group's
    /// trees, and a pod its link to a core where every leaf that reaches the group reaches the core.
    pub(super) fn new(layout: &Layout) -> Self {
        let groups = layout.groups();
        let reaches = |leaf: u32, group: usize| {
            layout.trees_of_group[group].iter().any(|&tree| layout.is_usable(leaf, tree))
        };
        let set = |members: &mut dyn Iterator<Item = usize>| members.fold(0, |set, m| set | 1 << m);
        let leaf = (0..layout.leaves() as u32)
            .map(|leaf| set(&mut (0..groups).filter(|&group| reaches(leaf, group))))
            .collect();
        let mut pod = Vec::new();
        for leaves in layout.leaves_of_pod.iter().filter(|_| layout.has_cores) {
            for (group, trees) in layout.trees_of_group.iter().enumerate() {
                let all = |&place: &usize| {
                    let tree = trees[place];
                    leaves.iter().all(|&l| !reaches(l, group) || layout.is_usable(l, tree))
                };
                pod.push(set(&mut (0..trees.len()).filter(all)));
            }
        }
        Self { leaf, pod, groups }
    }

    pub(super) fn leaf(&self, leaf: u32) -> Set {
        self.leaf[leaf as usize]
    }

    pub(super) fn pod(&self, pod: u32, group: usize) -> Set {
        self.pod[pod as usize * self.groups + group]
    }

    /// Takes links that are free, or gives back what was taken.
    pub(super) fn toggle_leaf(&mut self, leaf: u32, groups: Set) {
        self.leaf[leaf as usize] ^= groups;
    }

    /// Takes links that are free, or gives back what was taken.
    pub(super) fn toggle_pod(&mut self, pod: u32, group: usize, cores: Set) {
        self.pod[pod as usize * self.groups + group] ^= cores;
    }
}
