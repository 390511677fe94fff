//! The network as its users see it, and the loop that lets time pass.

use snin_fabric::{Addresses, ForwardingTable, Lid, Mlid, NodeIndex, PortIndex, Topology};
use snin_protocol::Time;

use super::adapter::Adapter;
use super::agenda::{Agenda, Event};
use super::clock::{NEVER, Rate, ns, ps};
use super::config::{Config, ConfigError};
use super::counters::Counters;
use super::crossbar::Crossbars;
use super::lanes::Lanes;
use super::link::{Lane, Troubles};
use super::message::{MAX_MESSAGES, Message, MessageId, Progress, SendError, Transfer, Transport};
use super::multicast::Multicast;
use super::observer::Observer;
use super::packet::{BLOCK, Packets, data_bytes};
use super::port::{NO_PORT, Port, bits_per_second};
use super::statistics::Statistics;
use super::wheel::Wheel;

/// What became of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// More will happen.
    Running,
    /// Nothing more will happen, and nothing is left: every packet arrived or was dropped.
    Finished,
    /// Nothing more will happen, but packets or messages are left: they wait for each other in a credit
    /// loop, or for a cable.
    Stuck,
}

/// A fabric that carries messages. See the [module](super) for what is emulated.
#[derive(Debug)]
pub struct Network<Q = Wheel> {
    pub(super) config: Config,
    pub(super) lanes_of: Lanes,
    /// Picoseconds.
    pub(super) propagation: u64,
    pub(super) switch_delay: u64,
    /// Blocks of a buffer.
    pub(super) capacity: u32,
    pub(super) tables: Vec<Vec<u8>>,
    pub(super) addresses: Addresses,
    /// Every rate there is.
    pub(super) rates: Vec<Rate>,
    pub(super) ports: Vec<Port>,
    /// By port and VL.
    pub(super) lanes: Vec<Lane>,
    pub(super) troubles: Vec<Troubles>,
    pub(super) crossbars: Crossbars,
    pub(super) adapters: Vec<Adapter>,
    pub(super) packets: Packets,
    pub(super) multicast: Multicast,
    pub(super) transfers: Vec<Transfer>,
    /// Messages that have begun and are not sent.
    pub(super) active: usize,
    pub(super) agenda: Q,
    /// Events to come before it looks ahead again.
    looked_at: usize,
    pub(super) now: u64,
    /// Ports that have to decide before time goes on.
    pub(super) undecided: Vec<u32>,
    pub(super) statistics: Statistics,
}

impl Network {
    /// Nothing is addressed, no table forwards anything, all cables are whole, the time is 0.
    ///
    /// # Errors
    /// When `config` contradicts itself.
    pub fn new(topology: &Topology, config: Config) -> Result<Self, ConfigError> {
        Self::with_agenda(topology, config)
    }
}

impl<Q: Agenda> Network<Q> {
    /// The same with another agenda.
    ///
    /// # Errors
    /// When `config` contradicts itself.
    pub fn with_agenda(topology: &Topology, config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let bits = |port| bits_per_second(topology, &config, port);
        let mut every: Vec<u64> = topology.ports().map(bits).collect();
        every.sort_unstable();
        every.dedup();
        let mut end_ports = 0;
        let port = |index| {
            let node = topology.port(index).node;
            let place = if topology.is_switch(node) {
                node.0
            } else {
                end_ports += 1;
                end_ports - 1
            };
            // Width and speed make less than 256 rates.
            let rate = every.partition_point(|&other| other < bits(index)) as u8;
            Port::new(topology, index, place, rate)
        };
        let ports: Vec<Port> = topology.ports().map(port).collect();
        let capacity = config.buffer / BLOCK;
        let vls = usize::from(config.vls);
        let longest = data_bytes(config.mtu);
        let rates: Vec<Rate> = every.iter().map(|&bits| Rate::new(bits)).collect();
        let longest = rates.first().map_or(0, |slowest| slowest.transmission(longest));
        let (propagation, switch_delay) = (ps(config.propagation), ps(config.switch_delay));
        let span = propagation + switch_delay + longest;
        Ok(Self {
            lanes_of: Lanes::new(config.vls, &config.arbitration),
            propagation,
            switch_delay,
            capacity,
            tables: vec![Vec::new(); topology.switch_count()],
            addresses: Addresses::none(topology.port_count()),
            lanes: (0..ports.len() * vls).map(|_| Lane::new(capacity)).collect(),
            crossbars: Crossbars::new(topology, &config),
            adapters: (0..end_ports).map(|_| Adapter::new(vls)).collect(),
            troubles: (0..ports.len() * vls).map(|_| Troubles::default()).collect(),
            rates,
            ports,
            packets: Packets::new(),
            multicast: Multicast::default(),
            transfers: Vec::new(),
            active: 0,
            agenda: Q::with_span(span),
            looked_at: 0,
            now: 0,
            undecided: Vec::new(),
            statistics: Statistics::new(),
            config,
        })
    }

    /// From now on end ports answer to these LIDs, and drop packets for others.
    pub fn set_addresses(&mut self, addresses: &Addresses) {
        self.addresses = addresses.clone();
    }

    /// From now on switches forward by these tables, one a switch. Packets that wait in a switch keep their
    /// way out.
    pub fn set_tables(&mut self, tables: &[ForwardingTable]) {
        for (switch, table) in (0..).map(NodeIndex).zip(tables) {
            self.set_table(switch, table);
        }
    }

    /// From now on `switch` forwards by `table`.
    ///
    /// # Panics
    /// Where the topology has no such switch.
    pub fn set_table(&mut self, switch: NodeIndex, table: &ForwardingTable) {
        let entries = &mut self.tables[switch.index()];
        entries.clear();
        entries.extend(table.entries());
        // What its ports remember of the table before. Ports are in order of nodes, switches first.
        let first = self.ports.partition_point(|port| port.of_switch && port.place < switch.0);
        let own = self.ports[first..].iter_mut();
        own.take_while(|port| port.of_switch && port.place == switch.0)
            .for_each(Port::forget_route);
    }

    /// Gives a message to its source's adapter.
    ///
    /// # Errors
    /// A message that no adapter would take.
    pub fn send(&mut self, message: Message) -> Result<MessageId, SendError> {
        let port = self.ports.get(message.source.index());
        if !port.is_some_and(|port| !port.of_switch && port.peer != NO_PORT) {
            return Err(SendError::NotAnEndPort(message.source));
        }
        let group = Mlid::new(message.destination.0).filter(|_| message.transport == Transport::Uc);
        let receivers = group.and_then(|mlid| self.multicast.receivers(mlid, message.source.0));
        let unicast = Lid(1)..=Lid::MAX_UNICAST;
        if receivers.is_none() && !unicast.contains(&message.destination) {
            return Err(SendError::NoDestination(message.destination));
        }
        if self.lane_of(message.source, message.sl).is_none() {
            return Err(SendError::NoLane(message.sl));
        }
        if let Some(rate) = message.rate.filter(|&rate| rate < 1_000_000) {
            return Err(SendError::Rate(rate));
        }
        if self.transfers.len() >= MAX_MESSAGES {
            return Err(SendError::TooMany);
        }
        let id = self.transfers.len() as u32;
        let mut transfer = Transfer::new(&message, self.config.mtu, self.now);
        transfer.receivers = receivers.unwrap_or(1);
        let begin = transfer.begin;
        self.transfers.push(transfer);
        if begin == self.now {
            self.begin(id);
        } else {
            self.agenda.push(begin, Event::Begin(id));
        }
        Ok(MessageId(id))
    }

    /// Takes a message back: no packet of it begins any more. What has begun goes on.
    ///
    /// # Panics
    /// Where this network was not given the message.
    pub fn cancel(&mut self, message: MessageId) {
        let transfer = &mut self.transfers[message.0 as usize];
        transfer.until = transfer.until.min(self.now);
    }

    /// Lets time pass until `until`, that moment included, or until nothing more happens.
    pub fn run_until(&mut self, until: Time) -> Outcome {
        self.run_observed(until, &mut ())
    }

    /// The same before the eyes of an observer, which may have it stop earlier.
    pub fn run_observed<O: Observer>(&mut self, until: Time, observer: &mut O) -> Outcome {
        let until = ps(until);
        self.decide(observer);
        while let Some(at) = self.agenda.next() {
            if at > until {
                self.now = self.now.max(until);
                return Outcome::Running;
            }
            debug_assert!(at >= self.now, "time goes on");
            self.now = at;
            while let Some(event) = self.agenda.pop(at) {
                self.happen(event, observer);
                self.looked_at = match self.looked_at {
                    0 => self.look_ahead(),
                    left => left - 1,
                };
            }
            self.decide(observer);
            if observer.has_enough() {
                return Outcome::Running;
            }
        }
        if until != NEVER {
            self.now = self.now.max(until);
        }
        let nothing_left = self.packets.live() == 0 && self.active == 0;
        if nothing_left { Outcome::Finished } else { Outcome::Stuck }
    }

    /// The time, rounded up.
    pub const fn now(&self) -> Time {
        ns(self.now)
    }

    /// How far a message has come.
    ///
    /// # Panics
    /// Where this network was not given the message.
    pub fn progress(&self, message: MessageId) -> Progress {
        self.transfers[message.0 as usize].progress()
    }

    /// What a port counted for a VL; nothing where there is no such port or VL.
    pub fn counters(&self, port: PortIndex, vl: u8) -> Counters {
        let lane = port.index() * usize::from(self.config.vls) + usize::from(vl);
        match (self.lanes.get(lane), self.troubles.get(lane)) {
            (Some(lane), Some(troubles)) if vl < self.config.vls => Counters::new(lane, troubles),
            _ => Counters::default(),
        }
    }

    /// Counted so far.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Counted so far; begins anew.
    pub fn take_statistics(&mut self) -> Statistics {
        std::mem::replace(&mut self.statistics, Statistics::new())
    }

    /// The payload that `port` can send in packets of full size that begin within `time`, if nothing stops
    /// it: what goodput is measured by.
    pub fn payload_possible(&self, port: PortIndex, time: Time) -> u64 {
        self.payload_paced(port, time, None)
    }

    /// The same of a message that is paced.
    pub fn payload_paced(&self, port: PortIndex, time: Time, rate: Option<u64>) -> u64 {
        let packet = self.slower(port, rate).transmission(data_bytes(self.config.mtu));
        ps(time).div_ceil(packet).saturating_mul(u64::from(self.config.mtu))
    }

    /// How long `port` sends `bytes` of payload in packets of full size, if nothing stops it; rounded up.
    pub fn sending_time(&self, port: PortIndex, bytes: u64) -> Time {
        self.time_at(self.rate(port.0), bytes)
    }

    /// The same for a message that is paced: at its rate where that is less than the port's.
    pub fn paced_time(&self, port: PortIndex, bytes: u64, rate: Option<u64>) -> Time {
        self.time_at(self.slower(port, rate), bytes)
    }

    /// The rate of a port, or that at which a message is paced where it is less.
    fn slower(&self, port: PortIndex, rate: Option<u64>) -> Rate {
        let own = self.rate(port.0);
        rate.map_or(own, |rate| own.min(Rate::new(rate)))
    }

    fn time_at(&self, rate: Rate, bytes: u64) -> Time {
        let mtu = u64::from(self.config.mtu);
        // The last packet holds what is left, less than an MTU.
        let last = (bytes % mtu) as u16;
        let last = if last > 0 { rate.transmission(data_bytes(last)) } else { 0 };
        let full = rate.transmission(data_bytes(self.config.mtu));
        ns((bytes / mtu).saturating_mul(full).saturating_add(last))
    }

    /// Bit/s of the slowest link on the way from an end port to an address, by the tables as they are. `None`
    /// where they lead nowhere.
    pub fn path_rate(&self, source: PortIndex, destination: Lid) -> Option<u64> {
        let mut port = source.0;
        let mut slowest = self.rate(port);
        for _ in 0..=self.tables.len() {
            if self.ports[port as usize].peer == NO_PORT {
                return None;
            }
            if !self.ports[port as usize].to_switch {
                return Some(slowest.bits_per_second());
            }
            port = self.next_hop(port, destination.0)?;
            slowest = slowest.min(self.rate(port));
        }
        None
    }

    /// The port by which the switch at the other end of `port`'s cable forwards an address.
    pub(super) fn next_hop(&self, port: u32, dlid: u16) -> Option<u32> {
        let input = &self.ports[self.ports[port as usize].peer as usize];
        let number = *self.tables[input.place as usize].get(usize::from(dlid))?;
        let output = input.sibling(number);
        let exists = number != 0 && number <= input.last;
        (exists && self.ports[output as usize].peer != NO_PORT).then_some(output)
    }

    pub(super) fn rate(&self, port: u32) -> Rate {
        self.rates[usize::from(self.ports[port as usize].rate)]
    }

    fn happen<O: Observer>(&mut self, event: Event, observer: &mut O) {
        match event {
            Event::Sent(port) => self.sent(port),
            Event::Arrive(packet) => {
                let port = &self.ports[self.packets[packet].at as usize];
                if port.of_switch {
                    self.arrive_at_switch(packet, observer);
                } else {
                    self.arrive_at_adapter(packet, observer);
                }
            }
            Event::Wake(port) => {
                if self.ports[port as usize].wake_at <= self.now {
                    self.ports[port as usize].wake_at = NEVER;
                }
                self.has_to_decide(port);
            }
            Event::Begin(message) => self.begin(message),
        }
    }

    /// Notes that a port may find something to send.
    pub(super) fn has_to_decide(&mut self, port: u32) {
        let state = &mut self.ports[port as usize];
        if !state.undecided && !state.busy {
            state.undecided = true;
            self.undecided.push(port);
        }
    }

    /// Lets every port decide that has to.
    fn decide<O: Observer>(&mut self, observer: &mut O) {
        let mut next = 0;
        while let Some(&port) = self.undecided.get(next) {
            next += 1;
            let state = &mut self.ports[port as usize];
            state.undecided = false;
            match (state.of_switch, state.link.is_up()) {
                // Since it was noted, the port has begun to send.
                _ if state.busy => {}
                (true, true) if state.gives() => self.decide_at_switch(port, observer),
                (true, _) => self.discard_waiting(port, observer),
                (false, true) if state.gives() => self.decide_at_adapter(port, observer),
                (false, true) => self.discard_at_adapter(port, observer),
                (false, false) => {}
            }
        }
        self.undecided.clear();
    }
}
