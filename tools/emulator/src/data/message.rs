//! Messages: what adapters are asked to send.

use std::ops::Range;

use snin_fabric::{Lid, PortIndex};
use snin_protocol::Time;

use super::clock::{NEVER, Rate, ns, ps};

/// Most messages of a network's life.
pub(super) const MAX_MESSAGES: usize = 1 << 26;

/// A message, in the order of being sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageId(pub u32);

/// What is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Transport {
    /// Unreliable connection: nothing.
    #[default]
    Uc,
    /// Reliable connection: every few packets, and the last.
    Rc,
}

/// Something to send. [`Message::new`] gives the rest; all of it may be changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// An adapter's or router's port.
    pub source: PortIndex,
    /// The address, which chooses the way.
    pub destination: Lid,
    /// Payload; 0 is one packet without any.
    pub bytes: u64,
    /// When it can be sent; a time that has passed is now.
    pub start: Time,
    /// Packets begin in it only, [from, until). What is left then is never sent.
    pub window: Option<Range<Time>>,
    /// The service level of its packets, of which tables make a VL.
    pub sl: u8,
    /// Bit/s at which the adapter paces it, as a static rate does (IBA 9.11): its packets begin no sooner after
    /// each other than they would on a link of that rate. `None` is the port's own.
    pub rate: Option<u64>,
    /// Any number; observers see it.
    pub flow: u32,
    /// What is acknowledged.
    pub transport: Transport,
    /// Whether [statistics](super::Statistics) leave the message out, as background traffic.
    pub background: bool,
}

impl Message {
    /// At once, in any time, at service level 0, flow 0, without acknowledgements.
    pub const fn new(source: PortIndex, destination: Lid, bytes: u64) -> Self {
        Self {
            source,
            destination,
            bytes,
            start: Time::ZERO,
            window: None,
            sl: 0,
            rate: None,
            flow: 0,
            transport: Transport::Uc,
            background: false,
        }
    }
}

/// A message that cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// A switch's port, port 0, one without a cable, or none of this network.
    #[error("port {} is no end port with a cable", .0.0)]
    NotAnEndPort(PortIndex),
    /// Neither a unicast address nor, for what is not acknowledged, that of a group with members.
    #[error("LID {0} is neither a unicast address nor a group's that this message could go to")]
    NoDestination(Lid),
    /// Its source's port discards the service level.
    #[error("service level {0} has no lane at its source's port")]
    NoLane(u8),
    /// Below 1 Mbit/s.
    #[error("{0} bit/s is no rate of a message (1e6 at least)")]
    Rate(u64),
    /// A limit.
    #[error("{MAX_MESSAGES} messages were sent; a network carries no more")]
    TooMany,
}

/// How far a message has come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Payload sent, in bytes.
    pub sent: u64,
    /// Payload that arrived; of a message to a group, at all members together.
    pub delivered: u64,
    /// Data packets dropped.
    pub lost: u64,
    /// When its last byte arrived, at the last of its receivers, rounded up.
    pub completed: Option<Time>,
    /// How many times longer than in an idle fabric it took from its start, or the opening of its window.
    /// `None` before completion, and where the tables led nowhere when it began.
    pub slowdown: Option<f64>,
}

/// A message being sent. Times in picoseconds.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) port: u32,
    pub(super) dlid: u16,
    pub(super) sl: u8,
    /// At its source.
    pub(super) vl: u8,
    pub(super) acknowledged: bool,
    pub(super) background: bool,
    pub(super) flow: u32,
    pub(super) bytes: u64,
    mtu: u16,
    /// Packets in all.
    pub(super) packets: u64,
    /// Packets sent.
    pub(super) sent: u64,
    /// How many get it.
    pub(super) receivers: u64,
    /// Copies that switches made of its packets.
    pub(super) copied: u64,
    /// Packets that arrived.
    pub(super) arrived: u64,
    /// Packets dropped.
    pub(super) lost: u64,
    /// Payload that arrived.
    pub(super) delivered: u64,
    pub(super) begin: u64,
    pub(super) until: u64,
    /// Its static rate, and when by that its next packet may begin.
    pub(super) pace: Option<Rate>,
    pub(super) paced_until: u64,
    pub(super) completed: u64,
    /// What it would take in an idle fabric.
    pub(super) idle: Option<u64>,
}

impl Transfer {
    pub(super) fn new(message: &Message, mtu: u16, now: u64) -> Self {
        let window = message.window.clone().unwrap_or(Time::ZERO..Time::MAX);
        Self {
            port: message.source.0,
            dlid: message.destination.0,
            sl: message.sl,
            vl: 0,
            acknowledged: message.transport == Transport::Rc,
            background: message.background,
            flow: message.flow,
            bytes: message.bytes,
            mtu,
            packets: message.bytes.div_ceil(u64::from(mtu)).max(1),
            sent: 0,
            receivers: 1,
            copied: 0,
            arrived: 0,
            lost: 0,
            delivered: 0,
            begin: ps(message.start.max(window.start)).max(now),
            until: ps(window.end),
            pace: message.rate.map(Rate::new),
            paced_until: 0,
            completed: NEVER,
            idle: None,
        }
    }

    /// Payload of packet `number`, from 0.
    pub(super) fn payload(&self, number: u64) -> u16 {
        let mtu = u64::from(self.mtu);
        // The last packet holds what is left, at most an MTU.
        if number + 1 < self.packets { self.mtu } else { (self.bytes - number * mtu) as u16 }
    }

    /// Whether nothing is left to send.
    pub(super) const fn is_sent(&self) -> bool {
        self.sent == self.packets
    }

    pub(super) fn progress(&self) -> Progress {
        let done = self.completed != NEVER;
        let took = self.completed.wrapping_sub(self.begin);
        let slowdown = self.idle.filter(|_| done).map(|idle| took as f64 / idle as f64);
        Progress {
            sent: (self.sent * u64::from(self.mtu)).min(self.bytes),
            delivered: self.delivered,
            lost: self.lost,
            completed: done.then(|| ns(self.completed)),
            slowdown,
        }
    }
}
