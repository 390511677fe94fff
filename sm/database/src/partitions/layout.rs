//! A port's table: what it shall hold, and where. A key that is there already stays where it is, since programs
//! name keys by their places.

use snin_mad::PKey;
use snin_mad::tables::PARTITION_BLOCK;

use super::Wanted;

/// A block of a partition table (IBA 14.2.5.7).
pub type Block = [PKey; PARTITION_BLOCK];

/// What a port's table shall be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// By place; empty ones hold 0.
    pub table: Vec<PKey>,
    /// For these there is no room.
    pub left_out: Vec<PKey>,
}

impl Layout {
    /// A table whose places are settled.
    pub fn as_it_came(keys: &[PKey], room: usize) -> Self {
        let room = room.max(1);
        let mut table = keys[..keys.len().min(room)].to_vec();
        table.resize(room, PKey(0));
        let left_out = keys.iter().skip(room).copied().filter(|key| key.base() != 0).collect();
        Self { table, left_out }
    }
}

/// Puts the keys into a table of `room` places that holds `held`. `both`: the two keys of a partition are two
/// keys; else they take one place.
pub fn lay_out(wanted: &Wanted, held: &[PKey], room: usize, both: bool) -> Layout {
    let room = room.max(1);
    let same = |a: PKey, b: PKey| if both { a == b } else { a.base() == b.base() };
    let mut table = vec![PKey(0); room];
    table[0] = wanted.first;
    let (mut new, mut left_out) = (Vec::new(), Vec::new());
    for &key in &wanted.others {
        let place = held.iter().take(room).skip(1).position(|&other| same(other, key));
        match place.map(|place| place + 1).filter(|&place| table[place] == PKey(0)) {
            Some(place) => table[place] = key,
            None => new.push(key),
        }
    }
    for key in new {
        // Behind all others, so that a place means another key as late as can be.
        let behind = table.iter().rposition(|&key| key != PKey(0)).map(|last| last + 1);
        let free = behind.filter(|&place| place < room);
        let free = free.or_else(|| table.iter().position(|&key| key == PKey(0)));
        match free {
            Some(place) => table[place] = key,
            None => left_out.push(key),
        }
    }
    Layout { table, left_out }
}

/// The table of the switch's port that faces a port with this one: the same keys without gaps, and of two keys
/// of a partition the full one, by which the switch lets both through. `None` where it has less room.
pub fn packed(table: &[PKey], room: usize) -> Option<Vec<PKey>> {
    let full = |key: PKey| table.contains(&PKey(key.0 | 0x8000));
    let kept = |key: &PKey| key.base() != 0 && (key.is_full() || !full(*key));
    let mut keys: Vec<PKey> = table.iter().copied().filter(kept).collect();
    (keys.len() <= room).then(|| {
        keys.resize(room, PKey(0));
        keys
    })
}

/// A table in blocks, as it is written; what is behind its end is empty.
pub fn blocks(table: &[PKey]) -> impl Iterator<Item = Block> + '_ {
    table
        .chunks(PARTITION_BLOCK)
        .map(|chunk| std::array::from_fn(|entry| chunk.get(entry).copied().unwrap_or(PKey(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[u16]) -> Vec<PKey> {
        keys.iter().copied().map(PKey).collect()
    }

    fn wanted(first: u16, others: &[u16]) -> Wanted {
        Wanted { first: PKey(first), others: keys(others) }
    }

    #[test]
    fn what_is_there_stays_where_it_is() {
        let held = keys(&[0xFFFF, 1, 0, 0x8003, 4, 0]);
        let layout = lay_out(&wanted(0x7FFF, &[0x8001, 2, 3]), &held, 6, false);
        // 1 became full and 3 limited where they were, 4 is gone, 2 is behind all others.
        assert_eq!(layout.table, keys(&[0x7FFF, 0x8001, 0, 3, 2, 0]));
        let again = lay_out(&wanted(0x7FFF, &[0x8001, 2, 3]), &layout.table, 6, false);
        assert_eq!(again, layout);
        // Free places are taken when there is nothing behind any more, and then there is no room.
        let layout = lay_out(&wanted(0xFFFF, &[0x8001, 2, 3, 5, 6, 7]), &layout.table, 6, false);
        assert_eq!(layout.table, keys(&[0xFFFF, 0x8001, 6, 3, 2, 5]));
        assert_eq!(layout.left_out, keys(&[7]));
        assert_eq!(lay_out(&wanted(0xFFFF, &[1]), &[], 0, false).left_out, keys(&[1]));
    }

    #[test]
    fn the_first_place_has_its_own_key() {
        let held = keys(&[5, 0xFFFF, 0x8006, 0]);
        let layout = lay_out(&wanted(0xFFFF, &[5, 0x8006]), &held, 4, false);
        assert_eq!(layout.table, keys(&[0xFFFF, 0, 0x8006, 5]));
        let layout = lay_out(&wanted(0x8006, &[0x7FFF]), &held, 4, false);
        assert_eq!(layout.table, keys(&[0x8006, 0x7FFF, 0, 0]));
        // Both keys of one partition have a place each.
        let layout = lay_out(&wanted(0xFFFF, &[0x7FFF, 5, 0x8005]), &held, 4, true);
        assert_eq!(layout.table, keys(&[0xFFFF, 0x7FFF, 5, 0x8005]));
    }

    #[test]
    fn a_switch_has_the_same_keys_without_gaps() {
        let table = keys(&[0xFFFF, 0, 5, 0x8005, 0, 6]);
        assert_eq!(packed(&table, 4), Some(keys(&[0xFFFF, 0x8005, 6, 0])));
        assert_eq!(packed(&table, 2), None);
        let table: Vec<PKey> = (1..=33).map(PKey).collect();
        let blocks: Vec<Block> = blocks(&table).collect();
        assert_eq!((blocks.len(), blocks[1][0], blocks[1][1]), (2, PKey(33), PKey(0)));
    }
}
