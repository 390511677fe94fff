//! The search for the shortest Kempe chain (Hui's rearrangement of Paull's matrix).
//!
//! Column `a` is free where a connection starts and column `b` where it ends, but none is free at
//! both. The connections that hold `a` and `b` alternately, from the row where `a` is taken onwards,
//! form a chain; if each of them changes to the other column, `a` is free at both ends. Likewise from
//! the row where `b` is taken. Of all chains over all pairs the shortest is taken: with every link
//! there and nobody pinned it has at most rows - 1 connections, since the two chains of one pair share
//! no row.

use super::matrix::{Chain, Matrix, NO_ROW, Side};
use super::sets;

/// Whether the connection that starts in a row and has the first column may have the second.
pub(super) trait MayMove: Fn(usize, usize, usize) -> bool {}
impl<F: Fn(usize, usize, usize) -> bool> MayMove for F {}

/// The two chains of a pair of columns, each at some row. In turn one of them is at an upper row and
/// the other at a lower one: upper rows are always left by `b` and lower ones by `a`.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// Free where the connection starts, taken where it ends.
    a: u16,
    /// Free where it ends, taken where it starts.
    b: u16,
    at_up: u16,
    at_down: u16,
}

/// Searches for chains; its buffer is kept.
#[derive(Clone, Default, Debug)]
pub(super) struct Search {
    pairs: Vec<Pair>,
}

impl Search {
    /// The shortest chain after which a connection from row `up` to row `down`, which have no free
    /// column in common, has one of the `wanted` columns free at both ends. All go on at once, a step each
    /// in turn: the first at its end is the shortest.
    pub(super) fn shortest(
        &mut self,
        matrix: &Matrix,
        (up, down): (usize, usize),
        wanted: impl Fn(usize) -> bool,
        may_move: impl MayMove,
    ) -> Option<Chain> {
        self.begin(matrix, (up, down), wanted);
        // In even steps those that came from `down`, and free `a`, are at lower rows.
        let mut even = true;
        while !self.pairs.is_empty() {
            let mut at = 0;
            while let Some(pair) = self.pairs.get_mut(at) {
                let Some(end) = pair.step(matrix, &may_move) else {
                    if pair.is_blocked() {
                        self.pairs.swap_remove(at);
                    } else {
                        at += 1;
                    }
                    continue;
                };
                let (a, b) = (pair.a.into(), pair.b.into());
                return Some(if (end == Side::Down) == even {
                    Chain { gain: a, give: b, side: Side::Down, row: down }
                } else {
                    Chain { gain: b, give: a, side: Side::Up, row: up }
                });
            }
            even = !even;
        }
        None
    }

    /// All pairs of a column free in `up` and one free in `down`.
    fn begin(
        &mut self,
        matrix: &Matrix,
        (up, down): (usize, usize),
        wanted: impl Fn(usize) -> bool,
    ) {
        self.pairs.clear();
        for a in sets::members(matrix.free_up(up).iter().copied()) {
            let at_down = if wanted(a) { down as u16 } else { NO_ROW };
            for b in sets::members(matrix.free_down(down).iter().copied()) {
                let at_up = if wanted(b) { up as u16 } else { NO_ROW };
                self.pairs.push(Pair { a: a as u16, b: b as u16, at_up, at_down });
            }
        }
    }
}

impl Pair {
    /// Both chains go on by one connection; the side on which one of them came to its end. A chain is
    /// nowhere from the connection on that may not move, and from the link on that does not exist.
    fn step(&mut self, matrix: &Matrix, may_move: &impl MayMove) -> Option<Side> {
        let (a, b) = (usize::from(self.a), usize::from(self.b));
        let (mut to_up, mut to_down) = (NO_ROW, NO_ROW);
        if self.at_down != NO_ROW {
            let row = usize::from(self.at_down);
            to_up = matrix.starts(a)[row];
            if to_up == NO_ROW {
                if sets::contains(matrix.free_down(row), a) {
                    return Some(Side::Down);
                }
            } else if !may_move(to_up.into(), a, b) {
                to_up = NO_ROW;
            }
        }
        if self.at_up != NO_ROW {
            let row = usize::from(self.at_up);
            to_down = matrix.ends(b)[row];
            if to_down == NO_ROW {
                if sets::contains(matrix.free_up(row), b) {
                    return Some(Side::Up);
                }
            } else if !may_move(row, b, a) {
                to_down = NO_ROW;
            }
        }
        (self.at_up, self.at_down) = (to_up, to_down);
        None
    }

    fn is_blocked(&self) -> bool {
        self.at_up == NO_ROW && self.at_down == NO_ROW
    }
}
