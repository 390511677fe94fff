//! Switches: where a packet goes, where it waits, who is next.

use snin_fabric::{Mlid, PortIndex};
use snin_protocol::Time;

use super::agenda::{Agenda, Event};
use super::bits::each;
use super::clock::ns;
use super::config::Queues;
use super::crossbar::Crossing;
use super::message::MessageId;
use super::network::Network;
use super::observer::{DropReason, Observer, Wait};
use super::port::{NO_PORT, Port};
use super::transmit::Offer;

/// Of the packets that could leave on a VL, the one whose turn it is.
#[derive(Clone, Copy)]
struct First {
    /// By how far its input is from the one whose turn it is, then by time.
    order: (u8, u64),
    crossing: Crossing,
    bytes: u16,
}

impl<Q: Agenda> Network<Q> {
    /// A packet's header is in and read.
    pub(super) fn arrive_at_switch<O: Observer>(&mut self, id: u32, observer: &mut O) {
        let packet = &self.packets[id];
        let (input, tail, bytes) = (packet.at, packet.tail, packet.bytes);
        if packet.lost {
            return self.drop_packet(id, input, DropReason::Damaged, observer);
        }
        if !self.ports[input as usize].takes() {
            return self.drop_packet(id, input, DropReason::Inactive, observer);
        }
        if let Some(mlid) = Mlid::new(packet.dlid) {
            return self.copy(id, mlid, observer);
        }
        let output = match self.route(input, packet.dlid) {
            Ok(output) => output,
            Err(reason) => return self.drop_packet(id, input, reason, observer),
        };
        let port = &self.ports[output as usize];
        if !port.link.is_up() {
            return self.drop_packet(id, output, DropReason::PortDown, observer);
        }
        if !port.gives() {
            return self.drop_packet(id, output, DropReason::Inactive, observer);
        }
        let mut lane = None;
        if !self.lanes_of.are_same() {
            let (number, sl) = (self.ports[input as usize].number, self.packets[id].sl());
            lane = self.lanes_of.vl(output, number, sl);
            if lane.is_none() {
                return self.drop_packet(id, output, DropReason::NoLane, observer);
            }
        }
        // A faster link would run out of bytes: the last must be in when it is to leave.
        let port = &self.ports[output as usize];
        let transmission = self.rate(output).transmission(bytes);
        let in_time = (tail + self.switch_delay).saturating_sub(transmission);
        if in_time > self.now {
            return self.agenda.push(in_time, Event::Arrive(id));
        }
        let packet = &mut self.packets[id];
        (packet.out, packet.ready) = (port.number, self.now);
        if let Some(vl) = lane {
            packet.set_vl_out(vl);
        }
        let crossing = Crossing::new(port, self.ports[input as usize].number, packet.vl);
        self.enqueue(id, crossing);
    }

    /// The port that the packet leaves by.
    fn route(&mut self, input: u32, dlid: u16) -> Result<u32, DropReason> {
        let number = self.number_out(&self.ports[input as usize], dlid);
        let port = &mut self.ports[input as usize];
        (port.asked, port.answer) = (dlid, number);
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

    /// What the switch's table says, which `input` may remember.
    pub(super) fn number_out(&self, input: &Port, dlid: u16) -> u8 {
        if input.asked == dlid {
            return input.answer;
        }
        let table = &self.tables[input.place as usize];
        table.get(usize::from(dlid)).copied().unwrap_or(u8::MAX)
    }

    pub(super) fn enqueue(&mut self, id: u32, crossing: Crossing) {
        let list = self.crossbars.queue_in(crossing);
        let was_empty = list.first().is_none();
        self.packets.append(list, id);
        if was_empty {
            self.announce(crossing);
        }
    }

    /// The output learns of a packet that it can take; it is told when it and the input are free.
    fn announce(&mut self, crossing: Crossing) {
        let output = crossing.output();
        self.settle(output);
        // Who sends from an input that gives as much as it can keeps others from it until it has sent.
        let is_taken = self.crossbars.is_taken(crossing);
        if is_taken {
            self.settle_readers(crossing);
        }
        self.crossbars.announce(crossing);
        if self.ports[output as usize].busy {
            self.plan(output);
        } else {
            self.has_to_decide(output);
        }
        if is_taken && self.crossbars.is_taken(crossing) {
            self.plan_readers(crossing);
        }
    }

    /// Frees the input of a port that has sent, where no event was planned for that.
    fn settle(&mut self, output: u32) {
        let state = &self.ports[output as usize];
        if state.busy && !state.planned && state.busy_until <= self.now {
            self.free_input(output);
        }
    }

    /// The same of all that send from this input.
    fn settle_readers(&mut self, crossing: Crossing) {
        for word in 0..self.crossbars.words() {
            for number in each(word, self.crossbars.readers(crossing, word)) {
                self.settle(crossing.port(number));
            }
        }
    }

    /// Plans the end of all that send from this input.
    fn plan_readers(&mut self, crossing: Crossing) {
        for word in 0..self.crossbars.words() {
            for number in each(word, self.crossbars.readers(crossing, word)) {
                self.plan(crossing.port(number));
            }
        }
    }

    /// Takes the first packet that waits for this out of its queue; who is behind it may be for another
    /// output.
    fn take(&mut self, crossing: Crossing) -> Option<u32> {
        let list = self.crossbars.queue(crossing);
        let id = self.packets.take_first(list)?;
        let next = list.first();
        if self.config.queues == Queues::PerOutput && next.is_some() {
            return Some(id);
        }
        self.crossbars.withdraw(crossing);
        if let Some(next) = next {
            self.announce(Crossing { output: self.packets[next].out, ..crossing });
        }
        Some(id)
    }

    /// Sends a packet if there is one: a VL by arbitration, of its inputs the next. Where lanes are the same
    /// everywhere, what leaves on a VL came in on it.
    pub(super) fn decide_at_switch<O: Observer>(&mut self, output: u32, observer: &mut O) {
        if !self.lanes_of.are_same() {
            return self.decide_between_lanes(output, observer);
        }
        let mut offer = Offer::default();
        let mut inputs = [0; 16];
        for vl in 0..self.config.vls {
            let crossing = Crossing::new(&self.ports[output as usize], 0, vl);
            if !self.crossbars.is_waited_for(crossing) {
                continue;
            }
            offer.waiting |= 1 << vl;
            let turn = self.lanes[self.lane(output, vl)].turn;
            if let Some(input) = self.crossbars.next_input(crossing, turn) {
                inputs[usize::from(vl)] = input;
                if let Some(id) = self.crossbars.first(Crossing { input, ..crossing }) {
                    self.offer(&mut offer, output, vl, self.packets[id].bytes);
                }
            }
        }
        if let Some(vl) = self.choose_vl(output, offer) {
            let input = inputs[usize::from(vl)];
            self.cross(Crossing::new(&self.ports[output as usize], input, vl), vl, observer);
        }
    }

    /// The same where packets change lanes: of a VL out, what came in on any VL; of one input, who came first.
    fn decide_between_lanes<O: Observer>(&mut self, output: u32, observer: &mut O) {
        let mut offer = Offer::default();
        let mut first: [Option<First>; 16] = [None; 16];
        for vl in 0..self.config.vls {
            let crossing = Crossing::new(&self.ports[output as usize], 0, vl);
            for word in 0..self.crossbars.words() {
                for input in each(word, self.crossbars.waiting(crossing, word)) {
                    let crossing = Crossing { input, ..crossing };
                    let Some(id) = self.crossbars.first(crossing) else { continue };
                    let packet = &self.packets[id];
                    let vl = packet.vl_out();
                    offer.waiting |= 1 << vl;
                    if self.crossbars.is_taken(crossing) {
                        continue;
                    }
                    let turn = self.lanes[self.lane(output, vl)].turn;
                    let order = (input.wrapping_sub(turn), packet.ready);
                    let known = &mut first[usize::from(vl)];
                    if known.is_none_or(|known| order < known.order) {
                        *known = Some(First { order, crossing, bytes: packet.bytes });
                    }
                }
            }
        }
        for (vl, known) in (0..).zip(first) {
            if let Some(known) = known {
                self.offer(&mut offer, output, vl, known.bytes);
            }
        }
        if let Some(vl) = self.choose_vl(output, offer)
            && let Some(known) = first[usize::from(vl)]
        {
            self.cross(known.crossing, vl, observer);
        }
    }

    /// Begins to send the first packet that waits for this.
    fn cross<O: Observer>(&mut self, crossing: Crossing, vl: u8, observer: &mut O) {
        let Some(id) = self.take(crossing) else {
            return;
        };
        let output = crossing.output();
        // Where all links are alike, no output sends from an input that gives anything.
        if self.rates.len() > 1 {
            self.settle_readers(crossing);
        }
        let (rate, most) = self.loads(crossing);
        self.crossbars.begin(crossing, rate, most);
        let lane = self.lane(output, vl);
        self.lanes[lane].turn = crossing.input + 1;
        let state = &mut self.ports[output as usize];
        (state.input, state.vl) = (crossing.input, crossing.vl);
        let packet = &mut self.packets[id];
        let here = self.now - packet.ready;
        packet.waited += here;
        if here > 0 && !packet.ack {
            observer.waited(&Wait {
                port: PortIndex(output),
                vl,
                message: MessageId(packet.message),
                flow: packet.flow,
                here: ns(here),
                altogether: ns(packet.waited),
                at: Time(self.now / 1_000),
            });
        }
        let (sender, blocks) = (packet.from, packet.blocks());
        self.transmit(output, (id, vl), observer);
        if let Some(tail) = self.multicast.leave(id, self.ports[output as usize].busy_until) {
            self.free_buffer(sender, crossing.vl, blocks, tail);
        }
        if self.crossbars.is_wanted(crossing) && self.crossbars.is_taken(crossing) {
            self.plan_readers(crossing);
        }
        let mut vls = (0..self.config.vls).map(|vl| Crossing { vl, ..crossing });
        if vls.any(|crossing| self.crossbars.is_waited_for(crossing)) {
            self.plan(output);
        }
    }

    /// Mbit/s of an output, and those at which its input gives: as it takes. Where all are alike any number does.
    fn loads(&self, crossing: Crossing) -> (u32, u32) {
        if self.rates.len() == 1 {
            return (1, 1);
        }
        let input = crossing.port(crossing.input);
        (self.rate(crossing.output()).megabits(), self.rate(input).megabits())
    }

    /// `output` has sent what it took from its input: others can have that input now.
    pub(super) fn free_input(&mut self, output: u32) {
        let state = &mut self.ports[output as usize];
        state.busy = false;
        let crossing = Crossing::new(state, state.input, state.vl);
        let (rate, most) = self.loads(crossing);
        if !self.crossbars.end(crossing, rate, most) {
            return;
        }
        for word in 0..self.crossbars.words() {
            for number in each(word, self.crossbars.idle_outputs(crossing, word)) {
                self.has_to_decide(crossing.port(number));
            }
        }
    }

    /// Drops everything that waits for a port whose cable is cut, or that is not Active.
    pub(super) fn discard_waiting<O: Observer>(&mut self, output: u32, observer: &mut O) {
        let reason = match self.ports[output as usize].link.is_up() {
            true => DropReason::Inactive,
            false => DropReason::PortDown,
        };
        for vl in 0..self.config.vls {
            let crossing = Crossing::new(&self.ports[output as usize], 0, vl);
            while let Some(input) = self.crossbars.any_input(crossing) {
                if let Some(id) = self.take(Crossing { input, ..crossing }) {
                    self.drop_packet(id, output, reason, observer);
                }
            }
        }
    }
}
