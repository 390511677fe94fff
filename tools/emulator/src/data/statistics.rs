//! Statistics of a run.

use hdrhistogram::Histogram;

/// Significant digits of a histogram.
const DIGITS: u8 = 3;
/// Nanoseconds, 18 minutes, or thousandths; more is counted as this.
const MOST: u64 = 1 << 40;
/// Slow-downs are counted in thousandths.
const THOUSANDTHS: u128 = 1_000;

/// Counted since the network was made, or [taken](super::Network::take_statistics).
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Of each data packet that arrived: how long it waited in switches, beyond its own transmission and
    /// the switches' delay.
    pub queueing_ns: Histogram<u64>,
    /// Of each data packet that arrived: from its turn at the adapter, whose wait for credits counts, to
    /// its last byte.
    pub latency_ns: Histogram<u64>,
    /// Of each message that was completed: its time from its start, or the opening of its window, in
    /// thousandths of what it would take in an idle fabric.
    pub slowdown_thousandths: Histogram<u64>,
    /// Data packets that arrived.
    pub packets: u64,
    /// Payload that arrived, in bytes.
    pub bytes: u64,
    /// Acknowledgements that arrived.
    pub acknowledgements: u64,
    /// Packets dropped, acknowledgements included.
    pub dropped: u64,
    /// Packets sent on any directed link, acknowledgements included: packet-hops.
    pub transmissions: u64,
}

impl Statistics {
    pub(super) fn new() -> Self {
        // The bounds are constants that fit each other.
        let histogram = || Histogram::new_with_max(MOST, DIGITS).expect("bounds that fit");
        Self {
            queueing_ns: histogram(),
            latency_ns: histogram(),
            slowdown_thousandths: histogram(),
            packets: 0,
            bytes: 0,
            acknowledgements: 0,
            dropped: 0,
            transmissions: 0,
        }
    }

    pub(super) fn arrived(&mut self, payload: u16, waited_ns: u64, latency_ns: u64) {
        self.packets += 1;
        self.bytes += u64::from(payload);
        self.queueing_ns.saturating_record(waited_ns);
        self.latency_ns.saturating_record(latency_ns);
    }

    /// Records how much longer than `idle` a message took.
    pub(super) fn completed(&mut self, took: u64, idle: u64) {
        let scaled = u128::from(took) * THOUSANDTHS;
        let ratio = (scaled + u128::from(idle / 2)) / u128::from(idle.max(1));
        self.slowdown_thousandths.saturating_record(u64::try_from(ratio).unwrap_or(MOST));
    }
}
