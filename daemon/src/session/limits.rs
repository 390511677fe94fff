//! Limits on the cost of a peer.

use std::time::{Duration, Instant};

/// How long one of several that would do is waited for.
const BRIEF: Duration = Duration::from_secs(2);

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most sessions of a listener.
    pub sessions: usize,
    /// The most callers that have not greeted yet; the one that takes longest gives way to the next.
    pub handshakes: usize,
    /// A caller that has not greeted by then is cut off; a called end that has not answered is called again.
    pub handshake: Duration,
    /// A peer that says nothing for so long is gone; after a third of it it is asked whether it is there.
    pub idle: Duration,
    /// The most bytes that wait for a peer that does not read.
    pub backlog: usize,
    /// Frames of a peer in a second; what is more waits in its own socket.
    pub rate: u32,
    /// Frames of a peer at once.
    pub burst: u32,
    /// Frames of all peers that wait for the daemon.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 4096,
            handshakes: 256,
            handshake: Duration::from_secs(5),
            idle: Duration::from_secs(30),
            backlog: 512 << 10,
            rate: 2_000,
            burst: 2_000,
            waiting: 1_024,
        }
    }
}

impl Limits {
    /// For who may call another one instead, and so waits for none for long.
    pub fn of_several() -> Self {
        Self { handshake: BRIEF, idle: BRIEF, ..Self::default() }
    }
}

/// Frames that a peer may still send.
#[derive(Debug)]
pub(super) struct Pace {
    rate: f64,
    burst: f64,
    left: f64,
    at: Instant,
}

impl Pace {
    pub(super) fn new(limits: &Limits, now: Instant) -> Self {
        let (rate, burst) = (f64::from(limits.rate.max(1)), f64::from(limits.burst.max(1)));
        Self { rate, burst, left: burst, at: now }
    }

    /// One frame more; how long to wait before the next is read.
    pub(super) fn spend(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = passed.mul_add(self.rate, self.left).min(self.burst) - 1.0;
        self.at = now;
        // A pause is worth a timer: it lasts for a share of the burst.
        (self.left < 0.0)
            .then(|| Duration::from_secs_f64((self.burst / 16.0 - self.left) / self.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_more_than_its_rate_waits() {
        let limits = Limits { rate: 100, burst: 16, ..Limits::default() };
        let start = Instant::now();
        let mut pace = Pace::new(&limits, start);
        let free = (0..100).take_while(|_| pace.spend(start).is_none()).count();
        assert_eq!(free, 16);
        let later = start + Duration::from_secs(1);
        assert_eq!(pace.spend(later), None, "it has earned its burst again");
    }
}
