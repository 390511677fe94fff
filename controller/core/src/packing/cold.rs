//! A whole pattern into an empty fabric, where every connection may have every tree: a move would disturb no
//! connection, so each stage is filled by itself. Three stages are filled in `parts`.

use super::fill::Filler;
use super::matrix::Edge;
use super::parts::Parts;
use super::request::Request;
use super::shape::Shape;
use super::state::{Connection, NO_TREE, State};

/// In place of a tree while one is looked for.
const ASKED: u16 = NO_TREE - 1;

/// Packs whole patterns; its buffers are kept.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    leaves: Filler,
    parts: Parts,
}

impl Cold {
    pub(super) fn new(shape: &Shape) -> Self {
        Self { leaves: Filler::new(shape.groups(), shape.places()), parts: Parts::new(shape) }
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

    /// Packs into the empty `state`; requests without a tree are left in `failed`. False, and no request is
    /// packed, where some request is not plain or its number is not known or asked for twice.
    pub(super) fn pack(
        &mut self,
        state: &mut State,
        requests: &[Request],
        failed: &mut Vec<u32>,
    ) -> bool {
        debug_assert!(state.packed_count() == 0 && state.is_plain());
        let packed = if state.shape.is_three_stage() {
            self.pack_in_parts(state, requests)
        } else {
            self.pack_leaves(state, requests)
        };
        let Some(packed) = packed else {
            state.clear();
            return false;
        };
        state.count(packed);
        if state.shape.is_three_stage() {
            failed.extend(self.parts.without_group());
            for (id, group) in self.parts.without_tree() {
                state.leave_group(id, group);
                failed.push(id);
            }
        } else {
            failed.extend(self.leaves.failed());
            failed.iter().for_each(|&id| state.trees[id as usize] = NO_TREE);
        }
        true
    }

    /// Two stages: how many were packed. `None`, and the caller has to clear what was done, where not all can be
    /// loaded.
    fn pack_leaves(&mut self, state: &mut State, requests: &[Request]) -> Option<usize> {
        let State { connections, trees, leaves, .. } = state;
        let filler = &mut self.leaves;
        load(filler, (connections, trees), requests)
            .then(|| filler.fill(leaves, |id, tree| trees[id as usize] = tree as u16))
    }

    /// Three stages, likewise.
    fn pack_in_parts(&mut self, state: &mut State, requests: &[Request]) -> Option<usize> {
        let State { shape, connections, trees, leaves, pods, .. } = state;
        let (filler, known) = (&mut self.leaves, trees.len());
        let table = (&mut connections[..], &mut trees[..]);
        let load = move || {
            let loaded = load(filler, table, requests);
            let filler: &Filler = filler;
            loaded.then(|| filler.edges())
        };
        self.parts.pack((shape, pods), known, load).then(|| self.parts.put_together(leaves, trees))
    }
}

/// Makes the requests known and loads them as edges between leaves; false where some cannot be
/// packed like this. No condition and no early end: every connection of every pattern passes here.
fn load(
    filler: &mut Filler,
    (connections, trees): (&mut [Connection], &mut [u16]),
    requests: &[Request],
) -> bool {
    let connections = &mut connections[..trees.len()];
    // Bits that are there where a request is not plain, and where its number is not free.
    let (mut limits, mut used, mut some_within) = (0, 0, false);
    filler.load(requests.iter().map(|request| {
        let id = request.id.index();
        if let (Some(tree), Some(connection)) = (trees.get_mut(id), connections.get_mut(id)) {
            used |= *tree ^ NO_TREE;
            *tree = ASKED;
            *connection = Connection::plain(request);
        } else {
            used = 1;
        }
        limits |= Cold::limits(request);
        some_within |= request.source == request.destination;
        Edge::of(request)
    }));
    let all_plain = limits == 0 && used == 0;
    if all_plain && some_within {
        filler.refuse_within(|id| trees[id as usize] = NO_TREE);
    }
    all_plain
}
