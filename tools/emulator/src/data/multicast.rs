//! Multicast: a switch copies a packet to every port of its mask but the one by which it came, and who is no
//! member of the group drops it.
//!
//! All copies of a packet share its place in the input's buffer, which is free when the last of them has left.
//! An input gives copies as it gives any other packets: to outputs as fast as itself one after the other.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::multicast::{MulticastTable, PortMask};
use snin_fabric::{Mlid, PortIndex, PortNum};

use super::agenda::{Agenda, Event};
use super::crossbar::Crossing;
use super::message::MessageId;
use super::network::Network;
use super::observer::{DropReason, Observer};
use super::port::NO_PORT;

/// Tables, members, and what became of copies.
#[derive(Default, Debug)]
pub(super) struct Multicast {
    /// By switch.
    tables: Vec<MulticastTable>,
    /// The ports that take a group's packets.
    members: BTreeMap<Mlid, BTreeSet<u32>>,
    /// By packet: the place that it shares.
    sharing: BTreeMap<u32, u64>,
    /// In the order in which they came to be shared.
    shared: BTreeMap<u64, Shared>,
    /// How many were shared so far.
    places: u64,
    /// Packets that arrived, by message and port.
    copies: BTreeMap<(u32, u32), u64>,
}

/// A place in a buffer that several copies are in.
#[derive(Debug)]
struct Shared {
    left: u32,
    /// When the last byte of any of them leaves.
    tail: u64,
    /// Whose place: the sender's lane, and the blocks.
    lane: usize,
    blocks: u32,
}

impl Multicast {
    /// A packet leaves its place at `tail`: when the place is free, if it is.
    pub(super) fn leave(&mut self, id: u32, tail: u64) -> Option<u64> {
        let Some(place) = self.sharing.remove(&id) else { return Some(tail) };
        let shared = self.shared.get_mut(&place)?;
        shared.left -= 1;
        shared.tail = shared.tail.max(tail);
        if shared.left > 0 {
            return None;
        }
        self.shared.remove(&place).map(|shared| shared.tail)
    }

    /// Lanes and the blocks that would be counted too often there: once for every copy but one.
    pub(super) fn counted_twice(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let twice = |shared: &Shared| u64::from(shared.left - 1) * u64::from(shared.blocks);
        self.shared.values().map(move |shared| (shared.lane, twice(shared)))
    }

    /// How many get what `port` sends to a group; `None` where there is no such group.
    pub(super) fn receivers(&self, mlid: Mlid, port: u32) -> Option<u64> {
        let members = self.members.get(&mlid)?;
        Some((members.len() - usize::from(members.contains(&port))) as u64)
    }

    fn mask(&self, switch: u32, mlid: Mlid) -> PortMask {
        self.tables.get(switch as usize).map(|table| table.get(mlid)).unwrap_or_default()
    }
}

impl<Q: Agenda> Network<Q> {
    /// From now on switches copy by these tables, one a switch. Copies that wait keep their way out.
    pub fn set_multicast_tables(&mut self, tables: &[MulticastTable]) {
        self.multicast.tables = tables.to_vec();
    }

    /// From now on these ports, and no others, take what is sent to `mlid`. Anybody may send there.
    pub fn set_members(&mut self, mlid: Mlid, ports: impl IntoIterator<Item = PortIndex>) {
        let ports = ports.into_iter().map(|port| port.0).collect();
        self.multicast.members.insert(mlid, ports);
    }

    /// How many packets of a message to a group every member got.
    pub fn copies(&self, message: MessageId) -> BTreeMap<PortIndex, u64> {
        let of = self.multicast.copies.range((message.0, 0)..=(message.0, u32::MAX));
        of.map(|(&(_, port), &packets)| (PortIndex(port), packets)).collect()
    }

    /// A packet to a group is at a switch: copies of it wait for every port of the mask.
    pub(super) fn copy<O: Observer>(&mut self, id: u32, mlid: Mlid, observer: &mut O) {
        let packet = self.packets[id];
        let input = &self.ports[packet.at as usize];
        let (number, last) = (input.number, input.last);
        let mask = self.multicast.mask(input.place, mlid);
        let leads_on = |&port: &PortNum| port.0 != number && port.0 != 0 && port.0 <= last;
        let outputs: Vec<u32> = mask.iter().filter(leads_on).map(|p| input.sibling(p.0)).collect();
        let cabled = |&&output: &&u32| self.ports[output as usize].peer != NO_PORT;
        let leads = |output: &u32| {
            let port = &self.ports[*output as usize];
            port.link.is_up() && port.gives()
        };
        let lane = |output: u32| self.lanes_of.vl(output, number, packet.sl());
        let (up, down): (Vec<u32>, Vec<u32>) = outputs.iter().filter(cabled).partition(|&output| {
            leads(output) && (self.lanes_of.are_same() || lane(*output).is_some())
        });
        for output in down {
            let lane = self.lane(output, packet.vl);
            self.troubles[lane].discards += 1;
        }
        if up.is_empty() {
            return self.drop_packet(id, packet.at, DropReason::NoRoute, observer);
        }
        // A faster link would run out of bytes: the last must be in when it is to leave.
        let in_time = |&output: &u32| {
            let transmission = self.rate(output).transmission(packet.bytes);
            (packet.tail + self.switch_delay).saturating_sub(transmission)
        };
        let in_time = up.iter().map(in_time).max().unwrap_or(0);
        if in_time > self.now {
            return self.agenda.push(in_time, Event::Arrive(id));
        }
        let transfer = &mut self.transfers[packet.message as usize];
        transfer.copied += up.len() as u64 - 1;
        let (lane, blocks) = (self.lane(packet.from, packet.vl), packet.blocks());
        let place = self.multicast.places;
        if up.len() > 1 {
            self.multicast.places += 1;
            let shared = Shared { left: up.len() as u32, tail: 0, lane, blocks };
            self.multicast.shared.insert(place, shared);
        }
        let mut copies = vec![id];
        copies.extend((1..up.len()).map(|_| self.packets.insert(packet)));
        for (&output, &copy) in up.iter().zip(&copies) {
            if up.len() > 1 {
                self.multicast.sharing.insert(copy, place);
            }
            let out = self.ports[output as usize].number;
            (self.packets[copy].out, self.packets[copy].ready) = (out, self.now);
            if let Some(vl) = self.lanes_of.vl(output, number, packet.sl()) {
                self.packets[copy].set_vl_out(vl);
            }
            let crossing = Crossing::new(&self.ports[output as usize], number, packet.vl);
            self.enqueue(copy, crossing);
        }
    }

    /// A packet to a group is at an end port.
    pub(super) fn receive_copy<O: Observer>(&mut self, id: u32, mlid: Mlid, observer: &mut O) {
        let packet = self.packets[id];
        let port = packet.at;
        let is_member = |members: &BTreeSet<u32>| members.contains(&port);
        if !self.multicast.members.get(&mlid).is_some_and(is_member) {
            return self.drop_packet(id, port, DropReason::Stranger, observer);
        }
        self.free_buffer(packet.from, packet.vl, packet.blocks(), self.now);
        self.packets.remove(id);
        *self.multicast.copies.entry((packet.message, port)).or_default() += 1;
        self.count(&packet, observer);
    }
}
