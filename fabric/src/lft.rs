//! A switch's linear forwarding table as data.

use std::sync::{Arc, LazyLock};

use crate::{Lid, PortNum};

/// Entries that one LinearForwardingTable MAD carries (IBA 14.2.5.6).
pub const BLOCK: usize = 64;

/// Entries that tables share or own together: 16 blocks.
const PART: usize = 16 * BLOCK;

type Part = [u8; PART];

/// Forwards nothing. One for all tables of a process.
static EMPTY: LazyLock<Arc<Part>> = LazyLock::new(|| Arc::new([PortNum::NONE.0; PART]));

/// Which port a switch forwards each LID by: the entry of a LID is a port, 0 for the switch itself, 0xFF
/// for an address that is not forwarded (IBA 14.2.5.6, 18.2.4.3.3).
///
/// The leaves of a pod differ in a few entries of tens of thousands: copies of a table share what none of them
/// has changed, so that they cost neither the time to fill nor the memory to hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ForwardingTable {
    /// Entries beyond `len` forward nothing.
    parts: Vec<Arc<Part>>,
    len: usize,
}

impl ForwardingTable {
    /// Forwards nothing, with room for addresses up to `top`.
    pub fn up_to(top: Lid) -> Self {
        let mut table = Self::default();
        table.grow(top.index() + 1);
        table
    }

    /// A table of these entries, one byte a LID from 0.
    pub fn of_entries(entries: &[u8]) -> Self {
        let mut table = Self::default();
        table.grow(entries.len());
        for (part, entries) in table.parts.iter_mut().zip(entries.chunks(PART)) {
            Arc::make_mut(part)[..entries.len()].copy_from_slice(entries);
        }
        table
    }

    /// The number of its entries: one more than the highest LID it has room for.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no entries.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The port for `lid`; [`PortNum::NONE`] beyond the table.
    pub fn get(&self, lid: Lid) -> PortNum {
        let part = self.parts.get(lid.index() / PART);
        part.map_or(PortNum::NONE, |part| PortNum(part[lid.index() % PART]))
    }

    /// Sets the port for `lid`, growing the table as needed.
    pub fn set(&mut self, lid: Lid, port: PortNum) {
        self.set_row(lid, &[port.0]);
    }

    /// Sets the ports for the LIDs from `first` on, one byte each, growing the table as needed.
    pub fn set_row(&mut self, first: Lid, mut ports: &[u8]) {
        let mut lid = first.index();
        self.grow(lid + ports.len());
        while !ports.is_empty() {
            let (part, place) = (&mut self.parts[lid / PART], lid % PART);
            let (here, rest) = ports.split_at(ports.len().min(PART - place));
            // What stays as it is stays shared.
            if &part[place..][..here.len()] != here {
                Arc::make_mut(part)[place..][..here.len()].copy_from_slice(here);
            }
            lid += here.len();
            ports = rest;
        }
    }

    /// The entries that MAD number `block` carries: what lies beyond the table drops.
    pub fn block(&self, block: u16) -> &[u8; BLOCK] {
        let first = usize::from(block) * BLOCK;
        let part = self.parts.get(first / PART).unwrap_or(&EMPTY);
        part[first % PART..].first_chunk().expect("a part is whole blocks")
    }

    /// The entries, one byte a LID from 0.
    pub fn entries(&self) -> impl Iterator<Item = u8> + '_ {
        self.parts.iter().flat_map(|part| part.iter().copied()).take(self.len)
    }

    /// Every forwarded address and its port, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = (Lid, PortNum)> + '_ {
        let ports = self.entries().map(PortNum);
        let entries = ports.enumerate().map(|(lid, port)| (Lid(lid as u16), port));
        entries.filter(|&(_, port)| port != PortNum::NONE)
    }

    fn grow(&mut self, len: usize) {
        if len > self.len {
            self.len = len;
            self.parts.resize_with(len.div_ceil(PART), || Arc::clone(&EMPTY));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_may_cross_parts_and_raise_the_top() {
        let mut table = ForwardingTable::up_to(Lid(100));
        let row: Vec<u8> = (0..PART + 20).map(|n| (n % 200) as u8).collect();
        table.set_row(Lid(PART as u16 - 10), &row);
        assert_eq!(table.len(), 2 * PART + 10);
        let entries: Vec<u8> = table.entries().collect();
        assert!(entries[..PART - 10].iter().all(|&port| port == PortNum::NONE.0));
        assert_eq!(entries[PART - 10..], row);
        assert_eq!(table, ForwardingTable::of_entries(&entries));
        assert_eq!(table.get(Lid(PART as u16 - 10)), PortNum(0));
        assert_eq!(table.block(0), &[PortNum::NONE.0; BLOCK]);
        assert_eq!(table.block(16)[..], entries[PART..][..BLOCK]);
        assert_eq!(table.block(u16::MAX), &[PortNum::NONE.0; BLOCK]);
        assert_eq!(table.iter().count(), row.len());
    }

    #[test]
    fn copies_share_what_none_has_changed() {
        let mut one = ForwardingTable::of_entries(&[7; 3 * PART]);
        let mut other = one.clone();
        other.set(Lid(PART as u16), PortNum(7));
        assert!((0..3).all(|part| Arc::ptr_eq(&one.parts[part], &other.parts[part])));
        other.set(Lid(PART as u16), PortNum(8));
        one.set(Lid(2), PortNum(9));
        let shared: Vec<bool> =
            one.parts.iter().zip(&other.parts).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(shared, [false, false, true]);
        let port = |table: &ForwardingTable, lid| table.get(Lid(lid)).0;
        assert_eq!((port(&one, 2), port(&other, 2)), (9, 7));
        assert_eq!((port(&one, PART as u16), port(&other, PART as u16)), (7, 8));
    }
}
