//! Kempe chains (Hui's rearrangement of Paull's matrix).
//!
//! Column `a` is free where a connection starts and column `b` where it ends, but none is free at
//! both. The connections that hold `a` and `b` alternately, from the row where `a` is taken onwards,
//! form a chain; if each of them changes to the other column, `a` is free at both ends. Of all chains
//! over all pairs the shortest is taken: with every link there and nobody pinned it has at most
//! rows - 1 connections, since the two chains of one pair share no row.

use super::sets;
use super::state::{Grid, NOBODY};

/// Which of a connection's two rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Up,
    Down,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// A chain that frees column `gain` in `row` by letting its connections change between `gain` and
/// `give`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    pub(super) gain: usize,
    give: usize,
    side: Side,
    row: usize,
    length: usize,
}

/// The connections of one stage as a bipartite multigraph of rows.
pub(super) struct Walker<'a, R, M> {
    /// The stage's links.
    pub(super) grid: &'a Grid,
    /// The row of a connection on a side.
    pub(super) row: R,
    /// Whether a connection may change to a column.
    pub(super) may_move: M,
    /// The columns that take part; `None` for all.
    pub(super) columns: Option<&'a [u64]>,
}

impl<R, M> Walker<'_, R, M>
where
    R: Fn(u32, Side) -> usize,
    M: Fn(u32, usize) -> bool,
{
    /// The shortest chain after which a connection from row `up` to row `down` has one of the
    /// `wanted` columns free at both ends.
    pub(super) fn shortest(&self, up: usize, down: usize, wanted: &[u64]) -> Option<Chain> {
        let mut best: Option<Chain> = None;
        let free_up = self.grid.up.free(up);
        let free_down = self.grid.down.free(down);
        for (side, row, gains, gives) in
            [(Side::Down, down, free_up, free_down), (Side::Up, up, free_down, free_up)]
        {
            let part = |word: usize| self.columns.map_or(u64::MAX, |columns| columns[word]);
            let gives = || gives.iter().enumerate().map(|(word, &free)| free & part(word));
            let gains = gains.iter().zip(wanted).map(|(&free, &wanted)| free & wanted);
            for gain in sets::members(gains) {
                for give in sets::members(gives()) {
                    let limit = best.map_or(usize::MAX, |best| best.length);
                    let chain = Chain { gain, give, side, row, length: 0 };
                    if let Some(length) = self.length(chain, limit) {
                        best = Some(Chain { length, ..chain });
                    }
                }
            }
        }
        best
    }

    /// The connections of a chain and the column that each changes to.
    pub(super) fn members(&self, chain: Chain) -> impl Iterator<Item = (u32, usize)> {
        let Chain { gain, give, mut side, mut row, .. } = chain;
        let (mut from, mut to) = (gain, give);
        std::iter::from_fn(move || {
            let links = if side == Side::Up { &self.grid.up } else { &self.grid.down };
            let id = links.owner(row, from);
            if id == NOBODY {
                return None;
            }
            let step = (id, to);
            side = side.other();
            row = (self.row)(id, side);
            (from, to) = (to, from);
            Some(step)
        })
    }

    /// How many connections a chain has, if all may change and there are fewer than `limit`.
    fn length(&self, chain: Chain, limit: usize) -> Option<usize> {
        let mut length = 0;
        for (id, to) in self.members(chain) {
            length += 1;
            if length >= limit || !(self.may_move)(id, to) {
                return None;
            }
        }
        Some(length)
    }
}
