//! Many connections into one matrix: first all that find a column free at both ends, then the others
//! with the help of chains. That way most chains are spared.

use super::chain::Search;
use super::matrix::Matrix;

/// Fills matrices; its buffers are kept.
#[derive(Clone, Default, Debug)]
pub(super) struct Filler {
    search: Search,
    waiting: Vec<(u32, u16, u16)>,
}

impl Filler {
    /// Packs connections (number, row up, row down) of which each may have every column. `found` hears
    /// of every column that one gets, and the last word on it counts. Returns how many were packed.
    pub(super) fn fill(
        &mut self,
        matrix: &mut Matrix,
        connections: impl Iterator<Item = (u32, usize, usize)>,
        mut found: impl FnMut(u32, usize),
    ) -> usize {
        let Self { search, waiting } = self;
        waiting.clear();
        let mut packed = 0;
        let settled = |id, column| {
            packed += 1;
            found(id, column);
        };
        matrix.settle(connections, settled, |id, up, down| {
            waiting.push((id, up as u16, down as u16));
        });
        let before = waiting.len();
        waiting.retain(|&(id, up, down)| {
            let (up, down) = (up.into(), down.into());
            let column = matrix.first_common(up, down).or_else(|| {
                let chain = search.shortest(matrix, (up, down), |_| true, |_, _, _| true)?;
                matrix.exchange(chain, &mut found);
                Some(chain.gain)
            });
            if let Some(column) = column {
                matrix.take(up, down, column, id);
                found(id, column);
            }
            column.is_none()
        });
        packed + before - waiting.len()
    }

    /// The connections that the last `fill` found no column for.
    pub(super) fn failed(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().map(|&(id, ..)| id)
    }
}
