//! Another subnet was cabled to this one: its master is met, cedes it, and its database is waited for.

use std::collections::BTreeSet;

use snin_fabric::Guid;
use snin_mad::SmState;
use snin_protocol::Time;

use super::Mastership;
use super::peers::rank;

/// So long the master of another subnet and its database are waited for. Meanwhile nothing is written; afterwards
/// its subnet is taken as it is found.
const PATIENCE: Time = Time::secs(20);

impl Mastership {
    /// Masters after which this one goes not are waited for; those that have stood aside until what they knew is
    /// here.
    pub(super) fn note_joining(&mut self, now: Time) {
        let Some(own) = self.info() else { return };
        let heeded: BTreeSet<Guid> = self.heeded().map(|(guid, _)| guid).collect();
        for (guid, peer) in &mut self.peers {
            let info = peer.info.as_ref().filter(|_| heeded.contains(guid));
            let is_master = info.is_some_and(|info| info.state == SmState::Master);
            let yields = info.is_some_and(|info| rank(info) < rank(&own));
            if is_master && yields {
                peer.joins.get_or_insert(now + PATIENCE);
            } else if !is_master && !self.copies.awaited.contains(guid) {
                peer.joins = None;
            }
        }
    }

    /// A master hands over to this one, which is master too.
    pub(super) fn is_ceded(&mut self, from: Guid, now: Time) {
        if self.state == SmState::Master
            && let Some(peer) = self.peers.get_mut(&from)
        {
            peer.joins.get_or_insert(now + PATIENCE);
        }
    }

    /// Whether a subnet is about to be joined, but for those whose databases are here.
    pub fn is_joining(&self, now: Time, here: &BTreeSet<Guid>) -> bool {
        let joins = |(guid, peer): (&Guid, &super::Peer)| {
            peer.joins.is_some_and(|until| now < until) && !here.contains(guid)
        };
        self.peers.iter().any(joins)
    }

    /// Whether the sweep may write nothing just now.
    pub const fn is_held(&self) -> bool {
        self.hold.held
    }
}
