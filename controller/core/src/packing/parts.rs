//! A whole pattern into an empty fabric of three stages: leaves over the groups of trees, then the pods over the
//! trees of each group. Where the groups can be halved each half of the connections (`split`) is packed over
//! one half of them.

use super::fill::Filler;
use super::matrix::{Edge, Matrix, NO_ROW};
use super::shape::Shape;
use super::split::Splitter;
use super::state::NO_TREE;

/// Packs whole patterns; its buffers are kept.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    splitter: Splitter,
    /// One or two; none in two stages.
    parts: Vec<Part>,
}

/// Some groups of trees: leaves over them, and the pods of each.
#[derive(Clone, Debug)]
struct Part {
    first: usize,
    /// The first tree of each group, and none beyond the last.
    first_trees: Vec<u16>,
    leaves: Matrix,
    filler: Filler,
    /// One for each group.
    pods: Vec<Filler>,
    /// The tree of each connection, `NO_TREE` of one that is not in this part.
    trees: Vec<u16>,
    packed: usize,
}

impl Parts {
    pub(super) fn new(shape: &Shape) -> Self {
        let groups = shape.groups();
        let parts = if !shape.is_three_stage() {
            Vec::new()
        } else if groups.is_multiple_of(2) && groups <= 64 {
            [0, groups / 2].map(|first| Part::new(shape, first, groups / 2)).into()
        } else {
            vec![Part::new(shape, 0, groups)]
        };
        let places = if parts.len() > 1 { shape.places() } else { 0 };
        Self { splitter: Splitter::new(shape.leaves(), places), parts }
    }

    /// Packs what `load` loads, all of it numbered below `known`, into the empty matrices of `pods`, if it loads
    /// anything.
    pub(super) fn pack<'a>(
        &mut self,
        (shape, pods): (&Shape, &mut [Matrix]),
        known: usize,
        load: impl FnOnce() -> Option<&'a [Edge]>,
    ) -> bool {
        let Some(edges) = load() else { return false };
        let Self { splitter, parts } = self;
        let [low, high] = &mut parts[..] else {
            for part in parts {
                let load = |filler: &mut Filler| filler.load(edges.iter().copied());
                part.pack((shape, &mut *pods), known, load);
            }
            return true;
        };
        let (low_pods, high_pods) = pods.split_at_mut(high.first);
        let halves = splitter.split(shape.leaves(), edges);
        low.pack((shape, low_pods), known, |filler| filler.load_half(edges, halves, 0));
        high.pack((shape, high_pods), known, |filler| filler.load_half(edges, halves, 1));
        true
    }

    /// Puts together what the parts came to - the owners of the links of leaves, the tree of each connection -
    /// and says how many were packed.
    pub(super) fn put_together(&self, leaves: &mut Matrix, trees: &mut [u16]) -> usize {
        trees.fill(NO_TREE);
        for part in &self.parts {
            leaves.adopt(part.first, &part.leaves);
            // A connection in no part, or in another, has the largest number there is.
            let both = trees.iter_mut().zip(&part.trees);
            both.for_each(|(tree, &in_part)| *tree = in_part.min(*tree));
        }
        self.parts.iter().map(|part| part.packed).sum()
    }

    /// Those that found no group.
    pub(super) fn without_group(&self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter().flat_map(|part| part.filler.failed())
    }

    /// Those that found no tree in their group, and the group, which they still have.
    pub(super) fn without_tree(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        let groups = self.parts.iter().flat_map(|part| &part.pods).enumerate();
        groups.flat_map(|(group, filler)| filler.failed().map(move |id| (id, group)))
    }
}

impl Part {
    fn new(shape: &Shape, first: usize, groups: usize) -> Self {
        let places = shape.pods() * shape.largest_group();
        let pods = || Filler::new(shape.largest_group(), places);
        let first_trees = (first..first + groups).map(|group| shape.tree_of(group, 0).0);
        Self {
            first,
            first_trees: first_trees.chain([NO_TREE]).collect(),
            // Nothing is missing where a whole pattern is packed in three stages.
            leaves: Matrix::new(shape.leaves(), groups, |_, _| true),
            filler: Filler::new(groups, shape.places()),
            pods: std::iter::repeat_with(pods).take(groups).collect(),
            trees: Vec::with_capacity(shape.places()),
            packed: 0,
        }
    }

    fn pack(
        &mut self,
        (shape, pods): (&Shape, &mut [Matrix]),
        known: usize,
        load: impl FnOnce(&mut Filler),
    ) {
        let Self { first, first_trees, leaves, filler, pods: fillers, trees, packed } = self;
        leaves.clear();
        trees.clear();
        trees.resize(known, NO_TREE);
        load(filler);
        // Connections within a pod need no more than a group, and take its first tree; the others are told below.
        *packed = filler.fill(leaves, |id, column| trees[id as usize] = first_trees[column]);
        for (column, (pods, filler)) in pods.iter_mut().zip(fillers.iter_mut()).enumerate() {
            pack_group(shape, leaves, column, pods, filler);
        }
        read_off((shape, *first), pods, trees);
    }
}

/// The connections of a group that leave their pod.
fn pack_group(
    shape: &Shape,
    leaves: &Matrix,
    column: usize,
    pods: &mut Matrix,
    filler: &mut Filler,
) {
    let edges = members(leaves, column).filter_map(|(id, source, destination)| {
        let (up, down) = shape.pods_between(source, destination)?;
        Some(Edge { id, up: up as u16, down: down as u16 })
    });
    filler.load(edges);
    filler.fill(pods, |_, _| ());
}

/// The connections of a column: number, row up, row down.
fn members(matrix: &Matrix, column: usize) -> impl Iterator<Item = (u32, usize, usize)> {
    let rows = matrix.numbers(column).iter().zip(matrix.ends(column)).enumerate();
    rows.filter(|&(_, (_, &end))| end != NO_ROW).map(|(up, (&id, &end))| (id, up, end.into()))
}

/// The tree of each connection between pods, of the groups from `first` on.
fn read_off((shape, first): (&Shape, usize), pods: &[Matrix], trees: &mut [u16]) {
    for (group, pods) in (first..).zip(pods) {
        for column in 0..shape.largest_group() {
            let tree = shape.tree_of(group, column).0;
            members(pods, column).for_each(|(id, ..)| trees[id as usize] = tree);
        }
    }
}
