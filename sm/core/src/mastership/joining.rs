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

/// So long one is waited for that has ceded and says nothing: it may not speak in-band.
const UNHEARD: Time = Time::secs(5);

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
            } else if !is_master && !self.awaited.contains(guid) {
                // Who speaks in-band is heard when a way leads there.
                let unheard = self.in_band && info.is_some() && !self.told_by.contains(guid);
                if unheard && peer.strange {
                    peer.joins.get_or_insert(now + PATIENCE);
                }
                let since = *peer.apart.get_or_insert(now);
                peer.joins = peer.joins.filter(|_| unheard && now < since + UNHEARD);
                continue;
            }
            peer.apart = None;
        }
    }

    /// Managers that have ceded and have a database which is waited for, to which a way is needed.
    pub(crate) fn apart(&self, now: Time) -> BTreeSet<Guid> {
        if !self.in_band || !self.held || self.state != SmState::Master {
            return BTreeSet::new();
        }
        let stands_by = self.heeded().filter(|(_, info)| info.state == SmState::Standby);
        let joins = |guid: &Guid| {
            self.peers.get(guid).and_then(|peer| peer.joins).is_some_and(|until| now < until)
        };
        stands_by.map(|(guid, _)| guid).filter(joins).collect()
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
    pub(crate) fn is_joining(&self, now: Time, here: &BTreeSet<Guid>) -> bool {
        let joins = |(guid, peer): (&Guid, &super::Peer)| {
            peer.joins.is_some_and(|until| now < until) && !here.contains(guid)
        };
        self.peers.iter().any(joins)
    }

    /// Whether the sweep may write nothing just now.
    pub(crate) const fn is_held(&self) -> bool {
        self.held
    }

    /// These managers have a database that is to be joined to this one's.
    /// `told`: all that have said what they have.
    pub(crate) fn set_awaited(&mut self, awaited: BTreeSet<Guid>, told: BTreeSet<Guid>, now: Time) {
        if (&self.awaited, &self.told_by) != (&awaited, &told) {
            (self.awaited, self.told_by) = (awaited, told);
            if self.state == SmState::Master {
                self.consider(now);
                self.flush();
            }
        }
    }
}
