//! The owner of every directed link, derived from the connections and their trees alone and not from
//! the tables that the packer packs by: anyone who knows the requests can check it link by link.

use snin_fabric::TreeId;

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

/// Who owns which directed link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    /// Every link in use with its owner, in the order of the links.
    pub owners: Vec<(Link, ConnectionId)>,
}

/// A directed link with two owners: the promise is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{link:?} belongs to both {first:?} and {second:?}")]
pub struct SharedLink {
    /// The link.
    pub link: Link,
    /// One owner.
    pub first: ConnectionId,
    /// And another.
    pub second: ConnectionId,
}

impl Certificate {
    pub(super) fn of(state: &State) -> Self {
        let leaf = |leaf: usize| LeafId(leaf as u32);
        let mut owners = Vec::new();
        for id in state.packed() {
            let (c, owner) = (state.get(id), ConnectionId(id));
            let tree = TreeId(state.trees[id as usize]);
            let group = state.shape.group_of(tree) as u32;
            owners.push((Link::Leaf(leaf(c.source()), group, Direction::Up), owner));
            owners.push((Link::Leaf(leaf(c.destination()), group, Direction::Down), owner));
            if let Some((up, down)) = state.pods_of(id) {
                owners.push((Link::Pod(up as u32, tree, Direction::Up), owner));
                owners.push((Link::Pod(down as u32, tree, Direction::Down), owner));
            }
        }
        owners.sort_unstable();
        Self { owners }
    }

    /// That no directed link is named twice.
    pub fn verify(&self) -> Result<(), SharedLink> {
        let shared = self.owners.windows(2).find(|pair| pair[0].0 == pair[1].0);
        shared.map_or(Ok(()), |pair| {
            Err(SharedLink { link: pair[0].0, first: pair[0].1, second: pair[1].1 })
        })
    }
}
