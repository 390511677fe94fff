//! The own clock, by which cores are told the time.

use rustix::time::{ClockId, Timespec, clock_gettime};
use snin_protocol::Time;

/// Counts nanoseconds from its start on; copies show the same.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
}

impl Clock {
    /// The machine's monotonic clock, which all processes of the machine share.
    pub const fn system() -> Self {
        Self { start: 0 }
    }

    /// Begins with 0.
    pub fn start() -> Self {
        Self::start_at(Time::ZERO)
    }

    /// Begins with `at`.
    pub fn start_at(at: Time) -> Self {
        Self { start: monotonic().wrapping_sub(at.nanos()) }
    }

    /// What it shows. It is asked with every message, so without the detour of [`std::time::Instant`] through a
    /// length of time in two numbers.
    #[inline]
    pub fn now(self) -> Time {
        Time(monotonic().wrapping_sub(self.start))
    }
}

#[inline]
fn monotonic() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec as u64 * 1_000_000_000 + tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_where_it_is_told_and_never_goes_back() {
        let clock = Clock::start_at(Time::secs(7));
        let shown: Vec<Time> = (0..1000).map(|_| clock.now()).collect();
        assert!(shown[0] >= Time::secs(7) && shown[999] < Time::secs(60));
        assert!(shown.is_sorted());
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(clock.now() >= shown[999] + Time::millis(2));
    }
}
