//! A sample of the controller's time, from a question and its answer.

use crate::Time;

/// One sample: how far the controller's clock is ahead of the own one, and how wrong that may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockSample {
    /// Nanoseconds to be added to the own clock.
    pub ahead: i64,
    /// The greatest difference from the true time, for any split of the round trip into its two ways.
    pub error: Time,
}

impl ClockSample {
    /// Asked at `sent`, answered at `at` by the controller's clock, heard at `received`. `None` where the
    /// own clock went backward meanwhile, or numbers are too far apart.
    pub fn new(sent: Time, at: Time, received: Time) -> Option<Self> {
        let round_trip = received.0.checked_sub(sent.0)?;
        let middle = sent.0 + round_trip / 2;
        let ahead = i64::try_from(i128::from(at.0) - i128::from(middle)).ok()?;
        Some(Self { ahead, error: Time(round_trip.div_ceil(2)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_is_within_the_error_whatever_the_way() {
        for ahead in [-5_000_i64, 0, 1_000_000] {
            for (there, back) in [(0, 0), (10, 10), (0, 300), (300, 0), (17, 4)] {
                let sent = 10_000_000_u64;
                let at = Time((sent + there).checked_add_signed(ahead).unwrap());
                let sample = ClockSample::new(Time(sent), at, Time(sent + there + back)).unwrap();
                assert!(sample.ahead.abs_diff(ahead) <= sample.error.0, "{sample:?}");
            }
        }
        assert_eq!(ClockSample::new(Time(2), Time(2), Time(1)), None);
        assert_eq!(ClockSample::new(Time(0), Time::MAX, Time(1)), None);
    }
}
