//! Ethernet frames across the fabric: what real RoCE v2 traffic is carried by.
//!
//! A frame that a host gives to its port is forwarded by the switches' own tables, where the low 16 bits of
//! the destination's IP address stand for the LID. Links have a bandwidth and a latency, frames cut through,
//! and a link that is busy makes them wait; every link counts frames, also by flow. The core has no clock:
//! its driver says what time it is, so it works in real time and in tests alike.

mod parse;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use snin_fabric::{Addresses, ForwardingTable, Lid, PortIndex, PortNum, Topology};
use snin_protocol::Time;

pub use parse::{Flow, Kind, parse};

/// A frame that passed so many switches is in a loop.
const MOST_SWITCHES: u8 = 64;
/// Flows that a link counts one by one; frames of others are counted without.
const MOST_FLOWS: usize = 4096;

/// How links are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Bit/s of every link.
    pub bandwidth: u64,
    /// From one end of a cable through the switch behind it.
    pub latency: Time,
    /// A frame that would have to wait longer than this for a link is dropped.
    pub patience: Time,
}

impl Default for Config {
    /// 10 Mbit/s: slow enough to be what limits real verbs on an emulated machine.
    fn default() -> Self {
        Self { bandwidth: 10_000_000, latency: Time::micros(1), patience: Time::secs(1) }
    }
}

/// Frames and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// Frames that carried data.
    pub data: u64,
    /// Frames that acknowledged data.
    pub acknowledgements: u64,
    /// Bytes of all, headers included.
    pub bytes: u64,
}

impl Count {
    /// Frames of any kind.
    pub const fn frames(&self) -> u64 {
        self.data + self.acknowledgements
    }

    fn add(&mut self, kind: Kind, bytes: usize) {
        match kind {
            Kind::Data => self.data += 1,
            Kind::Acknowledgement => self.acknowledgements += 1,
        }
        self.bytes += bytes as u64;
    }
}

/// Why frames were dropped, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Dropped {
    /// No RoCE v2: other frames that a kernel sends by itself.
    pub other_protocol: u64,
    /// The cable was not there, or down.
    pub link_down: u64,
    /// A switch had no entry for the address.
    pub no_route: u64,
    /// It passed too many switches.
    pub looped: u64,
    /// It came to a port that has another address.
    pub wrong_port: u64,
    /// The link was busy for longer than a frame waits.
    pub link_busy: u64,
}

impl Dropped {
    /// All that a fabric which is whole must not drop.
    pub const fn faults(&self) -> u64 {
        self.link_down + self.no_route + self.looped + self.wrong_port + self.link_busy
    }
}

/// A frame that arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The host's port.
    pub port: PortIndex,
    /// As it was sent.
    pub frame: Vec<u8>,
    /// When its last bit arrived.
    pub at: Time,
}

/// One direction of a cable.
#[derive(Clone, Default, Debug)]
struct Link {
    free_at: Time,
    is_down: bool,
    count: Count,
    flows: BTreeMap<Flow, Count>,
}

/// A frame on its way.
#[derive(Debug)]
struct Travel {
    frame: Vec<u8>,
    flow: Flow,
    kind: Kind,
    switches: u8,
}

/// The head of a frame arrives at a port; of two at the same time, what set out first.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Arrival {
    at: Time,
    number: u64,
    port: PortIndex,
    travel: usize,
}

/// The fabric, as frames see it.
#[derive(Debug)]
pub struct Frames {
    topology: Topology,
    config: Config,
    addresses: Addresses,
    tables: Vec<ForwardingTable>,
    /// By the port that they leave.
    links: Vec<Link>,
    travels: Vec<Option<Travel>>,
    free: Vec<usize>,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    delivered: VecDeque<Delivery>,
    number: u64,
    dropped: Dropped,
}

impl Frames {
    /// No port has an address and no switch an entry.
    pub fn new(topology: &Topology, config: Config) -> Self {
        Self {
            config: Config { bandwidth: config.bandwidth.max(1), ..config },
            addresses: Addresses::none(topology.port_count()),
            tables: vec![ForwardingTable::default(); topology.switch_count()],
            links: vec![Link::default(); topology.port_count()],
            topology: topology.clone(),
            travels: Vec::new(),
            free: Vec::new(),
            arrivals: BinaryHeap::new(),
            delivered: VecDeque::new(),
            number: 0,
            dropped: Dropped::default(),
        }
    }

    /// What ports and switches hold from now on; a table a switch.
    pub fn program(&mut self, addresses: &Addresses, tables: &[ForwardingTable]) {
        self.addresses = addresses.clone();
        self.tables = tables.to_vec();
        self.tables.resize(self.topology.switch_count(), ForwardingTable::default());
    }

    /// From now on links have this bandwidth, in bit/s.
    pub fn set_bandwidth(&mut self, bandwidth: u64) {
        self.config.bandwidth = bandwidth.max(1);
    }

    /// Pulls a cable out, or plugs it in again; `port` is either end.
    pub fn set_down(&mut self, port: PortIndex, is_down: bool) {
        for end in [Some(port), self.topology.peer(port)].into_iter().flatten() {
            self.links[end.index()].is_down = is_down;
        }
    }

    /// A host's port sends a frame.
    pub fn send(&mut self, port: PortIndex, frame: Vec<u8>, now: Time) {
        let Some((flow, kind)) = parse(&frame) else {
            self.dropped.other_protocol += 1;
            return;
        };
        let travel = Some(Travel { frame, flow, kind, switches: 0 });
        let travel = match self.free.pop() {
            Some(place) => {
                self.travels[place] = travel;
                place
            }
            None => {
                self.travels.push(travel);
                self.travels.len() - 1
            }
        };
        self.leave(port, travel, now);
    }

    /// When something happens next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.arrivals.peek().map(|Reverse(arrival)| arrival.at)
    }

    /// Lets happen what is due.
    pub fn handle_deadline(&mut self, now: Time) {
        while self.next_deadline().is_some_and(|at| at <= now) {
            let Some(Reverse(arrival)) = self.arrivals.pop() else { return };
            self.arrive(&arrival);
        }
    }

    /// What has arrived at hosts, in order.
    pub fn poll_output(&mut self) -> Option<Delivery> {
        self.delivered.pop_front()
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let node = self.topology.port(arrival.port).node;
        let Some(travel) = self.travels[arrival.travel].as_mut() else { return };
        let lid = travel.flow.destination;
        if !self.topology.is_switch(node) {
            if self.addresses.owner(lid).is_none_or(|(owner, _)| owner != arrival.port) {
                return self.drop_frame(arrival.travel, |dropped| &mut dropped.wrong_port);
            }
            let (port, at) = (arrival.port, arrival.at);
            if let Some(Travel { frame, .. }) = self.take(arrival.travel) {
                self.delivered.push_back(Delivery { port, frame, at });
            }
            return;
        }
        travel.switches += 1;
        if travel.switches > MOST_SWITCHES {
            return self.drop_frame(arrival.travel, |dropped| &mut dropped.looped);
        }
        let out = self.tables[node.index()].get(lid);
        match self.topology.port_of(node, out).filter(|_| out != PortNum(0)) {
            Some(port) => self.leave(port, arrival.travel, arrival.at),
            None => self.drop_frame(arrival.travel, |dropped| &mut dropped.no_route),
        }
    }

    /// The frame leaves by a port as soon as the link is free; its head arrives at the other end.
    fn leave(&mut self, port: PortIndex, travel: usize, now: Time) {
        let peer = self.topology.peer(port);
        let link = &mut self.links[port.index()];
        let Some(peer) = peer.filter(|_| !link.is_down) else {
            return self.drop_frame(travel, |dropped| &mut dropped.link_down);
        };
        let start = now.max(link.free_at);
        if start - now > self.config.patience {
            return self.drop_frame(travel, |dropped| &mut dropped.link_busy);
        }
        let Some(Travel { frame, flow, kind, .. }) = &self.travels[travel] else { return };
        let bits = frame.len() as u64 * 8;
        let transmission = Time(bits.saturating_mul(1_000_000_000) / self.config.bandwidth);
        link.free_at = start + transmission;
        link.count.add(*kind, frame.len());
        if link.flows.len() < MOST_FLOWS || link.flows.contains_key(flow) {
            link.flows.entry(*flow).or_default().add(*kind, frame.len());
        }
        // Switches forward the head; a host has a frame when it has its last bit.
        let is_last = !self.topology.is_switch(self.topology.port(peer).node);
        let at = start + self.config.latency + if is_last { transmission } else { Time::ZERO };
        self.number += 1;
        self.arrivals.push(Reverse(Arrival { at, number: self.number, port: peer, travel }));
    }

    fn drop_frame(&mut self, travel: usize, reason: impl FnOnce(&mut Dropped) -> &mut u64) {
        *reason(&mut self.dropped) += 1;
        self.take(travel);
    }

    fn take(&mut self, travel: usize) -> Option<Travel> {
        self.free.push(travel);
        self.travels[travel].take()
    }

    /// What left by a port since the start.
    pub fn count(&self, port: PortIndex) -> Count {
        self.links[port.index()].count
    }

    /// What left by a port since [`Frames::forget_flows`], by flow.
    pub fn flows(&self, port: PortIndex) -> &BTreeMap<Flow, Count> {
        &self.links[port.index()].flows
    }

    /// Flows are counted anew from here.
    pub fn forget_flows(&mut self) {
        self.links.iter_mut().for_each(|link| link.flows.clear());
    }

    /// What did not arrive, and why.
    pub const fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Frames on their way.
    pub fn under_way(&self) -> usize {
        self.arrivals.len()
    }

    /// Whose address that is.
    pub fn owner(&self, lid: Lid) -> Option<PortIndex> {
        self.addresses.owner(lid).map(|(port, _)| port)
    }
}

#[cfg(test)]
mod tests {
    use snin_fabric::generate::Recipe;
    use snin_fabric::routing::{Engine, Routing};
    use snin_fabric::{NodeIndex, TreeId};

    use super::parse::tests::frame;
    use super::*;

    struct Bench {
        frames: Frames,
        routing: Routing,
        topology: Topology,
    }

    /// 1,000 bits take 1 ms.
    const CONFIG: Config =
        Config { bandwidth: 1_000_000, latency: Time::micros(10), patience: Time::millis(50) };

    impl Bench {
        fn new() -> Self {
            let topology = "clos:4,4,2".parse::<Recipe>().unwrap().build().unwrap();
            let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
            let mut frames = Frames::new(&topology, CONFIG);
            frames.program(routing.plan.addresses(), &routing.tables);
            Self { frames, routing, topology }
        }

        fn host(&self, number: usize) -> PortIndex {
            self.routing.hosts.iter().nth(number).unwrap().1.port
        }

        fn lid(&self, host: usize, tree: u16) -> u16 {
            self.routing.plan.dlid(self.host(host), TreeId(tree)).unwrap().0.0
        }

        /// A frame of 125 bytes: 1 ms on a link.
        fn send(&mut self, (from, to): (usize, usize), tree: u16, now: Time) {
            let frame = frame(self.lid(from, tree), self.lid(to, tree), 4, 71);
            assert_eq!(frame.len(), 125);
            self.frames.send(self.host(from), frame, now);
        }

        fn run(&mut self) -> Vec<(PortIndex, Time)> {
            while let Some(at) = self.frames.next_deadline() {
                self.frames.handle_deadline(at);
            }
            let delivered = std::iter::from_fn(|| self.frames.poll_output());
            delivered.map(|delivery| (delivery.port, delivery.at)).collect()
        }
    }

    #[test]
    fn a_frame_alone_takes_one_transmission_and_four_cables() {
        let mut bench = Bench::new();
        bench.send((0, 7), 2, Time::millis(5));
        let at = Time::millis(6) + Time::micros(40);
        assert_eq!(bench.run(), [(bench.host(7), at)]);
        bench.send((0, 1), 2, Time::millis(10));
        let at = Time::millis(11) + Time::micros(20);
        assert_eq!(bench.run(), [(bench.host(1), at)]);
        assert_eq!((bench.frames.dropped(), bench.frames.under_way()), (Dropped::default(), 0));
    }

    #[test]
    fn frames_of_a_tree_cross_its_root_and_no_other_spine() {
        for tree in 0..4 {
            let mut bench = Bench::new();
            bench.send((1, 6), tree, Time::ZERO);
            bench.run();
            let ports = bench.topology.ports();
            let used: Vec<NodeIndex> = ports
                .filter(|&port| !bench.frames.flows(port).is_empty())
                .map(|port| bench.topology.port(port).node)
                .collect();
            let root = bench.routing.forest.trees()[usize::from(tree)].root;
            assert_eq!(used.len(), 4);
            assert_eq!(used.iter().filter(|&&node| node == root).count(), 1);
        }
    }

    #[test]
    fn two_flows_on_one_link_share_it_and_on_two_do_not() {
        let mut bench = Bench::new();
        let both = |bench: &mut Bench, trees: [u16; 2]| {
            for n in 0..10 {
                bench.send((0, 2), trees[0], Time::millis(n));
                bench.send((1, 4), trees[1], Time::millis(n));
            }
            bench.run().into_iter().map(|(_, at)| at).max().unwrap()
        };
        assert_eq!(both(&mut bench, [0, 0]), Time::millis(20) + Time::micros(40));
        let most = |bench: &Bench| {
            bench.topology.ports().map(|port| bench.frames.flows(port).len()).max().unwrap()
        };
        assert_eq!(most(&bench), 2);
        let mut bench = Bench::new();
        assert_eq!(both(&mut bench, [0, 1]), Time::millis(10) + Time::micros(40));
        assert_eq!(most(&bench), 1);
        bench.frames.forget_flows();
        assert_eq!(most(&bench), 0);
        let out = bench.frames.count(bench.host(0));
        assert_eq!((out.data, out.frames(), out.bytes), (10, 10, 1250));
    }

    #[test]
    fn everything_dropped_is_counted_by_its_reason() {
        let mut bench = Bench::new();
        let now = Time::ZERO;
        bench.frames.send(bench.host(0), vec![0; 60], now);
        // No port has that address; then a cable that is not there.
        bench.frames.send(bench.host(0), frame(bench.lid(0, 0), 0xbeef, 4, 0), now);
        bench.frames.set_down(bench.host(0), true);
        bench.send((0, 3), 0, now);
        bench.frames.set_down(bench.host(0), false);
        // 51 wait at most 50 ms, two wait longer.
        (0..53).for_each(|_| bench.send((0, 3), 0, now + Time::millis(1)));
        assert_eq!(bench.run().len(), 51);
        // Tables that lead to another host, and round and round.
        let addresses = bench.routing.plan.addresses().clone();
        let mut tables = bench.routing.tables.clone();
        let (wrong, right) = (Lid(bench.lid(3, 0)), Lid(bench.lid(2, 0)));
        tables.iter_mut().for_each(|table| table.set(wrong, table.get(right)));
        bench.frames.program(&addresses, &tables);
        bench.send((0, 3), 0, Time::secs(1));
        assert_eq!(bench.run(), []);
        let loops = Lid(bench.lid(7, 0));
        let mut tables = bench.routing.tables.clone();
        let first = bench.routing.forest.trees()[0].root;
        let down = bench.topology.port_of(first, tables[first.index()].get(loops)).unwrap();
        let up = bench.topology.peer(down).unwrap();
        let leaf = bench.topology.port(up).node;
        tables[leaf.index()].set(loops, bench.topology.num(up));
        bench.frames.program(&addresses, &tables);
        bench.send((0, 7), 0, Time::secs(2));
        assert_eq!(bench.run(), []);
        let expected = Dropped {
            other_protocol: 1,
            link_down: 1,
            no_route: 1,
            looped: 1,
            wrong_port: 1,
            link_busy: 2,
        };
        assert_eq!(bench.frames.dropped(), expected);
        assert_eq!(expected.faults(), 6);
    }
}
