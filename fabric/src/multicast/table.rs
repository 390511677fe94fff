//! A switch's multicast forwarding table as data.

use std::collections::BTreeMap;

use super::PortMask;
use crate::Mlid;

/// Addresses that one MulticastForwardingTable MAD carries (IBA 14.2.5.12).
pub const BLOCK: usize = 32;
/// Ports that one MulticastForwardingTable MAD carries.
pub const POSITION: usize = 16;

/// By which ports a switch forwards each multicast LID; none for an address that it does not forward.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MulticastTable {
    /// Without empty masks.
    masks: BTreeMap<Mlid, PortMask>,
}

impl MulticastTable {
    /// The ports for `mlid`.
    pub fn get(&self, mlid: Mlid) -> PortMask {
        self.masks.get(&mlid).copied().unwrap_or_default()
    }

    /// Sets the ports for `mlid`.
    pub fn set(&mut self, mlid: Mlid, ports: PortMask) {
        if ports.is_empty() {
            self.masks.remove(&mlid);
        } else {
            self.masks.insert(mlid, ports);
        }
    }

    /// The highest address that is forwarded.
    pub fn top(&self) -> Option<Mlid> {
        self.masks.last_key_value().map(|(&mlid, _)| mlid)
    }

    /// Every forwarded address and its ports, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = (Mlid, PortMask)> + '_ {
        self.masks.iter().map(|(&mlid, &ports)| (mlid, ports))
    }

    /// The entries that the MAD for `block` and `position` carries.
    pub fn block(&self, block: u16, position: u8) -> [u16; BLOCK] {
        let mut entries = [0; BLOCK];
        let first = usize::from(block) * BLOCK;
        let Some(from) = Mlid::nth(first) else { return entries };
        let masks = self.masks.range(from..).take_while(|(mlid, _)| mlid.index() < first + BLOCK);
        for (mlid, ports) in masks {
            entries[mlid.index() - first] = ports.position(position);
        }
        entries
    }

    /// Replaces the entries of `block` and `position`; of the last block's the highest is no address.
    pub fn set_block(&mut self, block: u16, position: u8, entries: &[u16; BLOCK]) {
        let mlids = (usize::from(block) * BLOCK..).map_while(Mlid::nth);
        for (mlid, &entry) in mlids.zip(entries) {
            let mut ports = self.get(mlid);
            ports.set_position(position, entry);
            self.set(mlid, ports);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortNum;

    #[test]
    fn blocks_are_the_table_cut_up() {
        let mlid = |n| Mlid::nth(n).unwrap();
        let mut table = MulticastTable::default();
        table.set(mlid(31), [PortNum(17)].into_iter().collect());
        table.set(mlid(32), [PortNum(0), PortNum(17)].into_iter().collect());
        table.set(Mlid::MAX, [PortNum(254)].into_iter().collect());
        assert_eq!(table.top(), Some(Mlid::MAX));
        assert_eq!((table.block(0, 1)[31], table.block(1, 1)[0], table.block(1, 0)[0]), (2, 2, 1));
        assert_eq!(table.block(511, 15)[30], 0x4000);
        let mut copy = MulticastTable::default();
        for block in [0, 1, 511] {
            (0..16).for_each(|n| copy.set_block(block, n, &table.block(block, n)));
        }
        assert_eq!(copy, table);
        copy.set_block(1, 1, &[0; BLOCK]);
        assert_eq!(copy.get(mlid(32)).iter().collect::<Vec<_>>(), [PortNum(0)]);
        copy.set_block(511, 0, &[1; BLOCK]);
        assert_eq!(copy.iter().count(), 2 + 31, "0xFFFF is no multicast address");
    }
}
