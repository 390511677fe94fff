//! Insertion by rearrangement. In two stages one Kempe chain of leaves; in three stages by recursion:
//! a chain of leaves over the groups of trees, then within each group a chain of pods over its trees.

use super::chain::Search;
use super::matrix::Chain;
use super::sets;
use super::shape::Shape;
use super::state::State;

/// Rearranges by chains; its buffers are kept so that nothing is allocated on the way.
#[derive(Clone, Debug)]
pub(super) struct Rearranger {
    search: Search,
    regrouped: Vec<(u32, usize)>,
}

impl Rearranger {
    pub(super) fn new(shape: &Shape) -> Self {
        let columns = shape.groups().max(shape.largest_group());
        let search = Search::for_columns(columns);
        Self { search, regrouped: Vec::with_capacity(2 * shape.leaves() + 1) }
    }

    /// Finds a tree for an unpacked connection, moving others aside if need be.
    pub(super) fn insert(&mut self, state: &mut State, id: u32) -> bool {
        if let Some(tree) = state.first_free(id) {
            state.place(id, tree);
            return true;
        }
        if state.shape.is_three_stage() {
            self.insert_in_free_group(state, id) || self.insert_over_groups(state, id)
        } else {
            self.insert_two_stage(state, id)
        }
    }

    fn insert_two_stage(&mut self, state: &mut State, id: u32) -> bool {
        let Some(chain) = self.find_leaf_chain(state, id, State::allows) else {
            return false;
        };
        state.exchange_leaves(chain);
        state.place(id, chain.gain);
        true
    }

    /// The shortest chain of leaves that frees a column which `id` may use at both its ends.
    fn find_leaf_chain(
        &mut self,
        state: &State,
        id: u32,
        may_use: impl Fn(&State, u32, usize) -> bool,
    ) -> Option<Chain> {
        let (c, leaves) = (state.get(id), &state.leaves);
        let ends = (c.source(), c.destination());
        let wanted = |column| may_use(state, id, column);
        if state.is_plain() {
            return self.search.shortest(leaves, ends, wanted, |_, _, _| true);
        }
        self.search.shortest(leaves, ends, wanted, |row, from, to| {
            let other = leaves.owner_up(row, from);
            !state.get(other).pinned() && may_use(state, other, to)
        })
    }

    /// Three stages, some group is free at both leaves: pods make room on one of its trees.
    fn insert_in_free_group(&mut self, state: &mut State, id: u32) -> bool {
        let c = *state.get(id);
        (0..state.shape.groups()).any(|group| {
            let free = sets::contains(state.leaves.free_up(c.source()), group)
                && sets::contains(state.leaves.free_down(c.destination()), group);
            free && self.insert_in_group(state, id, group)
        })
    }

    /// Finds a tree of a group whose links are free at both leaves.
    fn insert_in_group(&mut self, state: &mut State, id: u32, group: usize) -> bool {
        if let Some(tree) = state.first_free_in_group(id, group) {
            state.place(id, tree);
            return true;
        }
        let Some(chain) = self.find_pod_chain(state, id, group) else {
            return false;
        };
        state.exchange_pods(group, chain);
        let tree = state.shape.tree_of(group, chain.gain);
        state.place(id, tree.index());
        true
    }

    /// The shortest chain of pods that frees a tree of the group, as a column, at both ends of `id`.
    fn find_pod_chain(&mut self, state: &State, id: u32, group: usize) -> Option<Chain> {
        let (ends, pods) = (state.pods_of(id)?, &state.pods[group]);
        let allows = |id, column| state.allows(id, state.shape.tree_of(group, column).index());
        let wanted = |column| allows(id, column);
        if state.is_plain() {
            return self.search.shortest(pods, ends, wanted, |_, _, _| true);
        }
        self.search.shortest(pods, ends, wanted, |row, from, to| {
            let other = pods.owner_up(row, from);
            !state.get(other).pinned() && allows(other, to)
        })
    }

    /// Three stages, no group is free at both leaves: leaves exchange two groups along a chain, and
    /// each connection that changed finds a tree of its new group.
    fn insert_over_groups(&mut self, state: &mut State, id: u32) -> bool {
        let Some(chain) = self.find_leaf_chain(state, id, may_use_group) else {
            return false;
        };
        let mark = state.journal.len();
        self.regrouped.clear();
        self.regrouped.extend(state.leaves.members(chain));
        self.regrouped.iter().for_each(|&(other, _)| state.lift(other));
        self.regrouped.push((id, chain.gain));
        for at in 0..self.regrouped.len() {
            let (other, group) = self.regrouped[at];
            if !self.insert_in_group(state, other, group) {
                state.roll_back(mark);
                return false;
            }
        }
        true
    }
}

fn may_use_group(state: &State, id: u32, group: usize) -> bool {
    state.effective_in_group(id, group).any(|word| word != 0)
}
