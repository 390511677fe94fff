//! A port: where it is, whether it sends.

use snin_fabric::{LinkRate, PortIndex, Topology};

use super::arbiter::Arbiter;
use super::clock::NEVER;
use super::config::Config;

/// Nothing at the other end.
pub(super) const NO_PORT: u32 = u32::MAX;

/// Which data packets a port lets pass: PortInfo:PortState says so (IBA 7.2.7).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Passage {
    /// None, as in Initialize: what comes in and what is to leave is discarded.
    Closed,
    /// What comes in, as in Armed; what is to leave is discarded.
    Inward,
    /// All, as in Active.
    #[default]
    Open,
}

/// Whether a port's cable is whole, and what it lets pass: one byte, for the sake of the port's size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link(u8);

impl Link {
    const UP: u8 = 1;
    const CLOSED: u8 = 2;
    const INWARD: u8 = 4;

    const fn new(up: bool) -> Self {
        Self(up as u8)
    }

    pub(super) const fn is_up(self) -> bool {
        self.0 & Self::UP != 0
    }

    pub(super) const fn set_up(&mut self, up: bool) {
        self.0 = self.0 & !Self::UP | up as u8;
    }

    const fn passage(self) -> Passage {
        match self.0 & (Self::CLOSED | Self::INWARD) {
            0 => Passage::Open,
            Self::INWARD => Passage::Inward,
            _ => Passage::Closed,
        }
    }

    pub(super) const fn set_passage(&mut self, passage: Passage) {
        self.0 = self.0 & Self::UP
            | match passage {
                Passage::Open => 0,
                Passage::Inward => Self::INWARD,
                Passage::Closed => Self::CLOSED,
            };
    }
}

/// Times in picoseconds. One line of a processor's cache: large fabrics are as fast as memory is.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Port {
    /// The port at the other end of the cable.
    pub(super) peer: u32,
    /// Port 0 of its node.
    pub(super) first: u32,
    /// Its switch, or its place among the end ports.
    pub(super) place: u32,
    pub(super) number: u8,
    /// Number of the last port of its node.
    pub(super) last: u8,
    /// Among the network's rates.
    pub(super) rate: u8,
    pub(super) of_switch: bool,
    pub(super) to_switch: bool,
    pub(super) link: Link,
    /// The port sends, or has sent and its end has not been noticed yet.
    pub(super) busy: bool,
    /// There will be an event when it has sent.
    pub(super) planned: bool,
    /// Has to decide what to send before time goes on.
    pub(super) undecided: bool,
    /// The input and VL of the buffer that it sends from, while busy.
    pub(super) input: u8,
    pub(super) vl: u8,
    /// The DLID of the last packet that came in here, and the number of the port that the switch's table has
    /// for it: who comes after it mostly goes the same way. DLID 0, which no packet has, where none came.
    pub(super) asked: u16,
    pub(super) answer: u8,
    /// VLs that had packets when it last found nothing to send.
    pub(super) stalled: u16,
    /// When it has sent the last byte so far.
    pub(super) busy_until: u64,
    /// The next time that it is woken.
    pub(super) wake_at: u64,
    pub(super) arbiter: Arbiter,
}

const _: () = assert!(size_of::<Port>() == 64);

impl Port {
    pub(super) fn new(topology: &Topology, index: PortIndex, place: u32, rate: u8) -> Self {
        let node = topology.port(index).node;
        let peer = topology.peer(index);
        Self {
            peer: peer.map_or(NO_PORT, |peer| peer.0),
            first: topology.port0(node).0,
            place,
            number: topology.num(index).0,
            last: topology.node(node).ports,
            rate,
            of_switch: topology.is_switch(node),
            to_switch: topology.peer_node(index).is_some_and(|node| topology.is_switch(node)),
            link: Link::new(peer.is_some()),
            busy: false,
            planned: false,
            undecided: false,
            input: 0,
            vl: 0,
            asked: 0,
            answer: 0,
            stalled: 0,
            busy_until: 0,
            wake_at: NEVER,
            arbiter: Arbiter::default(),
        }
    }

    /// Its switch's table was written to.
    pub(super) const fn forget_route(&mut self) {
        self.asked = 0;
        self.answer = 0;
    }

    /// Whether data packets may come in.
    pub(super) fn takes(&self) -> bool {
        self.link.passage() != Passage::Closed
    }

    /// Whether data packets may leave.
    pub(super) fn gives(&self) -> bool {
        self.link.passage() == Passage::Open
    }

    /// Another port of the same node.
    pub(super) const fn sibling(&self, number: u8) -> u32 {
        self.first + number as u32
    }
}

/// Bit/s of a port: what is configured, or what the slower end of its cable is.
pub(super) fn bits_per_second(topology: &Topology, config: &Config, port: PortIndex) -> u64 {
    let ends = [Some(port), topology.peer(port)].into_iter().flatten();
    let rates = ends.filter_map(|port| topology.port(port).rate);
    let slower = || rates.map(LinkRate::bits_per_second).min();
    config.bandwidth.or_else(slower).unwrap_or(LinkRate::NDR4.bits_per_second())
}
