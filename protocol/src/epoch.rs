//! Windows counted, controllers counted, conversations counted.

use std::fmt;

use crate::Time;
use serde::{Deserialize, Serialize};

/// A time window's number: the controller's nanoseconds divided by the window's length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch that `now` lies in. A window of no length counts as one nanosecond.
    pub fn of(now: Time, window: Time) -> Self {
        Self(now.0 / window.0.max(1))
    }

    /// When it begins.
    pub fn start(self, window: Time) -> Time {
        window * self.0
    }

    /// When it ends and the next one begins.
    pub fn end(self, window: Time) -> Time {
        self.after(1).start(window)
    }

    /// The one `windows` later.
    pub const fn after(self, windows: u64) -> Self {
        Self(self.0.saturating_add(windows))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Rises with every new active controller. What a smaller term granted is refused by an agent that has heard
/// of a greater one.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct Term(pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One conversation of an agent with a controller. The agent chooses the number, greater each time that it
/// begins anew: after a restart, or when a controller does not know it.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct Session(pub u64);

/// An agent's own number for a connection.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct ConnectionNumber(pub u32);

impl fmt::Display for ConnectionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_tile_time() {
        let window = Time(16_666_667);
        for epoch in [0, 1, 60, 1 << 40].map(Epoch) {
            let (start, end) = (epoch.start(window), epoch.end(window));
            assert_eq!(Epoch::of(start, window), epoch);
            assert_eq!(Epoch::of(end - Time(1), window), epoch);
            assert_eq!(Epoch::of(end, window), epoch.after(1));
        }
        assert_eq!(Epoch::of(Time(7), Time::ZERO), Epoch(7));
    }
}
