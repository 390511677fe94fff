//! From ways to grants: who gets which links when, and the leases that say so.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::Guid;
use snin_protocol::message::{ControllerMessage, Grant, Lease, MAX_GRANTS};
use snin_protocol::{ConnectionNumber, Time};

use super::Core;
use super::connections::Connection;
use super::ledger::{Claim, ClaimId, Holder, OwnerId, Way};
use crate::packing::ConnectionId;

/// Which links a connection would claim, for whom.
struct Wish<'a> {
    owner: OwnerId,
    holder: Holder,
    connection: &'a Connection,
}

impl Core {
    fn wish(&self, slot: u32) -> Option<Wish<'_>> {
        let connection = self.connections.get(slot)?;
        let session = self.agents.get(&connection.port)?.session;
        let holder = Holder { port: connection.port, session };
        Some(Wish { owner: connection.owner, holder, connection })
    }

    /// Whose links a connection waits for, as of the window decided last.
    pub(super) fn blockers(&self, slot: u32) -> Vec<u32> {
        let start = self.window.start(self.config.window);
        let Some(Wish { owner, holder, connection }) = self.wish(slot) else {
            return Vec::new();
        };
        let links = connection.route.as_ref().map_or(&[][..], |route| &route.links);
        let blockers = self.ledger.blockers(owner, holder, links, start);
        blockers.filter_map(|(_, claim)| Some(claim.way.as_ref()?.slot)).collect()
    }

    /// Grants what has become possible.
    pub(super) fn grant_pending(&mut self, now: Time) {
        let pending: Vec<u32> = self.pending.iter().copied().collect();
        for slot in pending {
            if self.grant(slot, now) {
                self.pending.remove(&slot);
            }
        }
    }

    /// Grants a connection its way if all links are clear in time; those that others may still be on are
    /// never given.
    fn grant(&mut self, slot: u32, now: Time) -> bool {
        let Some(claim) = self.claim_for(slot, now) else {
            return false;
        };
        let start = self.window.start(self.config.window);
        self.metrics.granted_late += u64::from(now > start);
        let port = claim.holder.port;
        let tree = claim.way.as_ref().map(|way| way.tree);
        let id = self.ledger.add(claim);
        if let Some(connection) = self.connections.get_mut(slot) {
            let before = connection.claim.replace(id);
            connection.last_tree = tree;
            connection.urgent = false;
            connection.verdict = None;
            if let Some(before) = before {
                self.end(before);
            }
        }
        self.dirty.insert(port);
        self.count_served(slot);
        true
    }

    fn claim_for(&self, slot: u32, now: Time) -> Option<Claim> {
        let Wish { owner, holder, connection } = self.wish(slot)?;
        let route = connection.route.as_ref()?;
        let window = self.config.window;
        let start = self.window.start(window).max(now);
        // What was in service goes on at once; what begins, begins with the window.
        let earliest = if connection.urgent { now } else { start };
        let from = earliest.max(self.ledger.clear_from(owner, holder, &route.links));
        let until = self.until(connection);
        let standing = self.ledger.of(holder).filter(|(_, claim)| claim.gone.is_none()).count();
        let possible = from <= start && from + self.config.guard * 2 < until;
        (possible && standing < MAX_GRANTS).then(|| Claim {
            owner,
            holder,
            way: Some(Way {
                number: connection.request.connection,
                slot,
                destination: connection.request.destination,
                tree: route.tree,
                dlid: route.dlid,
                rate: route.rate,
                pinned: connection.request.pinned,
                class: connection.request.class,
            }),
            links: route.links.clone(),
            from,
            until,
            gone: None,
        })
    }

    /// The end of a grant that begins or goes on in the window decided last: a guard before a window's, so
    /// that its links are clear when that begins which comes after it.
    pub(super) fn until(&self, connection: &Connection) -> Time {
        let windows = if connection.shares_ports {
            1
        } else if connection.is_standing() {
            self.config.lease
        } else {
            // The window decided last counts as served when it is granted.
            let served = connection.served == Some(self.window);
            (connection.left + u32::from(served)).clamp(1, self.config.lease)
        };
        let last = self.window.after(u64::from(windows) - 1);
        last.end(self.config.window) - self.config.guard
    }

    /// The window decided last serves the connection.
    pub(super) fn count_served(&mut self, slot: u32) {
        let window = self.window;
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        if connection.served == Some(window) {
            return;
        }
        connection.served = Some(window);
        connection.turns += 1;
        connection.waits = 0;
        self.metrics.granted += 1;
        self.admission.served(ConnectionId(slot));
        if connection.is_standing() {
            // It asks anew at once, behind all that waited.
            if let Ok(ends) = connection.ends {
                self.admit(slot, ends);
            }
        } else {
            connection.left -= 1;
            if connection.left == 0 {
                self.spent.push(slot);
            }
        }
    }

    /// Leaves a claim out of its agent's next lease.
    fn end(&mut self, id: ClaimId) {
        let Some(claim) = self.ledger.get(id) else {
            return;
        };
        let holder = claim.holder;
        let agent = self.agents.get(&holder.port).filter(|agent| agent.session == holder.session);
        // Without its agent there is no confirmation: the grant runs out.
        if let Some(agent) = agent {
            self.ledger.end(id, agent.next_sequence());
            self.dirty.insert(holder.port);
        }
    }

    /// Has a connection leave its links at once.
    pub(super) fn stop(&mut self, id: ClaimId) {
        self.end(id);
        let Some(claim) = self.ledger.get(id) else {
            return;
        };
        let Some(slot) = claim.way.as_ref().map(|way| way.slot) else { return };
        if let Some(connection) = self.connections.get_mut(slot).filter(|c| c.claim == Some(id)) {
            connection.claim = None;
            connection.route = None;
        }
    }

    /// A claim is over for certain.
    pub(super) fn release(&mut self, id: ClaimId) {
        let Some(claim) = self.ledger.release(id) else {
            return;
        };
        self.cleared = true;
        let slot = claim.way.map(|way| way.slot);
        let connection = slot.and_then(|slot| self.connections.get_mut(slot));
        if let Some(connection) = connection.filter(|c| c.claim == Some(id)) {
            connection.claim = None;
        }
        self.clearing.values_mut().for_each(|outstanding| {
            outstanding.remove(&id);
        });
    }

    /// A new lease for everyone whose grants changed or who waits for answers.
    pub(super) fn send_leases(&mut self, now: Time) {
        for port in std::mem::take(&mut self.dirty) {
            self.new_lease(port, now);
        }
    }

    fn new_lease(&mut self, port: Guid, now: Time) {
        let Some(agent) = self.agents.get_mut(&port) else {
            return;
        };
        let holder = Holder { port, session: agent.session };
        let sequence = agent.next_sequence();
        let in_force = self.ledger.of(holder).map(|(_, claim)| claim);
        let in_force: Vec<&Claim> =
            in_force.filter(|claim| claim.gone.is_none() && claim.until > now).collect();
        // A connection that was asked for again may have a grant from before: the later one counts.
        let ways = in_force.iter().filter_map(|claim| Some((claim.way.as_ref()?, *claim)));
        let by_number: BTreeMap<ConnectionNumber, (&Way, &Claim)> =
            ways.map(|(way, claim)| (way.number, (way, claim))).collect();
        let sl = self.fabric.view.granted_sl();
        let grant = |(&connection, (way, claim)): (&ConnectionNumber, &(&Way, &Claim))| Grant {
            connection,
            tree: way.tree,
            dlid: way.dlid,
            from: claim.from,
            until: claim.until,
            rate: way.rate,
            pinned: way.pinned,
            sl,
        };
        let part = in_force.iter().rev().find(|claim| claim.way.is_none());
        let collective =
            part.and_then(|claim| self.collectives.entry(claim, self.config.guard, sl));
        agent.lease = Lease {
            sequence,
            heard: agent.asked,
            grants: by_number.iter().map(grant).collect(),
            answers: agent.answers_for(sequence),
            collective,
        };
        self.metrics.leases += 1;
        self.send_lease(port, now);
    }

    fn send_lease(&mut self, port: Guid, now: Time) {
        let Some(agent) = self.agents.get_mut(&port) else {
            return;
        };
        agent.sent_at = now;
        let (session, lease) = (agent.session, agent.lease.clone());
        self.unconfirmed.insert(port);
        self.repeat_at = self.repeat_at.min(now + self.config.repeat);
        self.send(port, session, ControllerMessage::Lease(lease), now);
    }

    /// Says again what was not confirmed for a while.
    pub(super) fn repeat(&mut self, now: Time) {
        self.repeat_at = Time::MAX;
        let due = |agent: &super::Agent| agent.sent_at + self.config.repeat;
        let waiting = self.unconfirmed.iter();
        let waiting = waiting.filter_map(|&port| Some((due(self.agents.get(&port)?), port)));
        let waiting: BTreeSet<(Time, Guid)> = waiting.collect();
        for (due, port) in waiting {
            if due > now {
                self.repeat_at = self.repeat_at.min(due);
            } else {
                self.metrics.leases_repeated += 1;
                self.send_lease(port, now);
            }
        }
    }
}
