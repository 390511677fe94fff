//! Writes come in bursts of bounded size, and before each this manager looks at its place.
//!
//! A write carries no term. A manager that stood still asks who is master before it goes on, but one whose clock
//! stood still too, as a virtual machine's may, does not notice. M_Keys that change with each new master have
//! ports refuse its writes. Without them it counts: every other manager has to have answered a question that
//! was put no more than a burst ago. The question is put when half of a burst is left, so that nothing waits.

use snin_mad::SmState;
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::keys::KeyPolicy;

use super::Mastership;
use super::peers::Peer;

/// How much may be written before the next look.
#[derive(Debug)]
pub(super) struct Bursts {
    /// The most writes between two looks at other managers; none where M_Keys change with each new master.
    most: Option<u64>,
    /// Writes sent so far.
    pub(super) written: u64,
}

impl Bursts {
    pub(super) fn new(config: &Config) -> Self {
        let is_given = config.m_key_policy == KeyPolicy::Given;
        Self { most: is_given.then_some(config.burst.into()), written: 0 }
    }
}

impl Mastership {
    /// Of all writes that this manager ever sent, `written` so far, the one before which the next look is due.
    /// Others are asked as soon as that comes near.
    pub fn look(&mut self, written: u64, now: Time) -> u64 {
        self.bursts.written = written;
        let until = self.writes_until();
        let half = self.bursts.most.unwrap_or(0) / 2;
        if written.saturating_add(half) < until {
            return until;
        }
        let (retries, is_due) = (self.retries, |peer: &Peer| peer.cleared + half <= written);
        let asked = self.peers.values_mut().filter(|peer| peer.is_reached(retries));
        let mut any = false;
        for peer in asked.filter(|peer| !peer.waiting && is_due(peer)) {
            (peer.due, any) = (now, true);
        }
        if any {
            self.poll_peers(now);
            self.flush();
        }
        self.writes_until()
    }

    /// One that answers nothing is no master of what this manager reaches, and is not waited for.
    fn writes_until(&self) -> u64 {
        let Some(burst) = self.bursts.most.filter(|_| self.state == SmState::Master) else {
            return u64::MAX;
        };
        let reached = self.peers.values().filter(|peer| peer.is_reached(self.retries));
        let least = reached.map(|peer| peer.cleared).min();
        least.map_or(u64::MAX, |cleared| cleared.saturating_add(burst))
    }
}
