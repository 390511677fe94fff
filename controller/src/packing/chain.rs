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
                    if pair.is_blocked(matrix) {
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
        let at = |row: usize, column| if wanted(column) { row as u16 } else { matrix.nowhere() };
        for a in sets::members(matrix.free_up(up).iter().copied()) {
            let (at_down, a_begin) = (at(down, a), matrix.begin(a));
            for b in sets::members(matrix.free_down(down).iter().copied()) {
                let (at_up, b_begin) = (at(up, b), matrix.begin(b));
                let (a, b) = (a as u16, b as u16);
                self.pairs.push(Pair { a, a_begin, b, b_begin, at_up, at_down });
            }
        }
    }
}

impl Pair {
    /// Both chains go on by one connection; the side on which one of them came to its end.
    fn step(&mut self, matrix: &Matrix, may_move: &impl MayMove) -> Option<Side> {
        let &mut Self { a, a_begin, b, b_begin, at_up, at_down } = self;
        let to_up = matrix.start(a_begin, at_down);
        let to_down = matrix.end(b_begin, at_up);
        let goes = |to, up, from: u16, other: u16| {
            let nowhere = to == matrix.nowhere();
            to != NO_ROW && (nowhere || may_move(usize::from(up), from.into(), other.into()))
        };
        let (goes_up, goes_down) = (goes(to_up, to_up, a, b), goes(to_down, at_up, b, a));
        (self.at_up, self.at_down) = (to_up, to_down);
        if goes_up && goes_down {
            return None;
        }
        // A chain ends where its next column is free. It leads nowhere if that link does not exist, or
        // if its next connection may not move.
        if to_up == NO_ROW && sets::contains(matrix.free_down(at_down.into()), a.into()) {
            return Some(Side::Down);
        }
        if to_down == NO_ROW && sets::contains(matrix.free_up(at_up.into()), b.into()) {
            return Some(Side::Up);
        }
        if !goes_up {
            self.at_up = matrix.nowhere();
        }
        if !goes_down {
            self.at_down = matrix.nowhere();
        }
        None
    }

    fn is_blocked(&self, matrix: &Matrix) -> bool {
        self.at_up == matrix.nowhere() && self.at_down == matrix.nowhere()
    }
}
