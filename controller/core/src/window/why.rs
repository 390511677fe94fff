//! Why a connection is granted or waits, as of the window decided last.

use snin_fabric::hosts::HostId;
use snin_fabric::{Guid, TreeId};
use snin_protocol::ConnectionNumber;
use snin_protocol::message::{Verdict, Wait};

use super::Core;

/// What became of a connection that an agent asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
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
    /// What became of all that is asked for from one host to another.
    pub fn outcomes(&self, ends: (HostId, HostId)) -> Vec<Outcome> {
        let port = |host| self.fabric.port(host);
        let (Some(from), Some(to)) = (port(ends.0), port(ends.1)) else { return Vec::new() };
        let asked = self.connections.iter().filter(|(_, connection)| {
            (connection.port, connection.request.destination) == (from, to)
        });
        let outcome = |(slot, connection): (u32, &super::connections::Connection)| {
            let claim = connection.claim.and_then(|id| self.ledger.get(id));
            let waits_for_links = connection.verdict == Some(Verdict::Deferred(Wait::Draining));
            let behind = if waits_for_links { self.blockers(slot) } else { Vec::new() };
            let pair = |slot: u32| {
                let other = self.connections.get(slot)?;
                Some((other.port, other.request.destination))
            };
            Outcome {
                connection: connection.request.connection,
                tree: claim.and_then(|claim| claim.way.as_ref()).map(|way| way.tree),
                verdict: connection.verdict,
                waits: connection.waits,
                behind: behind.into_iter().filter_map(pair).collect(),
            }
        };
        asked.map(outcome).collect()
    }

    /// Whose slice it is in whose collective both hosts take part.
    pub fn collective_of(&self, ends: (HostId, HostId)) -> Option<&str> {
        let both = [ends.0, ends.1].map(|host| self.fabric.port(host));
        let owners = self.slice_owners();
        owners.filter(|owner| self.collective(owner).is_some()).find(|owner| {
            let hosts = self.slice_record(owner).map(|record| &record.hosts);
            hosts.is_some_and(|hosts| both.iter().flatten().all(|port| hosts.contains(port)))
        })
    }
}
