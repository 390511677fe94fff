//! Copies of the database: whose this manager has, and who has one of its own.

use std::collections::BTreeSet;

use snin_fabric::Guid;
use snin_mad::SmState;
use snin_protocol::Time;

use super::Mastership;

/// What the mirror says of copies.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Whose database this manager has a copy of, and when the copy was last known to have all of it.
    copy: Option<(Guid, Time)>,
    /// Managers that are about to have a copy of this one's database.
    pub(super) copying: BTreeSet<Guid>,
    /// Masters of which one took over from the other, as they say in sessions: the earlier one stands by itself.
    pub(super) kin: BTreeSet<Guid>,
    /// Managers that have a database which is to be joined to this one's.
    pub(super) awaited: BTreeSet<Guid>,
    /// This manager knows nothing of what hosts said, and another may: it does not go before that one.
    pub(super) blank: bool,
}

impl Mastership {
    /// These managers are about to have a copy of this one's database: none of them is handed over to before.
    /// `kin`: masters that took over from this one, or it from them.
    pub fn set_copying(&mut self, copying: BTreeSet<Guid>, kin: BTreeSet<Guid>) {
        (self.copies.copying, self.copies.kin) = (copying, kin);
    }

    /// Whose database this manager has a copy of, and when the copy was last known to have all of it.
    pub const fn set_copy(&mut self, copy: Option<(Guid, Time)>) {
        self.copies.copy = copy;
    }

    /// Whether this manager knows nothing of what hosts said, while others may have copies of what it knew once.
    pub const fn set_blank(&mut self, blank: bool) {
        self.copies.blank = blank;
    }

    /// Whether this manager has a copy of all that the last master knew when it was last heard.
    pub(super) fn has_copy(&self) -> bool {
        self.copies.copy.is_some_and(|(guid, at)| {
            let heard = self.peers.get(&guid).and_then(|peer| peer.heard);
            self.search.master == Some(guid)
                && heard.is_some_and(|heard| heard <= at + self.poll * 2)
        })
    }

    /// These managers have a database that is to be joined to this one's.
    pub fn set_awaited(&mut self, awaited: BTreeSet<Guid>, now: Time) {
        if self.copies.awaited != awaited {
            self.copies.awaited = awaited;
            if self.state == SmState::Master {
                self.consider(now);
                self.flush();
            }
        }
    }
}
