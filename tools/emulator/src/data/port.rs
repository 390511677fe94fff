//! A port: where it is, whether it sends.

use snin_fabric::{LinkRate, PortIndex, Topology};

use super::arbiter::Arbiter;
use super::clock::{NEVER, Rate};
use super::config::Config;
use super::packet::LOCAL_ROUTE_HEADER;

/// Nothing at the other end.
pub(super) const NO_PORT: u32 = u32::MAX;

/// Times in picoseconds.
#[derive(Debug)]
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
    pub(super) of_switch: bool,
    pub(super) to_switch: bool,
    pub(super) up: bool,
    pub(super) busy: bool,
    /// Has to decide what to send before time goes on.
    pub(super) undecided: bool,
    /// The input and VL that it sends from, while busy.
    pub(super) input: u8,
    pub(super) vl: u8,
    /// VLs that had packets when it last found nothing to send.
    pub(super) stalled: u16,
    pub(super) rate: Rate,
    /// Transmission of a local route header.
    pub(super) header: u64,
    /// When it sent the last byte so far.
    pub(super) free_at: u64,
    /// The next time that it is woken.
    pub(super) wake_at: u64,
    pub(super) arbiter: Arbiter,
}

impl Port {
    pub(super) fn new(topology: &Topology, config: &Config, index: PortIndex, place: u32) -> Self {
        let node = topology.port(index).node;
        let peer = topology.peer(index);
        let of_switch = topology.is_switch(node);
        let rate = Rate::new(config.bandwidth.unwrap_or_else(|| rate(topology, index)));
        Self {
            peer: peer.map_or(NO_PORT, |peer| peer.0),
            first: topology.port0(node).0,
            place,
            number: topology.num(index).0,
            last: topology.node(node).ports,
            of_switch,
            to_switch: topology.peer_node(index).is_some_and(|node| topology.is_switch(node)),
            up: peer.is_some(),
            busy: false,
            undecided: false,
            input: 0,
            vl: 0,
            stalled: 0,
            rate,
            header: rate.transmission(LOCAL_ROUTE_HEADER),
            free_at: 0,
            wake_at: NEVER,
            arbiter: Arbiter::default(),
        }
    }

    /// Another port of the same node.
    pub(super) const fn sibling(&self, number: u8) -> u32 {
        self.first + number as u32
    }
}

/// Of the slower end.
fn rate(topology: &Topology, port: PortIndex) -> u64 {
    let ends = [Some(port), topology.peer(port)].into_iter().flatten();
    let rates = ends.filter_map(|port| topology.port(port).rate);
    rates.map(LinkRate::bits_per_second).min().unwrap_or(LinkRate::NDR4.bits_per_second())
}
