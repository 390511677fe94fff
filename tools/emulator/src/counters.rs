//! Counters of a port (IBA 16.1.3.5, 16.1.4.11).

/// Counters of one port since its node was switched on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Sent, in units of 4 bytes.
    pub transmit_data: u64,
    /// Received, in units of 4 bytes.
    pub receive_data: u64,
    /// Packets sent.
    pub transmit_packets: u64,
    /// Packets received.
    pub receive_packets: u64,
    /// Minor link errors.
    pub symbol_errors: u64,
    /// Times that the link went down.
    pub link_downed: u64,
    /// Packets with errors.
    pub receive_errors: u64,
    /// Packets that the switch could not forward.
    pub receive_switch_relay_errors: u64,
    /// Packets that could not leave: the port was down, or not active and the packet no SMP.
    pub transmit_discards: u64,
    /// SMPs dropped for want of room.
    pub vl15_dropped: u64,
    /// GMPs dropped for want of room.
    pub qp1_dropped: u64,
}

/// Without the two check sums of the link's own: LRH 8, BTH 12, DETH 8, MAD 256, ICRC 4 bytes, in words of 4.
const WORDS: u64 = (8 + 12 + 8 + 256 + 4) / 4;

impl Counters {
    pub(crate) const fn sent(&mut self) {
        self.transmit_packets += 1;
        self.transmit_data += WORDS;
    }

    pub(crate) const fn received(&mut self) {
        self.receive_packets += 1;
        self.receive_data += WORDS;
    }

    /// Counter by counter, what was added since `base`.
    pub(crate) fn since(&self, base: &Self) -> Self {
        self.with(base, u64::wrapping_sub)
    }

    /// Counter by counter, both together.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    fn with(&self, other: &Self, op: fn(u64, u64) -> u64) -> Self {
        macro_rules! each {
            ($($field:ident)*) => { Self { $($field: op(self.$field, other.$field)),* } };
        }
        each!(
            transmit_data receive_data transmit_packets receive_packets symbol_errors link_downed
            receive_errors receive_switch_relay_errors transmit_discards vl15_dropped qp1_dropped
        )
    }
}
