//! MADs on their way.

use snin_fabric::Lid;
use snin_mad::{Class, Mad, PERMISSIVE};

/// A MAD with the addresses of its local route header (IBA 7.7).
#[derive(Clone)]
pub(crate) struct Packet {
    pub(crate) mad: Mad,
    /// [`PERMISSIVE`] on a directed route.
    pub(crate) dlid: Lid,
    pub(crate) slid: Lid,
    /// The port by which it came to the node where it is now; of a switch's own, port 0.
    pub(crate) by: u32,
    /// Switches passed by LID.
    pub(crate) relays: u8,
    /// Whether chance has had its say.
    pub(crate) tried: bool,
}

impl Packet {
    pub(crate) fn is_smp(&self) -> bool {
        self.mad.header().class().is_subnet()
    }

    pub(crate) fn is_directed(&self) -> bool {
        self.mad.header().class() == Class::DirectedSubnet
    }

    /// Leaves the LID-routed part of its way.
    pub(crate) const fn by_path(&mut self) {
        (self.dlid, self.slid) = (PERMISSIVE, PERMISSIVE);
    }

    pub(crate) const fn by_lid(&mut self, from: Lid, to: Lid) {
        (self.dlid, self.slid) = (to, from);
    }
}

/// Packets by number, so that events are small and packets stay where they are.
#[derive(Default)]
pub(crate) struct Packets {
    slots: Vec<Packet>,
    free: Vec<u32>,
}

impl Packets {
    pub(crate) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, packet: Packet) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = packet;
                slot
            }
            None => {
                self.slots.push(packet);
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        self.free.push(slot);
    }

    pub(crate) fn get(&mut self, slot: u32) -> &mut Packet {
        &mut self.slots[slot as usize]
    }
}
