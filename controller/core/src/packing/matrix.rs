//! Paull's matrix: who owns which directed link of one stage. Rows are leaves (or pods), columns are
//! trees (or groups of trees); every row has one link up and one link down in each column.
//!
//! Tables are kept by column: a Kempe chain looks at one column of either side only, so however long
//! it is, it stays within two short arrays. An entry is the row at the other end, which is where the
//! chain goes on; numbers of connections are kept beside, once, by the row where they start.

use super::request::Request;
use super::sets;

/// No connection.
pub(super) const NOBODY: u32 = u32::MAX;
/// No row: no connection owns the link.
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

/// A connection that looks for a column: its number, and the rows where it starts and ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) id: u32,
    pub(super) up: u16,
    pub(super) down: u16,
}

impl Edge {
    /// Between leaves.
    pub(super) const fn of(request: &Request) -> Self {
        let &Request { id, source, destination, .. } = request;
        Self { id: id.0, up: source.0 as u16, down: destination.0 as u16 }
    }

    pub(super) fn rows(self) -> (usize, usize) {
        (self.up.into(), self.down.into())
    }
}

/// The links of one direction.
#[derive(Clone, Debug)]
struct Links {
    /// Free columns, some words a row. A link that does not exist is never free.
    free: Vec<u64>,
    /// The row at the other end of the connection that owns the link, by column and row. Each column has
    /// one more row, nowhere, that leads to itself: a search that is led there stays there. And there is one
    /// more column, which is never read: there a loop writes what has no place.
    other: Vec<u16>,
}

/// A copy of who owns what: each by column and row, in columns of `stride` rows of which the last is no
/// row.
#[derive(Clone, Default, Debug)]
pub(super) struct Owners {
    pub(super) stride: usize,
    /// The row where the connection ends that starts in this one, and the other way round.
    pub(super) ends: Vec<u16>,
    pub(super) starts: Vec<u16>,
    /// Its number, by the row of its start; stale where there is no connection.
    pub(super) numbers: Vec<u32>,
}

/// The links of one stage and their owners.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    rows: usize,
    columns: usize,
    /// From a column to the next in tables by column and row.
    stride: usize,
    words: usize,
    up: Links,
    down: Links,
    /// The number of each connection, by column and row of its start; stale where there is none.
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
        let places = stride * (columns + 1);
        let up = Links { free: free.clone(), other: vec![NO_ROW; places] };
        let owners = vec![NOBODY; places];
        let down = up.clone();
        let mut matrix = Self { rows, columns, stride, words, up, down, owners, links: free };
        matrix.clear();
        matrix
    }

    /// Removes all connections.
    pub(super) fn clear(&mut self) {
        for side in [&mut self.up, &mut self.down] {
            side.free.copy_from_slice(&self.links);
            side.other.fill(NO_ROW);
            let nowhere = side.other.iter_mut().skip(self.rows).step_by(self.stride);
            nowhere.for_each(|row| *row = self.rows as u16);
        }
    }

    /// Takes over who owns what in the columns from `first` on from a matrix that has these alone, and where
    /// no connection was before. It begins with a word of its own, or all columns are in one.
    pub(super) fn adopt(&mut self, first: usize, part: &Self) {
        let places = part.places();
        let begin = first * self.stride;
        self.owners[begin..][..places].copy_from_slice(&part.owners[..places]);
        for (side, part) in [(&mut self.up, &part.up), (&mut self.down, &part.down)] {
            side.other[begin..][..places].copy_from_slice(&part.other[..places]);
        }
        let sides = [(&mut self.up.free, &part.up.free), (&mut self.down.free, &part.down.free)];
        for (free, part_free) in sides {
            let words = free.chunks_exact_mut(self.words).zip(part_free.chunks_exact(part.words));
            for ((free, part_free), there) in words.zip(part.links.chunks_exact(part.words)) {
                for (at, (&is_free, &there)) in part_free.iter().zip(there).enumerate() {
                    free[first / 64 + at] ^= (there & !is_free) << (first % 64);
                }
            }
        }
    }

    /// Copies who owns what.
    pub(super) fn copy_owners(&self, copy: &mut Owners) {
        let places = self.places();
        copy.stride = self.stride;
        self.up.other[..places].clone_into(&mut copy.ends);
        self.down.other[..places].clone_into(&mut copy.starts);
        self.owners[..places].clone_into(&mut copy.numbers);
    }

    /// How long tables by column and row are without the column that is never read.
    const fn places(&self) -> usize {
        self.columns * self.stride
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

    /// Gives each connection the first column that is free at both its ends and tells which; only the
    /// others remain.
    pub(super) fn settle(&mut self, edges: &mut Vec<Edge>, mut found: impl FnMut(u32, usize)) {
        if self.words == 1 {
            return self.settle_in_a_word(edges, found);
        }
        edges.retain(|&edge| {
            let (up, down) = edge.rows();
            let column = self.first_common(up, down);
            if let Some(column) = column {
                self.take(up, down, column, edge.id);
                found(edge.id, column);
            }
            column.is_none()
        });
    }

    /// The same for up to 64 columns, the case that matters: every instruction here is one for every
    /// connection of a pattern. Whether there is a common column is chance, which no processor can guess:
    /// where there is none, the column that is never read is taken, and `found` hears of it.
    fn settle_in_a_word(&mut self, edges: &mut Vec<Edge>, mut found: impl FnMut(u32, usize)) {
        let Self { rows, columns, stride, up: ups, down: downs, owners, .. } = self;
        // Of one length, so that one comparison with it does for a place in two of them.
        let (ends, starts) = (&mut ups.other[..owners.len()], &mut downs.other[..owners.len()]);
        let (free_up, free_down) = (&mut ups.free[..*rows], &mut downs.free[..*rows]);
        // The bit of the column after the last; after the 64th comes none, but then all zeros count 64.
        let beyond = 1_u64.checked_shl(*columns as u32).unwrap_or(0);
        // What is free where the last one started: the next one often starts there too, and would have to
        // wait for it to be written and read.
        let (mut last, mut free) = (0, free_up[0]);
        let mut left = 0;
        for at in 0..edges.len() {
            let edge = edges[at];
            let (up, down) = edge.rows();
            if up != last {
                free_up[last] = free;
                (last, free) = (up, free_up[up]);
            }
            let common = free & free_down[down];
            edges[left] = edge;
            left += usize::from(common == 0);
            let first = common & common.wrapping_neg();
            free ^= first;
            free_down[down] ^= first;
            let column = (common | beyond).trailing_zeros() as usize;
            let place = column * *stride;
            ends[place + up] = edge.down;
            owners[place + up] = edge.id;
            starts[place + down] = edge.up;
            found(edge.id, column);
        }
        free_up[last] = free;
        edges.truncate(left);
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

    /// Takes its two links from their owners.
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
    /// first and the last row one of them is no connection.
    pub(super) fn exchange(&mut self, chain: Chain, mut moved: impl FnMut(u32, usize)) {
        let Chain { gain, give, side, row } = chain;
        // The columns by which the chain leaves its rows of either side; it comes by the other one.
        let (up, down) = if side == Side::Up { (gain, give) } else { (give, gain) };
        let Self { stride, words, up: ups, down: downs, owners, .. } = self;
        // Of one length, as in `settle`.
        let (ends, starts) = (&mut ups.other[..owners.len()], &mut downs.other[..owners.len()]);
        let (by_up, by_down) = (up * *stride, down * *stride);
        let (mut row, mut came) = (row, side == Side::Down);
        if came {
            starts.swap(by_up + row, by_down + row);
            toggle(&mut downs.free, *words, row, [up, down]);
            row = starts[by_up + row].into();
        } else {
            toggle(&mut ups.free, *words, row, [up, down]);
        }
        loop {
            let (came_by, left_by) = (by_up + row, by_down + row);
            ends.swap(came_by, left_by);
            owners.swap(came_by, left_by);
            if came {
                moved(owners[came_by], up);
            }
            came = true;
            let end = ends[left_by];
            if end == NO_ROW {
                return toggle(&mut ups.free, *words, row, [up, down]);
            }
            moved(owners[left_by], down);
            row = end.into();
            starts.swap(by_up + row, by_down + row);
            let start = starts[by_up + row];
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
