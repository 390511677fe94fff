//! What is tried when some connections found no room by moving others.

use super::galvin::Multigraph;
use super::insert::{Inserter, REACH};
use super::retry::Retry;
use super::sets;
use super::shape::LeafId;
use super::state::State;
use crate::bound::degree_bound;

/// Packs more of the `failed` connections if that is possible; what is left over then, among it
/// perhaps connections that were packed before, is in `failed`. Never fewer are packed than before.
pub(super) fn try_harder(
    state: &mut State,
    inserter: &mut Inserter,
    retry: &mut Retry,
    failed: &mut Vec<u32>,
) {
    let mark = state.journal.len();
    let before = failed.clone();
    let Some(mut spare) = choose_by_degree(state, failed) else {
        return;
    };
    retry.run(state, inserter, failed);
    spare.retain(|&id| !inserter.insert(state, id, REACH));
    failed.append(&mut spare);
    if failed.len() >= before.len() {
        state.roll_back(mark);
        *failed = before;
    }
    if !failed.is_empty() && !state.shape.is_three_stage() && colour_lists(state, failed) {
        failed.clear();
    }
}

/// Where more connections meet at leaves than there are links, some largest choice of those that can
/// be packed is made first: packed connections outside of it are lifted and returned with the failed
/// ones outside of it; inside, only what is not packed yet remains in `failed`. `None` where the
/// leaves cannot have more connections than they have.
fn choose_by_degree(state: &mut State, failed: &mut Vec<u32>) -> Option<Vec<u32>> {
    let links = |leaf| state.shape.capacity(LeafId(leaf as u32));
    let mut up: Vec<usize> = (0..state.shape.leaves()).map(links).collect();
    let mut down = up.clone();
    let (pinned, mut ids): (Vec<u32>, Vec<u32>) =
        state.packed().partition(|&id| state.get(id).pinned());
    for (source, destination) in pinned.into_iter().map(|id| ends(state, id)) {
        up[source] -= 1;
        down[destination] -= 1;
    }
    let packed = ids.len();
    ids.append(failed);
    let edges: Vec<_> = ids.iter().map(|&id| ends(state, id)).collect();
    let bound = degree_bound(&up, &down, &edges);
    if bound.count == packed {
        failed.extend(ids.drain(packed..));
        return None;
    }
    let mut spare = Vec::new();
    for (&id, chosen) in ids.iter().zip(bound.chosen) {
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
    Some(spare)
}

/// Gives every connection but the pinned a tree anew where the list colouring theorem says that this
/// is possible.
fn colour_lists(state: &mut State, failed: &[u32]) -> bool {
    let ids: Vec<u32> = state
        .packed()
        .filter(|&id| !state.get(id).pinned())
        .chain(failed.iter().copied())
        .collect();
    // In two stages the place of a tree in a set is the tree.
    let lists: Vec<Vec<u64>> = ids.iter().map(|&id| without_pinned(state, id)).collect();
    let edges: Vec<_> = ids.iter().map(|&id| ends(state, id)).collect();
    let graph = Multigraph { vertices: state.shape.leaves(), edges: &edges };
    let length = |edge: usize| lists[edge].iter().map(|word| word.count_ones() as usize).sum();
    if !graph.is_choosable(length) {
        return false;
    }
    let trees = graph.colour(state.shape.trees(), |edge, tree| sets::contains(&lists[edge], tree));
    for &id in &ids {
        if state.is_packed(id) {
            state.lift(id);
        }
    }
    for (id, tree) in ids.into_iter().zip(trees) {
        state.place(id, tree.expect("the theorem colours every edge"));
    }
    true
}

fn ends(state: &State, id: u32) -> (usize, usize) {
    let c = state.get(id);
    (c.source(), c.destination())
}

/// The trees that a connection may use and that no pinned one holds at its leaves.
fn without_pinned(state: &State, id: u32) -> Vec<u64> {
    let mut list: Vec<u64> = state.effective(id).collect();
    for tree in sets::members(list.clone().into_iter()) {
        if state.blockers(id, tree).ids().iter().any(|&other| state.get(other).pinned()) {
            sets::remove(&mut list, tree);
        }
    }
    list
}
