//! Packets on a fabric that is being reconfigured: who sends how much to whom, what arrives, what is lost and
//! why.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use snin_emulator::Fabric;
use snin_emulator::data::{
    self, ConfigError, DropReason, Dropped, Message, MessageId, Network, Observer, Passage,
    VlArbitration, VlWeight,
};
use snin_fabric::{Addresses, ForwardingTable, Lid, NodeIndex, NodeKind, PortIndex, Topology};
use snin_mad::PortState;
use snin_protocol::Time;

use super::Costs;
use super::walk::{End, walk};

/// How far ahead packets are given to adapters.
const SLICE: Time = Time::millis(1);
/// Service levels.
const LEVELS: u8 = 16;

/// Why a packet was lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It was for a host that is gone.
    HostGone,
    /// A table led it over a switch or a cable that is gone.
    SwitchGone,
    /// A port on its way was not Active.
    PortInactive,
    /// A switch had no entry for its address, or one that leads back.
    NoRoute,
}

impl Cause {
    /// All.
    pub const ALL: [Self; 4] =
        [Self::HostGone, Self::SwitchGone, Self::PortInactive, Self::NoRoute];

    /// As charts and tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostGone => "for the removed host",
            Self::SwitchGone => "over the removed switch",
            Self::PortInactive => "at inactive ports",
            Self::NoRoute => "without a route",
        }
    }
}

/// Packets lost, by cause.
pub type Lost = BTreeMap<Cause, u64>;

/// What happened in a slice of time.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// SMPs that the manager sent.
    pub smps: u64,
    /// Packets that hosts had to send.
    pub sent: u64,
    /// Of more, those that the controller held back: they had no way.
    pub held: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Of those, from being given to the adapter to the last byte, altogether.
    pub latency_ns: u64,
    /// Packets lost.
    pub lost: Lost,
}

/// A host, as senders know it.
#[derive(Clone, Copy, Debug)]
struct Host {
    port: PortIndex,
    lid: Lid,
    switch: NodeIndex,
    /// When it sends next, in picoseconds.
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Origin {
    start: Time,
    to: PortIndex,
}

#[derive(Debug, Default)]
struct Eyes {
    begin: Time,
    bin: Time,
    bins: Vec<Bin>,
    origins: Vec<Origin>,
    gone: Option<NodeIndex>,
    /// By port: its switch.
    switch_of: BTreeMap<PortIndex, NodeIndex>,
}

impl Eyes {
    fn bin(&mut self, at: Time) -> &mut Bin {
        let number = (at.max(self.begin) - self.begin).nanos() / self.bin.nanos().max(1);
        let number = number as usize;
        if number >= self.bins.len() {
            self.bins.resize(number + 1, Bin::default());
        }
        &mut self.bins[number]
    }
}

impl Observer for Eyes {
    fn completed(&mut self, message: MessageId, at: Time) {
        let start = self.origins[message.0 as usize].start;
        let bin = self.bin(at);
        bin.received += 1;
        bin.latency_ns += (at - start).nanos();
    }

    fn dropped(&mut self, dropped: &Dropped) {
        let to = self.origins[dropped.message.0 as usize].to;
        let host_gone = self.gone.is_some() && self.switch_of.get(&to).copied() == self.gone;
        let cause = match dropped.reason {
            _ if host_gone => Cause::HostGone,
            DropReason::PortDown | DropReason::Damaged => Cause::SwitchGone,
            DropReason::Inactive | DropReason::NoRoom | DropReason::NoLane => Cause::PortInactive,
            DropReason::NoRoute | DropReason::Looping | DropReason::Stranger => Cause::NoRoute,
        };
        *self.bin(dropped.at).lost.entry(cause).or_insert(0) += 1;
    }
}

/// Traffic on a fabric: uniform in rate, destination and service level.
pub(super) struct Plane {
    network: Network,
    random: ChaCha8Rng,
    hosts: Vec<Host>,
    /// Picoseconds from one packet of a host to its next.
    interval: u64,
    packet: u64,
    lanes: u8,
    given_until: Time,
    eyes: Eyes,
    states: Vec<PortState>,
    addresses: Option<Addresses>,
    /// What has no way is not sent: by sender and receiver, whether it arrives.
    arrives: Option<BTreeMap<(PortIndex, PortIndex), bool>>,
}

impl Plane {
    /// Traffic that begins at `begin`: every host sends `rate` packets a second.
    pub(super) fn new(
        fabric: &Fabric,
        costs: &Costs,
        (rate, seed): (u64, u64),
        (begin, bin): (Time, Time),
    ) -> Result<Self, ConfigError> {
        let topology = fabric.topology();
        let network = Network::new(topology, config(costs))?;
        let eyes = Eyes { begin, bin, switch_of: switches(topology), ..Eyes::default() };
        let mut plane = Self {
            network,
            random: ChaCha8Rng::seed_from_u64(seed),
            hosts: Vec::new(),
            interval: 1_000_000_000_000 / rate.max(1),
            packet: costs.packet.into(),
            lanes: costs.lanes,
            given_until: begin,
            eyes,
            states: vec![PortState::Active; topology.port_count()],
            addresses: None,
            arrives: None,
        };
        plane.network.set_tables(&fabric.tables());
        plane.network.run_until(begin);
        plane.look(fabric);
        plane.refresh(fabric);
        Ok(plane)
    }

    /// The hosts that are there now are those that others send to.
    pub(super) fn refresh(&mut self, fabric: &Fabric) {
        let topology = fabric.topology();
        let Ok(addresses) = fabric.addresses() else { return };
        let old: BTreeMap<PortIndex, u64> =
            self.hosts.iter().map(|host| (host.port, host.next)).collect();
        self.hosts.clear();
        for (&port, &switch) in &self.eyes.switch_of {
            let active = fabric.port_state(port) == PortState::Active;
            let leaf = topology
                .peer(port)
                .is_some_and(|leaf| fabric.port_state(leaf) == PortState::Active);
            if let (true, Some(lid)) = (active && leaf, addresses.base(port)) {
                let random = &mut self.random;
                let first =
                    || self.given_until.nanos() * 1_000 + random.random_range(0..self.interval);
                let next = old.get(&port).copied().unwrap_or_else(first);
                self.hosts.push(Host { port, lid, switch, next });
            }
        }
    }

    /// A switch is gone: its hosts send no more, and what is for them is lost.
    pub(super) fn lose(&mut self, switch: NodeIndex) {
        self.eyes.gone = Some(switch);
        for host in self.hosts.iter_mut().filter(|host| host.switch == switch) {
            host.next = u64::MAX;
        }
    }

    /// From the next slice on hosts send nothing that would not arrive as tables and ports are now; where every
    /// port is about to be closed, nothing.
    pub(super) fn hold(&mut self, fabric: &Fabric, all: bool) {
        let pairs = self.hosts.iter().flat_map(|from| self.hosts.iter().map(move |to| (from, to)));
        let pairs = pairs.filter(|(from, to)| from.port != to.port);
        let arrives = |(from, to): (&Host, &Host)| {
            let ends = (from.port, to.port);
            (ends, !all && walk(fabric, ends, to.lid) == End::There)
        };
        self.arrives = Some(pairs.map(arrives).collect());
    }

    /// They send all again.
    pub(super) fn release(&mut self) {
        self.arrives = None;
    }

    /// Whether it holds anything back.
    pub(super) const fn holds(&self) -> bool {
        self.arrives.is_some()
    }

    /// Lets time pass.
    pub(super) fn run_until(&mut self, until: Time) {
        while self.given_until < until {
            self.network.run_observed(self.given_until, &mut self.eyes);
            let end = self.given_until + SLICE;
            self.give(end);
            self.given_until = end;
        }
        self.network.run_observed(until, &mut self.eyes);
    }

    /// Gives adapters all packets until `end`.
    fn give(&mut self, end: Time) {
        let end = end.nanos() * 1_000;
        let count = self.hosts.len();
        for from in 0..count {
            while self.hosts[from].next < end && count > 1 {
                let start = Time(self.hosts[from].next / 1_000);
                self.hosts[from].next += self.interval;
                let other = self.random.random_range(0..count - 1);
                let to = self.hosts[if other >= from { other + 1 } else { other }];
                let vl = self.random.random_range(0..LEVELS) % self.lanes;
                let ends = (self.hosts[from].port, to.port);
                if self.arrives.as_ref().is_some_and(|ways| ways.get(&ends) == Some(&false)) {
                    self.eyes.bin(start).held += 1;
                    continue;
                }
                let message = Message::new(self.hosts[from].port, to.lid, self.packet);
                // Adapters take what is addressed: all that is given here is.
                if self.network.send(Message { start, sl: vl, ..message }).is_ok() {
                    self.eyes.origins.push(Origin { start, to: to.port });
                    self.eyes.bin(start).sent += 1;
                }
            }
        }
    }

    /// A table was written to.
    pub(super) fn set_table(&mut self, fabric: &Fabric, switch: NodeIndex) {
        self.network.set_table(switch, &fabric.table(switch));
    }

    /// Looks at the states of all ports, and at addresses.
    pub(super) fn look(&mut self, fabric: &Fabric) {
        let topology = fabric.topology();
        for port in topology.ports() {
            let (old, new) = (self.states[port.index()], fabric.port_state(port));
            if old == new || topology.peer(port).is_none() {
                continue;
            }
            self.states[port.index()] = new;
            match (old == PortState::Down, new == PortState::Down) {
                (false, true) => self.network.cut(port),
                (true, false) => self.network.restore(port),
                _ => {}
            }
            self.network.set_passage(
                port,
                match new {
                    PortState::Active => Passage::Open,
                    PortState::Armed => Passage::Inward,
                    _ => Passage::Closed,
                },
            );
        }
        if let Ok(addresses) = fabric.addresses()
            && self.addresses.as_ref() != Some(&addresses)
        {
            self.network.set_addresses(&addresses);
            self.addresses = Some(addresses);
        }
    }

    /// What was counted until `end`.
    pub(super) fn finish(self, smps: &[Time], end: Time) -> Vec<Bin> {
        let mut eyes = self.eyes;
        let given: Vec<Time> = eyes.origins.iter().map(|origin| origin.start).collect();
        for start in given.into_iter().filter(|&start| start > end) {
            eyes.bin(start).sent -= 1;
        }
        let slices = (end - eyes.begin).nanos().div_ceil(eyes.bin.nanos().max(1));
        eyes.bins.truncate(slices as usize);
        for &at in smps {
            eyes.bin(at).smps += 1;
        }
        eyes.bins
    }
}

fn config(costs: &Costs) -> data::Config {
    let weights = (0..costs.lanes).map(|vl| VlWeight { vl, weight: 16 }).collect();
    data::Config {
        bandwidth: Some(costs.bits_per_second),
        mtu: costs.packet,
        vls: costs.lanes,
        buffer: costs.buffer,
        arbitration: VlArbitration { high: Vec::new(), low: weights, limit: 0 },
        ack_sl: 0,
        ..data::Config::default()
    }
}

/// By host port: its switch.
fn switches(topology: &Topology) -> BTreeMap<PortIndex, NodeIndex> {
    let hosts = topology.nodes().filter(|&node| topology.node(node).kind == NodeKind::Adapter);
    let cables = hosts.flat_map(|host| topology.cables(host).collect::<Vec<_>>());
    cables.map(|(port, peer)| (port, topology.port(peer).node)).collect()
}

/// One point of delay against throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Packets a second that every host had to send.
    pub offered: u64,
    /// Packets a second that arrived, a host.
    pub accepted: u64,
    /// From being given to the adapter to the last byte, on average, of what arrived.
    pub latency_ns: u64,
}

/// Delay against throughput.
pub type Loads = Vec<Load>;

/// What a fabric carries when every host always has something to send: packets a second and host. With
/// `points` the way there too: that many loads, the last of them a link's rate.
///
/// # Errors
/// What no data plane can be made of.
pub fn saturation(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    costs: &Costs,
    (points, seed): (u64, u64),
) -> Result<Loads, ConfigError> {
    const WARM: Time = Time::millis(2);
    const MEASURED: Time = Time::millis(6);
    let mut emulator = snin_emulator::Emulator::new(topology, snin_emulator::Config::default());
    emulator.configure(addresses, tables, Lid(1));
    let full = costs.bits_per_second / 8 / (u64::from(costs.packet) + 26);
    let mut loads = Loads::new();
    for point in 1..=points {
        let rate = full * point / points;
        let mut plane =
            Plane::new(emulator.fabric(), costs, (rate, seed), (Time::ZERO, WARM + MEASURED))?;
        plane.run_until(WARM);
        plane.eyes.bins.clear();
        plane.run_until(WARM + MEASURED);
        let hosts = plane.hosts.len() as u64;
        let bin = plane.eyes.bins.first().cloned().unwrap_or_default();
        loads.push(Load {
            offered: rate,
            accepted: bin.received * 1_000_000_000 / MEASURED.nanos() / hosts.max(1),
            latency_ns: bin.latency_ns / bin.received.max(1),
        });
    }
    Ok(loads)
}
