//! Many connections into one matrix: first all that find a column free at both ends, then the others
//! with the help of chains. That way most chains are spared.

use super::chain::Search;
use super::matrix::{Edge, Matrix};

/// Fills matrices; its buffers are kept.
#[derive(Clone, Debug)]
pub(super) struct Filler {
    search: Search,
    waiting: Vec<Edge>,
}

impl Filler {
    /// For matrices of so many columns, with room for so many connections.
    pub(super) fn new(columns: usize, connections: usize) -> Self {
        Self { search: Search::for_columns(columns), waiting: Vec::with_capacity(connections) }
    }

    /// Takes connections to pack.
    pub(super) fn load(&mut self, edges: impl Iterator<Item = Edge>) {
        self.waiting.clear();
        self.waiting.extend(edges);
    }

    /// Takes those connections to pack that are in a half.
    pub(super) fn load_half(&mut self, edges: &[Edge], halves: &[u8], half: u8) {
        let waiting = &mut self.waiting;
        waiting.clear();
        waiting.extend_from_slice(edges);
        // Every other one is in it, by no rule that a processor could guess: so without a condition.
        let mut count = 0;
        for (at, &of) in halves.iter().enumerate() {
            waiting[count] = waiting[at];
            count += usize::from(of == half);
        }
        waiting.truncate(count);
    }

    /// The connections to pack.
    pub(super) fn edges(&self) -> &[Edge] {
        &self.waiting
    }

    /// Forgets those that end where they start.
    pub(super) fn refuse_within(&mut self, mut refused: impl FnMut(u32)) {
        self.waiting.retain(|edge| {
            let leaves = edge.up != edge.down;
            if !leaves {
                refused(edge.id);
            }
            leaves
        });
    }

    /// Packs the connections, each of which may have every column. `found` hears of every column that
    /// one gets, and the last word on it counts: before it one may hear of the column after the last, which is
    /// none. Returns how many were packed.
    pub(super) fn fill(&mut self, matrix: &mut Matrix, mut found: impl FnMut(u32, usize)) -> usize {
        let Self { search, waiting } = self;
        let all = waiting.len();
        matrix.settle(waiting, &mut found);
        waiting.retain(|&edge| {
            let (up, down) = edge.rows();
            let column = matrix.first_common(up, down).or_else(|| {
                let chain = search.short(matrix, (up, down))?;
                matrix.exchange(chain, &mut found);
                Some(chain.gain)
            });
            if let Some(column) = column {
                matrix.take(up, down, column, edge.id);
                found(edge.id, column);
            }
            column.is_none()
        });
        all - waiting.len()
    }

    /// The connections that the last `fill` found no column for.
    pub(super) fn failed(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().map(|edge| edge.id)
    }
}
