//! Why a connection is granted or waits, as of the window decided last.

use std::collections::BTreeSet;

use snin_fabric::hosts::HostId;
use snin_fabric::{Guid, TreeId};
use snin_protocol::ConnectionNumber;
use snin_protocol::message::{Verdict, Wait};

use super::Core;

/// A connection that an agent asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionStatus {
    /// The agent's number for it.
    pub connection: ConnectionNumber,
    /// The tree of its grant, if it has one.
    pub tree: Option<TreeId>,
    /// Why it is not in the window; none where it is.
    pub verdict: Option<Verdict>,
    /// Windows in a row without a tree.
    pub waits: u32,
    /// The connections that still have links of its way, as (source, destination).
    pub behind: Vec<(Guid, Guid)>,
}

impl Core {
    /// On another manager's tables: how many trees lead from one host to another on another leaf. Of a pair with
    /// one tree a connection can only wait for the links of that tree.
    pub fn found_trees(&self, ends: (HostId, HostId)) -> Option<usize> {
        let choices = self.fabric.view.choices().filter(|_| !self.fabric.on_one_leaf(ends))?;
        let found = choices.from(self.fabric.host(ends.0)?.switch, ends.1).iter();
        Some(found.map(|&(tree, _)| tree).collect::<BTreeSet<TreeId>>().len())
    }

    /// All that is asked for from one host to another.
    pub fn connections_between(&self, ends: (HostId, HostId)) -> Vec<ConnectionStatus> {
        let port = |host| self.fabric.port(host);
        let (Some(from), Some(to)) = (port(ends.0), port(ends.1)) else { return Vec::new() };
        let asked = self.connections.iter().filter(|(_, connection)| {
            (connection.port, connection.request.destination) == (from, to)
        });
        let status = |(slot, connection): (u32, &super::connections::Connection)| {
            let claim = connection.claim.and_then(|id| self.ledger.get(id));
            let waits_for_links = connection.verdict == Some(Verdict::Deferred(Wait::Draining));
            let behind = if waits_for_links { self.blockers(slot) } else { Vec::new() };
            let pair = |slot: u32| {
                let other = self.connections.get(slot)?;
                Some((other.port, other.request.destination))
            };
            ConnectionStatus {
                connection: connection.request.connection,
                tree: claim.and_then(|claim| claim.way.as_ref()).map(|way| way.tree),
                verdict: connection.verdict,
                waits: connection.waits,
                behind: behind.into_iter().filter_map(pair).collect(),
            }
        };
        asked.map(status).collect()
    }
}
