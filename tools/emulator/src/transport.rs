//! How MADs travel: along directed routes, by forwarding tables, over links that let them pass or not.

use rand::RngExt;
use snin_fabric::{Lid, PortNum};
use snin_mad::hop::{self, Step};
use snin_mad::port::Capabilities;
use snin_mad::{Attribute, Class, Method, PERMISSIVE, PortState, SmInfo};
use snin_protocol::Time;

use crate::config::Noise;
use crate::emulator::Emulator;
use crate::hardware::Health;
use crate::messages::Passed;
use crate::packet::Packet;
use crate::queue::Event;

/// A MAD on a link: LRH 8, BTH 12, DETH 8, MAD 256, ICRC 4, VCRC 2 bytes.
const WIRE_BITS: u64 = (8 + 12 + 8 + 256 + 4 + 2) * 8;

impl Emulator {
    /// Takes a packet in, if there may be one more.
    pub(crate) fn admit(&mut self, packet: Packet) -> Option<u32> {
        if self.packets.in_use() >= self.fabric.config().packets {
            self.stats.too_many += 1;
            return None;
        }
        Some(self.packets.insert(packet))
    }

    /// A manager's request, an agent's answer or a trap leaves the node of end port `end`.
    pub(crate) fn depart(&mut self, packet: u32, end: u32) {
        let here = self.fabric.node_of(end).here();
        let held = self.packets.get(packet);
        if held.is_directed() {
            let step = hop::depart(&mut held.mad, here);
            self.follow(packet, end, step);
        } else {
            self.route(packet, end);
        }
    }

    /// A packet comes in by a port.
    pub(crate) fn arrive(&mut self, packet: u32, port: u32) {
        let held = self.packets.get(packet);
        let state = &mut self.fabric.ports[port as usize];
        let passes = match state.state() {
            PortState::Down => false,
            PortState::Initialize => held.is_smp(),
            PortState::Armed => {
                // A data packet tells an armed port that its neighbour is active (IBA 7.2.7).
                if !held.is_smp() {
                    state.set_state(PortState::Active);
                }
                true
            }
            _ => true,
        };
        if !passes {
            self.stats.link_down += 1;
            return self.packets.remove(packet);
        }
        state.counters.received();
        held.by = port;
        if held.dlid != PERMISSIVE {
            self.route_on(packet, port);
        } else if held.is_directed() {
            let here = self.fabric.node_of(port).here();
            let num = PortNum(self.fabric.ports[port as usize].num);
            let step = hop::arrive(&mut self.packets.get(packet).mad, here, num);
            self.follow(packet, port, step);
        } else {
            self.stats.bad_route += 1;
            self.packets.remove(packet);
        }
    }

    /// Does what a directed route says at the node of `port`.
    fn follow(&mut self, packet: u32, port: u32, step: Step) {
        match step {
            Step::Deliver => self.deliver(packet, port),
            Step::Out(num) => {
                self.packets.get(packet).by_path();
                let node = self.fabric.node_of(port);
                match node.port(num.0) {
                    // An adapter's queue pair sends by its own port and no other.
                    Some(out) if node.is_switch() => self.relay(packet, port, out),
                    Some(out) if out == port => self.transmit(packet, out),
                    _ => self.lose_way(packet),
                }
            }
            Step::Forward(lid) => {
                let end = self.fabric.end_port(port);
                let own = self.fabric.ports[end as usize].lid();
                self.packets.get(packet).by_lid(own, lid);
                self.route(packet, end);
            }
            Step::Addressed => self.route(packet, self.fabric.end_port(port)),
            Step::Drop(_) => self.lose_way(packet),
        }
    }

    fn lose_way(&mut self, packet: u32) {
        self.stats.bad_route += 1;
        self.packets.remove(packet);
    }

    /// Sends a packet to its LID, from end port `end`.
    fn route(&mut self, packet: u32, end: u32) {
        let dlid = self.packets.get(packet).dlid;
        if dlid == Lid::NONE || dlid == PERMISSIVE {
            self.stats.no_route += 1;
            return self.packets.remove(packet);
        }
        if self.fabric.node_of(end).is_switch() {
            self.packets.get(packet).by = end;
            self.forward(packet, end);
        } else if self.fabric.ports[end as usize].answers_to(dlid) {
            self.packets.get(packet).by = end;
            self.received(packet, end);
        } else {
            self.transmit(packet, end);
        }
    }

    /// A packet that is routed by LID came in by `port`.
    fn route_on(&mut self, packet: u32, port: u32) {
        if self.fabric.node_of(port).is_switch() {
            self.forward(packet, port);
        } else if self.fabric.ports[port as usize].answers_to(self.packets.get(packet).dlid) {
            self.received(packet, port);
        } else {
            self.stats.wrong_port += 1;
            self.packets.remove(packet);
        }
    }

    /// A switch looks into its table (IBA 18.2.4.3). Its own LID must be in it too.
    fn forward(&mut self, packet: u32, by: u32) {
        let held = self.packets.get(packet);
        if held.relays >= self.fabric.config().relays {
            self.stats.looped += 1;
            return self.packets.remove(packet);
        }
        held.relays += 1;
        let node = self.fabric.node_of(by);
        let entry = node.switch.as_deref().and_then(|switch| switch.forward(held.dlid));
        match entry.and_then(|num| node.port(num)) {
            Some(port0) if port0 == node.first_port => {
                if self.fabric.ports[port0 as usize].answers_to(held.dlid) {
                    return self.received(packet, by);
                }
                self.stats.wrong_port += 1;
                self.packets.remove(packet);
            }
            // Back where it came from is no way (IBA 16.1.3.5, PortRcvSwitchRelayErrors).
            Some(out) if out != by => self.transmit(packet, out),
            _ => {
                self.fabric.ports[by as usize].counters.receive_switch_relay_errors += 1;
                self.stats.no_route += 1;
                self.packets.remove(packet);
            }
        }
    }

    /// A packet that was routed by LID is where it was sent to; a directed part may begin here.
    fn received(&mut self, packet: u32, port: u32) {
        let held = self.packets.get(packet);
        if !held.is_directed() {
            return self.deliver(packet, port);
        }
        let here = self.fabric.node_of(port).here();
        let num = PortNum(self.fabric.ports[port as usize].num);
        let step = hop::arrive(&mut held.mad, here, num);
        self.follow(packet, port, step);
    }

    /// Sends a packet out by a port, if the port is up, and, unless it is an SMP, active (IBA 7.2.7).
    fn transmit(&mut self, packet: u32, port: u32) {
        let held = self.packets.get(packet);
        let state = &mut self.fabric.ports[port as usize];
        let passes = match state.state() {
            PortState::Down => false,
            PortState::Active | PortState::ActiveDefer => true,
            _ => held.is_smp(),
        };
        if !passes {
            state.counters.transmit_discards += 1;
            self.stats.link_down += 1;
            return self.packets.remove(packet);
        }
        state.counters.sent();
        let peer = state.cable;
        let mut sent = self.now;
        if let Some(rate) = self.fabric.config().bits_per_second {
            let state = &mut self.fabric.ports[port as usize];
            sent = sent.max(state.free_at) + Time::secs(WIRE_BITS) / rate;
            state.free_at = sent;
        }
        let mut at = sent + self.fabric.config().link_latency;
        let often = self.fabric.ports[peer as usize].symbol_errors;
        if often > 0 && self.strikes(often) {
            self.fabric.ports[peer as usize].counters.symbol_errors += 1;
        }
        let cable = self.fabric.ports[port as usize].noise;
        if (self.noise != Noise::NONE || cable != Noise::NONE)
            && !self.comes_through(packet, peer, cable, &mut at)
        {
            return self.packets.remove(packet);
        }
        self.queue.push(at, Event::Arrive { packet, port: peer });
    }

    /// Lets chance decide: once a MAD for the noise that is everywhere, at every passing for a cable's.
    fn comes_through(&mut self, packet: u32, peer: u32, cable: Noise, at: &mut Time) -> bool {
        let mut noise = cable;
        let held = self.packets.get(packet);
        if !held.tried {
            held.tried = true;
            noise = noise.with(self.noise);
        }
        if self.strikes(noise.drop) {
            self.stats.noise_dropped += 1;
            let counters = &mut self.fabric.ports[peer as usize].counters;
            counters.symbol_errors += 1;
            counters.receive_errors += 1;
            return false;
        }
        if self.strikes(noise.corrupt) {
            self.stats.noise_corrupted += 1;
            let bit = self.random.random_range(0..256 * 8);
            self.packets.get(packet).mad.0[bit / 8] ^= 1 << (bit % 8);
        }
        if self.strikes(noise.duplicate) {
            self.stats.noise_duplicated += 1;
            let copy = self.packets.get(packet).clone();
            if let Some(packet) = self.admit(copy) {
                self.queue.push(*at, Event::Arrive { packet, port: peer });
            }
        }
        if self.strikes(noise.reorder) {
            self.stats.noise_reordered += 1;
            let most = self.fabric.config().reorder_within.nanos();
            *at += Time(self.random.random_range(0..=most));
        }
        true
    }

    /// A message was carried: ports count it, and some of its packets come with symbol errors.
    pub fn carried(&mut self, passed: &Passed) {
        for &port in &passed.links {
            let (packets, words) = (u64::from(passed.packets), u64::from(passed.bytes / 4));
            let counters = &mut self.fabric.ports[port.index()].counters;
            counters.transmit_packets += packets;
            counters.transmit_data += words;
            let Some(peer) = self.fabric.other_end(port.0) else { continue };
            let often = self.fabric.ports[peer as usize].symbol_errors;
            let errors = (0..passed.packets).filter(|_| self.strikes(often)).count() as u64;
            let counters = &mut self.fabric.ports[peer as usize].counters;
            counters.receive_packets += packets;
            counters.receive_data += words;
            counters.symbol_errors += errors;
        }
    }

    fn strikes(&mut self, chance: u32) -> bool {
        chance > 0 && self.random.random_range(0..Noise::WHOLE) < chance
    }

    /// Delivers to the agents of this node or to the manager at it (IBA 13.4.5, 14.2.3).
    fn deliver(&mut self, packet: u32, port: u32) {
        let end = self.fabric.end_port(port);
        let header = self.packets.get(packet).mad.header();
        let method = header.method();
        let state = &self.fabric.ports[end as usize];
        let for_agent = match header.class() {
            Class::Subnet | Class::DirectedSubnet => match method {
                Method::TrapRepress => true,
                // A manager answers for itself, where there is one.
                Method::Get | Method::Set if header.attribute() == SmInfo::ID => {
                    state.client.is_none() || !state.has(Capabilities::SM)
                }
                Method::Trap | Method::Report => false,
                _ => !method.is_response(),
            },
            Class::Performance => !method.is_response(),
            _ => state.client.is_none() && !method.is_response(),
        };
        if for_agent { self.wait(packet, port) } else { self.hand_over(packet, end) }
    }

    /// A MAD waits for its turn at the agents.
    fn wait(&mut self, packet: u32, port: u32) {
        let latency = self.fabric.config().agent_latency;
        if let Some((at, node, life)) = self.turn(packet, port, latency) {
            self.queue.push(at, Event::Serve { packet, node, life });
        }
    }

    /// A directed MAD is at a switch and leaves by `out`: at once if it is the switch's own, else when the
    /// agent is done with it.
    fn relay(&mut self, packet: u32, port: u32, out: u32) {
        let latency = self.fabric.config().relay_latency;
        if latency == Time::ZERO || self.fabric.ports[port as usize].num == 0 {
            self.transmit(packet, out);
        } else if let Some((at, _, life)) = self.turn(packet, port, latency) {
            self.queue.push(at, Event::Relay { packet, port: out, life });
        }
    }

    /// An agent is done with passing on a packet.
    pub(crate) fn relayed(&mut self, packet: u32, port: u32, life: u32) {
        let index = self.fabric.ports[port as usize].node;
        let node = &mut self.fabric.nodes[index as usize];
        if node.life != life {
            self.stats.dead += 1;
            return self.packets.remove(packet);
        }
        node.waiting = node.waiting.saturating_sub(1);
        self.transmit(packet, port);
    }

    /// When the agent of a port's node will have worked at a MAD for `well`, that node, and its life. `None`: the
    /// MAD is lost.
    fn turn(&mut self, packet: u32, port: u32, well: Time) -> Option<(Time, u32, u32)> {
        let most = self.fabric.config().agent_queue;
        let index = self.fabric.ports[port as usize].node;
        let node = &mut self.fabric.nodes[index as usize];
        let latency = match node.health {
            Health::Well if node.powered => well,
            Health::Slow(latency) if node.powered => latency,
            _ => {
                self.stats.dead += 1;
                self.packets.remove(packet);
                return None;
            }
        };
        if node.waiting >= most {
            self.stats.agent_full += 1;
            let held = self.packets.get(packet);
            let counters = &mut self.fabric.ports[port as usize].counters;
            let counter =
                if held.is_smp() { &mut counters.vl15_dropped } else { &mut counters.qp1_dropped };
            *counter += 1;
            self.packets.remove(packet);
            return None;
        }
        node.waiting += 1;
        node.busy_until = node.busy_until.max(self.now) + latency;
        Some((node.busy_until, index, node.life))
    }
}
