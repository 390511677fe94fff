//! Counters of a port for each VL (IBA 16.1.3.5, 16.1.4).

use snin_protocol::Time;

use super::clock::ns;
use super::link::{Lane, Troubles};

/// Counters of one port and VL since the network was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Bytes sent, from local route header to VCRC.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets that could not leave by this port: its cable is cut, or its queue full (PortXmitDiscards).
    pub discards: u64,
    /// Packets that came in and had nowhere to go (PortRcvSwitchRelayErrors).
    pub relay_errors: u64,
    /// Packets that came in damaged, or for another port (PortRcvErrors).
    pub receive_errors: u64,
    /// How long the port sent nothing although this VL had packets, for want of credits or because the
    /// inputs that hold them were busy (PortXmitWait).
    pub xmit_wait: Time,
}

impl Counters {
    pub(super) const fn new(lane: &Lane, troubles: &Troubles) -> Self {
        Self {
            bytes: lane.bytes,
            packets: lane.packets,
            discards: troubles.discards,
            relay_errors: troubles.relay_errors,
            receive_errors: troubles.receive_errors,
            xmit_wait: ns(troubles.stalled),
        }
    }
}
