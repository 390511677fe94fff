//! The owner of every directed link: a copy of the packer's tables, which costs next to nothing. It is a
//! claim and no more until [`owners::check`](crate::owners::check) has judged it by the connections.

use snin_fabric::TreeId;

use super::matrix::{NO_ROW, Owners};
use super::request::ConnectionId;
use super::shape::LeafId;
use super::state::State;

/// Towards the cores or towards the hosts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// From a leaf towards the spine or core.
    Up,
    /// From the spine or core towards a leaf.
    Down,
}

/// A directed link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Link {
    /// Between a leaf and its switch of a group; in two stages the group is the tree.
    Leaf(LeafId, u32, Direction),
    /// Three stages: between a pod's switch of the tree's group and the tree's core.
    Pod(u32, TreeId, Direction),
}

/// Who owns which directed link; each has one owner at most.
#[derive(Clone, Default, Debug)]
pub struct Certificate {
    leaves: Owners,
    /// Three stages: one for each group.
    pods: Vec<Owners>,
    /// Three stages: group and column of each tree.
    places: Vec<(u32, u32)>,
}

impl Certificate {
    /// Copies the tables; nothing is allocated where those of the same fabric were copied before.
    pub(super) fn copy(&mut self, state: &State) {
        let State { leaves, pods, shape, .. } = state;
        leaves.copy_owners(&mut self.leaves);
        self.pods.resize_with(pods.len(), Owners::default);
        for (pods, copy) in pods.iter().zip(&mut self.pods) {
            pods.copy_owners(copy);
        }
        let trees = if pods.is_empty() { 0 } else { shape.trees() as u16 };
        let place = |tree| (shape.group_of(tree) as u32, shape.column_of(tree) as u32);
        self.places.clear();
        self.places.extend((0..trees).map(|tree| place(TreeId(tree))));
    }

    /// The owner of a link, if it has one.
    #[inline]
    pub fn owner(&self, link: Link) -> Option<ConnectionId> {
        let (table, row, column, direction) = match link {
            Link::Leaf(leaf, group, direction) => {
                (&self.leaves, leaf.index(), group as usize, direction)
            }
            Link::Pod(pod, tree, direction) => {
                let &(group, column) = self.places.get(tree.index())?;
                (self.pods.get(group as usize)?, pod as usize, column as usize, direction)
            }
        };
        table.owner(row, column, direction).map(ConnectionId)
    }

    /// How many links have an owner, by the tables of both directions: where these contradict each other it is
    /// not the number of [`owners`](Self::owners), and a checker must not believe them.
    pub fn owned(&self) -> usize {
        self.leaves.owned() + self.pods.iter().map(Owners::owned).sum::<usize>()
    }

    /// Every link that has an owner, and its owner.
    pub fn owners(&self) -> impl Iterator<Item = (Link, ConnectionId)> + '_ {
        let leaves = self.leaves.iter().map(|(row, column, direction, id)| {
            (Link::Leaf(LeafId(row as u32), column as u32, direction), ConnectionId(id))
        });
        let pods = (0..).zip(&self.places).flat_map(|(tree, &(group, column))| {
            let owners = self.pods[group as usize].column(column as usize);
            owners.map(move |(row, direction, id)| {
                (Link::Pod(row as u32, TreeId(tree), direction), ConnectionId(id))
            })
        });
        leaves.chain(pods)
    }
}

impl Owners {
    #[inline]
    fn owner(&self, row: usize, column: usize, direction: Direction) -> Option<u32> {
        let place = column * self.stride + row;
        let start = match direction {
            Direction::Up => row,
            Direction::Down => usize::from(*self.starts.get(place)?),
        };
        let there = start < self.stride && self.ends[column * self.stride + start] != NO_ROW;
        there.then(|| self.numbers[column * self.stride + start])
    }

    fn owned(&self) -> usize {
        let tables = [&self.ends, &self.starts];
        // Rows are numbered by 16 bits, so their number fits, and many are counted at once.
        let column = |column: &[u16]| {
            let rows = &column[..self.stride - 1];
            usize::from(rows.iter().fold(0, |count: u16, &row| count + u16::from(row != NO_ROW)))
        };
        tables
            .into_iter()
            .flat_map(|table| table.chunks_exact(self.stride.max(1)))
            .map(column)
            .sum()
    }

    fn column(&self, column: usize) -> impl Iterator<Item = (usize, Direction, u32)> + '_ {
        let rows = 0..self.stride.saturating_sub(1);
        let both = |row| [Direction::Up, Direction::Down].map(|direction| (row, direction));
        let owner =
            move |(row, direction)| Some((row, direction, self.owner(row, column, direction)?));
        rows.flat_map(both).filter_map(owner)
    }

    fn iter(&self) -> impl Iterator<Item = (usize, usize, Direction, u32)> + '_ {
        let columns = 0..self.ends.len().checked_div(self.stride).unwrap_or(0);
        columns.flat_map(move |column| {
            self.column(column).map(move |(row, direction, id)| (row, column, direction, id))
        })
    }
}
