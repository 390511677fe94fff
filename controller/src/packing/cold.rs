//! A whole pattern into an empty fabric, where every connection may have every tree: nobody is there
//! who could be disturbed, so each stage is filled by itself. In three stages leaves are packed over
//! the groups of trees, then the pods over the trees of each group, groups side by side.

use std::cell::Cell;

use super::fill::Filler;
use super::matrix::{Edge, Matrix, NO_ROW};
use super::request::Request;
use super::shape::Shape;
use super::state::{Connection, NO_TREE, State};
use super::workers::Workers;

/// In place of a tree while one is looked for.
const ASKED: u16 = NO_TREE - 1;

/// Packs whole patterns; its buffers are kept.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    leaves: Filler,
    /// One for each group.
    pods: Vec<Filler>,
}

impl Cold {
    pub(super) fn new(shape: &Shape) -> Self {
        let groups = if shape.is_three_stage() { shape.groups() } else { 0 };
        let pods = || Filler::new(shape.pods(), shape.largest_group());
        Self {
            leaves: Filler::new(shape.leaves(), shape.groups()),
            pods: std::iter::repeat_with(pods).take(groups).collect(),
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
        let State { leaves, trees, pods, shape, .. } = state;
        let trees = Cell::from_mut(&mut trees[..]).as_slice_of_cells();
        let mut packed = if pods.is_empty() {
            self.leaves.fill(leaves, |id, tree| trees[id as usize].set(tree as u16))
        } else {
            self.leaves.fill(leaves, |_, _| ())
        };
        if !pods.is_empty() {
            let mut groups = Groups { shape, leaves, first: 0, pods, fillers: &mut self.pods };
            let share = shape.groups().div_ceil(workers.count().max(1));
            groups.pack(workers, share);
            read_off(shape, leaves, pods, trees);
        }
        failed.extend(self.leaves.failed());
        failed.iter().for_each(|&id| state.trees[id as usize] = NO_TREE);
        for (group, filler) in self.pods.iter().enumerate() {
            for id in filler.failed() {
                state.leave_group(id, group);
                failed.push(id);
                packed -= 1;
            }
        }
        state.count(packed);
        true
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
    leaves: &'a Matrix,
    first: usize,
    pods: &'a mut [Matrix],
    fillers: &'a mut [Filler],
}

impl Groups<'_> {
    /// Packs the groups, up to `share` of them as one job.
    fn pack(&mut self, workers: &dyn Workers, share: usize) {
        let Self { shape, leaves, first, ref mut pods, ref mut fillers } = *self;
        if pods.len() <= share {
            for (place, (pods, filler)) in pods.iter_mut().zip(fillers.iter_mut()).enumerate() {
                pack_group(shape, leaves, first + place, pods, filler);
            }
            return;
        }
        let half = pods.len().div_ceil(share) / 2 * share;
        let (low, high) = pods.split_at_mut(half);
        let (low_fillers, high_fillers) = fillers.split_at_mut(half);
        let mut low = Groups { shape, leaves, first, pods: low, fillers: low_fillers };
        let first = first + half;
        let mut high = Groups { shape, leaves, first, pods: high, fillers: high_fillers };
        workers.join(&mut || low.pack(workers, share), &mut || high.pack(workers, share));
    }
}

/// The connections of a group that leave their pod.
fn pack_group(
    shape: &Shape,
    leaves: &Matrix,
    group: usize,
    pods: &mut Matrix,
    filler: &mut Filler,
) {
    let edges = members(leaves, group).filter_map(|(id, source, destination)| {
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
fn read_off(shape: &Shape, leaves: &Matrix, pods: &[Matrix], trees: &[Cell<u16>]) {
    for (group, pods) in pods.iter().enumerate() {
        let first = shape.tree_of(group, 0).0;
        for (id, source, destination) in members(leaves, group) {
            if shape.pods_between(source, destination).is_none() {
                trees[id as usize].set(first);
            }
        }
        for column in 0..shape.largest_group() {
            let tree = shape.tree_of(group, column).0;
            members(pods, column).for_each(|(id, ..)| trees[id as usize].set(tree));
        }
    }
}
