//! The packer: gives every connection a tree so that no directed link has two owners.
//!
//! Trees are colours and connections edges of a bipartite multigraph of leaves; a `matrix` holds who
//! owns what. A whole pattern into an empty fabric is filled in stage by stage (`cold`, `fill`). Else an
//! insertion takes a tree that is free at both leaves (`state`), else the shortest Kempe chain (`chain`,
//! `rearrange`, which in three stages works by recursion), else pushes others along freely (`eject`).
//! What is left over is chosen anew where leaves are overfull ([`bound`](crate::bound)), tried by
//! eviction (`retry`), and at last by the list colouring theorem (`galvin`). Nothing depends on anything
//! but the sequence of calls.

mod certificate;
mod chain;
mod cold;
mod eject;
mod fill;
mod fixed;
mod galvin;
mod insert;
mod last_resort;
mod matrix;
mod parts;
mod rearrange;
mod refuse;
mod request;
mod retry;
mod sets;
mod shape;
mod split;
mod state;

use snin_fabric::TreeId;

pub use certificate::{Certificate, Direction, Link};
pub use fixed::{Blocked, FixedPacking, pack_fixed};
pub use request::{ConnectionId, Deferral, Outcome, Refusal, Request};
pub use shape::{LeafId, SetId, Shape};

use cold::Cold;
use insert::{Inserter, REACH};
use last_resort::LastResort;
use refuse::refusal;
use state::{NO_TREE, State};

/// The packed connections of a fabric.
#[derive(Clone, Debug)]
pub struct Packer {
    state: State,
    cold: Cold,
    inserter: Inserter,
    last_resort: LastResort,
    outcome: Outcome,
    /// Connections that look for a tree in this call, and those that did not find one.
    waiting: Vec<u32>,
    failed: Vec<u32>,
    /// The requests of a call without those whose number came before.
    first: Vec<Request>,
    /// The call in which a connection was last asked for or looked at for the report.
    seen: Vec<u32>,
    call: u32,
}

/// What the insertions of a call are like.
#[derive(Clone, Copy)]
struct Kind {
    /// None asks for anything but any tree.
    plain: bool,
    /// Some number is asked for twice.
    repeats: bool,
}

impl Packer {
    /// An empty packer for a fabric, with room for as many connections as there would be links from leaves
    /// if no cable were missing, numbered from 0: it allocates nothing from then on. Where there are more,
    /// or larger numbers, tables grow when these are first seen.
    pub fn new(shape: Shape) -> Self {
        let places = shape.places();
        Self {
            cold: Cold::new(&shape),
            inserter: Inserter::new(&shape),
            last_resort: LastResort::new(&shape),
            state: State::new(shape),
            outcome: Outcome::with_capacity(places),
            waiting: Vec::with_capacity(places),
            failed: Vec::with_capacity(places),
            first: Vec::with_capacity(places),
            seen: Vec::with_capacity(places),
            call: 0,
        }
    }

    /// The fabric.
    pub const fn shape(&self) -> &Shape {
        &self.state.shape
    }

    /// The tree of a connection, if it is packed.
    #[inline]
    pub fn tree_of(&self, id: ConnectionId) -> Option<TreeId> {
        let tree = *self.state.trees.get(id.index())?;
        (tree != NO_TREE).then_some(TreeId(tree))
    }

    /// The owner of every directed link.
    pub fn certificate(&self) -> Certificate {
        let mut certificate = Certificate::default();
        self.certify(&mut certificate);
        certificate
    }

    /// Brings a certificate up to date: for every window, at the cost of a copy.
    pub fn certify(&self, certificate: &mut Certificate) {
        certificate.copy(&self.state);
    }

    /// Removes all connections.
    pub fn clear(&mut self) {
        self.state.clear();
    }

    /// Removes connections (those that are not packed are passed over), then packs others. Of several
    /// requests with the same number the first counts.
    ///
    /// # Panics
    /// Where a request names a leaf, set or tree that the shape does not have.
    pub fn apply(&mut self, removals: &[ConnectionId], insertions: &[Request]) -> &Outcome {
        self.outcome.clear();
        self.waiting.clear();
        self.failed.clear();
        removals.iter().for_each(|&id| self.remove(id));
        self.insert(insertions);
        &self.outcome
    }

    fn insert(&mut self, insertions: &[Request]) {
        self.state.journal.clear();
        let mut whole = self.pack_whole(insertions);
        if !whole {
            let kind = self.announce(insertions);
            if kind.repeats {
                let first = self.first_of_each(insertions);
                self.insert(&first);
                self.first = first;
                return;
            }
            // Numbers of new connections are known now.
            whole = kind.plain && self.pack_whole(insertions);
            if !whole {
                self.pack_into(insertions, kind);
            }
        }
        // The fabric was empty before a whole pattern, so it is known at once whether all are packed.
        if whole && self.state.packed_count() == insertions.len() {
            let trees = &self.state.trees;
            let granted = insertions.iter().map(|r| (r.id, TreeId(trees[r.id.index()])));
            self.outcome.granted.extend(granted);
        } else {
            self.report(insertions);
        }
    }

    /// Packs a whole pattern into an empty fabric, if that is what there is to do.
    fn pack_whole(&mut self, insertions: &[Request]) -> bool {
        let Self { cold, state, waiting, .. } = self;
        if insertions.len() < 2 || state.packed_count() > 0 || !state.is_plain() {
            return false;
        }
        let whole = cold.pack(state, insertions, waiting);
        waiting.retain(|&id| state.effective(id).any(|word| word != 0));
        self.insert_waiting(false);
        whole
    }

    /// Packs beside others.
    fn pack_into(&mut self, insertions: &[Request], kind: Kind) {
        self.state.journal.clear();
        insertions.iter().for_each(|request| self.admit(request));
        self.insert_waiting(kind.plain && insertions.len() > 1);
        self.report_changes();
    }

    fn remove(&mut self, id: ConnectionId) {
        self.state.lift_if_packed(id.0);
    }

    fn begin_call(&mut self) {
        self.call = self.call.wrapping_add(1);
        if self.call == 0 {
            self.seen.fill(0);
            self.call = 1;
        }
    }

    /// The first request for each number, all of which are known.
    fn first_of_each(&mut self, requests: &[Request]) -> Vec<Request> {
        self.begin_call();
        let Self { seen, call, .. } = self;
        let mut first = std::mem::take(&mut self.first);
        first.clear();
        let mut is_new =
            |id: ConnectionId| std::mem::replace(&mut seen[id.index()], *call) != *call;
        first.extend(requests.iter().filter(|request| is_new(request.id)));
        first
    }

    /// Makes the connections of the insertions known; those that are packed are removed first.
    fn announce(&mut self, insertions: &[Request]) -> Kind {
        self.begin_call();
        let mut kind = Kind { plain: true, repeats: false };
        for request in insertions {
            let id = request.id;
            if id.index() >= self.seen.len() {
                self.seen.resize(id.index() + 1, 0);
                self.state.reserve(id.index() + 1);
            }
            kind.repeats |= std::mem::replace(&mut self.seen[id.index()], self.call) == self.call;
            kind.plain &= Cold::is_plain(request);
            self.remove(id);
            self.state.learn(request);
        }
        kind
    }

    /// A forced tree is cleared for it at once, a preferred one is taken if it
    /// is free now, before others look for room.
    fn admit(&mut self, request: &Request) {
        if refusal(&self.state.shape, request).is_some() {
            return;
        }
        let &Request { id, pinned, tree, .. } = request;
        let Some(tree) = tree.map(TreeId::index) else {
            self.waiting.push(id.0);
            return;
        };
        if pinned {
            let blockers = self.state.blockers(id.0, tree);
            let movable = blockers.ids().iter().all(|&other| !self.state.get(other).pinned());
            if movable {
                for &other in blockers.ids() {
                    self.state.lift(other);
                    self.waiting.push(other);
                }
                self.state.place(id.0, tree);
            }
        } else if !(self.state.allows(id.0, tree) && self.state.place_if_free(id.0, tree)) {
            self.waiting.push(id.0);
        }
    }

    /// Finds trees for those that wait. With `free_first`, those that find a free tree come before the
    /// others, so that fewer of those have to move other connections. That is no help where trees are few: then
    /// it is better to search for all early.
    fn insert_waiting(&mut self, free_first: bool) {
        let Self { state, inserter, last_resort, waiting, failed, .. } = self;
        if free_first {
            waiting.retain(|&id| match state.first_free(id) {
                Some(tree) => {
                    state.place(id, tree);
                    false
                }
                None => true,
            });
        }
        for id in waiting.drain(..) {
            state.abridge();
            if !inserter.insert(state, id, REACH) {
                failed.push(id);
            }
        }
        if !failed.is_empty() {
            last_resort.run(state, inserter, failed);
        }
    }

    fn report(&mut self, insertions: &[Request]) {
        let Self { state, outcome, .. } = self;
        for request in insertions {
            let id = request.id;
            let tree = TreeId(state.trees[id.index()]);
            if tree.0 != NO_TREE {
                outcome.granted.push((id, tree));
            } else if let Some(refusal) = refusal(&state.shape, request) {
                outcome.refused.push((id, refusal));
            } else if request.pinned && request.tree.is_some() {
                outcome.deferred.push((id, Deferral::PinnedAway));
            } else {
                outcome.deferred.push((id, state.why_deferred(id.0)));
            }
        }
    }

    /// What happened to connections that were packed before and not asked for anew: the journal's first
    /// word on each.
    fn report_changes(&mut self) {
        let Self { state, outcome, seen, call, .. } = self;
        for &(id, before) in &state.journal {
            if std::mem::replace(&mut seen[id as usize], *call) == *call || before == NO_TREE {
                continue;
            }
            let now = state.trees[id as usize];
            if now == NO_TREE {
                outcome.evicted.push((ConnectionId(id), state.why_deferred(id)));
            } else if now != before {
                outcome.moved.push((ConnectionId(id), TreeId(before), TreeId(now)));
            }
        }
    }
}
