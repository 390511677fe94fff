//! Selective signalling: of messages that follow each other on one queue pair only every so many is told when it
//! is done, which says that those before it are. Completions cost as much as messages do otherwise.
//!
//! Only one queue pair at a time has anything untold: the one that was posted on last, the first time told. So
//! whoever sends to many in turn hears of every message, and little memory waits for word that may be late.

use snin_protocol::Time;

use snin_verbs::Signal;

/// When nothing follows for so long, it is asked for. Whoever waits for it asks at once.
pub(crate) const LATE: Time = Time::millis(2);

/// What was posted on the queue pair that was posted on last, and is not to be told.
#[derive(Debug)]
pub(crate) struct Untold {
    /// One of so many is told.
    every: u32,
    slot: u32,
    count: u32,
    /// The last of them.
    ticket: u64,
    /// When nothing had followed it yet.
    since: Option<Time>,
}

impl Untold {
    /// One of `every` is told.
    pub(crate) const fn new(every: u32) -> Self {
        Self { every, slot: u32::MAX, count: 0, ticket: 0, since: None }
    }

    /// Whether the next one on a slot is to be told; one that is not patient always is.
    #[inline]
    pub(crate) const fn signal(&self, slot: u32, is_patient: bool) -> Signal {
        // All at once: which of them it is changes from message to message.
        if is_patient & (slot == self.slot) & (self.count + 1 < self.every) {
            Signal::No
        } else {
            Signal::Yes
        }
    }

    /// Whether something untold is left behind when another slot is posted on.
    #[inline]
    pub(crate) const fn leaves(&self, slot: u32) -> bool {
        (slot != self.slot) & (self.count > 0)
    }

    /// It was posted, as [`signal`](Self::signal) said.
    #[inline]
    pub(crate) fn posted(&mut self, slot: u32, ticket: u64, signal: Signal) {
        let count = if signal == Signal::No { self.count + 1 } else { 0 };
        (self.slot, self.count, self.ticket, self.since) = (slot, count, ticket, None);
    }

    /// All posted on a slot will be told, or never will be.
    #[inline]
    pub(crate) const fn told(&mut self, slot: u32) {
        if slot == self.slot {
            self.count = 0;
        }
    }

    /// The last one untold: its slot and ticket.
    pub(crate) fn last(&self) -> Option<(u32, u64)> {
        (self.count > 0).then_some((self.slot, self.ticket))
    }

    /// Whether nothing has followed it for too long; whoever asks twice that long apart hears of it.
    #[inline]
    pub(crate) fn is_late(&mut self, now: Time) -> bool {
        self.count > 0 && now >= *self.since.get_or_insert(now) + LATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Posts on a slot: whether it is told.
    fn post(untold: &mut Untold, slot: u32, ticket: u64, is_patient: bool) -> bool {
        let signal = untold.signal(slot, is_patient);
        untold.posted(slot, ticket, signal);
        signal == Signal::Yes
    }

    #[test]
    fn one_of_so_many_is_told_and_the_first_is() {
        let mut untold = Untold::new(4);
        let told: Vec<bool> = (0..10).map(|ticket| post(&mut untold, 7, ticket, true)).collect();
        let expected = [true, false, false, false, true, false, false, false, true, false];
        assert_eq!(told, expected);
        assert_eq!(untold.last(), Some((7, 9)));
        untold.told(6);
        assert_eq!(untold.last(), Some((7, 9)));
        untold.told(7);
        assert_eq!(untold.last(), None);
        let mut all = Untold::new(1);
        assert!((0..10).all(|ticket| post(&mut all, 7, ticket, true)));
    }

    #[test]
    fn whoever_does_not_wait_and_whoever_follows_another_is_told() {
        let mut untold = Untold::new(4);
        assert!((0..4).all(|ticket| post(&mut untold, 7, ticket, false)));
        assert!((0..8).all(|ticket| post(&mut untold, ticket % 2, u64::from(ticket), true)));
        assert!(!untold.leaves(0), "nothing is untold");
        post(&mut untold, 1, 9, true);
        assert!(untold.leaves(0) && !untold.leaves(1));
        assert!(post(&mut untold, 0, 0, true));
    }

    #[test]
    fn what_nothing_follows_is_asked_for() {
        let mut untold = Untold::new(4);
        assert!(!untold.is_late(Time::secs(1)), "nothing is untold");
        post(&mut untold, 7, 0, true);
        assert!(!untold.is_late(Time::secs(1)), "it was told");
        post(&mut untold, 7, 1, true);
        let begin = Time::secs(2);
        assert!(!untold.is_late(begin) && !untold.is_late(begin + LATE - Time(1)));
        assert!(untold.is_late(begin + LATE));
        post(&mut untold, 7, 2, true);
        assert!(!untold.is_late(begin + LATE), "something followed");
        assert!(untold.is_late(begin + LATE + LATE));
    }
}
