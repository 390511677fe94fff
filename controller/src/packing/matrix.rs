//! Paull's matrix: who owns which directed link of one stage. Rows are leaves (or pods), columns are
//! trees (or groups of trees); every row has one link up and one link down in each column.
//!
//! Tables are kept by column: a Kempe chain looks at one column of either side only, so however long
//! it is, it stays within two short arrays. An entry is the row at the other end, which is where the
//! chain goes on; numbers of connections are kept beside, once, by the row where they start.

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
    /// The row at the other end of the connection that owns the link, by column and row. Each column has
    /// one more row, nowhere, that leads to itself: a search that is led there stays there.
    other: Vec<u16>,
}

/// The links of one stage and their owners.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    rows: usize,
    /// From a column to the next in tables by column and row.
    stride: usize,
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
        let stride = rows + 1;
        let up = Links { free: free.clone(), other: vec![NO_ROW; stride * columns] };
        let owners = vec![NOBODY; stride * columns];
        let mut matrix = Self { rows, stride, words, down: up.clone(), up, owners, links: free };
        matrix.clear();
        matrix
    }

    /// Takes everybody off.
    pub(super) fn clear(&mut self) {
        for side in [&mut self.up, &mut self.down] {
            side.free.copy_from_slice(&self.links);
            side.other.fill(NO_ROW);
            let nowhere = side.other.iter_mut().skip(self.rows).step_by(self.stride);
            nowhere.for_each(|row| *row = self.rows as u16);
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

    /// The row that leads to itself.
    pub(super) const fn nowhere(&self) -> u16 {
        self.rows as u16
    }

    /// Where a column begins in `start` and `end`.
    pub(super) const fn begin(&self, column: usize) -> u32 {
        (column * self.stride) as u32
    }

    /// Where the connection starts that ends in a row and has a column.
    pub(super) fn start(&self, begin: u32, row: u16) -> u16 {
        self.down.other[begin as usize + usize::from(row)]
    }

    /// Where the connection ends that starts in a row and has a column.
    pub(super) fn end(&self, begin: u32, row: u16) -> u16 {
        self.up.other[begin as usize + usize::from(row)]
    }

    /// Where the connections of a column end, by the row of their start.
    pub(super) fn ends(&self, column: usize) -> &[u16] {
        &self.up.other[column * self.stride..][..self.rows]
    }

    /// Where the connections of a column start, by the row of their end.
    pub(super) fn starts(&self, column: usize) -> &[u16] {
        &self.down.other[column * self.stride..][..self.rows]
    }

    /// The numbers of a column's connections, by the row of their start: right where `ends` has a row.
    pub(super) fn numbers(&self, column: usize) -> &[u32] {
        &self.owners[column * self.stride..][..self.rows]
    }

    pub(super) fn owner_up(&self, row: usize, column: usize) -> u32 {
        let place = column * self.stride + row;
        if self.up.other[place] == NO_ROW { NOBODY } else { self.owners[place] }
    }

    pub(super) fn owner_down(&self, row: usize, column: usize) -> u32 {
        match self.down.other[column * self.stride + row] {
            NO_ROW => NOBODY,
            start => self.owners[column * self.stride + usize::from(start)],
        }
    }

    /// Gives each connection (number, row up, row down) the first column that is free at both its ends
    /// and tells which; the others are left over.
    pub(super) fn settle(
        &mut self,
        connections: impl Iterator<Item = (u32, usize, usize)>,
        mut found: impl FnMut(u32, usize),
        mut left: impl FnMut(u32, usize, usize),
    ) {
        if self.words == 1 {
            return self.settle_in_a_word(connections, found, left);
        }
        for (id, up, down) in connections {
            if let Some(column) = self.first_common(up, down) {
                self.take(up, down, column, id);
                found(id, column);
            } else {
                left(id, up, down);
            }
        }
    }

    /// The same for up to 64 columns, the case that matters.
    fn settle_in_a_word(
        &mut self,
        connections: impl Iterator<Item = (u32, usize, usize)>,
        mut found: impl FnMut(u32, usize),
        mut left: impl FnMut(u32, usize, usize),
    ) {
        let Self { stride, up: ups, down: downs, owners, .. } = self;
        for (id, up, down) in connections {
            let (free_up, free_down) = (&mut ups.free[up], &mut downs.free[down]);
            let common = *free_up & *free_down;
            if common == 0 {
                left(id, up, down);
                continue;
            }
            let first = common & common.wrapping_neg();
            *free_up ^= first;
            *free_down ^= first;
            let column = common.trailing_zeros() as usize;
            let place = column * *stride;
            ups.other[place + up] = down as u16;
            downs.other[place + down] = up as u16;
            owners[place + up] = id;
            found(id, column);
        }
    }

    /// Gives two free links to a connection.
    pub(super) fn take(&mut self, up: usize, down: usize, column: usize, id: u32) {
        let (words, place) = (self.words, column * self.stride);
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
        let (words, place) = (self.words, column * self.stride);
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
        let Self { stride, words, up: ups, down: downs, owners, .. } = self;
        let (by_up, by_down) = (up * *stride, down * *stride);
        let (mut row, mut came) = (row, side == Side::Down);
        if side == Side::Down {
            downs.other.swap(by_up + row, by_down + row);
            toggle(&mut downs.free, *words, row, [up, down]);
            row = downs.other[by_up + row].into();
        } else {
            toggle(&mut ups.free, *words, row, [up, down]);
        }
        loop {
            ups.other.swap(by_up + row, by_down + row);
            owners.swap(by_up + row, by_down + row);
            if came {
                moved(owners[by_up + row], up);
            }
            came = true;
            let end = ups.other[by_down + row];
            if end == NO_ROW {
                return toggle(&mut ups.free, *words, row, [up, down]);
            }
            moved(owners[by_down + row], down);
            row = end.into();
            downs.other.swap(by_up + row, by_down + row);
            let start = downs.other[by_up + row];
            if start == NO_ROW {
                return toggle(&mut downs.free, *words, row, [up, down]);
            }
            row = start.into();
        }
    }
}

/// Exchanges two columns of a row, of which one was free and the other is now.
fn toggle(free: &mut [u64], words: usize, row: usize, columns: [usize; 2]) {
    for column in columns {
        free[row * words + column / 64] ^= 1 << (column % 64);
    }
}
