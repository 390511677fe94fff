//! Handing over: the old master stops writing, says HANDOVER, and stands by when that was taken.
//!
//! It does not wait for an ACKNOWLEDGE, which not every manager sends: the answer is enough. Until the new
//! master has told the old one's port so, and for some time after that, the old one answers what hosts ask and
//! takes nothing that they tell: hosts learn of the new address one after the other.

use snin_fabric::Guid;
use snin_mad::SmState;
use snin_protocol::Time;

use super::{Mastership, Order};
use crate::control::Control;

/// How long the writes in flight may take.
const QUIET: Time = Time::secs(1);
/// A manager that refused mastership, or did not answer, is not offered it again so soon.
const PAUSE: Time = Time::secs(10);
/// The old master answers for so long after its own port has the new one's address,
const AFTER: Time = Time::secs(10);
/// and for so long altogether.
const LONGEST: Time = Time::secs(60);

/// So long mastership waits for the copy of the database that the other manager is about to have.
const COPYING: Time = Time::secs(10);

/// Mastership on its way to another manager.
#[derive(Debug)]
pub(super) struct Handing {
    pub(super) to: Guid,
    /// Writes are in flight still; HANDOVER is sent at this time, even if they are not done.
    quiet_by: Option<Time>,
}

impl Handing {
    pub(super) const fn next_deadline(&self) -> Option<Time> {
        self.quiet_by
    }
}

/// For how long an old master answers.
#[derive(Debug)]
pub(super) struct Linger {
    until: Time,
    is_moved: bool,
}

impl Linger {
    pub(super) fn new(now: Time) -> Self {
        Self { until: now + LONGEST, is_moved: false }
    }

    /// The own port has another master's address.
    pub(super) fn moved(&mut self, now: Time) {
        if !std::mem::replace(&mut self.is_moved, true) {
            self.until = self.until.min(now + AFTER);
        }
    }
}

impl Mastership {
    /// Whether this manager answers subnet administration though it is master no more.
    pub fn lingers(&self, now: Time) -> bool {
        self.state == SmState::Standby && self.linger.as_ref().is_some_and(|l| now < l.until)
    }

    /// Whether HANDOVER waits for the writes in flight.
    pub fn awaits_quiet(&self) -> bool {
        self.handing.as_ref().is_some_and(|handing| handing.quiet_by.is_some())
    }

    /// Offers mastership to another manager, as soon as nothing of this one's is on its way.
    pub(super) fn hand_over(&mut self, to: Guid, now: Time) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        // A master of its own copies nothing, even if it has not yet said in its session that it is one.
        let is_master = peer.info.as_ref().is_some_and(|info| info.state == SmState::Master);
        let copies = if is_master { &self.copies.kin } else { &self.copies.copying }.contains(&to);
        let since = *peer.awaited.get_or_insert(now);
        peer.awaited = Some(since).filter(|_| copies);
        let paused = peer.not_before > now || copies && now < since + COPYING;
        if self.handing.is_none() && !paused {
            self.handing = Some(Handing { to, quiet_by: Some(now + QUIET) });
        }
    }

    /// No write is in flight any more, or it took too long.
    pub fn quiet(&mut self, now: Time) {
        let Some(handing) = &mut self.handing else { return };
        if handing.quiet_by.take().is_none() {
            return;
        }
        let to = handing.to;
        if !self.send_control(to, Control::Handover, now) {
            self.kept(to, "cannot be reached", now);
        }
        self.flush();
    }

    /// The successor has not taken over, as far as is known. Where it is master already, this one stands by
    /// all the same; where it took over and the answer was lost, it says so when it is polled.
    pub(super) fn kept(&mut self, to: Guid, _why: &str, now: Time) {
        if self.handing.as_ref().is_none_or(|handing| handing.to != to) {
            return;
        }
        self.handing = None;
        let Some(peer) = self.peers.get_mut(&to) else { return self.consider(now) };
        peer.not_before = now + PAUSE;
        let is_master = peer.info.as_ref().is_some_and(|info| info.state == SmState::Master);
        if is_master && self.heeded().any(|(guid, _)| guid == to) {
            return self.become_standby(format!("{to} is master and goes before it"), now);
        }
        self.consider(now);
    }

    /// Another manager took over from this one while this one was silent, and has had the database since.
    pub fn succeeded(&mut self, guid: Guid, now: Time) {
        let foreign = self.peers.get(&guid).is_some_and(|peer| peer.foreign);
        if self.state == SmState::Master && !foreign {
            self.become_standby(format!("{guid} took over while this one was silent"), now);
            self.flush();
        }
    }

    /// From now on this manager writes nothing, and asks nothing but whether the master is there.
    pub(super) fn become_standby(&mut self, why: String, now: Time) {
        self.handing = None;
        self.hold.held = false;
        self.hold.fence.clear();
        self.hold.rivals.clear();
        (self.search.lost, self.search.claim, self.search.beside) = (None, None, false);
        self.set_state(SmState::Standby, why);
        self.order(Order::StandAside);
        self.home.due = Some(now);
        for peer in self.peers.values_mut() {
            peer.due = peer.due.min(now + self.poll);
        }
    }
}
