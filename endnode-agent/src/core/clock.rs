//! What an agent knows of the controller's time: its own clock, and how wrong that may be.

use snin_protocol::Time;

/// The controller's time as an interval. A synchronised clock (PTP, or the emulator's with a stated skew) is
/// never further from the controller's than `error`; what an agent may do only from a moment on, it does
/// when that moment has come for certain, and what it may do only before one, it stops while the moment
/// is still certain to lie ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    error: Time,
}

impl Clock {
    /// A clock that is at most `error` fast or slow.
    pub const fn new(error: Time) -> Self {
        Self { error }
    }

    /// The controller's time is at least this.
    pub fn earliest(&self, now: Time) -> Time {
        now - self.error
    }

    /// The controller's time is at most this.
    pub fn latest(&self, now: Time) -> Time {
        now + self.error
    }

    /// The own time from which the controller's is certain to be `moment` or later.
    pub fn surely_from(&self, moment: Time) -> Time {
        moment + self.error
    }

    /// The own time from which the controller's may be `moment` or later.
    pub fn maybe_from(&self, moment: Time) -> Time {
        moment - self.error
    }

    /// Whether a frame stamped `sent` by the controller can have come in now: one from the future proves
    /// that a clock is further off than stated.
    pub fn explains(&self, sent: Time, now: Time) -> bool {
        sent <= self.latest(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncertain_clock_starts_late_and_stops_early() {
        let clock = Clock::new(Time::micros(2));
        let moment = Time::micros(100);
        assert_eq!(clock.earliest(clock.surely_from(moment)), moment);
        assert_eq!(clock.latest(clock.maybe_from(moment)), moment);
        assert_eq!(clock.surely_from(Time::MAX), Time::MAX);
    }

    #[test]
    fn a_frame_from_the_future_shows_a_wrong_clock() {
        let clock = Clock::new(Time(10));
        assert!(clock.explains(Time(110), Time(100)));
        assert!(!clock.explains(Time(111), Time(100)));
    }
}
