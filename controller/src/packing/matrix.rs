//! Paull's matrix: who owns which directed link of one stage. Rows are leaves (or pods), columns are
//! trees (or groups of trees); every row has one link up and one link down in each column.
//!
//! Tables are kept by column: a Kempe chain looks at one column of either side only, so however long
//! it is, it stays within two short arrays. An entry is the row at the other end, which is where the
//! chain goes on; numbers of connections are kept beside, once, by the row where they start.

use std::mem::swap;

use super::sets;

/// No connection.
pub(super) const NOBODY: u32 = u32::MAX;
/// No row: nobody owns the link.
pub(super) const NO_ROW: u16 = u16::MAX;

/// Which of a connection's two rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Up,
    Down,
}

/// A chain that frees column `gain` in `row`: its connections, which hold `gain` and `give` in turn,
/// change to the other of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chain {
    pub(super) gain: usize,
    pub(super) give: usize,
    pub(super) side: Side,
    pub(super) row: usize,
}

/// The links of one direction.
#[derive(Clone, Debug)]
struct Links {
    /// Free columns, some words a row. A link that does not exist is never free.
    free: Vec<u64>,
    /// The row at the other end of the connection that owns the link, some rows a column.
    other: Vec<u16>,
}

/// The links of one stage and their owners.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    rows: usize,
    words: usize,
    up: Links,
    down: Links,
    /// The number of each connection, by column and row of its start; stale where nobody is.
    owners: Vec<u32>,
    /// What is free in an empty matrix.
    links: Vec<u64>,
}

impl Matrix {
    /// An empty matrix with the links that `exists`.
    pub(super) fn new(rows: usize, columns: usize, exists: impl Fn(usize, usize) -> bool) -> Self {
        let words = sets::words_for(columns);
        let mut free = vec![0; rows * words];
        for (row, free) in free.chunks_mut(words.max(1)).enumerate() {
            let there = (0..columns).filter(|&column| exists(row, column));
            there.for_each(|column| sets::insert(free, column));
        }
        let up = Links { free: free.clone(), other: vec![NO_ROW; rows * columns] };
        let owners = vec![NOBODY; rows * columns];
        Self { rows, words, down: up.clone(), up, owners, links: free }
    }

    /// Takes everybody off.
    pub(super) fn clear(&mut self) {
        for side in [&mut self.up, &mut self.down] {
            side.free.copy_from_slice(&self.links);
            side.other.fill(NO_ROW);
        }
    }

    pub(super) fn free_up(&self, row: usize) -> &[u64] {
        &self.up.free[row * self.words..][..self.words]
    }

    pub(super) fn free_down(&self, row: usize) -> &[u64] {
        &self.down.free[row * self.words..][..self.words]
    }

    /// The columns that are free in both rows, word by word.
    pub(super) fn common(&self, up: usize, down: usize) -> impl Iterator<Item = u64> + '_ {
        self.free_up(up).iter().zip(self.free_down(down)).map(|(&up, &down)| up & down)
    }

    /// The first column that is free in both rows.
    pub(super) fn first_common(&self, up: usize, down: usize) -> Option<usize> {
        sets::first(self.common(up, down))
    }

    /// Where the connections of a column end, by the row of their start.
    pub(super) fn ends(&self, column: usize) -> &[u16] {
        &self.up.other[column * self.rows..][..self.rows]
    }

    /// Where the connections of a column start, by the row of their end.
    pub(super) fn starts(&self, column: usize) -> &[u16] {
        &self.down.other[column * self.rows..][..self.rows]
    }

    /// The numbers of a column's connections, by the row of their start: right where `ends` has a row.
    pub(super) fn numbers(&self, column: usize) -> &[u32] {
        &self.owners[column * self.rows..][..self.rows]
    }

    pub(super) fn owner_up(&self, row: usize, column: usize) -> u32 {
        let place = column * self.rows + row;
        if self.up.other[place] == NO_ROW { NOBODY } else { self.owners[place] }
    }

    pub(super) fn owner_down(&self, row: usize, column: usize) -> u32 {
        match self.down.other[column * self.rows + row] {
            NO_ROW => NOBODY,
            start => self.owners[column * self.rows + usize::from(start)],
        }
    }

    /// Gives each connection (number, row up, row down) the first column that is free at both its ends
    /// and tells which; the others are left over.
    pub(super) fn settle(
        &mut self,
        connections: impl Iterator<Item = (u32, usize, usize)>,
        found: impl FnMut(u32, usize),
        left: impl FnMut(u32, usize, usize),
    ) {
        // Up to 64 columns are by far the most frequent case: then the loop over words goes away.
        if self.words == 1 {
            self.settle_words(1, connections, found, left);
        } else {
            self.settle_words(self.words, connections, found, left);
        }
    }

    #[inline(always)]
    fn settle_words(
        &mut self,
        words: usize,
        connections: impl Iterator<Item = (u32, usize, usize)>,
        mut found: impl FnMut(u32, usize),
        mut left: impl FnMut(u32, usize, usize),
    ) {
        let Self { rows, up: ups, down: downs, owners, .. } = self;
        for (id, up, down) in connections {
            let free_up = &mut ups.free[up * words..][..words];
            let free_down = &mut downs.free[down * words..][..words];
            let both = free_up.iter_mut().zip(free_down).enumerate();
            let Some((word, (free_up, free_down))) =
                { both }.find(|(_, (free_up, free_down))| **free_up & **free_down != 0)
            else {
                left(id, up, down);
                continue;
            };
            let common = *free_up & *free_down;
            let first = common & common.wrapping_neg();
            *free_up ^= first;
            *free_down ^= first;
            let column = word * 64 + common.trailing_zeros() as usize;
            let place = column * *rows;
            ups.other[place + up] = down as u16;
            downs.other[place + down] = up as u16;
            owners[place + up] = id;
            found(id, column);
        }
    }

    /// Gives two free links to a connection.
    pub(super) fn take(&mut self, up: usize, down: usize, column: usize, id: u32) {
        let (words, place) = (self.words, column * self.rows);
        let bit = 1 << (column % 64);
        let free = [
            &mut self.up.free[up * words + column / 64],
            &mut self.down.free[down * words + column / 64],
        ];
        for free in free {
            debug_assert!(*free & bit != 0, "two owners of a link in column {column}");
            *free ^= bit;
        }
        self.up.other[place + up] = down as u16;
        self.down.other[place + down] = up as u16;
        self.owners[place + up] = id;
    }

    /// Takes its two links from whoever has them.
    pub(super) fn release(&mut self, up: usize, down: usize, column: usize) {
        let (words, place) = (self.words, column * self.rows);
        debug_assert_eq!(self.up.other[place + up], down as u16);
        self.up.free[up * words + column / 64] |= 1 << (column % 64);
        self.down.free[down * words + column / 64] |= 1 << (column % 64);
        self.up.other[place + up] = NO_ROW;
        self.down.other[place + down] = NO_ROW;
    }

    /// The connections of a chain and the column that each changes to.
    pub(super) fn members(&self, chain: Chain) -> impl Iterator<Item = (u32, usize)> + '_ {
        let Chain { gain, give, mut side, mut row } = chain;
        let (mut from, mut to) = (gain, give);
        std::iter::from_fn(move || {
            let (id, next) = match side {
                Side::Up => (self.owner_up(row, from), self.ends(from)[row]),
                Side::Down => (self.owner_down(row, from), self.starts(from)[row]),
            };
            let step = (id != NOBODY).then_some((id, to))?;
            side = if side == Side::Up { Side::Down } else { Side::Up };
            row = next.into();
            (from, to) = (to, from);
            Some(step)
        })
    }

    /// Moves the connections of a chain and tells each with its new column. Every row on the way has
    /// all that it has in the two columns in the chain, so its two entries just change places; in the
    /// first and the last row one of them is nobody.
    pub(super) fn exchange(&mut self, chain: Chain, mut moved: impl FnMut(u32, usize)) {
        let Chain { gain, give, side, row } = chain;
        // The columns by which the chain leaves its rows of either side; it comes by the other one.
        let (up, down) = if side == Side::Up { (gain, give) } else { (give, gain) };
        let Self { rows, words, up: ups, down: downs, owners, .. } = self;
        let (ends_up, ends_down) = two_columns(&mut ups.other, *rows, up, down);
        let (starts_up, starts_down) = two_columns(&mut downs.other, *rows, up, down);
        let (ids_up, ids_down) = two_columns(owners, *rows, up, down);
        let mut from_down = |row: usize| {
            swap(&mut starts_up[row], &mut starts_down[row]);
            starts_up[row]
        };
        let (mut row, mut came) = (row, false);
        if side == Side::Down {
            toggle(&mut downs.free, *words, row, [up, down]);
            (row, came) = (usize::from(from_down(row)), true);
        } else {
            toggle(&mut ups.free, *words, row, [up, down]);
        }
        loop {
            swap(&mut ends_up[row], &mut ends_down[row]);
            swap(&mut ids_up[row], &mut ids_down[row]);
            if came {
                moved(ids_up[row], up);
            }
            came = true;
            if ends_down[row] == NO_ROW {
                return toggle(&mut ups.free, *words, row, [up, down]);
            }
            moved(ids_down[row], down);
            row = usize::from(ends_down[row]);
            let next = from_down(row);
            if next == NO_ROW {
                return toggle(&mut downs.free, *words, row, [up, down]);
            }
            row = usize::from(next);
        }
    }
}

/// Exchanges two columns of a row, of which one was free and the other is now.
fn toggle(free: &mut [u64], words: usize, row: usize, columns: [usize; 2]) {
    for column in columns {
        free[row * words + column / 64] ^= 1 << (column % 64);
    }
}

/// Two columns of a table.
fn two_columns<T>(table: &mut [T], rows: usize, a: usize, b: usize) -> (&mut [T], &mut [T]) {
    if a < b {
        let (low, high) = table.split_at_mut(b * rows);
        (&mut low[a * rows..][..rows], &mut high[..rows])
    } else {
        let (low, high) = table.split_at_mut(a * rows);
        (&mut high[..rows], &mut low[b * rows..][..rows])
    }
}
