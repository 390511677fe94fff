//! Requests to the packer, and its answers.

use snin_fabric::TreeId;

use super::shape::{LeafId, SetId};

/// A connection, numbered by the caller from 0 and densely: tables are as long as the highest number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u32);

impl ConnectionId {
    /// As an index into tables by connection.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A connection that asks for a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its number. A number that is packed already is removed first.
    pub id: ConnectionId,
    /// The leaf it comes from.
    pub source: LeafId,
    /// The leaf it goes to, another one: connections within a leaf use no tree.
    pub destination: LeafId,
    /// The trees it may use, where the cables at both leaves are there too.
    pub allowed: SetId,
    /// Once granted it never moves.
    pub pinned: bool,
    /// The tree that a pinned connection must have, or the one that another would like to keep.
    pub tree: Option<TreeId>,
}

impl Request {
    /// A connection that asks for any tree.
    pub const fn new(id: u32, source: LeafId, destination: LeafId) -> Self {
        let id = ConnectionId(id);
        Self { id, source, destination, allowed: SetId::ALL, pinned: false, tree: None }
    }
}

/// Why a connection got no tree this time. It may get one when others have gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Deferral {
    /// More connections leave the source leaf than it has uplinks.
    #[error("the source leaf has no free uplink")]
    SourceFull,
    /// More connections go to the destination leaf than it has down links.
    #[error("the destination leaf has no free down link")]
    DestinationFull,
    /// Both leaves have free links, but not on the same tree, and no others could be moved aside.
    #[error("no allowed tree could be freed")]
    NoTreeFreed,
    /// The tree that a pinned connection must have belongs to another pinned one.
    #[error("its tree is taken by another pinned connection")]
    PinnedAway,
}

/// Why a connection can get no tree at all on this fabric, even if all others go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Refusal {
    /// Source and destination are on one leaf.
    #[error("connections within a leaf use no tree")]
    SameLeaf,
    /// All cables of the source leaf are missing.
    #[error("no tree is usable at the source leaf")]
    SourceCut,
    /// All cables of the destination leaf are missing.
    #[error("no tree is usable at the destination leaf")]
    DestinationCut,
    /// Each leaf has cables, but to different trees.
    #[error("no tree is usable at both leaves")]
    NoCommonTree,
    /// There are common trees, but the destination has no address on any of them.
    #[error("no tree that is usable at both leaves has an address")]
    NotAddressed,
    /// The tree that a pinned connection must have is none of its allowed ones.
    #[error("the tree asked for is not allowed")]
    TreeNotAllowed,
}

/// What one [`apply`](super::Packer::apply) did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Outcome {
    /// The insertions that were granted, in the order they were given.
    pub granted: Vec<(ConnectionId, TreeId)>,
    /// The insertions that found no tree, in the order they were given; they are not kept.
    pub deferred: Vec<(ConnectionId, Deferral)>,
    /// The insertions that can never find one, in the order they were given.
    pub refused: Vec<(ConnectionId, Refusal)>,
    /// Connections packed before that changed their tree: from, to.
    pub moved: Vec<(ConnectionId, TreeId, TreeId)>,
    /// Connections packed before that had to go so that more others fit; they are not kept.
    pub evicted: Vec<(ConnectionId, Deferral)>,
}

impl Outcome {
    /// With room for so many answers of each kind.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            granted: Vec::with_capacity(count),
            deferred: Vec::with_capacity(count),
            refused: Vec::with_capacity(count),
            moved: Vec::with_capacity(count),
            evicted: Vec::with_capacity(count),
        }
    }

    pub(super) fn clear(&mut self) {
        self.granted.clear();
        self.deferred.clear();
        self.refused.clear();
        self.moved.clear();
        self.evicted.clear();
    }
}
