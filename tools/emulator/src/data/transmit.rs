//! What switches and adapters have in common: choosing a VL, sending, freeing, dropping.

use snin_fabric::PortIndex;

use super::agenda::{Agenda, Event};
use super::bits::each;
use super::clock::{NEVER, ns};
use super::message::MessageId;
use super::network::Network;
use super::observer::{DropReason, Dropped, Observer, Transmission};
use super::packet::{AT_SOURCE, blocks};

/// What a port has to send, VL by VL.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Offer {
    /// VLs with a packet.
    pub(super) waiting: u16,
    /// VLs with a packet and the credits for it.
    pub(super) ready: u16,
    /// VLs with a packet that lacks only credits.
    pub(super) unpaid: u16,
}

impl<Q: Agenda> Network<Q> {
    pub(super) fn lane(&self, port: u32, vl: u8) -> usize {
        port as usize * usize::from(self.config.vls) + usize::from(vl)
    }

    /// Whether the other end has room for a packet of `bytes`.
    pub(super) fn offer(&mut self, offer: &mut Offer, port: u32, vl: u8, bytes: u16) {
        let lane = self.lane(port, vl);
        let set = if self.lanes[lane].has(blocks(bytes), self.now) {
            &mut offer.ready
        } else {
            &mut offer.unpaid
        };
        *set |= 1 << vl;
        offer.waiting |= 1 << vl;
    }

    /// The VL to send on; with none, the port will be woken when there may be one.
    pub(super) fn choose_vl(&mut self, port: u32, offer: Offer) -> Option<u8> {
        let state = &mut self.ports[port as usize];
        let vl = state.arbiter.choose(&self.arbitration, offer.ready);
        if vl.is_none() && offer.waiting != 0 {
            self.stall(port, offer);
        }
        vl
    }

    fn stall(&mut self, port: u32, offer: Offer) {
        self.ports[port as usize].stalled |= offer.waiting;
        for vl in each(0, u64::from(offer.waiting)) {
            let lane = self.lane(port, vl);
            let lane = &mut self.lanes[lane];
            lane.stalled_since = lane.stalled_since.min(self.now);
            if offer.unpaid & (1 << vl) != 0 {
                match lane.next_credits() {
                    Some(at) => self.wake(port, at),
                    None => lane.starved = true,
                }
            }
        }
    }

    fn end_stall(&mut self, port: u32) {
        let stalled = std::mem::take(&mut self.ports[port as usize].stalled);
        for vl in each(0, u64::from(stalled)) {
            let lane = self.lane(port, vl);
            let lane = &mut self.lanes[lane];
            let since = std::mem::replace(&mut lane.stalled_since, NEVER);
            lane.counters.wait += self.now - since;
        }
    }

    fn wake(&mut self, port: u32, at: u64) {
        let state = &mut self.ports[port as usize];
        if at < state.wake_at {
            state.wake_at = at;
            self.agenda.push(at, Event::Wake(port));
        }
    }

    /// Begins to send a packet. Its VL has the credits.
    pub(super) fn transmit<O: Observer>(&mut self, port: u32, id: u32, observer: &mut O) {
        if self.ports[port as usize].stalled != 0 {
            self.end_stall(port);
        }
        let packet = &mut self.packets[id];
        let lane = port as usize * usize::from(self.config.vls) + usize::from(packet.vl);
        let lane = &mut self.lanes[lane];
        lane.take(packet.blocks());
        lane.counters.bytes += u64::from(packet.bytes);
        lane.counters.packets += 1;
        self.statistics.transmissions += 1;

        let state = &mut self.ports[port as usize];
        state.arbiter.sent(&self.arbitration, packet.vl, packet.bytes);
        state.busy = true;
        let end = self.now + state.rate.transmission(packet.bytes);
        let there = self.now + self.propagation;
        packet.at = state.peer;
        packet.tail = end + self.propagation;
        let known =
            if state.to_switch { there + state.header + self.switch_delay } else { packet.tail };
        observer.transmitted(&Transmission {
            port: PortIndex(port),
            vl: packet.vl,
            message: MessageId(packet.message),
            flow: self.transfers[packet.message as usize].flow,
            acknowledgement: packet.ack,
            bytes: packet.bytes,
            begin: snin_protocol::Time(self.now / 1_000),
            end: ns(end),
        });
        self.agenda.push(end, Event::Sent(port));
        self.agenda.push(known, Event::Arrive(id));
    }

    /// A port has sent the last byte.
    pub(super) fn sent(&mut self, port: u32) {
        let state = &mut self.ports[port as usize];
        state.busy = false;
        state.free_at = self.now;
        if state.of_switch {
            self.free_input(port);
        }
        self.has_to_decide(port);
    }

    /// The buffer that a packet came into at port `at` is free of it from `tail` on: the sender will know.
    pub(super) fn free_buffer(&mut self, at: u32, vl: u8, blocks: u32, tail: u64) {
        let sender = self.ports[at as usize].peer;
        let lane = self.lane(sender, vl);
        let lane = &mut self.lanes[lane];
        let back = lane.give_back(blocks, tail + self.propagation);
        if std::mem::take(&mut lane.starved) {
            self.wake(sender, back);
        }
    }

    /// Takes a packet that is in no queue out of the network, counted at `port`.
    pub(super) fn drop_packet<O: Observer>(
        &mut self,
        id: u32,
        port: u32,
        reason: DropReason,
        observer: &mut O,
    ) {
        let packet = self.packets[id];
        if packet.at != AT_SOURCE {
            self.free_buffer(packet.at, packet.vl, packet.blocks(), packet.tail.max(self.now));
        }
        let lane = self.lane(port, packet.vl);
        let counters = &mut self.lanes[lane].counters;
        *match reason {
            DropReason::NoRoute | DropReason::Looping => &mut counters.relay_errors,
            DropReason::PortDown | DropReason::NoRoom => &mut counters.discards,
            DropReason::Damaged | DropReason::Stranger => &mut counters.receive_errors,
        } += 1;
        self.statistics.dropped += 1;
        if !packet.ack {
            self.transfers[packet.message as usize].lost += 1;
        }
        observer.dropped(&Dropped {
            port: PortIndex(port),
            vl: packet.vl,
            message: MessageId(packet.message),
            acknowledgement: packet.ack,
            reason,
            at: ns(self.now),
        });
        self.packets.remove(id);
    }
}
