//! The plan of a measurement, as the client tells it to the server.

use serde::{Deserialize, Serialize};
use snin_verbs::Transport;

use super::LatError;

/// The wire format of [`exchange`](super::exchange); another one is not understood.
pub const VERSION: u32 = 1;
/// The longest message.
pub const LONGEST: usize = 8 << 20;
/// The most flows.
pub const MOST_FLOWS: usize = 256;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Into a receive of the peer's.
    Send,
    /// Into the peer's memory; latency is told by memory that changes, as perftest does.
    Write,
    /// Out of the peer's memory.
    Read,
}

/// How it is carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagrams.
    Ud,
}

impl From<Carrier> for Transport {
    fn from(carrier: Carrier) -> Self {
        match carrier {
            Carrier::Rc => Self::Rc,
            Carrier::Uc => Self::Uc,
            Carrier::Ud => Self::Ud,
        }
    }
}

/// When messages are sent.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// The next one when the answer to the last has come: half the round trip is told (of reads, all of it).
    PingPong,
    /// So many a second on each flow at fixed times. Latency is counted from when a message should have been
    /// sent to its acknowledgement, so that a path that is held up does not hide it.
    Open {
        /// Messages a second.
        rate: f64,
    },
    /// As many as the queue holds.
    Bandwidth,
}

/// One measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// [`VERSION`].
    pub version: u32,
    /// What.
    pub operation: Operation,
    /// By which kind of queue pair.
    pub carrier: Carrier,
    /// When.
    pub pattern: Pattern,
    /// Bytes of a message.
    pub size: usize,
    /// Messages of each flow that are measured.
    pub iterations: u64,
    /// Messages of each flow before these.
    pub warm_up: u64,
    /// Which of the peer's addresses each flow goes to, counted from the base address: so many flows.
    pub offsets: Vec<u16>,
    /// Messages up to this length are copied when posted, if the device can.
    pub inline: u32,
    /// How many may be posted at a time.
    pub depth: u32,
    /// Service level.
    pub level: u8,
    /// Beside them writes of so many bytes run as fast as they can.
    pub congestor: Option<usize>,
}

impl Plan {
    /// Whether it can be measured at all.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn check(&self) -> Result<(), LatError> {
        let plan = |what: String| Err(LatError::Plan(what));
        let Self { version, operation, carrier, pattern, size, iterations, offsets, depth, .. } =
            self;
        if *version != VERSION {
            return plan(format!("the peer's version is {version}, this is {VERSION}"));
        }
        if !(1..=LONGEST).contains(size) {
            return plan(format!("a message has 1 to {LONGEST} bytes, not {size}"));
        }
        if *iterations == 0 || *depth == 0 || *depth > 4096 {
            return plan(format!("{iterations} messages with {depth} at a time (1 to 4096)"));
        }
        if !(1..=MOST_FLOWS).contains(&offsets.len()) {
            return plan(format!("{} flows: there can be 1 to {MOST_FLOWS}", offsets.len()));
        }
        match (operation, carrier) {
            (Operation::Read, Carrier::Uc | Carrier::Ud) => {
                return plan("only reliable connections can read".to_owned());
            }
            (Operation::Write, Carrier::Ud) => return plan("datagrams cannot write".to_owned()),
            _ => {}
        }
        match *pattern {
            Pattern::Open { .. } if *carrier != Carrier::Rc => {
                plan("an open loop counts until the acknowledgement: only RC has one".to_owned())
            }
            Pattern::Open { rate } if !(rate > 0.0 && rate <= 1e9) => {
                plan(format!("{rate} messages a second"))
            }
            _ => Ok(()),
        }
    }

    /// Messages of each flow in all.
    pub const fn messages(&self) -> u64 {
        self.iterations + self.warm_up
    }

    /// How many messages may be under way on a flow.
    pub fn window(&self) -> u32 {
        self.depth.min(self.fit())
    }

    /// How many receives are posted on a flow before the first message. Where each is answered before the next one
    /// comes it is few, which stay in the caches; else perftest's number, or all that come. Of long ones it is
    /// fewer: many flows have one completion queue, with an entry for each.
    pub fn receives(&self) -> u32 {
        const ANSWERED: u32 = 4;
        const AHEAD: u32 = 512;
        let ahead = if self.is_answered() { ANSWERED } else { AHEAD.max(self.depth) };
        let all = u32::try_from(self.messages()).unwrap_or(u32::MAX);
        ahead.min(self.fit()).min(all).max(2)
    }

    /// Messages of a flow that are posted at a time at most, so that their bytes are few.
    fn fit(&self) -> u32 {
        const MEMORY: usize = 16 << 20;
        (MEMORY / self.size).max(2) as u32
    }

    /// Whether the server answers each message with one as long.
    pub const fn is_answered(&self) -> bool {
        matches!(self.pattern, Pattern::PingPong) && !matches!(self.operation, Operation::Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(operation: Operation, pattern: Pattern, size: usize, iterations: u64) -> Plan {
        Plan {
            version: VERSION,
            operation,
            carrier: Carrier::Rc,
            pattern,
            size,
            iterations,
            warm_up: 0,
            offsets: vec![0],
            inline: 0,
            depth: 128,
            level: 0,
            congestor: None,
        }
    }

    #[test]
    fn what_is_answered_has_few_receives_and_what_is_not_has_many_as_far_as_they_fit() {
        let receives =
            |pattern, size, iterations| plan(Operation::Send, pattern, size, iterations).receives();
        for size in [1, 64, 4096, 1 << 20] {
            assert_eq!(receives(Pattern::PingPong, size, 1000), 4, "{size}");
        }
        assert_eq!(receives(Pattern::PingPong, LONGEST, 1000), 2);
        assert_eq!(receives(Pattern::PingPong, 64, 1), 2);
        for pattern in [Pattern::Bandwidth, Pattern::Open { rate: 1e3 }] {
            assert_eq!(receives(pattern, 64, 1000), 512);
            assert_eq!(receives(pattern, 1 << 20, 1000), 16);
            assert_eq!(receives(pattern, 64, 100), 100);
        }
    }
}
