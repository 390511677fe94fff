//! Divides connections into two halves of which each has half of those that start at any row and half of those
//! that end there, give or take one: so half the columns do for each, and a core can pack each.
//!
//! An Euler split: the connections at a row are paired as they come, where they start and where they end. From a
//! connection to its pair at one end, from there to that one's pair at the other end, and so on, the way comes
//! back to where it began or ends at a connection without a pair, and the halves take turns along it. So the two
//! of a pair are always in different halves.

use super::matrix::Edge;

/// Of a connection that no way has passed yet.
const UNSEEN: u8 = 2;

/// Splits; its buffers are kept.
#[derive(Clone, Debug)]
pub(super) struct Splitter {
    /// The connection at each row that waits for another, where they start and where they end.
    waiting: [Vec<u32>; 2],
    /// With whom each connection is paired where it starts and where it ends, side by side, since a way needs
    /// one after the other. `count`, the number of no connection, stands for no pair; its own entry leads back to
    /// it.
    pairs: Vec<[u32; 2]>,
    /// The half of each connection; the entry of no connection counts as seen.
    half: Vec<u8>,
}

/// The ends in `pairs`.
const UP: usize = 0;
const DOWN: usize = 1;

impl Splitter {
    /// For up to so many rows and connections.
    pub(super) fn new(rows: usize, connections: usize) -> Self {
        Self {
            waiting: [UP, DOWN].map(|_| Vec::with_capacity(rows)),
            pairs: Vec::with_capacity(connections + 1),
            half: Vec::with_capacity(connections + 1),
        }
    }

    /// The half, 0 or 1, of each connection.
    pub(super) fn split(&mut self, rows: usize, edges: &[Edge]) -> &[u8] {
        let count = edges.len();
        self.pair(rows, edges);
        let Self { pairs, half, .. } = self;
        half.clear();
        half.resize(count, UNSEEN);
        half.push(0);
        for begin in 0..count {
            if half[begin] == UNSEEN {
                half[begin] = 0;
                follow(half, pairs, begin);
            }
        }
        &half[..count]
    }

    /// Pairs the connections at each row, without a condition that a processor would have to guess: the entry of
    /// no connection is written to like any other.
    fn pair(&mut self, rows: usize, edges: &[Edge]) {
        let Self { waiting: [up, down], pairs, .. } = self;
        let nobody = edges.len() as u32;
        for waiting in [&mut *up, down] {
            waiting.clear();
            waiting.resize(rows, nobody);
        }
        pairs.clear();
        pairs.resize(edges.len() + 1, [nobody; 2]);
        let (up, down, pairs) = (&mut up[..], &mut down[..], &mut pairs[..]);
        let meet = |waiting: &mut u32, number| {
            let other = *waiting;
            *waiting = if other == nobody { number } else { nobody };
            other
        };
        for (number, &edge) in (0..).zip(edges) {
            let (from, to) = edge.rows();
            let others = [meet(&mut up[from], number), meet(&mut down[to], number)];
            pairs[number as usize] = others;
            for (end, other) in others.into_iter().enumerate() {
                pairs[other as usize][end] = number;
            }
        }
        pairs[edges.len()] = [nobody; 2];
    }
}

/// Goes from pair to pair, both ways at once, until either comes to no connection or to a seen one: a processor
/// waits for one way's next while it waits for the other's. After as many steps both are in the same half.
fn follow(half: &mut [u8], pairs: &[[u32; 2]], begin: usize) {
    let nobody = pairs.len() - 1;
    let (mut ahead, mut back) = (begin, begin);
    let mut step = |at: usize, end: usize, into: u8| {
        let next = pairs[at][end] as usize;
        if half[next] != UNSEEN {
            return nobody;
        }
        half[next] = into;
        next
    };
    while ahead != nobody || back != nobody {
        (ahead, back) = (step(ahead, DOWN, 1), step(back, UP, 1));
        (ahead, back) = (step(ahead, UP, 0), step(back, DOWN, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn halves_differ_by_one_at_most_at_every_row() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..2000 {
            let (rows, count) = (rng.random_range(1..9), rng.random_range(0..40));
            let mut row = || rng.random_range(0..rows as u16);
            let edges: Vec<Edge> =
                (0..count).map(|id| Edge { id, up: row(), down: row() }).collect();
            let mut splitter = Splitter::new(rows, edges.len());
            let half = splitter.split(rows, &edges);
            for row in 0..rows {
                for end in [|edge: &Edge| edge.rows().0, |edge: &Edge| edge.rows().1] {
                    let here = edges.iter().zip(half).filter(|(edge, _)| end(edge) == row);
                    let counts = here.fold([0usize; 2], |mut counts, (_, &half)| {
                        counts[usize::from(half)] += 1;
                        counts
                    });
                    assert!(counts[0].abs_diff(counts[1]) < 2, "{counts:?} at {row}: {edges:?}");
                }
            }
        }
    }
}
