//! Picoseconds, and how they become nanoseconds.

use snin_protocol::Time;

const PS_PER_NS: u64 = 1_000;
const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// Never.
pub(super) const NEVER: u64 = u64::MAX;

/// A time from outside, in picoseconds.
pub(super) const fn ps(time: Time) -> u64 {
    time.0.saturating_mul(PS_PER_NS)
}

/// In nanoseconds, rounded up: what took any time at all took at least one.
pub(super) const fn ns(ps: u64) -> Time {
    Time(ps.div_ceil(PS_PER_NS))
}

/// How long a link of `rate` bit/s needs for `bytes`.
pub(super) const fn transmission(bytes: u16, rate: u64) -> u64 {
    (bytes as u64 * 8 * PS_PER_SECOND).div_ceil(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_at_400_gbit_takes_20_ps() {
        assert_eq!(transmission(1, 400_000_000_000), 20);
        assert_eq!(transmission(u16::MAX, 3), 174_760_000_000_000_000);
        assert_eq!(ns(1), Time(1));
        assert_eq!(ns(2_000), Time(2));
        assert_eq!(ps(Time::MAX), NEVER);
    }
}
