//! Adapters: messages become packets, packets become messages and acknowledgements.

use std::collections::VecDeque;

use snin_fabric::{Lid, Mlid, PortIndex};

use super::agenda::Agenda;
use super::clock::{NEVER, ns};
use super::message::MessageId;
use super::network::Network;
use super::observer::{DropReason, Observer};
use super::packet::{Packet, data_bytes};
use super::transmit::Offer;

/// Acknowledgements that may wait at an end port; more are dropped.
const MAX_ACKS: usize = 4_096;

/// What an end port has to send.
#[derive(Debug)]
pub(super) struct Adapter {
    /// By VL: messages that take turns.
    messages: Vec<VecDeque<u32>>,
    acknowledgements: VecDeque<u32>,
}

impl Adapter {
    pub(super) fn new(vls: usize) -> Self {
        Self { messages: vec![VecDeque::new(); vls], acknowledgements: VecDeque::new() }
    }

    /// The message whose turn it is on a VL.
    pub(super) fn first(&self, vl: u8) -> Option<u32> {
        self.messages[usize::from(vl)].front().copied()
    }
}

impl<Q: Agenda> Network<Q> {
    /// A message may be sent from now on.
    pub(super) fn begin(&mut self, message: u32) {
        let idle = self.idle_time(message);
        let transfer = &mut self.transfers[message as usize];
        // Its port had a lane for it when it was given to it.
        let vl = self.lanes_of.vl(transfer.port, 0, transfer.sl).unwrap_or(0);
        (transfer.idle, transfer.vl) = (idle, vl);
        let port = transfer.port;
        self.adapter(port).messages[usize::from(vl)].push_back(message);
        self.active += 1;
        self.has_to_decide(port);
    }

    fn adapter(&mut self, port: u32) -> &mut Adapter {
        &mut self.adapters[self.ports[port as usize].place as usize]
    }

    /// Sends a packet if there is one; acknowledgements before data of the same VL.
    pub(super) fn decide_at_adapter<O: Observer>(&mut self, port: u32, observer: &mut O) {
        let mut offer = Offer::default();
        for vl in 0..self.config.vls {
            if let Some(bytes) = self.next_size(port, vl) {
                self.offer(&mut offer, port, vl, bytes);
            }
        }
        let Some(vl) = self.choose_vl(port, offer) else {
            return;
        };
        let acknowledgement = if self.acknowledges(port, vl) {
            self.adapter(port).acknowledgements.pop_front()
        } else {
            None
        };
        if let Some(id) = acknowledgement.or_else(|| self.next_packet(port, vl)) {
            self.transmit(port, (id, vl), observer);
            self.plan(port);
        }
    }

    /// Drops everything that an adapter has to send by a port that is not Active, paced messages at their pace.
    pub(super) fn discard_at_adapter<O: Observer>(&mut self, port: u32, observer: &mut O) {
        while let Some(id) = self.adapter(port).acknowledgements.pop_front() {
            self.drop_packet(id, port, DropReason::Inactive, observer);
        }
        for vl in 0..self.config.vls {
            while self.next_size(port, vl).is_some() {
                let Some(id) = self.next_packet(port, vl) else { break };
                self.drop_packet(id, port, DropReason::Inactive, observer);
            }
        }
    }

    /// Whether acknowledgements leave by this VL.
    fn acknowledges(&self, port: u32, vl: u8) -> bool {
        self.lanes_of.vl(port, 0, self.config.ack_sl) == Some(vl)
    }

    /// Bytes of the next packet on `vl`.
    fn next_size(&mut self, port: u32, vl: u8) -> Option<u16> {
        let place = self.ports[port as usize].place as usize;
        if self.acknowledges(port, vl)
            && let Some(&id) = self.adapters[place].acknowledgements.front()
        {
            return Some(self.packets[id].bytes);
        }
        // A paced message waits, and those behind it take their turns.
        let mut soonest = NEVER;
        let mut left = self.adapters[place].messages[usize::from(vl)].len();
        while left > 0 {
            let messages = &mut self.adapters[place].messages[usize::from(vl)];
            let &message = messages.front()?;
            let transfer = &self.transfers[message as usize];
            if transfer.until <= self.now {
                messages.pop_front();
                self.active -= 1;
            } else if transfer.paced_until > self.now {
                soonest = soonest.min(transfer.paced_until);
                messages.rotate_left(1);
            } else {
                return Some(data_bytes(transfer.payload(transfer.sent)));
            }
            left -= 1;
        }
        if soonest != NEVER {
            self.wake(port, soonest);
        }
        None
    }

    /// Makes the next packet of the message whose turn it is on `vl`.
    fn next_packet(&mut self, port: u32, vl: u8) -> Option<u32> {
        let state = &self.ports[port as usize];
        let messages = &mut self.adapters[state.place as usize].messages[usize::from(vl)];
        let message = messages.pop_front()?;
        let transfer = &mut self.transfers[message as usize];
        let payload = transfer.payload(transfer.sent);
        let born = transfer.begin.max(state.busy_until).max(transfer.paced_until);
        if let Some(pace) = transfer.pace {
            transfer.paced_until = self.now + pace.transmission(data_bytes(payload));
        }
        transfer.sent += 1;
        if transfer.is_sent() {
            self.active -= 1;
        } else {
            messages.push_back(message);
        }
        Some(self.packets.insert(Packet {
            bytes: data_bytes(payload),
            payload,
            last: transfer.is_sent(),
            ..Packet::new((message, transfer.flow), transfer.dlid, (transfer.sl, vl), born)
        }))
    }

    /// A packet's last byte is at an end port.
    pub(super) fn arrive_at_adapter<O: Observer>(&mut self, id: u32, observer: &mut O) {
        let packet = self.packets[id];
        let port = packet.at;
        if packet.lost {
            return self.drop_packet(id, port, DropReason::Damaged, observer);
        }
        if !self.ports[port as usize].takes() {
            return self.drop_packet(id, port, DropReason::Inactive, observer);
        }
        if let Some(mlid) = Mlid::new(packet.dlid) {
            return self.receive_copy(id, mlid, observer);
        }
        let owner = self.addresses.owner(Lid(packet.dlid));
        let Some((_, offset)) = owner.filter(|&(owner, _)| owner == PortIndex(port)) else {
            return self.drop_packet(id, port, DropReason::Stranger, observer);
        };
        self.free_buffer(packet.from, packet.vl, packet.blocks(), self.now);
        self.packets.remove(id);
        if packet.ack {
            self.statistics.acknowledgements += 1;
            if packet.last {
                observer.acknowledged(MessageId(packet.message), ns(self.now));
            }
            return;
        }
        self.count(&packet, observer);
        let transfer = &self.transfers[packet.message as usize];
        if !transfer.background {
            let latency = ns(self.now - packet.born).nanos();
            self.statistics.arrived(packet.payload, ns(packet.waited).nanos(), latency);
        }
        let due = packet.last || transfer.arrived.is_multiple_of(u64::from(self.config.ack_every));
        if transfer.acknowledged && due {
            self.acknowledge(&packet, offset, observer);
        }
    }

    /// One packet more of its message.
    pub(super) fn count<O: Observer>(&mut self, packet: &Packet, observer: &mut O) {
        let transfer = &mut self.transfers[packet.message as usize];
        transfer.arrived += 1;
        transfer.delivered += u64::from(packet.payload);
        let expected = transfer.packets * transfer.receivers;
        if transfer.arrived == expected && transfer.completed == NEVER {
            transfer.completed = self.now;
            if let Some(idle) = transfer.idle.filter(|_| !transfer.background) {
                self.statistics.completed(self.now - transfer.begin, idle);
            }
            observer.completed(MessageId(packet.message), ns(self.now));
        }
    }

    /// Sends one back to the source, by the address that has the same offset from its base as the one that
    /// the packet came to: both directions use the same tree.
    fn acknowledge<O: Observer>(&mut self, packet: &Packet, offset: u16, observer: &mut O) {
        let source = PortIndex(self.transfers[packet.message as usize].port);
        let Some(base) = self.addresses.base(source) else {
            return;
        };
        let offset = offset % self.addresses.lmc(source).addresses() as u16;
        let (port, sl) = (packet.at, self.config.ack_sl);
        let vl = self.lanes_of.vl(port, 0, sl);
        let (of, levels) = ((packet.message, packet.flow), (sl, vl.unwrap_or(0)));
        let ack = Packet {
            ack: true,
            last: packet.last,
            ..Packet::new(of, base.0 + offset, levels, self.now)
        };
        let id = self.packets.insert(ack);
        if vl.is_none() {
            return self.drop_packet(id, port, DropReason::NoLane, observer);
        }
        if self.adapter(port).acknowledgements.len() >= MAX_ACKS {
            return self.drop_packet(id, port, DropReason::NoRoom, observer);
        }
        self.adapter(port).acknowledgements.push_back(id);
        self.has_to_decide(port);
    }
}
