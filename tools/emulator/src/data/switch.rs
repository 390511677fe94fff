//! Switches: where a packet goes, where it waits, who is next.

use snin_fabric::Topology;

use super::agenda::{Agenda, Event};
use super::bits::{Rows, each};
use super::config::{Config, Queues};
use super::network::Network;
use super::observer::{DropReason, Observer};
use super::packet::List;
use super::port::NO_PORT;
use super::transmit::Offer;

/// The insides of all switches. A lane is a port and VL, seen from outside of the switch or within.
#[derive(Debug)]
pub(super) struct Crossbars {
    kind: Queues,
    /// By lane out: inputs that have a packet for it to take.
    waiting: Rows,
    /// By lane in: outputs that could take a packet of its.
    wanted: Rows,
    /// By switch and VL: inputs that a packet is being sent from.
    reading: Rows,
    /// By switch: outputs that are sending.
    busy: Rows,
    queues: Vec<List>,
    /// By port: its first queue.
    first_queue: Vec<u32>,
}

impl Crossbars {
    pub(super) fn new(topology: &Topology, config: &Config) -> Self {
        let vls = usize::from(config.vls);
        let top = topology.switches().map(|switch| topology.node(switch).ports).max().unwrap_or(0);
        let mut queues = 0;
        let first_queue = topology.ports().map(|port| {
            let node = topology.port(port).node;
            let own = match config.queues {
                _ if !topology.is_switch(node) => 0,
                Queues::PerInput => vls,
                Queues::PerOutput => vls * (usize::from(topology.node(node).ports) + 1),
            };
            queues += own;
            (queues - own) as u32
        });
        let first_queue = first_queue.collect();
        let lanes = topology.port_count() * vls;
        Self {
            kind: config.queues,
            waiting: Rows::new(lanes, top),
            wanted: Rows::new(lanes, top),
            reading: Rows::new(topology.switch_count() * vls, top),
            busy: Rows::new(topology.switch_count(), top),
            queues: vec![List::EMPTY; queues],
            first_queue,
        }
    }
}

/// A packet's way through a switch, on one VL.
#[derive(Clone, Copy)]
struct Crossing {
    input: u32,
    output: u32,
    vl: u8,
}

impl<Q: Agenda> Network<Q> {
    /// A packet's header is in and read.
    pub(super) fn arrive_at_switch<O: Observer>(&mut self, id: u32, observer: &mut O) {
        let packet = &self.packets[id];
        let (input, tail, bytes) = (packet.at, packet.tail, packet.bytes);
        if packet.lost {
            return self.drop_packet(id, input, DropReason::Damaged, observer);
        }
        let output = match self.route(input, packet.dlid) {
            Ok(output) => output,
            Err(reason) => return self.drop_packet(id, input, reason, observer),
        };
        let port = &self.ports[output as usize];
        if !port.up {
            return self.drop_packet(id, output, DropReason::PortDown, observer);
        }
        // A faster link would run out of bytes: the last must be in when it is to leave.
        let in_time = tail + self.switch_delay - port.rate.transmission(bytes);
        if in_time > self.now {
            return self.agenda.push(in_time, Event::Arrive(id));
        }
        self.packets[id].out = port.number;
        self.packets[id].ready = self.now;
        self.enqueue(id, input, output);
    }

    /// The port that the packet leaves by.
    fn route(&self, input: u32, dlid: u16) -> Result<u32, DropReason> {
        let port = &self.ports[input as usize];
        let table = &self.tables[port.place as usize];
        let number = table.get(usize::from(dlid)).copied().unwrap_or(u8::MAX);
        if number == 0 || number > port.last {
            return Err(DropReason::NoRoute);
        }
        let output = port.sibling(number);
        match self.ports[output as usize].peer {
            NO_PORT => Err(DropReason::NoRoute),
            _ if output == input => Err(DropReason::Looping),
            _ => Ok(output),
        }
    }

    fn enqueue(&mut self, id: u32, input: u32, output: u32) {
        let vl = self.packets[id].vl;
        let crossing = Crossing { input, output, vl };
        let queue = self.queue(crossing);
        let list = &mut self.crossbars.queues[queue];
        let was_empty = list.first().is_none();
        self.packets.append(list, id);
        if was_empty {
            self.announce(crossing);
        }
    }

    fn queue(&self, crossing: Crossing) -> usize {
        let vl = usize::from(crossing.vl);
        let place = match self.crossbars.kind {
            Queues::PerInput => vl,
            Queues::PerOutput => {
                let input = &self.ports[crossing.input as usize];
                let output = &self.ports[crossing.output as usize];
                vl * (usize::from(input.last) + 1) + usize::from(output.number)
            }
        };
        self.crossbars.first_queue[crossing.input as usize] as usize + place
    }

    /// The output learns of a packet that it can take.
    fn announce(&mut self, Crossing { input, output, vl }: Crossing) {
        let (input_lane, output_lane) = (self.lane(input, vl), self.lane(output, vl));
        self.crossbars.waiting.set(output_lane, self.ports[input as usize].number);
        self.crossbars.wanted.set(input_lane, self.ports[output as usize].number);
        self.has_to_decide(output);
    }

    /// The first packet that waits for `output` at `input`.
    fn first(&self, crossing: Crossing) -> Option<u32> {
        self.crossbars.queues[self.queue(crossing)].first()
    }

    /// Takes that packet out of its queue; who is behind it may be for another output.
    fn take(&mut self, crossing: Crossing) -> Option<u32> {
        let Crossing { input, output, vl } = crossing;
        let queue = self.queue(crossing);
        let list = &mut self.crossbars.queues[queue];
        let id = self.packets.take_first(list)?;
        let next = list.first();
        if self.crossbars.kind == Queues::PerOutput && next.is_some() {
            return Some(id);
        }
        let (input_lane, output_lane) = (self.lane(input, vl), self.lane(output, vl));
        self.crossbars.waiting.clear(output_lane, self.ports[input as usize].number);
        self.crossbars.wanted.clear(input_lane, self.ports[output as usize].number);
        if let Some(next) = next {
            let output = self.ports[input as usize].sibling(self.packets[next].out);
            self.announce(Crossing { input, output, vl });
        }
        Some(id)
    }

    /// Sends a packet if there is one: a VL by arbitration, of its inputs the next.
    pub(super) fn decide_at_switch<O: Observer>(&mut self, output: u32, observer: &mut O) {
        let mut offer = Offer::default();
        let mut inputs = [0; 16];
        for vl in 0..self.config.vls {
            let lane = self.lane(output, vl);
            if self.crossbars.waiting.is_empty(lane) {
                continue;
            }
            offer.waiting |= 1 << vl;
            let reading = self.reading(output, vl);
            let (rows, turn) = (&self.crossbars, self.lanes[lane].turn);
            if let Some(number) = rows.waiting.first_from(lane, (&rows.reading, reading), turn) {
                let input = self.ports[output as usize].sibling(number);
                inputs[usize::from(vl)] = input;
                if let Some(id) = self.first(Crossing { input, output, vl }) {
                    self.offer(&mut offer, output, vl, self.packets[id].bytes);
                }
            }
        }
        if let Some(vl) = self.choose_vl(output, offer) {
            let input = inputs[usize::from(vl)];
            self.cross(Crossing { input, output, vl }, observer);
        }
    }

    /// Begins to send the first packet that waits for this.
    fn cross<O: Observer>(&mut self, crossing: Crossing, observer: &mut O) {
        let Crossing { input, output, vl } = crossing;
        let Some(id) = self.take(crossing) else {
            return;
        };
        let number = self.ports[input as usize].number;
        let reading = self.reading(output, vl);
        self.crossbars.reading.set(reading, number);
        let lane = self.lane(output, vl);
        self.lanes[lane].turn = number + 1;
        let state = &mut self.ports[output as usize];
        (state.input, state.vl) = (number, vl);
        self.crossbars.busy.set(state.place as usize, state.number);
        let tail = self.now + state.rate.transmission(self.packets[id].bytes);
        let packet = &mut self.packets[id];
        packet.waited += self.now - packet.ready;
        let blocks = packet.blocks();
        self.free_buffer(input, vl, blocks, tail);
        self.transmit(output, id, observer);
    }

    /// `output` has sent what it took from its input: others can have that input now.
    pub(super) fn free_input(&mut self, output: u32) {
        let state = &self.ports[output as usize];
        let (switch, vl, number) = (state.place as usize, state.vl, state.input);
        let (first, input) = (state.first, state.sibling(number));
        self.crossbars.busy.clear(switch, state.number);
        let reading = self.reading(output, vl);
        self.crossbars.reading.clear(reading, number);
        let lane = self.lane(input, vl);
        for word in 0..self.crossbars.wanted.words() {
            let idle = !self.crossbars.busy.row(switch)[word];
            for number in each(word, self.crossbars.wanted.row(lane)[word] & idle) {
                self.has_to_decide(first + u32::from(number));
            }
        }
    }

    /// The row of the inputs being read on `vl` of this port's switch.
    fn reading(&self, port: u32, vl: u8) -> usize {
        self.ports[port as usize].place as usize * usize::from(self.config.vls) + usize::from(vl)
    }

    /// Drops everything that waits for a port whose cable is cut.
    pub(super) fn discard_waiting<O: Observer>(&mut self, output: u32, observer: &mut O) {
        for vl in 0..self.config.vls {
            let lane = self.lane(output, vl);
            for word in 0..self.crossbars.waiting.words() {
                while let Some(number) = each(word, self.crossbars.waiting.row(lane)[word]).next() {
                    let input = self.ports[output as usize].sibling(number);
                    if let Some(id) = self.take(Crossing { input, output, vl }) {
                        self.drop_packet(id, output, DropReason::PortDown, observer);
                    }
                }
            }
        }
    }
}
