//! Copy of a switch's forwarding table, as far as answers have told.

use snin_fabric::lft::BLOCK;
use snin_fabric::{Lid, PortNum};

use snin_sm_database::programmed::{block_sum, with_top};

/// An entry that drops.
pub(crate) const NONE: u8 = PortNum::NONE.0;

/// One switch's table as last read or written, block by block, and its LinearFDBTop.
///
/// A switch drops what lies above its top (IBA 14.2.5.4), so a block above it may hold anything: it need not
/// be read, but has to be written before the top is raised.
#[derive(Clone, Debug, Default)]
pub(crate) struct LftShadow {
    top: Lid,
    entries: Vec<u8>,
    known: Vec<bool>,
    /// Of the known blocks.
    sum: u64,
}

impl LftShadow {
    /// Nothing known of a switch but its top.
    pub(crate) fn unread(top: Lid) -> Self {
        Self { top: top.min(Lid::MAX_UNICAST), ..Self::default() }
    }

    /// LinearFDBTop.
    pub(crate) const fn top(&self) -> Lid {
        self.top
    }

    /// The top was written.
    pub(crate) const fn set_top(&mut self, top: Lid) {
        self.top = top;
    }

    /// The block was read or written.
    pub(crate) fn set_block(&mut self, number: u16, ports: &[u8; BLOCK]) {
        self.forget_block(number);
        self.sum = self.sum.wrapping_add(block_sum(number, ports));
        let block = usize::from(number);
        if self.known.len() <= block {
            self.known.resize(block + 1, false);
            self.entries.resize((block + 1) * BLOCK, NONE);
        }
        self.known[block] = true;
        self.entries[block * BLOCK..][..BLOCK].copy_from_slice(ports);
    }

    /// The block may hold anything from now on.
    pub(crate) fn forget_block(&mut self, block: u16) {
        let sum = self.block(block).map(|ports| block_sum(block, ports));
        if let Some(sum) = sum {
            self.sum = self.sum.wrapping_sub(sum);
            self.known[usize::from(block)] = false;
        }
    }

    /// What the table comes to; none where not all of it is known, or nothing is forwarded.
    pub(crate) fn sum(&self) -> Option<u64> {
        let whole = self.is_live() && self.unread_blocks().next().is_none();
        whole.then(|| with_top(self.sum, self.top))
    }

    /// The block, if it is known.
    pub(crate) fn block(&self, block: u16) -> Option<&[u8; BLOCK]> {
        let block = usize::from(block);
        self.known.get(block).filter(|&&known| known)?;
        self.entries[block * BLOCK..].first_chunk()
    }

    /// By which port the switch forwards `lid` now; unknown blocks count as dropping.
    pub(crate) fn forwards(&self, lid: Lid) -> u8 {
        let (block, entry) = (lid.index() / BLOCK, lid.index() % BLOCK);
        if lid > self.top {
            return NONE;
        }
        self.block(block as u16).map_or(NONE, |ports| ports[entry])
    }

    /// Whether the switch forwards at all.
    pub(crate) const fn is_live(&self) -> bool {
        self.top.0 != 0
    }

    /// How many blocks forward.
    pub(crate) const fn blocks(&self) -> u16 {
        if self.is_live() { self.top.0 / BLOCK as u16 + 1 } else { 0 }
    }

    /// Blocks that forward and have not been read.
    pub(crate) fn unread_blocks(&self) -> impl Iterator<Item = u16> + '_ {
        let last = if self.is_live() { self.top.index() / BLOCK + 1 } else { 0 };
        (0..last as u16).filter(|&block| self.block(block).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snin_fabric::lft::ForwardingTable;
    use snin_sm_database::programmed::linear_sum;

    #[test]
    fn above_its_top_a_switch_drops_whatever_it_holds() {
        let mut shadow = LftShadow::unread(Lid(70));
        assert_eq!(shadow.unread_blocks().collect::<Vec<_>>(), [0, 1]);
        shadow.set_block(1, &[7; BLOCK]);
        assert_eq!(shadow.unread_blocks().collect::<Vec<_>>(), [0]);
        assert_eq!((shadow.forwards(Lid(70)), shadow.forwards(Lid(71))), (7, NONE));
        assert_eq!(shadow.forwards(Lid(3)), NONE, "unknown");
        shadow.set_top(Lid(100));
        assert_eq!(shadow.forwards(Lid(71)), 7);
        shadow.forget_block(1);
        assert_eq!(shadow.block(1), None);
        assert_eq!(LftShadow::unread(Lid(0)).unread_blocks().count(), 0);
    }

    /// What a shadow has learnt block by block, in any order and twice, comes to what the table comes to.
    #[test]
    fn a_shadow_comes_to_what_its_table_comes_to() {
        let mut table = ForwardingTable::up_to(Lid(200));
        (1..=200).for_each(|lid| table.set(Lid(lid), PortNum((lid % 36) as u8)));
        let mut shadow = LftShadow::unread(Lid(200));
        for block in [2, 0, 1, 3] {
            assert_eq!(shadow.sum(), None, "block {block} is missing");
            shadow.set_block(block, &[block as u8; BLOCK]);
            shadow.set_block(block, table.block(block));
        }
        let sum = linear_sum(&table, Lid(200));
        assert_eq!(shadow.sum(), Some(sum));
        shadow.forget_block(1);
        assert_eq!(shadow.sum(), None);
        shadow.set_block(1, table.block(2));
        assert_ne!(shadow.sum(), Some(sum));
        shadow.set_block(1, table.block(1));
        assert_eq!(shadow.sum(), Some(sum));
        // Two entries that changed places, and another end.
        table.set(Lid(7), PortNum(8));
        table.set(Lid(8), PortNum(7));
        assert_ne!(linear_sum(&table, Lid(200)), sum);
        assert_ne!(shadow.sum(), Some(linear_sum(&table, Lid(199))));
    }
}
