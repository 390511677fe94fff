//! The connections that agents want, in numbered places: the same numbers that admission and packer use.

use std::sync::Arc;

use snin_fabric::hosts::HostId;
use snin_fabric::{Guid, TreeId};
use snin_protocol::Epoch;
use snin_protocol::message::{Refusal, Request, Verdict};

use super::domains::DomainId;
use super::fabric::Route;
use super::ledger::{ClaimId, OwnerId};

#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// The agent's port.
    pub(super) port: Guid,
    pub(super) request: Request,
    pub(super) owner: OwnerId,
    /// The two ends in the present view, or why it gets nothing in it.
    pub(super) ends: Result<(HostId, HostId), Refusal>,
    /// The slice that both ends belong to, whose links it may use and no others.
    pub(super) domain: DomainId,
    /// Windows that it still wants; 1 for ever where it wants to be served until withdrawn.
    pub(super) left: u32,
    /// Whether the packer holds it.
    pub(super) packed: bool,
    /// The way that it is to have in the window decided last.
    pub(super) route: Option<Arc<Route>>,
    /// The grant that its agent is to follow.
    pub(super) claim: Option<ClaimId>,
    /// The tree it had last: it would like that one again, as its queue pairs are there.
    pub(super) last_tree: Option<TreeId>,
    /// The last window that counted as served.
    pub(super) served: Option<Epoch>,
    /// It stopped only to let others move, or is moving: it goes on as soon as it can.
    pub(super) urgent: bool,
    /// Others want one of its ports too: it is granted window by window.
    pub(super) shares_ports: bool,
    /// Windows in a row that it was in.
    pub(super) turns: u32,
    /// Windows in a row that the packer had no tree for it.
    pub(super) waits: u32,
    /// Why it is not in the window.
    pub(super) verdict: Option<Verdict>,
    /// What the agent was told last.
    pub(super) told: Option<Verdict>,
}

impl Connection {
    pub(super) const fn is_standing(&self) -> bool {
        self.request.windows == 0
    }

    /// The tree to ask the packer for.
    pub(super) fn wished_tree(&self) -> Option<TreeId> {
        // A pinned connection keeps the tree that it got, even if it wished for another.
        if self.request.pinned { self.last_tree.or(self.request.tree) } else { self.wish() }
    }

    fn wish(&self) -> Option<TreeId> {
        self.last_tree.or(self.request.tree)
    }
}

/// Places are given anew, the last one that became free first.
#[derive(Clone, Default, Debug)]
pub(super) struct Connections {
    places: Vec<Option<Connection>>,
    free: Vec<u32>,
    count: usize,
}

impl Connections {
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Connection> {
        self.places.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Connection> {
        self.places.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Connection)> {
        let numbered = self.places.iter().enumerate();
        numbered.filter_map(|(slot, place)| Some((slot as u32, place.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Connection)> {
        let numbered = self.places.iter_mut().enumerate();
        numbered.filter_map(|(slot, place)| Some((slot as u32, place.as_mut()?)))
    }

    /// Puts a connection in a free place.
    pub(super) fn insert(&mut self, connection: Connection) -> u32 {
        self.count += 1;
        if let Some(slot) = self.free.pop() {
            self.places[slot as usize] = Some(connection);
            return slot;
        }
        self.places.push(Some(connection));
        self.places.len() as u32 - 1
    }

    /// Takes a connection out. Its place stays empty until it is [given back](Self::give_back): the packer
    /// may know it still.
    pub(super) fn take(&mut self, slot: u32) -> Option<Connection> {
        let connection = self.places.get_mut(slot as usize)?.take();
        self.count -= usize::from(connection.is_some());
        connection
    }

    pub(super) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }
}
