//! Large fabrics are as fast as memory is: what coming events need is read for many of them together, so that
//! the processor waits for memory once and not for each of them.
//!
//! Nothing here changes anything. What it reads in vain - a packet's way out by a table that it has to ask
//! anew, a queue that is another by then - costs a little time.

use std::hint::black_box;

use super::agenda::{Agenda, Event};
use super::crossbar::Crossing;
use super::network::Network;
use super::packet::Packet;

/// Events that are looked at together.
const AHEAD: usize = 16;

impl<Q: Agenda> Network<Q> {
    /// Reads what the next events will need; how many those are. Each pass reads what the one before found
    /// the way to.
    pub(super) fn look_ahead(&self) -> usize {
        let mut coming = [Event::Begin(0); AHEAD];
        let mut count = 0;
        for (place, event) in coming.iter_mut().zip(self.agenda.coming()) {
            *place = event;
            count += 1;
        }
        let coming = &coming[..count];
        self.pass(coming, |packet| packet.at, |port| self.ports[port as usize].peer);
        self.pass(coming, |packet| self.see_input(packet), |port| self.see_sender(port));
        self.pass(coming, |packet| self.see_output(packet), |port| self.see_next(port));
        count
    }

    /// What is read is put together to nothing of use, lest the compiler leave it out.
    fn pass(&self, coming: &[Event], of: impl Fn(&Packet) -> u32, at: impl Fn(u32) -> u32) {
        let see = |&event: &Event| match event {
            Event::Arrive(packet) => of(&self.packets[packet]),
            Event::Sent(port) | Event::Wake(port) => at(port),
            // Messages are few.
            Event::Begin(_) => 0,
        };
        black_box(coming.iter().map(see).fold(0, |seen, more| seen ^ more));
    }

    /// The port that a packet comes in by, and the one it came from.
    fn see_input(&self, packet: &Packet) -> u32 {
        let input = self.lane(packet.at, packet.vl);
        let sender = self.lane(packet.from, packet.vl);
        self.ports[packet.at as usize].peer
            ^ u32::from(self.lanes[sender].turn)
            ^ self.crossbars.see_input(input)
    }

    /// The port that it leaves a switch by, or the message that it is part of.
    fn see_output(&self, packet: &Packet) -> u32 {
        let input = &self.ports[packet.at as usize];
        if !input.of_switch {
            return self.transfers[packet.message as usize].arrived as u32;
        }
        let number = self.number_out(input, packet.dlid);
        if number > input.last {
            return 0;
        }
        let port = input.sibling(number);
        let output = self.lane(port, packet.vl);
        self.ports[port as usize].peer
            ^ u32::from(self.lanes[output].turn)
            ^ self.crossbars.see_output(output)
    }

    /// A port that will look for something to send, and where that comes from.
    fn see_sender(&self, port: u32) -> u32 {
        let state = &self.ports[port as usize];
        let output = self.lane(port, state.vl);
        let seen = u32::from(self.lanes[output].turn) ^ self.troubles[output].stalled as u32;
        if !state.of_switch {
            return seen ^ self.adapters[state.place as usize].first(state.vl).unwrap_or(0);
        }
        let input = self.lane(state.sibling(state.input), state.vl);
        seen ^ self.crossbars.see_output(output) ^ self.crossbars.see_input(input)
    }

    /// What it is likely to send next.
    fn see_next(&self, port: u32) -> u32 {
        let state = &self.ports[port as usize];
        if !state.of_switch {
            let message = self.adapters[state.place as usize].first(state.vl);
            return message.map_or(0, |message| self.transfers[message as usize].sent as u32);
        }
        let crossing = Crossing::new(state, 0, state.vl);
        let turn = self.lanes[self.lane(port, state.vl)].turn;
        let input = self.crossbars.next_input(crossing, turn);
        let first = input.and_then(|input| self.crossbars.first(Crossing { input, ..crossing }));
        let sender = |packet: &Packet| self.lane(packet.from, packet.vl);
        first.map_or(0, |id| u32::from(self.lanes[sender(&self.packets[id])].turn))
    }
}
