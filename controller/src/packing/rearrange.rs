//! Insertion by rearrangement. In two stages one Kempe chain of leaves; in three stages by recursion:
//! a chain of leaves over the groups of trees, then within each group a chain of pods over its trees.

use super::chain::{Side, Walker};
use super::sets;
use super::state::State;

/// Rearranges by chains; its buffers are kept so that nothing is allocated on the way.
#[derive(Clone, Default, Debug)]
pub(super) struct Rearranger {
    leaf_chain: Vec<(u32, usize)>,
    pod_chain: Vec<(u32, usize)>,
    wanted: Vec<u64>,
}

impl Rearranger {
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
        self.wanted.clear();
        self.wanted.extend(state.effective(id));
        let Some(tree) = self.find_leaf_chain(state, id, |f, tree| state.allows(f, tree)) else {
            return false;
        };
        exchange(state, &self.leaf_chain);
        state.place(id, tree);
        true
    }

    /// The shortest chain of leaves that frees one of the wanted columns at both ends; returns that
    /// column.
    fn find_leaf_chain(
        &mut self,
        state: &State,
        id: u32,
        may_use: impl Fn(u32, usize) -> bool,
    ) -> Option<usize> {
        let walker = Walker {
            grid: &state.leaf,
            row: |f, side| match side {
                Side::Up => state.get(f).source.index(),
                Side::Down => state.get(f).destination.index(),
            },
            may_move: |f, column| !state.get(f).pinned && may_use(f, column),
            columns: None,
        };
        let c = state.get(id);
        let chain = walker.shortest(c.source.index(), c.destination.index(), &self.wanted)?;
        self.leaf_chain.clear();
        self.leaf_chain.extend(walker.members(chain));
        Some(chain.gain)
    }

    /// Three stages, some group is free at both leaves: pods make room on one of its trees.
    fn insert_in_free_group(&mut self, state: &mut State, id: u32) -> bool {
        let c = *state.get(id);
        for group in 0..state.shape.groups() {
            let free = sets::contains(state.leaf.up.free(c.source.index()), group)
                && sets::contains(state.leaf.down.free(c.destination.index()), group);
            if free && self.insert_in_group(state, id, group) {
                return true;
            }
        }
        false
    }

    /// Finds a tree of a group whose links are free at both leaves.
    fn insert_in_group(&mut self, state: &mut State, id: u32, group: usize) -> bool {
        if let Some(tree) = state.first_free_in_group(id, group) {
            state.place(id, tree);
            return true;
        }
        let Some(tree) = self.find_pod_chain(state, id, group) else {
            return false;
        };
        exchange(state, &self.pod_chain);
        state.place(id, tree);
        true
    }

    /// The shortest chain of pods that frees a tree of the group at both ends; returns that tree.
    fn find_pod_chain(&mut self, state: &State, id: u32, group: usize) -> Option<usize> {
        let (up, down) = state.pods(id)?;
        let trees = state.shape.trees_of_group(group);
        self.wanted.clear();
        self.wanted.extend(state.effective(id).zip(trees).map(|(allowed, &trees)| allowed & trees));
        let walker = Walker {
            grid: &state.pod,
            row: |f, side| match (state.pods(f), side) {
                (Some((up, _)), Side::Up) => up,
                (Some((_, down)), Side::Down) => down,
                (None, _) => unreachable!("a connection within a pod owns no link to a core"),
            },
            may_move: |f, tree| !state.get(f).pinned && state.allows(f, tree),
            // Another group's tree would need other links at the leaves as well.
            columns: Some(trees),
        };
        let chain = walker.shortest(up, down, &self.wanted)?;
        self.pod_chain.clear();
        self.pod_chain.extend(walker.members(chain));
        Some(chain.gain)
    }

    /// Three stages, no group is free at both leaves: leaves exchange two groups along a chain, and
    /// each connection that changed finds a tree of its new group.
    fn insert_over_groups(&mut self, state: &mut State, id: u32) -> bool {
        let groups = state.shape.groups();
        self.wanted.clear();
        self.wanted.resize(sets::words_for(groups), 0);
        let wanted = &mut self.wanted;
        (0..groups).filter(|&g| may_use_group(state, id, g)).for_each(|g| sets::insert(wanted, g));
        let may_use = |f, group| may_use_group(state, f, group);
        let Some(gain) = self.find_leaf_chain(state, id, may_use) else {
            return false;
        };
        let mark = state.journal.len();
        self.leaf_chain.iter().for_each(|&(f, _)| state.lift(f));
        self.leaf_chain.push((id, gain));
        for at in 0..self.leaf_chain.len() {
            let (f, group) = self.leaf_chain[at];
            if !self.insert_in_group(state, f, group) {
                state.roll_back(mark);
                return false;
            }
        }
        true
    }
}

/// Moves every connection of a chain to its other column.
fn exchange(state: &mut State, chain: &[(u32, usize)]) {
    chain.iter().for_each(|&(f, _)| state.lift(f));
    chain.iter().for_each(|&(f, tree)| state.place(f, tree));
}

fn may_use_group(state: &State, id: u32, group: usize) -> bool {
    let trees = state.shape.trees_of_group(group);
    state.effective(id).zip(trees).any(|(allowed, &trees)| allowed & trees != 0)
}
