//! What the packer sees of a fabric: which links there are, and which trees an address set holds.

use std::collections::BTreeMap;

use snin_fabric::TreeId;

use super::sets;

/// A leaf as the packer numbers it. The planner may add pseudo-leaves: a host that hangs on a spine
/// is a leaf of its own whose only usable trees are that spine's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeafId(pub u32);

impl LeafId {
    /// As an index into tables by leaf.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A registered set of trees: those that a destination's addresses lead along, or that policy allows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SetId(u32);

impl SetId {
    /// Every tree.
    pub const ALL: Self = Self(0);

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The links that a packer packs onto.
///
/// In two stages a leaf has one uplink and one down link per tree. In three stages it has one of each
/// per *group* of trees (its aggregation switch of that group), and its pod has one of each per tree
/// (aggregation switch to core). A two-stage fabric is written as one whose groups are its trees.
#[derive(Clone, Debug)]
pub struct Shape {
    leaves: usize,
    trees: usize,
    group_of_tree: Vec<u32>,
    /// The trees of each group, a row of words a group.
    group_trees: Vec<u64>,
    groups: usize,
    /// Empty in two stages.
    pod_of_leaf: Vec<u32>,
    pods: usize,
    /// The trees whose cables exist, a row of words a leaf.
    usable: Vec<u64>,
    /// The registered sets, a row of words a set.
    members: Vec<u64>,
    known: BTreeMap<Vec<u64>, SetId>,
}

impl Shape {
    /// `leaves` leaves with a cable to every one of `trees` trees.
    ///
    /// # Panics
    /// Where there is no tree, or more than `TreeId` can number.
    pub fn two_stage(leaves: usize, trees: usize) -> Self {
        Self::new(leaves, Vec::new(), (0..trees as u32).collect())
    }

    /// Leaves in pods, trees in groups; every leaf reaches every tree. Pods and groups are dense.
    ///
    /// # Panics
    /// Where there is no tree, or more than `TreeId` can number.
    pub fn three_stage(pod_of_leaf: Vec<u32>, group_of_tree: Vec<u32>) -> Self {
        Self::new(pod_of_leaf.len(), pod_of_leaf, group_of_tree)
    }

    fn new(leaves: usize, pod_of_leaf: Vec<u32>, group_of_tree: Vec<u32>) -> Self {
        let trees = group_of_tree.len();
        assert!((1..usize::from(u16::MAX)).contains(&trees), "{trees} trees");
        let dense = |of: &[u32]| of.iter().max().map_or(0, |&last| last as usize + 1);
        let groups = dense(&group_of_tree);
        let words = sets::words_for(trees);
        let mut group_trees = vec![0; groups * words];
        for (tree, &group) in group_of_tree.iter().enumerate() {
            sets::insert(&mut group_trees[group as usize * words..][..words], tree);
        }
        let all = sets::full(trees);
        Self {
            leaves,
            trees,
            group_trees,
            groups,
            pods: dense(&pod_of_leaf),
            pod_of_leaf,
            group_of_tree,
            usable: all.repeat(leaves),
            members: all.clone(),
            known: BTreeMap::from([(all, SetId::ALL)]),
        }
    }

    /// The cables between `leaf` and `tree` are missing: no connection of that leaf may use the tree.
    pub fn set_unusable(&mut self, leaf: LeafId, tree: TreeId) {
        let words = self.words();
        sets::remove(&mut self.usable[leaf.index() * words..][..words], tree.index());
    }

    /// Registers a set of trees; the same trees get the same id.
    ///
    /// # Panics
    /// Where a tree is none of this shape's.
    pub fn add_set(&mut self, trees: impl IntoIterator<Item = TreeId>) -> SetId {
        let mut row = vec![0; self.words()];
        for tree in trees {
            assert!(tree.index() < self.trees, "tree {tree} of {}", self.trees);
            sets::insert(&mut row, tree.index());
        }
        if let Some(&known) = self.known.get(&row) {
            return known;
        }
        let id = SetId((self.members.len() / self.words()) as u32);
        self.members.extend_from_slice(&row);
        self.known.insert(row, id);
        id
    }

    /// How many leaves there are.
    pub const fn leaves(&self) -> usize {
        self.leaves
    }

    /// How many trees there are.
    pub const fn trees(&self) -> usize {
        self.trees
    }

    /// How many groups of trees; in two stages each tree is its own.
    pub const fn groups(&self) -> usize {
        self.groups
    }

    /// How many pods; none in two stages.
    pub const fn pods(&self) -> usize {
        self.pods
    }

    /// Whether pods and their links to the cores take part.
    pub const fn is_three_stage(&self) -> bool {
        self.pods > 0
    }

    /// The group of a tree; in two stages the tree itself.
    pub fn group_of(&self, tree: TreeId) -> usize {
        self.group_of_tree[tree.index()] as usize
    }

    /// The pod of a leaf, in three stages.
    pub fn pod_of(&self, leaf: LeafId) -> Option<usize> {
        self.pod_of_leaf.get(leaf.index()).map(|&pod| pod as usize)
    }

    /// Whether the cables between `leaf` and `tree` are there.
    pub fn is_usable(&self, leaf: LeafId, tree: TreeId) -> bool {
        sets::contains(self.usable(leaf), tree.index())
    }

    /// The links that `leaf` has up, as many as it has down: the most connections it can have in one
    /// direction.
    pub fn capacity(&self, leaf: LeafId) -> usize {
        (0..self.groups).filter(|&group| self.reaches_group(leaf.index(), group)).count()
    }

    pub(super) fn reaches_group(&self, leaf: usize, group: usize) -> bool {
        let usable = self.usable(LeafId(leaf as u32));
        usable.iter().zip(self.trees_of_group(group)).any(|(&usable, &group)| usable & group != 0)
    }

    pub(super) const fn words(&self) -> usize {
        sets::words_for(self.trees)
    }

    pub(super) fn usable(&self, leaf: LeafId) -> &[u64] {
        &self.usable[leaf.index() * self.words()..][..self.words()]
    }

    pub(super) fn set(&self, set: SetId) -> &[u64] {
        &self.members[set.index() * self.words()..][..self.words()]
    }

    pub(super) fn trees_of_group(&self, group: usize) -> &[u64] {
        &self.group_trees[group * self.words()..][..self.words()]
    }

    /// The trees that a connection may use, word by word: addressed and cabled at both ends.
    pub(super) fn effective(
        &self,
        source: LeafId,
        destination: LeafId,
        set: SetId,
    ) -> impl Iterator<Item = u64> + '_ {
        let (up, down) = (self.usable(source), self.usable(destination));
        self.set(set).iter().zip(up).zip(down).map(|((&set, &up), &down)| set & up & down)
    }
}
