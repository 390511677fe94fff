//! A whole pattern into an empty fabric, where every connection may have every tree: nobody is there
//! who could be disturbed, so each stage is filled by itself. In three stages leaves are packed over
//! the groups of trees, then the pods over the trees of each group, groups side by side.

use std::cell::Cell;

use super::fill::Filler;
use super::matrix::{Matrix, NO_ROW};
use super::request::Request;
use super::shape::{SetId, Shape};
use super::state::{Connection, NO_TREE, State};
use super::workers::Workers;

/// In place of a tree while one is looked for.
const ASKED: u16 = NO_TREE - 1;

/// Packs whole patterns; its buffers are kept.
#[derive(Clone, Default, Debug)]
pub(super) struct Cold {
    leaves: Filler,
    /// One for each group.
    pods: Vec<Filler>,
}

impl Cold {
    pub(super) fn new(shape: &Shape) -> Self {
        let groups = if shape.is_three_stage() { shape.groups() } else { 0 };
        Self { leaves: Filler::default(), pods: vec![Filler::default(); groups] }
    }

    /// Whether a request asks for nothing but any tree.
    pub(super) fn is_plain(request: &Request) -> bool {
        request.allowed == SetId::ALL && !request.pinned && request.tree.is_none()
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
        let State { leaves, trees, pods, shape, connections: known, .. } = state;
        let trees = Cell::from_mut(&mut trees[..]).as_slice_of_cells();
        let mut all_plain = true;
        let announced = requests.iter().take_while(|request| {
            let tree = trees.get(request.id.index()).filter(|tree| tree.get() == NO_TREE);
            all_plain = tree.is_some() && Self::is_plain(request);
            if let Some(tree) = tree.filter(|_| request.source != request.destination) {
                tree.set(ASKED);
                known[request.id.index()] = Connection::of(request);
            }
            all_plain
        });
        let connections = announced
            .filter(|r| r.source != r.destination)
            .map(|r| (r.id.0, r.source.index(), r.destination.index()));
        let mut packed;
        if pods.is_empty() {
            let found = |id, tree| trees[id as usize].set(tree as u16);
            packed = self.leaves.fill(leaves, connections, found);
        } else {
            packed = self.leaves.fill(leaves, connections, |_, _| ());
        }
        if !all_plain {
            state.clear();
            return false;
        }
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
    let connections = members(leaves, group).filter_map(|(id, source, destination)| {
        let (up, down) = shape.pods_between(source, destination)?;
        Some((id, up, down))
    });
    filler.fill(pods, connections, |_, _| ());
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
