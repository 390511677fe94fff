//! Time as every core knows it: a number that the caller counts.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// Nanoseconds: a moment, counted from a start that all cores of a run share, or the length between two.
///
/// Cores are given the time, they never ask for it, so that the same core runs by a machine's clock and by
/// an emulator's. Arithmetic stops at both ends instead of wrapping: a deadline that cannot be reached is
/// [`Time::MAX`], and what lies before the start is the start.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Debug,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Time(pub u64);

impl Time {
    /// The start; no time at all.
    pub const ZERO: Self = Self(0);
    /// Never; 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// How long a link of `rate` bit/s carries so many bytes, rounded up; at a rate of 0 as at 1.
    pub fn carrying(bytes: u64, rate: u64) -> Self {
        let nanos = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate.max(1)));
        Self(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// `n` microseconds.
    pub const fn micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` milliseconds.
    pub const fn millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// `n` seconds.
    pub const fn secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// In nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// In seconds, for people.
    pub const fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Time {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Time {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Div<u64> for Time {
    type Output = Self;

    /// By zero: never.
    fn div(self, parts: u64) -> Self {
        self.0.checked_div(parts).map_or(Self::MAX, Self)
    }
}

impl fmt::Display for Time {
    /// In the largest unit that leaves a whole part: `2.5s`, `30ms`, `1.2us`, `800ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        match units.into_iter().find(|&(size, _)| self.0 >= size) {
            Some((size, unit)) => {
                let thousandths = self.0 % size * 1_000 / size;
                let digits = format!("{thousandths:03}");
                let digits = digits.trim_end_matches('0');
                let point = if digits.is_empty() { "" } else { "." };
                write!(f, "{}{point}{digits}{unit}", self.0 / size)
            }
            None => write!(f, "{}ns", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_stops_at_both_ends() {
        assert_eq!(Time::secs(1) + Time::MAX, Time::MAX);
        assert_eq!(Time::secs(1) - Time::secs(2), Time::ZERO);
        assert_eq!(Time::secs(u64::MAX), Time::MAX);
        assert_eq!(Time::MAX * 2, Time::MAX);
        assert_eq!(Time::secs(3) / 2, Time::millis(1_500));
        assert_eq!(Time::secs(3) / 0, Time::MAX);
    }

    #[test]
    fn time_reads_as_people_write_it() {
        let cases = [
            (Time::ZERO, "0ns"),
            (Time(800), "800ns"),
            (Time(1_200), "1.2us"),
            (Time::millis(30), "30ms"),
            (Time::millis(2_500), "2.5s"),
            (Time(1_000_001), "1ms"),
            (Time::secs(3_600), "3600s"),
        ];
        for (time, text) in cases {
            assert_eq!(time.to_string(), text);
        }
    }
}
