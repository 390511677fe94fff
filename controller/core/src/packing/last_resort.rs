//! The last attempt for connections that found no room by moving others.

use super::galvin::ListColouring;
use super::insert::{Inserter, REACH};
use super::matrix::NOBODY;
use super::retry::Retry;
use super::sets;
use super::shape::Shape;
use super::state::State;
use crate::bound::Flow;

/// The last resort; its buffers are kept.
#[derive(Clone, Debug)]
pub(super) struct LastResort {
    flow: Flow,
    retry: Retry,
    /// `None` in three stages, where the theorem says nothing.
    lists: Option<Lists>,
    /// Who was where, and who had failed, before anything was tried.
    trees_before: Vec<u16>,
    failed_before: Vec<u32>,
    /// Connections to choose from, and those not chosen, which are tried when the others have their trees.
    candidates: Vec<u32>,
    spare: Vec<u32>,
}

impl LastResort {
    pub(super) fn new(shape: &Shape) -> Self {
        let places = shape.places();
        Self {
            flow: Flow::with_capacity(shape.leaves(), places),
            retry: Retry::new(places),
            lists: (!shape.is_three_stage()).then(|| Lists::new(shape)),
            trees_before: Vec::with_capacity(places),
            failed_before: Vec::with_capacity(places),
            candidates: Vec::with_capacity(places),
            spare: Vec::with_capacity(places),
        }
    }

    /// Packs more of the `failed` connections if that is possible; what is left over then, among it
    /// perhaps connections that were packed before, is in `failed`. Never fewer are packed than before.
    pub(super) fn run(
        &mut self,
        state: &mut State,
        inserter: &mut Inserter,
        failed: &mut Vec<u32>,
    ) {
        self.trees_before.clone_from(&state.trees);
        self.failed_before.clone_from(failed);
        if !self.choose_by_degree(state, failed) {
            return;
        }
        self.retry.run(state, inserter, failed);
        for id in self.spare.drain(..) {
            state.abridge();
            if !inserter.insert(state, id, REACH) {
                failed.push(id);
            }
        }
        if failed.len() >= self.failed_before.len() {
            state.restore(&self.trees_before);
            failed.clone_from(&self.failed_before);
        }
        if !failed.is_empty()
            && let Some(lists) = &mut self.lists
            && lists.colour(state, failed)
        {
            failed.clear();
        }
    }

    /// Where more connections meet at leaves than there are links, some largest choice of those that can
    /// be packed is made first: packed connections outside of it are lifted and become `spare` like the
    /// failed ones outside of it; inside, only what is not packed yet remains in `failed`. False, and
    /// nothing changes, where the leaves cannot have more connections than they have.
    fn choose_by_degree(&mut self, state: &mut State, failed: &mut Vec<u32>) -> bool {
        let Self { flow, candidates, spare, .. } = self;
        candidates.clear();
        candidates.extend(state.packed().filter(|&id| !state.get(id).pinned()));
        let packed = candidates.len();
        candidates.extend_from_slice(failed);
        let leaves = state.shape.leaves();
        let free = |words: &[u64]| words.iter().map(|word| word.count_ones() as usize).sum();
        let up = (0..leaves).map(|leaf| free(state.leaves.free_up(leaf)));
        let down = (0..leaves).map(|leaf| free(state.leaves.free_down(leaf)));
        flow.load(leaves, up.chain(down), candidates.iter().map(|&id| state.ends(id)));
        // What the packed ones have is theirs to give.
        candidates[..packed].iter().for_each(|&id| flow.add_room(state.ends(id)));
        if flow.choose() == packed {
            return false;
        }
        failed.clear();
        for (&id, &chosen) in candidates.iter().zip(flow.chosen()) {
            match (state.is_packed(id), chosen) {
                (true, true) => {}
                (false, true) => failed.push(id),
                (false, false) => spare.push(id),
                (true, false) => {
                    state.lift(id);
                    spare.push(id);
                }
            }
        }
        true
    }
}

/// Gives every connection but the pinned a tree anew where the list colouring theorem says that this is
/// possible. In two stages: the place of a tree in a set is the tree.
#[derive(Clone, Debug)]
struct Lists {
    colouring: ListColouring,
    ids: Vec<u32>,
    /// The trees that each connection may use and that no pinned one holds at its leaves, a row of words
    /// a connection.
    lists: Vec<u64>,
}

impl Lists {
    fn new(shape: &Shape) -> Self {
        let places = shape.places();
        Self {
            colouring: ListColouring::new(shape.leaves(), places),
            ids: Vec::with_capacity(places),
            lists: Vec::with_capacity(places * sets::words_for(shape.trees())),
        }
    }

    fn colour(&mut self, state: &mut State, failed: &[u32]) -> bool {
        let Self { colouring, ids, lists } = self;
        let words = sets::words_for(state.shape.trees());
        ids.clear();
        ids.extend(state.packed().filter(|&id| !state.get(id).pinned()));
        ids.extend_from_slice(failed);
        lists.clear();
        for &id in &*ids {
            let begin = lists.len();
            lists.extend(state.effective(id));
            remove_pinned(state, id, &mut lists[begin..]);
        }
        let list = |edge: usize| &lists[edge * words..][..words];
        colouring.load(ids.iter().map(|&id| state.ends(id)));
        let length = |edge| list(edge).iter().map(|word| word.count_ones() as usize).sum();
        if !colouring.is_choosable(length) {
            return false;
        }
        let has = |edge, tree| sets::contains(list(edge), tree);
        let trees = colouring.colour(state.shape.trees(), has);
        state.abridge();
        ids.iter().for_each(|&id| state.lift_if_packed(id));
        for (&id, tree) in ids.iter().zip(trees) {
            state.place(id, tree.expect("the theorem colours every edge").into());
        }
        true
    }
}

/// Removes the trees that pinned connections hold at the leaves of this one.
fn remove_pinned(state: &State, id: u32, list: &mut [u64]) {
    if state.is_plain() {
        return;
    }
    let (source, destination) = state.ends(id);
    let is_pinned = |owner| owner != NOBODY && state.get(owner).pinned();
    for tree in 0..state.shape.trees() {
        let owners =
            [state.leaves.owner_up(source, tree), state.leaves.owner_down(destination, tree)];
        if owners.into_iter().any(is_pinned) {
            sets::remove(list, tree);
        }
    }
}
