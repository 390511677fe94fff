//! A whole pattern into an empty fabric, where every connection may have every tree: nobody is there
//! who could be disturbed, so each stage is filled by itself. In three stages leaves are packed over
//! the groups of trees, then the pods over the trees of each group, groups side by side. Leaves, too,
//! are packed side by side where the groups can be halved: half the connections (`split`) over each half.

use super::fill::Filler;
use super::matrix::{Edge, Matrix, NO_ROW};
use super::request::Request;
use super::shape::Shape;
use super::split::Splitter;
use super::state::{Connection, NO_TREE, State};
use super::workers::Workers;

/// In place of a tree while one is looked for.
const ASKED: u16 = NO_TREE - 1;

/// Packs whole patterns; its buffers are kept.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    leaves: Filler,
    splitter: Splitter,
    /// Three stages: what is packed side by side.
    parts: Vec<Part>,
}

/// Some groups of trees: leaves over them, and the pods of each.
#[derive(Clone, Debug)]
struct Part {
    first: usize,
    leaves: Matrix,
    filler: Filler,
    /// One for each group.
    pods: Vec<Filler>,
    packed: usize,
}

impl Part {
    fn new(shape: &Shape, first: usize, groups: usize) -> Self {
        let places = shape.pods() * shape.largest_group();
        let pods = || Filler::new(shape.largest_group(), places);
        Self {
            first,
            // Nothing is missing where a whole pattern is packed in three stages.
            leaves: Matrix::new(shape.leaves(), groups, |_, _| true),
            filler: Filler::new(groups, shape.places()),
            pods: std::iter::repeat_with(pods).take(groups).collect(),
            packed: 0,
        }
    }

    fn pack(
        &mut self,
        shape: &Shape,
        pods: &mut [Matrix],
        workers: &dyn Workers,
        load: impl FnOnce(&mut Filler),
    ) {
        let Self { leaves, filler, .. } = self;
        leaves.clear();
        load(filler);
        self.packed = filler.fill(leaves, |_, _| ());
        let share = shape.groups().div_ceil(workers.count().max(1));
        let fillers = &mut self.pods;
        Groups { shape, leaves, column: 0, pods, fillers }.pack(workers, share);
    }
}

impl Cold {
    pub(super) fn new(shape: &Shape) -> Self {
        let (groups, places) = (shape.groups(), shape.places());
        let parts = if !shape.is_three_stage() {
            Vec::new()
        } else if groups % 2 == 0 && groups <= 64 {
            [0, groups / 2].map(|first| Part::new(shape, first, groups / 2)).into()
        } else {
            vec![Part::new(shape, 0, groups)]
        };
        Self {
            leaves: Filler::new(groups, places),
            splitter: Splitter::new(shape.leaves(), if parts.len() > 1 { places } else { 0 }),
            parts,
        }
    }

    /// Whether a request asks for nothing but any tree.
    pub(super) fn is_plain(request: &Request) -> bool {
        Self::limits(request) == 0
    }

    /// Something else than zero where it asks for anything else: bits that a loop can gather.
    fn limits(request: &Request) -> u32 {
        let &Request { allowed, pinned, tree, .. } = request;
        allowed.bits() | u32::from(pinned) | u32::from(tree.is_some())
    }

    /// Packs into the empty `state`; who finds no tree is left in `failed`. False, and nobody is packed,
    /// where some request is not plain or its number is not known or asked for twice.
    pub(super) fn pack(
        &mut self,
        state: &mut State,
        requests: &[Request],
        workers: &dyn Workers,
        failed: &mut Vec<u32>,
    ) -> bool {
        debug_assert!(state.packed_count() == 0 && state.is_plain());
        if !self.load(state, requests) {
            state.clear();
            return false;
        }
        if self.parts.is_empty() {
            let State { leaves, trees, .. } = state;
            let packed = self.leaves.fill(leaves, |id, tree| trees[id as usize] = tree as u16);
            failed.extend(self.leaves.failed());
            state.count(packed);
        } else {
            self.pack_parts(state, workers);
            for part in &self.parts {
                failed.extend(part.filler.failed());
                state.count(part.packed);
            }
        }
        failed.iter().for_each(|&id| state.trees[id as usize] = NO_TREE);
        for (group, filler) in self.parts.iter().flat_map(|part| &part.pods).enumerate() {
            for id in filler.failed() {
                state.leave_group(id, group);
                failed.push(id);
            }
        }
        true
    }

    /// Three stages: part by part, side by side, and then as one.
    fn pack_parts(&mut self, state: &mut State, workers: &dyn Workers) {
        let State { leaves, trees, pods, shape, .. } = state;
        let edges = self.leaves.edges();
        match &mut self.parts[..] {
            [low, high] => {
                let halves = self.splitter.split(shape.leaves(), edges);
                let (low_pods, high_pods) = pods.split_at_mut(high.first);
                let mut low = || {
                    low.pack(shape, low_pods, workers, |filler| filler.load_half(edges, halves, 0));
                };
                let mut high = || {
                    high.pack(shape, high_pods, workers, |filler| {
                        filler.load_half(edges, halves, 1);
                    });
                };
                workers.join(&mut low, &mut high);
            }
            parts => {
                for part in parts {
                    let load = |filler: &mut Filler| filler.load(edges.iter().copied());
                    part.pack(shape, pods, workers, load);
                }
            }
        }
        for part in &self.parts {
            leaves.adopt(part.first, &part.leaves);
        }
        read_off(shape, leaves, pods, trees);
    }

    /// Makes the requests known and loads them as edges between leaves; false where some cannot be
    /// packed like this. No condition and no early end: every connection of every pattern passes here.
    fn load(&mut self, state: &mut State, requests: &[Request]) -> bool {
        let State { trees, connections, .. } = state;
        let connections = &mut connections[..trees.len()];
        // Bits that are there where a request is not plain, and where its number is not free.
        let (mut limits, mut used, mut some_within) = (0, 0, false);
        self.leaves.load(requests.iter().map(|request| {
            let id = request.id.index();
            if let (Some(tree), Some(connection)) = (trees.get_mut(id), connections.get_mut(id)) {
                used |= *tree ^ NO_TREE;
                *tree = ASKED;
                *connection = Connection::plain(request);
            } else {
                used = 1;
            }
            limits |= Self::limits(request);
            some_within |= request.source == request.destination;
            Edge::of(request)
        }));
        let all_plain = limits == 0 && used == 0;
        if all_plain && some_within {
            self.leaves.refuse_within(|id| trees[id as usize] = NO_TREE);
        }
        all_plain
    }
}

/// Some groups, one after the other, and what it takes to pack them.
struct Groups<'a> {
    shape: &'a Shape,
    /// A column a group, from `column` on.
    leaves: &'a Matrix,
    column: usize,
    pods: &'a mut [Matrix],
    fillers: &'a mut [Filler],
}

impl Groups<'_> {
    /// Packs the groups, up to `share` of them as one job.
    fn pack(&mut self, workers: &dyn Workers, share: usize) {
        let Self { shape, leaves, column, ref mut pods, ref mut fillers } = *self;
        if pods.len() <= share {
            for (place, (pods, filler)) in pods.iter_mut().zip(fillers.iter_mut()).enumerate() {
                pack_group(shape, leaves, column + place, pods, filler);
            }
            return;
        }
        let half = pods.len().div_ceil(share) / 2 * share;
        let (low, high) = pods.split_at_mut(half);
        let (low_fillers, high_fillers) = fillers.split_at_mut(half);
        let mut low = Groups { shape, leaves, column, pods: low, fillers: low_fillers };
        let column = column + half;
        let mut high = Groups { shape, leaves, column, pods: high, fillers: high_fillers };
        workers.join(&mut || low.pack(workers, share), &mut || high.pack(workers, share));
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

/// The tree of each connection from the matrices; those within a pod take the first of their group.
fn read_off(shape: &Shape, leaves: &Matrix, pods: &[Matrix], trees: &mut [u16]) {
    for (group, pods) in pods.iter().enumerate() {
        let first = shape.tree_of(group, 0).0;
        for (id, source, destination) in members(leaves, group) {
            if shape.pods_between(source, destination).is_none() {
                trees[id as usize] = first;
            }
        }
        for column in 0..shape.largest_group() {
            let tree = shape.tree_of(group, column).0;
            members(pods, column).for_each(|(id, ..)| trees[id as usize] = tree);
        }
    }
}
