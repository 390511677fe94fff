//! The operator's settings of the controller's core.

use serde::{Deserialize, Serialize};
pub use snin_protocol::view::Policy;
use snin_protocol::{Term, Time};

use crate::error::ConfigError;

/// Times, limits and policy of a controller. [`Config::default`] suits a fabric of some hundred hosts with
/// clocks synchronised to 10 us.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Which active controller this is, counted over all that there were. The first one's is 1: it knows
    /// that nothing was granted before. A later one waits until all that its predecessor may have granted
    /// has run out.
    pub term: Term,
    /// How long after the start grants of a predecessor may be in force. Default: as long as this one's own,
    /// or not at all where the term is the first.
    pub predecessor: Option<Time>,
    /// The length of a window.
    pub window: Time,
    /// How long before a window its grants are decided: several times what a message takes.
    pub lead: Time,
    /// For how many windows a connection is granted at once when no other connection wants its ports. A longer
    /// lease means fewer messages; a lost agent's links come back later.
    pub lease: u32,
    /// The furthest that an agent's clock is from the controller's.
    pub clock_error: Time,
    /// The longest that what has left a port is under way to its destination.
    pub drain: Time,
    /// Nothing is sent in the last `guard` before a grant's end, and its links are given anew only
    /// `guard` after it. At least `clock_error + drain`.
    pub guard: Time,
    /// What was not confirmed is said again after this.
    pub repeat: Time,
    /// An agent that was silent for so many windows is lost: what it asked for is forgotten.
    pub silence: u32,
    /// A request that has waited for so many windows goes before all others at its ports.
    pub overdue_after: u64,
    /// After so many windows without a tree a connection takes turns with those that have one.
    pub patience: u32,
    /// The most agents.
    pub agents: u32,
    /// The most connections.
    pub connections: u32,
    /// The most connections of one agent.
    pub connections_per_agent: u32,
    /// Is non-interference in effect?
    pub policy: Policy,
    /// What was declared for traffic classes. The controller keeps them for those who measure.
    pub bounds: Vec<Bound>,
}

/// A bound of interference: no flow of the class waits longer behind others inside the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bound {
    /// The traffic class, as agents name it in their requests; `None`: every class.
    pub class: Option<u8>,
    /// Which of the waits are meant.
    pub statistic: Statistic,
    /// The longest.
    pub limit: Time,
}

/// Which part of what was measured a bound is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Statistic {
    /// All of it: a deterministic bound.
    Max,
    /// 99 in 100: a statistical one.
    P99,
}

impl Default for Config {
    fn default() -> Self {
        let (clock_error, drain) = (Time::micros(10), Time::micros(10));
        Self {
            term: Term(1),
            predecessor: None,
            window: Time(16_666_667),
            lead: Time::millis(2),
            lease: 6,
            clock_error,
            drain,
            guard: clock_error + drain,
            repeat: Time::millis(1),
            silence: 60,
            overdue_after: 3600,
            patience: 8,
            agents: 1 << 16,
            connections: 1 << 20,
            connections_per_agent: 1 << 12,
            policy: Policy::default(),
            bounds: Vec::new(),
        }
    }
}

impl Config {
    /// Whether a controller can keep its promises with this.
    ///
    /// # Errors
    /// The first value that cannot work.
    pub fn check(&self) -> Result<(), ConfigError> {
        let counts = [
            ("lease", self.lease),
            ("silence", self.silence),
            ("agents", self.agents),
            ("connections", self.connections),
            ("connections_per_agent", self.connections_per_agent),
        ];
        if let Some((key, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(ConfigError::Zero(key));
        }
        if self.repeat == Time::ZERO {
            return Err(ConfigError::Zero("repeat"));
        }
        let needed = self.clock_error + self.drain;
        if self.guard < needed {
            return Err(ConfigError::Guard { guard: self.guard, needed });
        }
        // A window must hold its guards and some sending besides.
        let shortest = (self.lead + Time(1)).max(self.guard * 4);
        if self.window < shortest {
            return Err(ConfigError::Window { window: self.window, shortest });
        }
        Ok(())
    }

    /// The longest from the decision of a grant until its links are certain to be clear.
    pub fn longest_in_force(&self) -> Time {
        self.lead + self.window * u64::from(self.lease) + self.guard * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_named() {
        let good = Config::default();
        assert_eq!(good.check(), Ok(()));
        let bad = Config { lease: 0, ..good.clone() };
        assert_eq!(bad.check(), Err(ConfigError::Zero("lease")));
        let bad = Config { guard: Time::micros(19), ..good.clone() };
        let needed = Time::micros(20);
        assert_eq!(bad.check(), Err(ConfigError::Guard { guard: bad.guard, needed }));
        let bad = Config { window: Time::millis(2), ..good };
        let text = bad.check().unwrap_err().to_string();
        assert!(text.starts_with("`window` is 2ms"), "{text}");
    }
}
