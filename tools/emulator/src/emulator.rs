//! The emulator itself: virtual time, events, and what is counted.

mod client;
mod fault;

pub use client::{AttachError, ClientId, Received};
pub use fault::Fault;

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snin_fabric::{Addresses, ForwardingTable, Lid, PortIndex, Topology};
use snin_mad::MKey;
use snin_protocol::Time;

use self::client::Client;
use crate::config::{Config, Noise};
use crate::fabric::{Fabric, Wish, Write};
use crate::packet::{Packet, Packets};
use crate::queue::{Event, Queue};

/// Runs after every write that an agent accepted, before anything else happens.
type Watcher = Box<dyn FnMut(&Fabric, &Write)>;

/// A software fabric in virtual time: see the crate's documentation.
pub struct Emulator {
    pub(crate) fabric: Fabric,
    pub(crate) queue: Queue,
    pub(crate) packets: Packets,
    pub(crate) clients: Vec<Client>,
    /// Those that have not struck, by number.
    pub(crate) faults: BTreeMap<u32, Fault>,
    pub(crate) noise: Noise,
    pub(crate) random: ChaCha8Rng,
    pub(crate) now: Time,
    pub(crate) stats: Stats,
    watcher: Option<Watcher>,
}

/// What happened so far. Every MAD that set out (`sent`, `traps`, `answered`, `noise_duplicated`) comes to one
/// end: `served`, `delivered`, `noise_dropped`, or one of those after `delivered`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Events that happened.
    pub events: u64,
    /// MADs that clients sent.
    pub sent: u64,
    /// MADs that agents worked at.
    pub served: u64,
    /// Of those, answered.
    pub answered: u64,
    /// Writes that agents accepted.
    pub writes: u64,
    /// Traps sent, repetitions included.
    pub traps: u64,
    /// Faults that struck.
    pub faults: u64,
    /// MADs lost by noise.
    pub noise_dropped: u64,
    /// MADs doubled by noise.
    pub noise_duplicated: u64,
    /// MADs delayed by noise.
    pub noise_reordered: u64,
    /// MADs garbled by noise.
    pub noise_corrupted: u64,
    /// MADs given to clients.
    pub delivered: u64,
    /// MADs for a manager where there is none.
    pub nobody: u64,
    /// MADs that a client's inbox had no room for.
    pub inbox_full: u64,
    /// MADs that an agent had no room for.
    pub agent_full: u64,
    /// MADs beyond the number that may be on their way.
    pub too_many: u64,
    /// MADs that could not leave or arrive: the link was down, or not active and the MAD no SMP.
    pub link_down: u64,
    /// LID-routed MADs without a way: no entry, a port that is not there, back where it came from.
    pub no_route: u64,
    /// LID-routed MADs that passed too many switches.
    pub looped: u64,
    /// LID-routed MADs that came to a port with other addresses.
    pub wrong_port: u64,
    /// Directed routes that make no sense where they are (IBA 14.2.2).
    pub bad_route: u64,
    /// MADs at an agent that is dead or lost power.
    pub dead: u64,
}

impl Emulator {
    /// All of `topology`, switched on a moment ago: links up and in INIT, nothing written anywhere.
    pub fn new(topology: &Topology, config: Config) -> Self {
        let random = ChaCha8Rng::seed_from_u64(config.seed);
        Self {
            noise: config.noise,
            fabric: Fabric::new(topology, config),
            queue: Queue::default(),
            packets: Packets::default(),
            clients: Vec::new(),
            faults: BTreeMap::new(),
            random,
            now: Time::ZERO,
            stats: Stats::default(),
            watcher: None,
        }
    }

    /// As if a manager had been here: addresses, tables (by switch), LinearFDBTop and MasterSMLID written,
    /// every link that is up active. A topology's own addresses are [`Topology::reported_addresses`].
    pub fn configure(&mut self, addresses: &Addresses, tables: &[ForwardingTable], master: Lid) {
        self.fabric.configure(addresses, tables, master);
    }

    /// As if a manager had protected a port: key, protection level, lease period in seconds.
    pub fn protect(&mut self, port: PortIndex, key: MKey, level: u8, lease: u16) {
        self.fabric.protect(port, key, level, lease);
    }

    /// As if another manager had given a port these addresses, even addresses that make no sense.
    pub fn address(&mut self, port: PortIndex, lid: Lid, lmc: snin_fabric::Lmc) {
        self.fabric.address(port, lid, lmc);
    }

    /// The hardware, to look at.
    pub const fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The counters since the start.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// MADs on their way now, or waiting at an agent.
    pub fn under_way(&self) -> usize {
        self.packets.in_use()
    }

    /// Has `watcher` run after every write that an agent accepted, before the answer leaves.
    pub fn watch(&mut self, watcher: impl FnMut(&Fabric, &Write) + 'static) {
        self.watcher = Some(Box::new(watcher));
    }

    /// When the next event happens; `None`: nothing will ever happen by itself.
    pub fn next_event_time(&self) -> Option<Time> {
        self.queue.next()
    }

    /// Lets everything happen that is due until then.
    pub fn advance(&mut self, until: Time) {
        while let Some((at, event)) = self.queue.pop_until(until) {
            self.now = at;
            self.stats.events += 1;
            self.happen(event);
            self.grant_wishes();
        }
        self.now = self.now.max(until);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { packet, port } => self.arrive(packet, port),
            Event::Serve { packet, node, life } => self.serve(packet, node, life),
            Event::Relay { packet, port, life } => self.relayed(packet, port, life),
            Event::Trained { port, attempt } => self.fabric.trained(port, attempt),
            Event::Rest { port, attempt } => self.fabric.rest(port, attempt),
            Event::Trap { port, round } => {
                if self.fabric.trap_is_due(port, round) {
                    self.send_trap(port);
                }
            }
            Event::Fault { fault } => self.strike(fault),
            Event::PowerOn { node, life } => {
                if self.fabric.nodes[node as usize].life == life {
                    self.fabric.power_on(node);
                }
            }
        }
    }

    /// An agent is done with a packet.
    fn serve(&mut self, packet: u32, node: u32, life: u32) {
        let state = &mut self.fabric.nodes[node as usize];
        if state.life != life {
            self.stats.dead += 1;
            return self.packets.remove(packet);
        }
        state.waiting = state.waiting.saturating_sub(1);
        self.stats.served += 1;
        let held = self.packets.get(packet);
        let by = held.by;
        let served = self.fabric.serve(by, self.now, &mut held.mad);
        if let Some(write) = served.write {
            self.stats.writes += 1;
            if let Some(watcher) = &mut self.watcher {
                watcher(&self.fabric, &write);
            }
        }
        if !served.answered {
            return self.packets.remove(packet);
        }
        self.stats.answered += 1;
        let end = self.fabric.end_port(by);
        let held = self.packets.get(packet);
        held.by_lid(self.fabric.ports[end as usize].lid(), held.slid);
        (held.relays, held.tried) = (0, false);
        self.depart(packet, end);
    }

    fn send_trap(&mut self, port: u32) {
        let Some((mad, to, round, again)) = self.fabric.trap(port) else {
            return;
        };
        self.queue.push(self.now + again, Event::Trap { port, round });
        if self.fabric.node_of(port).health == crate::Health::Dead {
            return;
        }
        self.stats.traps += 1;
        let slid = self.fabric.ports[port as usize].lid();
        let packet = Packet { mad, dlid: to, slid, by: port, relays: 0, tried: false };
        if let Some(packet) = self.admit(packet) {
            self.depart(packet, port);
        }
    }

    /// Plans what the hardware wants to happen.
    pub(crate) fn grant_wishes(&mut self) {
        for wish in std::mem::take(&mut self.fabric.wishes) {
            match wish {
                Wish::Train(port) => {
                    let attempt = self.fabric.ports[port as usize].attempt;
                    let at = self.now + self.fabric.config().training;
                    self.queue.push(at, Event::Trained { port, attempt });
                }
                Wish::Rest(port) => {
                    // By then the answer has left the port and is at the other end.
                    let state = &self.fabric.ports[port as usize];
                    let passed = state.free_at.max(self.now) + self.fabric.config().link_latency;
                    let attempt = state.attempt;
                    self.queue.push(passed + Time(1), Event::Rest { port, attempt });
                }
                Wish::Trap(port) => self.send_trap(port),
            }
        }
    }
}
