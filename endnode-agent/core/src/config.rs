//! Configuration of a mesh: limits, times, and what to do when the controller falls silent.

use serde::{Deserialize, Serialize};
use snin_fabric::Guid;
use snin_protocol::Time;

/// Limits and times of a mesh. Everything that could grow has a limit here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The port that it sends from.
    pub port: Guid,
    /// Told to peers with every piece: greater after every restart of the agent, so that what comes from
    /// before it is known for old. Conversations with controllers are numbered from here.
    pub session: u64,
    /// The most queue pairs at a time.
    pub pairs: u32,
    /// The most flows from here; their numbers are smaller.
    pub flows: u32,
    /// The most peers that send to here.
    pub inbound_peers: u32,
    /// The most flows to here of each.
    pub inbound_flows: u32,
    /// The most messages that wait in one flow; more are refused.
    pub queue: u32,
    /// The most pieces that are posted on one queue pair at a time.
    pub depth: u32,
    /// The most bytes of one piece. Longer messages are cut: a piece is what a change of tree waits for.
    pub piece: u32,
    /// The most bytes of one packet: a piece that is cut short for want of time ends with a packet.
    pub mtu: u32,
    /// What goes over the wire with each packet besides its payload.
    pub overhead: u32,
    /// What the port sends, in bits per second: says how long a piece takes.
    pub rate: u64,
    /// Whether there is a controller that could be asked. Where there is none the controller counts as lost from
    /// the start: the core sends it no message and reports no loss.
    pub controller: bool,
    /// How far from the controller's time the own clock may be, if something keeps it there (PTP); `None`:
    /// the controller is asked.
    pub clock_error: Option<Time>,
    /// What the own clock may gain or lose on the controller's, in parts of a million.
    pub drift: u32,
    /// How often the controller is asked the time, which also tells it that the agent is there.
    pub ask_time: Time,
    /// The longest grant; a longer one is a mistake and refused.
    pub longest_grant: Time,
    /// How long after its completion a piece may be on its way: zero where the completion says that it has
    /// arrived (RC), the longest path where it says that it has left (UC, UD).
    pub settle: Time,
    /// How long after its last byte a piece completes at the latest while all is well: the longest path and
    /// the way back of the acknowledgement (RC), zero (UC, UD).
    pub acknowledgement: Time,
    /// A piece that has not completed for this long never will: the queue pair is given up. The heartbeat
    /// of our own, since devices may try for ever.
    pub stall: Time,
    /// How long a queue pair may take to be connected.
    pub connect: Time,
    /// The pause before a broken queue pair is made anew. It doubles with each failure.
    pub reconnect: Time,
    /// The longest such pause.
    pub reconnect_most: Time,
    /// How long the agent waits for an answer before it repeats a message.
    pub ask_again: Time,
    /// A request that was refused is made again after this.
    pub ask_refused: Time,
    /// A connection that nothing is sent on is given back after this.
    pub linger: Time,
    /// A controller not heard of for this long is lost.
    pub silence: Time,
    /// What to do then.
    pub loss: LossPolicy,
    /// Latency histogram of each flow; `None`: none is kept.
    pub histogram: Option<HistogramShape>,
}

/// What flows without a valid grant do while no controller is heard.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub enum LossPolicy {
    /// Nothing: a promise once made to others is kept.
    #[default]
    Silent,
    /// They send to base addresses, as all traffic without a grant does.
    BestEffort,
}

/// How finely latencies are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HistogramShape {
    /// Significant decimal digits, 1 to 5.
    pub digits: u8,
    /// The longest latency told apart; longer ones are recorded as this.
    pub longest: Time,
}

/// A configuration that cannot work, with the value that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// Nothing could ever be sent.
    #[error("{0} is 0, and so nothing could ever be sent")]
    Zero(&'static str),
    /// The histogram would not know its digits.
    #[error("a histogram has 1 to 5 significant digits, not {0}")]
    Digits(u8),
    /// Two values shorter than a microsecond leave a histogram no room.
    #[error("a histogram up to {0} tells nothing apart")]
    Longest(Time),
    /// A limit beyond what the tables are made for.
    #[error("{0} is {1}, more than {2}")]
    TooMany(&'static str, u32, u32),
}

/// What is posted at once for a link that is slower than the port: as much as the link carries in this time.
const PACED: Time = Time::micros(20);

/// The bytes that a link of `rate` bit/s carries in `time`, rounded down.
pub(crate) fn carried(rate: u64, time: Time) -> u64 {
    let bytes = u128::from(time.nanos()) * u128::from(rate) / 8_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Tables are made at the start, as long as the limits say.
const MOST: u32 = 1 << 24;

impl Default for Config {
    /// 100 Gbit/s, windows of 1/60 s, reliable connections.
    fn default() -> Self {
        Self {
            port: Guid(0),
            session: 0,
            pairs: 1024,
            flows: 256,
            inbound_peers: 1024,
            inbound_flows: 256,
            queue: 1024,
            depth: 64,
            piece: 256 << 10,
            mtu: 4096,
            overhead: 40,
            rate: 100_000_000_000,
            controller: true,
            clock_error: None,
            drift: 100,
            ask_time: Time::millis(100),
            longest_grant: Time::secs(60),
            settle: Time::ZERO,
            acknowledgement: Time::micros(50),
            stall: Time::secs(1),
            connect: Time::secs(1),
            reconnect: Time::millis(10),
            reconnect_most: Time::secs(1),
            ask_again: Time::millis(50),
            ask_refused: Time::secs(1),
            linger: Time::millis(200),
            silence: Time::millis(500),
            loss: LossPolicy::Silent,
            histogram: Some(HistogramShape { digits: 3, longest: Time::secs(60) }),
        }
    }
}

impl Config {
    /// Whether a mesh can be made from this.
    ///
    /// # Errors
    /// The first value that cannot work.
    pub fn check(&self) -> Result<(), ConfigError> {
        let counts = [
            ("pairs", self.pairs),
            ("flows", self.flows),
            ("queue", self.queue),
            ("depth", self.depth),
            ("piece", self.piece),
            ("mtu", self.mtu),
        ];
        if let Some((name, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(ConfigError::Zero(name));
        }
        if self.rate == 0 {
            return Err(ConfigError::Zero("rate"));
        }
        let tables = [
            ("pairs", self.pairs),
            ("flows", self.flows),
            ("inbound_peers", self.inbound_peers),
            ("inbound_flows", self.inbound_flows),
            (
                "inbound_peers * inbound_flows",
                self.inbound_peers.saturating_mul(self.inbound_flows),
            ),
        ];
        if let Some((name, count)) = tables.into_iter().find(|&(_, count)| count > MOST) {
            return Err(ConfigError::TooMany(name, count, MOST));
        }
        match self.histogram {
            Some(shape) if !(1..=5).contains(&shape.digits) => {
                Err(ConfigError::Digits(shape.digits))
            }
            Some(shape) if shape.longest < Time::micros(1) => {
                Err(ConfigError::Longest(shape.longest))
            }
            _ => Ok(()),
        }
    }

    /// The bytes on the wire of a piece with `bytes` of payload.
    pub fn wire(&self, bytes: u64) -> u64 {
        let mtu = u64::from(self.mtu);
        // Most pieces are one packet, and dividing is slow.
        let packets = if bytes <= mtu { 1 } else { bytes.div_ceil(mtu) };
        bytes.saturating_add(packets.saturating_mul(self.overhead.into()))
    }

    /// The bytes that the port sends in `time`, rounded down.
    pub fn sendable(&self, time: Time) -> u64 {
        carried(self.rate, time)
    }

    /// The most bytes of a piece that goes at `pace` bit/s: so much piles up before a slow link.
    pub(crate) fn paced_piece(&self, pace: u64) -> u32 {
        let packets = carried(pace, PACED) / u64::from(self.mtu + self.overhead);
        let bytes = packets.max(1) * u64::from(self.mtu);
        u32::try_from(bytes).unwrap_or(u32::MAX).min(self.piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_has_its_overhead() {
        let config = Config { mtu: 4096, overhead: 40, ..Config::default() };
        assert_eq!(config.wire(0), 40);
        assert_eq!(config.wire(4096), 4136);
        assert_eq!(config.wire(4097), 4177);
    }

    #[test]
    fn the_rate_says_what_fits() {
        let config = Config { rate: 100_000_000_000, ..Config::default() };
        assert_eq!(config.sendable(Time(328)), 4100);
        assert_eq!(config.sendable(Time::MAX), u64::MAX);
    }

    #[test]
    fn what_cannot_work_is_named() {
        assert_eq!(Config::default().check(), Ok(()));
        let bad = Config { depth: 0, ..Config::default() };
        assert_eq!(bad.check(), Err(ConfigError::Zero("depth")));
        let shape = HistogramShape { digits: 9, longest: Time::secs(1) };
        let bad = Config { histogram: Some(shape), ..Config::default() };
        assert_eq!(bad.check(), Err(ConfigError::Digits(9)));
        let bad = Config { flows: u32::MAX, ..Config::default() };
        assert_eq!(bad.check(), Err(ConfigError::TooMany("flows", u32::MAX, MOST)));
    }
}
