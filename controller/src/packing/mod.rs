//! The packer: gives every connection a tree so that no directed link has two owners.
//!
//! Trees are colours and connections edges of a bipartite multigraph of leaves. An insertion takes a
//! tree that is free at both leaves (`state`), else the shortest Kempe chain (`chain`, `rearrange`,
//! which in three stages works by recursion), else pushes others along freely (`eject`). What is left
//! over is chosen anew where leaves are overfull ([`bound`](crate::bound)), tried by eviction
//! (`retry`), and at last by the list colouring theorem (`galvin`). Nothing depends on anything but
//! the sequence of calls.

mod certificate;
mod chain;
mod eject;
mod fixed;
mod galvin;
mod insert;
mod last_resort;
mod rearrange;
mod request;
mod retry;
mod sets;
mod shape;
mod state;

use snin_fabric::TreeId;

pub use certificate::{Certificate, Direction, Link, SharedLink};
pub use fixed::{Blocked, FixedPacking, pack_fixed};
pub use request::{ConnectionId, Deferral, Outcome, Refusal, Request};
pub use shape::{LeafId, SetId, Shape};

use insert::{Inserter, REACH};
use retry::Retry;
use state::{Connection, NO_TREE, State};

/// The packed connections of a fabric.
#[derive(Clone, Debug)]
pub struct Packer {
    state: State,
    inserter: Inserter,
    retry: Retry,
    outcome: Outcome,
    /// Connections that look for a tree in this call, and those that did not find one.
    waiting: Vec<u32>,
    failed: Vec<u32>,
    /// The call in which a connection was last looked at for the report.
    reported: Vec<u32>,
    call: u32,
}

impl Packer {
    /// An empty packer for a fabric.
    pub fn new(shape: Shape) -> Self {
        Self {
            state: State::new(shape),
            inserter: Inserter::default(),
            retry: Retry::default(),
            outcome: Outcome::default(),
            waiting: Vec::new(),
            failed: Vec::new(),
            reported: Vec::new(),
            call: 0,
        }
    }

    /// The fabric.
    pub const fn shape(&self) -> &Shape {
        &self.state.shape
    }

    /// The tree of a connection, if it is packed.
    pub fn tree_of(&self, id: ConnectionId) -> Option<TreeId> {
        let tree = self.state.connections.get(id.index())?.tree;
        (tree != NO_TREE).then_some(TreeId(tree))
    }

    /// The owner of every directed link.
    pub fn certificate(&self) -> Certificate {
        Certificate::of(&self.state)
    }

    /// Removes connections (those that are not packed are passed over), then packs others.
    ///
    /// # Panics
    /// Where a request names a leaf, set or tree that the shape does not have.
    pub fn apply(&mut self, removals: &[ConnectionId], insertions: &[Request]) -> &Outcome {
        self.outcome.clear();
        self.waiting.clear();
        self.failed.clear();
        removals.iter().for_each(|&id| self.remove(id));
        insertions.iter().for_each(|request| self.remove(request.id));
        self.state.journal.clear();
        for request in insertions {
            match self.refusal(request) {
                Some(refusal) => self.outcome.refused.push((request.id, refusal)),
                None => self.admit(request),
            }
        }
        self.insert_waiting();
        if !self.failed.is_empty() {
            let Self { state, inserter, retry, failed, .. } = self;
            last_resort::try_harder(state, inserter, retry, failed);
        }
        self.report(insertions);
        &self.outcome
    }

    fn remove(&mut self, id: ConnectionId) {
        if self.tree_of(id).is_some() {
            self.state.lift(id.0);
        }
    }

    fn refusal(&self, request: &Request) -> Option<Refusal> {
        let shape = &self.state.shape;
        let Request { source, destination, allowed, pinned, tree, .. } = *request;
        let empty = |words: &[u64]| words.iter().all(|&word| word == 0);
        let none = |set| shape.effective(source, destination, set).all(|word| word == 0);
        if source == destination {
            Some(Refusal::SameLeaf)
        } else if empty(shape.usable(source)) {
            Some(Refusal::SourceCut)
        } else if empty(shape.usable(destination)) {
            Some(Refusal::DestinationCut)
        } else if none(SetId::ALL) {
            Some(Refusal::NoCommonTree)
        } else if none(allowed) {
            Some(Refusal::NotAddressed)
        } else {
            let allows = |tree: TreeId| {
                let mut words = shape.effective(source, destination, allowed);
                words.nth(tree.index() / 64).is_some_and(|word| word >> (tree.0 % 64) & 1 != 0)
            };
            (pinned && !tree.is_none_or(allows)).then_some(Refusal::TreeNotAllowed)
        }
    }

    /// Makes a request known. A forced tree is cleared for it at once, a preferred one is taken if it
    /// is free now, before others look for room.
    fn admit(&mut self, request: &Request) {
        let &Request { id, source, destination, allowed, pinned, tree } = request;
        self.state.learn(id, Connection { source, destination, allowed, tree: NO_TREE, pinned });
        let Some(tree) = tree.map(TreeId::index) else {
            self.waiting.push(id.0);
            return;
        };
        if pinned {
            let blockers = self.state.blockers(id.0, tree);
            let movable = blockers.ids().iter().all(|&other| !self.state.get(other).pinned);
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

    fn insert_waiting(&mut self) {
        for id in self.waiting.drain(..) {
            if !self.inserter.insert(&mut self.state, id, REACH) {
                self.failed.push(id);
            }
        }
    }

    fn report(&mut self, insertions: &[Request]) {
        let mut refused = 0;
        for &Request { id, pinned, tree, .. } in insertions {
            if self.outcome.refused.get(refused).is_some_and(|&(other, _)| other == id) {
                refused += 1;
            } else if let Some(tree) = self.tree_of(id) {
                self.outcome.granted.push((id, tree));
            } else if pinned && tree.is_some() {
                self.outcome.deferred.push((id, Deferral::PinnedAway));
            } else {
                self.outcome.deferred.push((id, self.state.why_deferred(id.0)));
            }
        }
        self.report_changes();
    }

    /// What happened to connections that were packed before: the journal's first word on each.
    fn report_changes(&mut self) {
        self.call = self.call.wrapping_add(1);
        self.reported.resize(self.state.connections.len(), self.call.wrapping_sub(1));
        for &(id, before) in &self.state.journal {
            let first = std::mem::replace(&mut self.reported[id as usize], self.call) != self.call;
            let now = self.state.get(id).tree;
            if !first || before == NO_TREE || before == now {
                continue;
            }
            if now == NO_TREE {
                self.outcome.evicted.push((ConnectionId(id), self.state.why_deferred(id)));
            } else {
                self.outcome.moved.push((ConnectionId(id), TreeId(before), TreeId(now)));
            }
        }
    }
}
