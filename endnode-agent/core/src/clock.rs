//! What an agent knows of the controller's time: its own clock, how far that is off, and how wrong the
//! answer to that may be.

use snin_protocol::Time;
use snin_protocol::clock::ClockSample;

/// The controller's time as an interval. What an agent may do only from a moment on, it does when that
/// moment has come for certain; what it may do only before one, it stops while the moment is still certain
/// to lie ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    /// The best sample and when it was taken, by the own clock; none: nothing is certain.
    sample: Option<(ClockSample, Time)>,
    /// Something else keeps the clock right: samples only check that.
    kept: bool,
    /// What the own clock may gain or lose on the controller's meanwhile, in parts of a million.
    drift: u32,
}

impl Clock {
    /// A clock of which nothing is known yet.
    pub const fn unknown(drift: u32) -> Self {
        Self { sample: None, kept: false, drift }
    }

    /// A clock that something else keeps within `error` of the controller's, as PTP does.
    pub const fn kept(error: Time, drift: u32) -> Self {
        let sample = ClockSample { ahead: 0, error };
        Self { sample: Some((sample, Time::ZERO)), kept: true, drift }
    }

    /// Another controller is asked from now on: nothing is certain of its time, unless something else keeps all
    /// clocks right.
    pub const fn forget(&mut self) {
        if !self.kept {
            self.sample = None;
        }
    }

    /// Whether anything is known of the controller's time.
    pub const fn is_known(&self) -> bool {
        self.sample.is_some()
    }

    /// Whether something else keeps it right.
    pub const fn is_kept(&self) -> bool {
        self.kept
    }

    /// Another sample. The one that says more is kept; where they contradict each other, a clock was set
    /// and the new one holds. Whether they agree.
    pub fn learn(&mut self, sample: ClockSample, now: Time) -> bool {
        let agrees = self.sample.is_none_or(|(known, _)| {
            let apart = u128::from(known.ahead.abs_diff(sample.ahead));
            let error = self.error(now) + sample.error;
            apart <= u128::from(error.0)
        });
        if !agrees || !self.kept && sample.error <= self.error(now) {
            self.kept = false;
            self.sample = Some((sample, now));
        }
        agrees
    }

    /// How wrong what is known may be by now; [`Time::MAX`] when nothing is.
    pub fn error(&self, now: Time) -> Time {
        let Some((sample, taken)) = self.sample else {
            return Time::MAX;
        };
        if self.kept {
            return sample.error;
        }
        let drifted = u128::from((now - taken).0) * u128::from(self.drift);
        sample.error + Time(u64::try_from(drifted.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// The controller's time is at least this.
    pub fn earliest(&self, now: Time) -> Time {
        self.theirs(now) - self.error(now)
    }

    /// The controller's time is at most this.
    pub fn latest(&self, now: Time) -> Time {
        self.theirs(now) + self.error(now)
    }

    /// The own time from which the controller's is certain to be `moment` or later, as far as can be said
    /// now: by then it may turn out to be a little later.
    pub fn surely_from(&self, moment: Time, now: Time) -> Time {
        if moment == Time::MAX { moment } else { self.ours(moment) + self.error(now) }
    }

    /// The own time from which the controller's may be `moment` or later.
    pub fn maybe_from(&self, moment: Time, now: Time) -> Time {
        if moment == Time::MAX { moment } else { self.ours(moment) - self.error(now) }
    }

    /// Whether a frame stamped `sent` by the controller can have come in now: one from the future proves
    /// that a clock is further off than is known.
    pub fn explains(&self, sent: Time, now: Time) -> bool {
        sent <= self.latest(now)
    }

    fn ahead(&self) -> i64 {
        self.sample.map_or(0, |(sample, _)| sample.ahead)
    }

    fn theirs(&self, now: Time) -> Time {
        Time(now.0.saturating_add_signed(self.ahead()))
    }

    fn ours(&self, moment: Time) -> Time {
        Time(moment.0.saturating_sub_signed(self.ahead()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::secs(5);

    #[test]
    fn an_uncertain_clock_starts_late_and_stops_early() {
        let mut clock = Clock::unknown(0);
        assert!(clock.learn(ClockSample { ahead: -1_000, error: Time(20) }, NOW));
        let moment = Time::secs(7);
        let surely = clock.surely_from(moment, NOW);
        assert_eq!((surely, clock.earliest(surely)), (moment + Time(1_020), moment));
        let maybe = clock.maybe_from(moment, NOW);
        assert_eq!((maybe, clock.latest(maybe)), (moment + Time(980), moment));
        assert_eq!(clock.surely_from(Time::MAX, NOW), Time::MAX);
    }

    #[test]
    fn what_one_controller_said_of_the_time_is_not_held_against_the_next() {
        let mut clock = Clock::unknown(0);
        clock.learn(ClockSample { ahead: 1_000, error: Time(20) }, NOW);
        clock.forget();
        assert!(!clock.is_known() && clock.explains(NOW + Time::secs(1_000), NOW));
        assert!(clock.learn(ClockSample { ahead: 1_000_000_000, error: Time(20) }, NOW));
        let mut kept = Clock::kept(Time(10), 100);
        kept.forget();
        assert!(kept.is_known());
    }

    #[test]
    fn an_unknown_clock_allows_nothing() {
        let clock = Clock::unknown(100);
        assert_eq!((clock.earliest(NOW), clock.latest(NOW)), (Time::ZERO, Time::MAX));
    }

    #[test]
    fn what_is_known_fades_until_a_better_sample_comes() {
        let mut clock = Clock::unknown(100);
        clock.learn(ClockSample { ahead: 0, error: Time(1_000) }, NOW);
        let later = NOW + Time::millis(10);
        assert_eq!(clock.error(later), Time(2_000), "a millionth of 10 ms, 100 times");
        assert!(clock.learn(ClockSample { ahead: 500, error: Time(2_001) }, later));
        assert_eq!(clock.error(later), Time(2_000), "the old one still says more");
        assert!(clock.learn(ClockSample { ahead: 500, error: Time(1_999) }, later));
        assert_eq!(clock.latest(later), later + Time(2_499));
    }

    #[test]
    fn samples_that_contradict_show_a_clock_that_was_set() {
        let mut clock = Clock::kept(Time(10), 100);
        assert!(clock.learn(ClockSample { ahead: 50, error: Time(100) }, NOW));
        assert_eq!(clock.latest(NOW), NOW + Time(10));
        assert!(!clock.learn(ClockSample { ahead: 5_000, error: Time(100) }, NOW));
        assert_eq!(clock.earliest(NOW), NOW + Time(4_900));
    }

    #[test]
    fn a_frame_from_the_future_shows_a_wrong_clock() {
        let clock = Clock::kept(Time(10), 0);
        assert!(clock.explains(Time(110), Time(100)));
        assert!(!clock.explains(Time(111), Time(100)));
    }
}
