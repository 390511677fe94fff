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
pub(super) fn members<W: Iterator<Item = u64>>(words: W) -> Members<W> {
    Members { words, bits: 0, begin: 0usize.wrapping_sub(64) }
}

pub(super) struct Members<W> {
    words: W,
    /// What is left of the word that begins with this member.
    bits: u64,
    begin: usize,
}

impl<W: Iterator<Item = u64>> Iterator for Members<W> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.bits == 0 {
            self.bits = self.words.next()?;
            self.begin = self.begin.wrapping_add(64);
        }
        let bit = self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(self.begin + bit)
    }
}

/// The smallest member.
pub(super) fn first(words: impl Iterator<Item = u64>) -> Option<usize> {
    members(words).next()
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
        assert_eq!((first(row.into_iter()), first([0, 0].into_iter())), (Some(0), None));
    }
}
