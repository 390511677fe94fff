//! A subnet was cut in two while its managers' sessions live: each side is a subnet of its own.

use snin_fabric::Guid;
use snin_mad::SmState;
use snin_protocol::Time;

use super::{Mastership, Order};

/// A standby that has found its master's port, though not by asking it, does not look again so soon.
const REST: Time = Time::secs(10);

/// So many times as long as it takes to count as dead, a master that is heard in its session may be silent: it may
/// be moving to another port.
const SILENCES: u32 = 4;

impl Mastership {
    /// A standby that hears its master in a session, and not by directed route nor by its address, looks at what
    /// it is cabled to. Where the master's port is, it stands by again; where it is not, nothing that it writes
    /// reaches what the master writes.
    pub(super) fn look_for(&mut self, master: Guid, now: Time) {
        let reached = |peer: &super::Peer| peer.unreached <= (self.retries + 1) * SILENCES;
        if self.is_cut()
            || self.search.looks_again > now
            || self.peers.get(&master).is_none_or(reached)
        {
            return;
        }
        (self.search.looks_again, self.search.beside) = (now + REST, true);
        let why = format!("{master} is heard in its session, and by no cable");
        (self.state, self.why, self.changed) = (SmState::Discovering, why, true);
        self.order(Order::Begin);
    }

    /// Whether the last master is one beside this one, of the rest of a subnet that was cut in two.
    pub const fn is_beside(&self) -> bool {
        self.search.beside
    }

    /// The master that this manager follows by what it says in the fabric.
    pub fn followed(&self) -> Option<Guid> {
        self.search.master.filter(|_| self.state == SmState::Standby)
    }
}
