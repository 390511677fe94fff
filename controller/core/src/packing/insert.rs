//! Insertion of one connection, by the way that finds room with the fewest moves.

use super::eject::Ejector;
use super::rearrange::Rearranger;
use super::shape::Shape;
use super::state::State;

/// How many connections an ejection chain may look at when a connection is inserted.
pub(super) const REACH: usize = 1024;

/// Inserts by Kempe chains, else by ejection chains.
#[derive(Clone, Debug)]
pub(super) struct Inserter {
    rearranger: Rearranger,
    ejector: Ejector,
}

impl Inserter {
    pub(super) fn new(shape: &Shape) -> Self {
        Self { rearranger: Rearranger::new(shape), ejector: Ejector::new(shape.places()) }
    }

    /// Finds a tree for an unpacked connection; others may move, none is dropped. The search for an
    /// ejection chain ends after `reach` connections.
    pub(super) fn insert(&mut self, state: &mut State, id: u32, reach: usize) -> bool {
        self.rearranger.insert(state, id) || self.ejector.insert(state, id, reach)
    }
}
