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
pub fn block_sum(block: u16, ports: &[u8; BLOCK]) -> u64 {
    let words = ports.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    hash([u64::from(block)].into_iter().chain(words))
}

/// The sum of a table whose blocks' shares come to `blocks`.
pub const fn with_top(blocks: u64, top: Lid) -> u64 {
    blocks.wrapping_add((top.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The sum of a table that ends at `top`.
pub fn linear_sum(table: &ForwardingTable, top: Lid) -> u64 {
    let blocks = 0..=(top.index() / BLOCK) as u16;
    let sums = blocks.map(|block| block_sum(block, table.block(block)));
    with_top(sums.fold(0, u64::wrapping_add), top)
}

/// The sum of a multicast forwarding table.
pub fn multicast_sum(table: &MulticastTable) -> u64 {
    let entries = table.iter().flat_map(|(mlid, mask)| {
        let positions = (0..=u8::MAX / 16).map(move |position| u64::from(mask.position(position)));
        [1 << 32 | mlid.index() as u64].into_iter().chain(positions)
    });
    hash(entries)
}

/// The sum of a node's tables of service levels and lanes: by port, which, and what is in it.
pub fn lanes_sum<'a>(tables: impl Iterator<Item = (PortNum, QosTableId, &'a QosTable)>) -> u64 {
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
