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

/// Mbit/s of the fastest link. Two of them are a number too.
const MOST: u32 = 100_000_000;

/// How fast a link is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Rate {
    bits_per_second: u64,
    /// Of a byte, where they are whole: multiplying is faster than dividing.
    picoseconds: Option<u32>,
    /// In Mbit/s, rounded down.
    megabits: u32,
}

impl Rate {
    /// `bits_per_second`: at least 1 Mbit/s.
    pub(super) const fn new(bits_per_second: u64) -> Self {
        let whole = (8 * PS_PER_SECOND).is_multiple_of(bits_per_second);
        let picoseconds =
            if whole { Some((8 * PS_PER_SECOND / bits_per_second) as u32) } else { None };
        // 100 Tbit/s at most, as the configuration has it; a static rate that is more limits nothing.
        let megabits = bits_per_second / 1_000_000;
        let megabits = if megabits > MOST as u64 { MOST } else { megabits as u32 };
        Self { bits_per_second, picoseconds, megabits }
    }

    /// In Mbit/s, rounded down: what a crossbar adds up.
    pub(super) const fn megabits(self) -> u32 {
        self.megabits
    }

    /// In bit/s.
    pub(super) const fn bits_per_second(self) -> u64 {
        self.bits_per_second
    }

    /// The transmission of `bytes`, rounded up to picoseconds.
    pub(super) const fn transmission(self, bytes: u16) -> u64 {
        match self.picoseconds {
            Some(each) => bytes as u64 * each as u64,
            None => (bytes as u64 * 8 * PS_PER_SECOND).div_ceil(self.bits_per_second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_at_400_gbit_takes_20_ps() {
        assert_eq!(Rate::new(400_000_000_000).transmission(1), 20);
        assert_eq!(Rate::new(54_545_454_544).transmission(3), 441);
        assert_eq!(Rate::new(1_000_000).transmission(u16::MAX), 524_280_000_000);
        assert!(Rate::new(1_000_000) < Rate::new(3_000_000));
        assert_eq!(ns(1), Time(1));
        assert_eq!(ns(2_000), Time(2));
        assert_eq!(ps(Time::MAX), NEVER);
    }
}
