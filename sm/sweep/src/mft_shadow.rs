//! Copy of a switch's multicast forwarding table, as far as answers have told.

use std::collections::BTreeSet;

use snin_fabric::multicast::{BLOCK, MulticastTable};

/// One switch's table as last read or written: by block of 32 addresses and position of 16 ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Masks {
    held: MulticastTable,
    known: BTreeSet<(u16, u8)>,
    /// The switch was asked for its table and has none.
    absent: bool,
}

impl Masks {
    /// What is known of the table; unknown entries count as empty.
    pub(crate) const fn held(&self) -> &MulticastTable {
        &self.held
    }

    /// It was read or written.
    pub(crate) fn set(&mut self, block: u16, position: u8, entries: &[u16; BLOCK]) {
        self.held.set_block(block, position, entries);
        self.known.insert((block, position));
    }

    /// It may hold anything from now on.
    pub(crate) fn forget(&mut self, block: u16, position: u8) {
        self.known.remove(&(block, position));
    }

    pub(crate) fn knows(&self, block: u16, position: u8) -> bool {
        self.known.contains(&(block, position))
    }

    /// The switch refused to be read or written.
    pub(crate) fn give_up(&mut self) {
        *self = Self { absent: true, ..Self::default() };
    }

    /// Whether there is no table to be had.
    pub(crate) const fn is_absent(&self) -> bool {
        self.absent
    }
}

/// One write to a switch's table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MaskBlock {
    pub(crate) block: u16,
    pub(crate) position: u8,
    pub(crate) entries: [u16; BLOCK],
}
