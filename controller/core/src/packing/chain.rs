//! The search for the shortest Kempe chain (Hui's rearrangement of Paull's matrix).
//!
//! Column `a` is free where a connection starts and column `b` where it ends, but none is free at
//! both. The connections that hold `a` and `b` alternately, from the row where `a` is taken onwards,
//! form a chain; if each of them changes to the other column, `a` is free at both ends. Likewise from
//! the row where `b` is taken. Of all chains over all pairs the shortest is taken: with every link
//! there and no connection pinned it has at most rows - 1 connections, since the two chains of one pair share
//! no row.

use super::matrix::{Chain, Matrix, NO_ROW, Side};
use super::sets;

/// Pairs that there is room for from the start: all of up to 128 columns, and of up to 256 where no column is
/// free at both ends.
const MANY: usize = 1 << 14;
/// Pairs that a whole pattern's chains are chosen from.
const FEW: usize = 3;

/// Whether the connection that starts in a row and has the first column may have the second.
pub(super) trait MayMove: Fn(usize, usize, usize) -> bool {}
impl<F: Fn(usize, usize, usize) -> bool> MayMove for F {}

/// The two chains of a pair of columns, each at some row. In turn one of them is at an upper row and
/// the other at a lower one: upper rows are always left by `b` and lower ones by `a`.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// Free where the connection starts, taken where it ends; and where the column begins.
    a: u16,
    a_begin: u32,
    /// Free where it ends, taken where it starts.
    b: u16,
    b_begin: u32,
    at_up: u16,
    at_down: u16,
}

/// Searches for chains; its buffer is kept.
#[derive(Clone, Default, Debug)]
pub(super) struct Search {
    pairs: Vec<Pair>,
}

impl Search {
    /// With room for all pairs of so many columns.
    pub(super) fn for_columns(columns: usize) -> Self {
        Self { pairs: Vec::with_capacity((columns * columns).min(MANY)) }
    }

    /// The shortest chain after which a connection from row `up` to row `down`, which have no free
    /// column in common, has one of the `wanted` columns free at both ends.
    pub(super) fn shortest(
        &mut self,
        matrix: &Matrix,
        ends: (usize, usize),
        wanted: impl Fn(usize) -> bool,
        may_move: impl MayMove,
    ) -> Option<Chain> {
        self.begin(matrix, ends, wanted, usize::MAX);
        self.race(matrix, ends, may_move)
    }

    /// A short chain, the shortest over `FEW` pairs, where all may move. While a fabric is filled moves disturb no
    /// traffic, and to look at all pairs costs more than the moves that it spares.
    pub(super) fn short(&mut self, matrix: &Matrix, ends: (usize, usize)) -> Option<Chain> {
        self.begin(matrix, ends, |_| true, FEW);
        let chain = self.race(matrix, ends, |_, _, _| true);
        chain.or_else(|| self.shortest(matrix, ends, |_| true, |_, _, _| true))
    }

    /// All pairs go on at once, a step each in turn: the first at its end is the shortest.
    fn race(
        &mut self,
        matrix: &Matrix,
        (up, down): (usize, usize),
        may_move: impl MayMove,
    ) -> Option<Chain> {
        // In even rounds those that came from `down`, and free `a`, are at lower rows.
        let (mut at, mut even) = (0, true);
        while let Some(pair) = self.pairs.get_mut(at) {
            let mut next = at + 1;
            match pair.step(matrix, &may_move) {
                Step::On => {}
                Step::Blocked => {
                    self.pairs.swap_remove(at);
                    next = at;
                }
                Step::End(side) => {
                    let (a, b) = (pair.a.into(), pair.b.into());
                    return Some(if (side == Side::Down) == even {
                        Chain { gain: a, give: b, side: Side::Down, row: down }
                    } else {
                        Chain { gain: b, give: a, side: Side::Up, row: up }
                    });
                }
            }
            // Without a jump, which would be mispredicted once a round.
            let round = next == self.pairs.len();
            at = if round { 0 } else { next };
            even ^= round;
        }
        None
    }

    /// The pairs of a column free in `up` and one free in `down`, up to `most` of them.
    fn begin(
        &mut self,
        matrix: &Matrix,
        (up, down): (usize, usize),
        wanted: impl Fn(usize) -> bool,
        most: usize,
    ) {
        self.pairs.clear();
        let at = |row: usize, column| if wanted(column) { row as u16 } else { matrix.nowhere() };
        for a in sets::members(matrix.free_up(up).iter().copied()) {
            let (at_down, a_begin) = (at(down, a), matrix.begin(a));
            for b in sets::members(matrix.free_down(down).iter().copied()) {
                let (at_up, b_begin) = (at(up, b), matrix.begin(b));
                // Such a pair would never end.
                if at_up == matrix.nowhere() && at_down == matrix.nowhere() {
                    continue;
                }
                let (a, b) = (a as u16, b as u16);
                self.pairs.push(Pair { a, a_begin, b, b_begin, at_up, at_down });
                if self.pairs.len() == most {
                    return;
                }
            }
        }
    }
}

/// How far the two chains of a pair came.
enum Step {
    On,
    /// The one on this side is at its end.
    End(Side),
    /// Neither leads anywhere.
    Blocked,
}

impl Pair {
    /// Both chains go on by one connection.
    #[inline]
    fn step(&mut self, matrix: &Matrix, may_move: &impl MayMove) -> Step {
        let (up, down) = (self.at_up, self.at_down);
        let to_up = matrix.start(self.a_begin, down);
        let to_down = matrix.end(self.b_begin, up);
        (self.at_up, self.at_down) = (to_up, to_down);
        let goes = |to, up, from: u16, other: u16| {
            let nowhere = to == matrix.nowhere();
            to != NO_ROW && (nowhere || may_move(usize::from(up), from.into(), other.into()))
        };
        let goes_up = goes(to_up, to_up, self.a, self.b);
        let goes_down = goes(to_down, up, self.b, self.a);
        if goes_up & goes_down {
            return Step::On;
        }
        self.stop(matrix, (up, down), (goes_up, goes_down))
    }

    /// A chain ends where its next column is free. It leads nowhere if that link does not exist, or if
    /// its next connection may not move.
    fn stop(
        &mut self,
        matrix: &Matrix,
        (up, down): (u16, u16),
        (goes_up, goes_down): (bool, bool),
    ) -> Step {
        let is_free = |row: &[u64], column: u16| sets::contains(row, column.into());
        if self.at_up == NO_ROW && is_free(matrix.free_down(down.into()), self.a) {
            return Step::End(Side::Down);
        }
        if self.at_down == NO_ROW && is_free(matrix.free_up(up.into()), self.b) {
            return Step::End(Side::Up);
        }
        if !goes_up {
            self.at_up = matrix.nowhere();
        }
        if !goes_down {
            self.at_down = matrix.nowhere();
        }
        let nowhere = [self.at_up, self.at_down] == [matrix.nowhere(); 2];
        if nowhere { Step::Blocked } else { Step::On }
    }
}
