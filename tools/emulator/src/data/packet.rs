//! Packets on their way, by number.

use std::ops::{Index, IndexMut};

/// No packet, no message.
pub(super) const NONE: u32 = u32::MAX;
/// A packet that is still where it was made.
pub(super) const AT_SOURCE: u32 = u32::MAX;
/// A place without a packet.
const FREE: u32 = u32::MAX - 1;

/// LRH, all that a switch needs to forward a packet (IBA 7.7).
pub(super) const LOCAL_ROUTE_HEADER: u16 = 8;
/// LRH 8, BTH 12, ICRC 4, VCRC 2.
pub(super) const OVERHEAD: u16 = 26;
/// An acknowledgement: that, and AETH 4.
pub(super) const ACK_BYTES: u16 = OVERHEAD + 4;
/// Bytes of a flow control block (IBA 7.9.4).
pub(super) const BLOCK: u32 = 64;

/// One packet. Times in picoseconds. One line of a processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Packet {
    /// When it could leave where it is.
    pub(super) ready: u64,
    /// When its last byte is where it is.
    pub(super) tail: u64,
    /// When it could leave its source.
    pub(super) born: u64,
    /// How long it waited in switches.
    pub(super) waited: u64,
    pub(super) message: u32,
    /// The port it came in by, or is coming.
    pub(super) at: u32,
    /// The port at the other end of that cable, which will know when the packet has gone on.
    pub(super) from: u32,
    /// The next in its queue.
    pub(super) next: u32,
    pub(super) dlid: u16,
    /// Everything from LRH to VCRC.
    pub(super) bytes: u16,
    pub(super) payload: u16,
    /// The number of the port that it leaves a switch by.
    pub(super) out: u8,
    /// Of the buffer that it is in, or is coming to.
    pub(super) vl: u8,
    /// Its service level; above that the VL by which it leaves a switch.
    pub(super) levels: u8,
    pub(super) ack: bool,
    /// Of its message.
    pub(super) last: bool,
    /// On a cable that was cut meanwhile.
    pub(super) lost: bool,
    /// Its message's.
    pub(super) flow: u32,
}

const _: () = assert!(size_of::<Packet>() == 64);

impl Packet {
    /// At its source.
    pub(super) const fn new(
        (message, flow): (u32, u32),
        dlid: u16,
        (sl, vl): (u8, u8),
        born: u64,
    ) -> Self {
        Self {
            ready: born,
            tail: born,
            born,
            waited: 0,
            message,
            at: AT_SOURCE,
            from: AT_SOURCE,
            next: NONE,
            dlid,
            bytes: ACK_BYTES,
            payload: 0,
            out: 0,
            vl,
            levels: sl,
            ack: false,
            last: false,
            lost: false,
            flow,
        }
    }

    pub(super) const fn blocks(&self) -> u32 {
        blocks(self.bytes)
    }

    /// Service level.
    pub(super) const fn sl(&self) -> u8 {
        self.levels & 0xF
    }

    /// The VL by which it leaves a switch, where lanes are not the same everywhere.
    pub(super) const fn vl_out(&self) -> u8 {
        self.levels >> 4
    }

    pub(super) const fn set_vl_out(&mut self, vl: u8) {
        self.levels = vl << 4 | self.sl();
    }
}

/// Blocks that `bytes` take in a buffer.
pub(super) const fn blocks(bytes: u16) -> u32 {
    (bytes as u32).div_ceil(BLOCK)
}

/// A data packet with `payload` bytes, which are padded to a multiple of 4 (IBA 9.2.3).
pub(super) const fn data_bytes(payload: u16) -> u16 {
    payload.next_multiple_of(4) + OVERHEAD
}

/// A queue of packets; a packet is in one at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub(super) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }
}

/// Every packet there is; places are used again.
#[derive(Debug)]
pub(super) struct Packets {
    places: Vec<Packet>,
    free: List,
    live: usize,
}

impl Packets {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new(), free: List::EMPTY, live: 0 }
    }

    /// How many there are.
    pub(super) const fn live(&self) -> usize {
        self.live
    }

    pub(super) fn insert(&mut self, packet: Packet) -> u32 {
        self.live += 1;
        let mut free = self.free;
        let place = self.take_first(&mut free);
        self.free = free;
        match place {
            Some(id) => {
                self[id] = packet;
                id
            }
            None => {
                self.places.push(packet);
                (self.places.len() - 1) as u32
            }
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.live -= 1;
        self[id].at = FREE;
        // What was freed last is used first: it is still in the processor's cache.
        self[id].next = self.free.head;
        self.free.head = id;
    }

    pub(super) fn append(&mut self, list: &mut List, id: u32) {
        self[id].next = NONE;
        match list.head {
            NONE => list.head = id,
            _ => self[list.tail].next = id,
        }
        list.tail = id;
    }

    pub(super) fn take_first(&self, list: &mut List) -> Option<u32> {
        let id = list.first()?;
        list.head = self[id].next;
        Some(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.places.iter().filter(|packet| packet.at != FREE)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Packet> {
        self.places.iter_mut().filter(|packet| packet.at != FREE)
    }
}

impl Index<u32> for Packets {
    type Output = Packet;

    fn index(&self, id: u32) -> &Packet {
        &self.places[id as usize]
    }
}

impl IndexMut<u32> for Packets {
    fn index_mut(&mut self, id: u32) -> &mut Packet {
        &mut self.places[id as usize]
    }
}
