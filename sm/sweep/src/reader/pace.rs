//! So many SMPs a second at most: the kept manager's own have to find room beside them.

use snin_protocol::Time;

/// What may be sent at once of what was not sent before.
const BURST: Time = Time::millis(10);

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Pace {
    /// Between two.
    apart: Time,
    /// When the next may be sent.
    pub(super) next: Time,
}

impl Pace {
    pub(super) fn new(a_second: u32) -> Self {
        Self { apart: Time(1_000_000_000 / u64::from(a_second.max(1))), next: Time::ZERO }
    }

    pub(super) fn allows(&self, now: Time) -> bool {
        self.next <= now
    }

    pub(super) fn sent(&mut self, now: Time) {
        self.next = self.next.max(Time(now.0.saturating_sub(BURST.0))) + self.apart;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_sent_in_a_second_than_may_be() {
        let mut pace = Pace::new(500);
        let mut sent = 0;
        for now in (0..1_000_000).map(Time::micros) {
            while pace.allows(now) {
                pace.sent(now);
                sent += 1;
            }
        }
        assert!((500..=506).contains(&sent), "{sent}");
    }
}
