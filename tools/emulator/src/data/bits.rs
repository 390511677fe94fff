//! Sets of a node's ports, one a row.

/// Rows of bits, all equally long.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    words: usize,
    bits: Vec<u64>,
}

impl Rows {
    /// `rows` empty sets of numbers up to `top`.
    pub(super) fn new(rows: usize, top: u8) -> Self {
        let words = usize::from(top) / 64 + 1;
        Self { words, bits: vec![0; rows * words] }
    }

    pub(super) fn set(&mut self, row: usize, bit: u8) {
        self.bits[row * self.words + usize::from(bit / 64)] |= 1 << (bit % 64);
    }

    pub(super) fn clear(&mut self, row: usize, bit: u8) {
        self.bits[row * self.words + usize::from(bit / 64)] &= !(1 << (bit % 64));
    }

    pub(super) fn contains(&self, row: usize, bit: u8) -> bool {
        self.row(row)[usize::from(bit / 64)] & (1 << (bit % 64)) != 0
    }

    /// The least number of a row.
    pub(super) fn first(&self, row: usize) -> Option<u8> {
        let words = self.row(row).iter().enumerate();
        words.map(|(word, &bits)| each(word, bits)).find_map(|mut numbers| numbers.next())
    }

    pub(super) fn is_empty(&self, row: usize) -> bool {
        self.row(row).iter().all(|&word| word == 0)
    }

    /// The numbers of a row in words of 64.
    pub(super) fn row(&self, row: usize) -> &[u64] {
        &self.bits[row * self.words..][..self.words]
    }

    /// How many words a row has.
    pub(super) const fn words(&self) -> usize {
        self.words
    }

    /// The first number from `start` on, then from 0, that is in `row` and not in `row` of `without`.
    pub(super) fn first_from(
        &self,
        row: usize,
        (without, other): (&Self, usize),
        start: u8,
    ) -> Option<u8> {
        let (row, other) = (self.row(row), without.row(other));
        let place = |word: usize, bits: u64| (word * 64) as u8 + bits.trailing_zeros() as u8;
        let first = usize::from(start / 64);
        let ahead = row[first] & !other[first] & (u64::MAX << (start % 64));
        if ahead != 0 {
            return Some(place(first, ahead));
        }
        let mut words = (1..=self.words).map(|n| (first + n) % self.words);
        let word = words.find(|&word| row[word] & !other[word] != 0)?;
        Some(place(word, row[word] & !other[word]))
    }
}

/// Each number of a word, lowest first.
pub(super) fn each(word: usize, mut bits: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        (bits != 0).then(|| {
            bits &= bits - 1;
            (word * 64) as u8 + bit as u8
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_in_turn() {
        let mut rows = Rows::new(2, 200);
        let none = Rows::new(1, 200);
        for bit in [3, 70, 200] {
            rows.set(1, bit);
        }
        let from = |start| rows.first_from(1, (&none, 0), start);
        let expected = [(0, 3), (3, 3), (4, 70), (71, 200), (200, 200), (201, 3)];
        expected.into_iter().for_each(|(start, bit)| assert_eq!(from(start), Some(bit), "{start}"));
        assert_eq!(rows.first_from(0, (&none, 0), 9), None);
        assert_eq!(rows.first_from(1, (&rows, 1), 9), None);
        assert_eq!(each(1, rows.row(1)[1]).collect::<Vec<_>>(), [70]);
        assert!(rows.contains(1, 70) && !rows.contains(1, 71));
        assert_eq!((rows.first(0), rows.first(1)), (None, Some(3)));
        rows.clear(1, 70);
        assert!(rows.is_empty(0) && !rows.is_empty(1));
        assert_eq!(rows.first_from(1, (&none, 0), 4), Some(200));
    }
}
