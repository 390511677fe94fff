//! The packer's view of a fabric: which links there are, and which trees an address set holds.

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
pub struct SetId(pub(super) u32);

impl SetId {
    /// Every tree.
    pub const ALL: Self = Self(0);

    const fn index(self) -> usize {
        self.0 as usize
    }

    /// Zero for every tree and nothing else.
    pub(super) const fn bits(self) -> u32 {
        self.0
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
    groups: usize,
    largest_group: usize,
    /// Words of each group's trees in a set: in three stages every group begins a word of its own, so
    /// that the trees of a group are the columns of its pods' matrix as they are.
    group_words: usize,
    /// The place of each tree in a set, and the tree of each place.
    place_of_tree: Vec<u32>,
    tree_of_place: Vec<u16>,
    /// Empty in two stages.
    pod_of_leaf: Vec<u32>,
    pods: usize,
    /// The trees whose cables exist, a row of words a leaf.
    usable: Vec<u64>,
    /// The registered sets, a row of words a set.
    members: Vec<u64>,
    known: BTreeMap<Vec<u64>, SetId>,
    is_whole: bool,
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
        assert!(leaves < usize::from(u16::MAX), "{leaves} leaves");
        let dense = |of: &[u32]| of.iter().max().map_or(0, |&last| last as usize + 1);
        let (pods, groups) = (dense(&pod_of_leaf), dense(&group_of_tree));
        let mut size = vec![0; groups];
        group_of_tree.iter().for_each(|&group| size[group as usize] += 1);
        let largest_group = size.iter().copied().max().unwrap_or(0);
        // Two stages: all trees are the columns of one matrix, close together.
        let (group_words, words) = match pods {
            0 => (0, sets::words_for(trees)),
            _ => (sets::words_for(largest_group), groups * sets::words_for(largest_group)),
        };
        let mut place_of_tree = Vec::with_capacity(trees);
        let mut tree_of_place = vec![u16::MAX; words * 64];
        size.fill(0);
        for (tree, &group) in group_of_tree.iter().enumerate() {
            let group = group as usize;
            let place = if pods == 0 { tree } else { group * group_words * 64 + size[group] };
            size[group] += 1;
            place_of_tree.push(place as u32);
            tree_of_place[place] = tree as u16;
        }
        let mut all = vec![0; words];
        place_of_tree.iter().for_each(|&place| sets::insert(&mut all, place as usize));
        Self {
            leaves,
            trees,
            groups,
            largest_group,
            group_words,
            place_of_tree,
            tree_of_place,
            pods,
            pod_of_leaf,
            group_of_tree,
            usable: all.repeat(leaves),
            members: all.clone(),
            known: BTreeMap::from([(all, SetId::ALL)]),
            is_whole: true,
        }
    }

    /// The cables between `leaf` and `tree` are missing: no connection of that leaf may use the tree.
    pub fn set_unusable(&mut self, leaf: LeafId, tree: TreeId) {
        let (words, place) = (self.words(), self.place_of(tree));
        sets::remove(&mut self.usable[leaf.index() * words..][..words], place);
        self.is_whole = false;
    }

    /// Registers a set of trees; the same trees get the same id.
    ///
    /// # Panics
    /// Where a tree is none of this shape's.
    pub fn add_set(&mut self, trees: impl IntoIterator<Item = TreeId>) -> SetId {
        let mut row = vec![0; self.words()];
        for tree in trees {
            assert!(tree.index() < self.trees, "tree {tree} of {}", self.trees);
            sets::insert(&mut row, self.place_of(tree));
        }
        if let Some(&known) = self.known.get(&row) {
            return known;
        }
        let id = SetId((self.members.len() / self.words()) as u32);
        self.members.extend_from_slice(&row);
        self.known.insert(row, id);
        id
    }

    /// The trees of a registered set.
    pub fn trees_of(&self, set: SetId) -> impl Iterator<Item = TreeId> + '_ {
        sets::members(self.set(set).iter().copied()).map(|place| self.tree_at(place))
    }

    /// The groups of all trees, by tree.
    pub fn tree_groups(&self) -> &[u32] {
        &self.group_of_tree
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
    #[inline]
    pub fn group_of(&self, tree: TreeId) -> usize {
        self.group_of_tree[tree.index()] as usize
    }

    /// The pod of a leaf, in three stages.
    #[inline]
    pub fn pod_of(&self, leaf: LeafId) -> Option<usize> {
        self.pod_of_leaf.get(leaf.index()).map(|&pod| pod as usize)
    }

    /// Whether the cables between `leaf` and `tree` are there.
    pub fn is_usable(&self, leaf: LeafId, tree: TreeId) -> bool {
        sets::contains(self.usable(leaf), self.place_of(tree))
    }

    /// The links that `leaf` has up, as many as it has down: the most connections it can have in one
    /// direction.
    pub fn capacity(&self, leaf: LeafId) -> usize {
        (0..self.groups).filter(|&group| self.reaches_group(leaf.index(), group)).count()
    }

    /// The links that all leaves have in one direction where no cable is missing: as many connections can be
    /// packed at most, and are asked for at most where leaves have no more hosts than links.
    pub(super) const fn places(&self) -> usize {
        self.leaves * self.groups
    }

    /// Whether no cable is missing.
    pub(super) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether the leaf has the link that connections on trees of the group take.
    pub(super) fn reaches_group(&self, leaf: usize, group: usize) -> bool {
        let usable = self.usable(LeafId(leaf as u32));
        if self.is_three_stage() {
            self.part(usable, group).iter().any(|&word| word != 0)
        } else {
            sets::contains(usable, group)
        }
    }

    const fn words(&self) -> usize {
        self.tree_of_place.len() / 64
    }

    fn place_of(&self, tree: TreeId) -> usize {
        self.place_of_tree[tree.index()] as usize
    }

    /// The tree at a place of a set.
    pub(super) fn tree_at(&self, place: usize) -> TreeId {
        TreeId(self.tree_of_place[place])
    }

    /// Whether a connection may use a tree. It may use none that is not there: wishes come from other views too.
    pub(super) fn allows(
        &self,
        source: LeafId,
        destination: LeafId,
        set: SetId,
        tree: TreeId,
    ) -> bool {
        let Some(&place) = self.place_of_tree.get(tree.index()) else { return false };
        let place = place as usize;
        let sets = [self.set(set), self.usable(source), self.usable(destination)];
        sets.into_iter().all(|set| sets::contains(set, place))
    }

    /// Three stages: the pods of two leaves that are not in the same one.
    pub(super) fn pods_between(&self, up: usize, down: usize) -> Option<(usize, usize)> {
        let pods = &self.pod_of_leaf;
        let (up, down) = (*pods.get(up)? as usize, *pods.get(down)? as usize);
        (up != down).then_some((up, down))
    }

    /// Three stages: the words of a set that hold the trees of a group.
    pub(super) fn part<'a>(&self, set: &'a [u64], group: usize) -> &'a [u64] {
        &set[group * self.group_words..][..self.group_words]
    }

    /// Three stages: the place of a tree within its group.
    pub(super) fn column_of(&self, tree: TreeId) -> usize {
        self.place_of(tree) % (self.group_words * 64)
    }

    /// Three stages: the tree at a place within a group.
    pub(super) fn tree_of(&self, group: usize, column: usize) -> TreeId {
        self.tree_at(group * self.group_words * 64 + column)
    }

    /// The trees of the largest group.
    pub(super) const fn largest_group(&self) -> usize {
        self.largest_group
    }

    pub(super) fn usable(&self, leaf: LeafId) -> &[u64] {
        &self.usable[leaf.index() * self.words()..][..self.words()]
    }

    pub(super) fn set(&self, set: SetId) -> &[u64] {
        &self.members[set.index() * self.words()..][..self.words()]
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
