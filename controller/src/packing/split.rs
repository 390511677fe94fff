//! Divides connections into two halves of which each has half of those that start at any row and half of those
//! that end there, give or take one: so half the columns do for each, and a core can pack each.
//!
//! An Euler split: the connections at a row are paired as they come, where they start and where they end. From
//! a connection to its pair at one end, from there to that one's pair at the other end, and so on, the way comes
//! back to where it began or ends at somebody without a pair, and the halves take turns along it. So the two of a
//! pair are always in different halves.

use super::matrix::Edge;

/// Of a connection that no way has passed yet.
const UNSEEN: u8 = 2;

/// Splits; its buffers are kept.
#[derive(Clone, Debug)]
pub(super) struct Splitter {
    up: Pairs,
    down: Pairs,
    /// The half of each connection, and one more entry that is always seen.
    half: Vec<u8>,
}

/// Who is paired with whom at one end.
#[derive(Clone, Debug)]
struct Pairs {
    /// The connection at each row that waits for another.
    waiting: Vec<u32>,
    /// The other one of each pair; for somebody without a pair, and in one more entry, their number.
    other: Vec<u32>,
}

impl Splitter {
    /// For up to so many rows and connections.
    pub(super) fn new(rows: usize, connections: usize) -> Self {
        let pairs = || Pairs {
            waiting: Vec::with_capacity(rows),
            other: Vec::with_capacity(connections + 1),
        };
        Self { up: pairs(), down: pairs(), half: Vec::with_capacity(connections + 1) }
    }

    /// The half, 0 or 1, of each connection.
    pub(super) fn split(&mut self, rows: usize, edges: &[Edge]) -> &[u8] {
        let Self { up, down, half } = self;
        let count = edges.len();
        up.begin(rows, count);
        down.begin(rows, count);
        for (number, &edge) in (0..).zip(edges) {
            let rows = edge.rows();
            up.add(rows.0, number, count as u32);
            down.add(rows.1, number, count as u32);
        }
        half.clear();
        half.resize(count, UNSEEN);
        half.push(0);
        for begin in 0..count {
            if half[begin] == UNSEEN {
                half[begin] = 0;
                follow(half, down, up, begin);
                follow(half, up, down, begin);
            }
        }
        &half[..count]
    }
}

impl Pairs {
    fn begin(&mut self, rows: usize, count: usize) {
        self.waiting.clear();
        self.waiting.resize(rows, count as u32);
        self.other.clear();
        self.other.resize(count + 1, 0);
    }

    /// Without a condition that a processor would have to guess: `nobody` is written to like anybody.
    fn add(&mut self, row: usize, number: u32, nobody: u32) {
        let waiting = self.waiting[row];
        self.waiting[row] = if waiting == nobody { number } else { nobody };
        self.other[number as usize] = waiting;
        self.other[waiting as usize] = number;
    }
}

/// Goes from pair to pair, first by `one` end and then by the other, until there is none or it was seen.
fn follow(half: &mut [u8], one: &Pairs, other: &Pairs, begin: usize) {
    let mut at = begin;
    loop {
        let next = one.other[at] as usize;
        if half[next] != UNSEEN {
            return;
        }
        half[next] = 1;
        at = other.other[next] as usize;
        if half[at] != UNSEEN {
            return;
        }
        half[at] = 0;
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
