//! A node's tables, summed up in three numbers: by them a standby knows, without a copy of the tables, whether the
//! master had them as the standby would compute them itself.

use snin_fabric::lft::{BLOCK, ForwardingTable};
use snin_fabric::multicast::MulticastTable;
use snin_fabric::{Lid, PortNum};

use crate::qos_table::{QosTable, QosTableId};

/// The sums of one node's tables as its master knows that the node holds them; none of a table of which the master
/// does not know all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Programmed {
    /// Of the linear forwarding table up to its top, and of the top.
    pub linear: Option<u64>,
    /// Of the multicast forwarding table, as far as groups are in it.
    pub multicast: Option<u64>,
    /// Of all tables of service levels and lanes, where they are managed.
    pub lanes: Option<u64>,
}

/// FNV-1a over numbers, mixed so that sums of several do not cancel.
fn hash(numbers: impl Iterator<Item = u64>) -> u64 {
    let step = |hash: u64, number: u64| {
        let hash = (hash ^ number).wrapping_mul(0x0000_0100_0000_01B3);
        hash ^ (hash >> 29)
    };
    numbers.fold(0xCBF2_9CE4_8422_2325, step)
}

/// One block's share in its table's sum.
pub(crate) fn block_sum(block: u16, ports: &[u8; BLOCK]) -> u64 {
    let words = ports.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    hash([u64::from(block)].into_iter().chain(words))
}

/// The sum of a table whose blocks' shares come to `blocks`.
pub(crate) const fn with_top(blocks: u64, top: Lid) -> u64 {
    blocks.wrapping_add((top.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The sum of a table that ends at `top`.
pub(crate) fn linear_sum(table: &ForwardingTable, top: Lid) -> u64 {
    let blocks = 0..=(top.index() / BLOCK) as u16;
    let sums = blocks.map(|block| block_sum(block, table.block(block)));
    with_top(sums.fold(0, u64::wrapping_add), top)
}

/// The sum of a multicast forwarding table.
pub(crate) fn multicast_sum(table: &MulticastTable) -> u64 {
    let entries = table.iter().flat_map(|(mlid, mask)| {
        let positions = (0..=u8::MAX / 16).map(move |position| u64::from(mask.position(position)));
        [1 << 32 | mlid.index() as u64].into_iter().chain(positions)
    });
    hash(entries)
}

/// The sum of a node's tables of service levels and lanes: by port, which, and what is in it.
pub(crate) fn lanes_sum<'a>(
    tables: impl Iterator<Item = (PortNum, QosTableId, &'a QosTable)>,
) -> u64 {
    let numbers = tables.flat_map(|(port, id, table)| {
        let (kind, number) = match id {
            QosTableId::Mapping(input) => (0, input.0),
            QosTableId::Arbitration(quarter) => (1, quarter),
        };
        let bytes: Vec<u8> = match table {
            QosTable::Mapping(map) => map.vls.to_vec(),
            QosTable::Arbitration(block) => [block.vls, block.weights].concat(),
        };
        let head = u64::from(port.0) << 16 | kind << 8 | u64::from(number);
        [1 << 32 | head].into_iter().chain(bytes.into_iter().map(u64::from))
    });
    hash(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lft_shadow::LftShadow;

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
