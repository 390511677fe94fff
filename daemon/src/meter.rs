//! Who used a thread's time after a moment at which something was due: by that a daemon says why it was late.
//!
//! Each part that works on the thread says from when to when it did, and is charged for what lies after the due
//! moment.
//! What nothing is charged for is the machine's: it let the thread wait.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use snin_protocol::Time;

use crate::clock::Clock;

/// What the time went to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// No work: the machine woke the thread late, or gave the processor to others.
    Machine,
    /// Deciding windows.
    Deciding,
    /// Ciphering and writing frames.
    Sending,
    /// Waiting for what must survive to be on the disk.
    Store,
    /// Reading frames and heeding them.
    Frames,
    /// Taking a view of the fabric.
    View,
    /// Answering operators, clients of the API and scrapers of metrics.
    Answering,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 7] = [
        Self::Machine,
        Self::Deciding,
        Self::Sending,
        Self::Store,
        Self::Frames,
        Self::View,
        Self::Answering,
    ];

    /// As metrics and answers name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Deciding => "deciding",
            Self::Sending => "sending",
            Self::Store => "store",
            Self::Frames => "frames",
            Self::View => "view",
            Self::Answering => "answering",
        }
    }
}

/// For people: why something was late.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "the machine let the controller wait",
            Self::Deciding => "the window before took too long to decide",
            Self::Sending => "leases took too long to send",
            Self::Store => "what must survive took too long to store",
            Self::Frames => "what agents said took too long to read",
            Self::View => "a view of the fabric took too long to take",
            Self::Answering => "what operators asked took too long to answer",
        })
    }
}

/// See the module's documentation. All that is charged here is done by one thread, one thing after the other.
#[derive(Debug)]
pub struct Meter {
    clock: Clock,
    /// In nanoseconds, as are the shares.
    due: AtomicU64,
    spent: [AtomicU64; Cause::ALL.len()],
}

impl Meter {
    /// Nothing is due yet.
    pub fn new(clock: Clock) -> Self {
        Self { clock, due: AtomicU64::new(Time::MAX.nanos()), spent: Default::default() }
    }

    /// From now on it is this moment that counts; nothing was spent after it yet.
    pub fn expect(&self, due: Time) {
        self.due.store(due.nanos(), Ordering::Relaxed);
        self.spent.iter().for_each(|spent| spent.store(0, Ordering::Relaxed));
    }

    /// What the clock shows.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Work began at `from` and has ended just now.
    pub fn charge(&self, cause: Cause, from: Time) {
        self.charge_until(cause, from, self.now());
    }

    /// Work began at `from` and ended at `to`.
    pub fn charge_until(&self, cause: Cause, from: Time, to: Time) {
        let due = Time(self.due.load(Ordering::Relaxed));
        if to > due {
            let late = to - from.max(due);
            self.spent[cause as usize].fetch_add(late.nanos(), Ordering::Relaxed);
        }
    }

    /// How late it is at `now`, and by what.
    pub fn lateness(&self, now: Time) -> Lateness {
        let late = now - Time(self.due.load(Ordering::Relaxed));
        let mut shares =
            Cause::ALL.map(|cause| Time(self.spent[cause as usize].load(Ordering::Relaxed)));
        // The machine has what no other cause took.
        shares[Cause::Machine as usize] = Time::ZERO;
        let known = shares.iter().fold(Time::ZERO, |sum, &share| sum + share);
        shares[Cause::Machine as usize] = late - known;
        Lateness { late, shares }
    }
}

/// How late something was, and by what.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Lateness {
    late: Time,
    shares: [Time; Cause::ALL.len()],
}

impl Lateness {
    /// From when it was due until it was done.
    pub const fn late(&self) -> Time {
        self.late
    }

    /// Every cause with the time that it took of that.
    pub fn shares(&self) -> impl Iterator<Item = (Cause, Time)> {
        Cause::ALL.into_iter().zip(self.shares)
    }

    /// The cause that took most; of equal ones the first.
    pub fn cause(&self) -> Cause {
        let most = self.shares().max_by_key(|&(cause, share)| (share, std::cmp::Reverse(cause)));
        most.map_or(Cause::Machine, |(cause, _)| cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Time = Time::millis(10);

    /// What is due at 100 ms comes at 125 ms; before, at and after that something works for 20 ms.
    fn late_by(cause: Cause) -> Lateness {
        let meter = Meter::new(Clock::system());
        let due = Time::millis(100);
        meter.charge_until(cause, Time::millis(1), Time::millis(2));
        meter.expect(due);
        meter.charge_until(cause, Time::millis(80), Time::millis(100));
        meter.charge_until(cause, Time::millis(95), Time::millis(103));
        meter.charge_until(Cause::Frames, Time::millis(103), Time::millis(105));
        meter.charge_until(cause, Time::millis(107), Time::millis(124));
        meter.lateness(Time::millis(125))
    }

    #[test]
    fn each_cause_is_charged_for_what_it_did_after_the_moment_and_the_machine_for_the_rest() {
        for cause in Cause::ALL.into_iter().filter(|&cause| cause != Cause::Machine) {
            let lateness = late_by(cause);
            assert_eq!((lateness.late(), lateness.cause()), (Time::millis(25), cause));
            let share = |of| lateness.shares().find(|&(cause, _)| cause == of).unwrap().1;
            let frames = if cause == Cause::Frames { Time::millis(22) } else { Time::millis(2) };
            assert_eq!(share(Cause::Frames), frames);
            assert_eq!(share(Cause::Machine), Time::millis(3));
            let sum = lateness.shares().fold(Time::ZERO, |sum, (_, share)| sum + share);
            assert_eq!(sum, lateness.late());
        }
    }

    #[test]
    fn where_nothing_worked_it_was_the_machine_and_a_new_moment_begins_anew() {
        let meter = Meter::new(Clock::system());
        meter.expect(WINDOW);
        meter.charge_until(Cause::Store, Time::millis(11), Time::millis(14));
        assert_eq!(meter.lateness(Time::millis(30)).cause(), Cause::Machine);
        assert_eq!(meter.lateness(Time::millis(15)).cause(), Cause::Store);
        // A decision that lasts until after the next moment makes that one late.
        meter.expect(Time::millis(40));
        meter.charge_until(Cause::Deciding, Time::millis(30), Time::millis(65));
        let lateness = meter.lateness(Time::millis(66));
        assert_eq!((lateness.late(), lateness.cause()), (Time::millis(26), Cause::Deciding));
        meter.expect(Time::millis(70));
        assert_eq!(meter.lateness(Time::millis(66)), Lateness::default());
    }
}
