//! Common parts of switches and adapters: choosing a VL, sending, freeing, dropping.

use snin_fabric::PortIndex;

use super::agenda::{Agenda, Event};
use super::bits::each;
use super::clock::{NEVER, ns};
use super::message::MessageId;
use super::network::Network;
use super::observer::{DropReason, Dropped, Observer, Transmission};
use super::packet::{AT_SOURCE, LOCAL_ROUTE_HEADER, blocks};

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
        let vl = state.arbiter.choose(self.lanes_of.tables(port), offer.ready);
        if vl.is_none() && offer.waiting != 0 {
            self.stall(port, offer);
        }
        vl
    }

    fn stall(&mut self, port: u32, offer: Offer) {
        self.ports[port as usize].stalled |= offer.waiting;
        for vl in each(0, u64::from(offer.waiting)) {
            let lane = self.lane(port, vl);
            let troubles = &mut self.troubles[lane];
            troubles.stalled_since = troubles.stalled_since.min(self.now);
            if offer.unpaid & (1 << vl) != 0 {
                self.lanes[lane].starved = true;
                if let Some(at) = self.lanes[lane].next_credits() {
                    self.wake(port, at);
                }
            }
        }
    }

    fn end_stall(&mut self, port: u32) {
        let stalled = std::mem::take(&mut self.ports[port as usize].stalled);
        for vl in each(0, u64::from(stalled)) {
            let lane = self.lane(port, vl);
            let troubles = &mut self.troubles[lane];
            let since = std::mem::replace(&mut troubles.stalled_since, NEVER);
            troubles.stalled += self.now - since;
        }
    }

    pub(super) fn wake(&mut self, port: u32, at: u64) {
        let state = &mut self.ports[port as usize];
        if at < state.wake_at {
            state.wake_at = at;
            self.agenda.push(at, Event::Wake(port));
        }
    }

    /// Begins to send a packet on a VL that has the credits.
    pub(super) fn transmit<O: Observer>(
        &mut self,
        port: u32,
        (id, vl): (u32, u8),
        observer: &mut O,
    ) {
        if self.ports[port as usize].stalled != 0 {
            self.end_stall(port);
        }
        let rate = self.rate(port);
        let lane = self.lane(port, vl);
        let packet = &mut self.packets[id];
        packet.vl = vl;
        self.lanes[lane].send(packet.blocks(), packet.bytes);
        self.statistics.transmissions += 1;

        let state = &mut self.ports[port as usize];
        state.arbiter.sent(self.lanes_of.tables(port), vl, packet.bytes);
        let end = self.now + rate.transmission(packet.bytes);
        (state.busy, state.planned, state.busy_until) = (true, false, end);
        let there = self.now + self.propagation;
        if packet.at == AT_SOURCE && packet.last && !packet.ack {
            observer.sent(MessageId(packet.message), ns(end));
        }
        (packet.at, packet.from) = (state.peer, port);
        packet.tail = end + self.propagation;
        let known = if state.to_switch {
            there + rate.transmission(LOCAL_ROUTE_HEADER) + self.switch_delay
        } else {
            packet.tail
        };
        observer.transmitted(&Transmission {
            port: PortIndex(port),
            vl,
            message: MessageId(packet.message),
            flow: packet.flow,
            acknowledgement: packet.ack,
            bytes: packet.bytes,
            begin: snin_protocol::Time(self.now / 1_000),
            end: ns(end),
        });
        self.agenda.push(known, Event::Arrive(id));
    }

    /// Plans the event that a port has sent, because something waits for it. Most ports need none, which saves an
    /// event a packet.
    pub(super) fn plan(&mut self, port: u32) {
        let state = &mut self.ports[port as usize];
        if !state.planned {
            state.planned = true;
            self.agenda.push(state.busy_until, Event::Sent(port));
        }
    }

    /// A port that was waited for has sent the last byte.
    pub(super) fn sent(&mut self, port: u32) {
        if self.ports[port as usize].of_switch {
            self.free_input(port);
        } else {
            self.ports[port as usize].busy = false;
        }
        self.has_to_decide(port);
    }

    /// The buffer at the other end of `sender`'s cable is free of a packet from `tail` on: it will know.
    pub(super) fn free_buffer(&mut self, sender: u32, vl: u8, blocks: u32, tail: u64) {
        let lane = self.lane(sender, vl);
        let back = tail + self.propagation;
        if self.lanes[lane].give_back(blocks, back) {
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
        if packet.at != AT_SOURCE
            && let Some(tail) = self.multicast.leave(id, packet.tail.max(self.now))
        {
            self.free_buffer(packet.from, packet.vl, packet.blocks(), tail);
        }
        let lane = self.lane(port, packet.vl);
        let troubles = &mut self.troubles[lane];
        *match reason {
            DropReason::NoRoute | DropReason::Looping => &mut troubles.relay_errors,
            DropReason::PortDown
            | DropReason::Inactive
            | DropReason::NoRoom
            | DropReason::NoLane => &mut troubles.discards,
            DropReason::Damaged | DropReason::Stranger => &mut troubles.receive_errors,
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
