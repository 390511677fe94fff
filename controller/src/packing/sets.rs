//! Sets of trees (or of groups of trees) as rows of 64-bit words.

/// Words of a set over `columns` members.
pub(super) const fn words_for(columns: usize) -> usize {
    columns.div_ceil(64)
}

pub(super) fn contains(row: &[u64], column: usize) -> bool {
    row[column / 64] >> (column % 64) & 1 != 0
}

pub(super) fn insert(row: &mut [u64], column: usize) {
    row[column / 64] |= 1 << (column % 64);
}

pub(super) fn remove(row: &mut [u64], column: usize) {
    row[column / 64] &= !(1 << (column % 64));
}

/// The members of a set given word by word, smallest first.
pub(super) fn members(words: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    words.enumerate().flat_map(|(place, word)| Ones(word).map(move |bit| place * 64 + bit))
}

struct Ones(u64);

impl Iterator for Ones {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (bit < 64).then_some(bit)
    }
}

/// The set of all `columns` members.
pub(super) fn full(columns: usize) -> Vec<u64> {
    let mut row = vec![0; words_for(columns)];
    (0..columns).for_each(|column| insert(&mut row, column));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_several_words_come_in_order() {
        let mut row = vec![0; words_for(130)];
        for column in [0, 63, 64, 129] {
            insert(&mut row, column);
        }
        assert_eq!(members(row.iter().copied()).collect::<Vec<_>>(), [0, 63, 64, 129]);
        remove(&mut row, 64);
        assert!(!contains(&row, 64) && contains(&row, 129));
        assert_eq!(members(full(67).into_iter()).count(), 67);
    }
}
