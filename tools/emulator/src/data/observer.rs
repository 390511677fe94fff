//! An observer sees everything that happens.

use snin_fabric::PortIndex;
use snin_protocol::Time;

use super::message::MessageId;

/// One packet on one directed link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// The port that sends.
    pub port: PortIndex,
    /// The VL.
    pub vl: u8,
    /// The message that the packet is part of, or acknowledges.
    pub message: MessageId,
    /// That message's flow.
    pub flow: u32,
    /// Whether it is an acknowledgement, which goes against the flow's direction.
    pub acknowledgement: bool,
    /// From local route header to VCRC.
    pub bytes: u16,
    /// When the first byte leaves, rounded down to nanoseconds.
    pub begin: Time,
    /// When the last byte has left, rounded up.
    pub end: Time,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropReason {
    /// The switch's table has no port for its DLID, or one without a cable, or port 0.
    NoRoute,
    /// The switch would send it back where it came from.
    Looping,
    /// The cable it should have left by is cut.
    PortDown,
    /// A port on its way is not Active.
    Inactive,
    /// It was on a cable when that was cut.
    Damaged,
    /// It came to an end port that has another address.
    Stranger,
    /// A port's tables have no lane for its service level.
    NoLane,
    /// An acknowledgement too many waits at the adapter.
    NoRoom,
}

/// A packet that was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// The port that counts it.
    pub port: PortIndex,
    /// The VL.
    pub vl: u8,
    /// The message that the packet is part of, or acknowledges.
    pub message: MessageId,
    /// Whether it is an acknowledgement.
    pub acknowledgement: bool,
    /// Why.
    pub reason: DropReason,
    /// When, rounded up.
    pub at: Time,
}

/// A data packet that waited in a switch, beyond the switch's delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The port that it waited for.
    pub port: PortIndex,
    /// The VL.
    pub vl: u8,
    /// The message that it is part of.
    pub message: MessageId,
    /// That message's flow.
    pub flow: u32,
    /// For how long, rounded up.
    pub here: Time,
    /// With what it had waited in switches before, rounded up.
    pub altogether: Time,
    /// When it began to be sent, rounded down.
    pub at: Time,
}

/// Told of everything as it happens, in order of time. Each method does nothing unless implemented.
pub trait Observer {
    /// A packet is sent on a directed link.
    fn transmitted(&mut self, transmission: &Transmission) {
        let _ = transmission;
    }

    /// A data packet had to wait, and is sent now.
    fn waited(&mut self, wait: &Wait) {
        let _ = wait;
    }

    /// A message's last packet begins to be sent by its source: all of it has left `at` that time.
    fn sent(&mut self, message: MessageId, at: Time) {
        let _ = (message, at);
    }

    /// The acknowledgement of a message's last packet is back at its source.
    fn acknowledged(&mut self, message: MessageId, at: Time) {
        let _ = (message, at);
    }

    /// A message's last byte is there.
    fn completed(&mut self, message: MessageId, at: Time) {
        let _ = (message, at);
    }

    /// A packet is no more.
    fn dropped(&mut self, dropped: &Dropped) {
        let _ = dropped;
    }

    /// Whether the run is to stop when everything of this instant has happened.
    fn has_enough(&self) -> bool {
        false
    }
}

/// An observer that sees nothing.
impl Observer for () {}
