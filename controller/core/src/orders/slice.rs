//! A slice as it is asked for, as it is kept, as it is, and why it is refused.

use serde::{Deserialize, Serialize};
use snin_fabric::{Guid, TreeId};

use super::CollectiveWanted;
use crate::slices::{Refusal, Unsuitable};

/// The most slices.
pub const MAX_SLICES: usize = 4096;
/// The longest name of an owner, in bytes.
pub const MAX_OWNER: usize = 128;

/// A tree, by what it grows from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct TreeName {
    /// The spine's or core's GUID.
    pub root: Guid,
    /// Which of its parallel cables, from 0.
    pub plane: u16,
}

/// Which hosts a slice is to have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SliceHosts {
    /// So many, wherever there is room.
    Count(u32),
    /// These, by the GUIDs of their ports.
    Ports(Vec<Guid>),
}

/// A slice as it is kept, for any fabric.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SliceRecord {
    /// Whose it is: any name, such as a job's number.
    pub owner: String,
    /// The requested hosts.
    pub wanted: SliceHosts,
    /// Its hosts, by their ports.
    pub hosts: Vec<Guid>,
    /// Links between leaves and trees (their groups): the leaf's switch, and the tree.
    pub leaf: Vec<(Guid, TreeName)>,
    /// Links between pods and cores: a leaf's switch, and the tree.
    pub pod: Vec<(Guid, TreeName)>,
    /// Whether programs that are not the owner's run on its hosts.
    #[serde(default)]
    pub shared: bool,
    /// The collective that its hosts take part in.
    #[serde(default)]
    pub collective: Option<CollectiveWanted>,
}

/// A slice as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceStatus {
    /// Whose it is.
    pub owner: String,
    /// The requested hosts.
    pub wanted: SliceHosts,
    /// Its hosts, by their ports.
    pub hosts: Vec<Guid>,
    /// Its (leaf switch, tree) pairs: its connections alone may use them.
    pub pairs: Vec<(Guid, TreeId)>,
    /// Links between switches in each direction.
    pub links: u32,
    /// Whether it has all links that any traffic inside it needs.
    pub whole: bool,
    /// Grants of others that stand on its links still: they run out.
    pub foreign: usize,
    /// Whether programs that are not the owner's run on its hosts.
    pub shared: bool,
}

/// Why nothing is done. One line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SliceError {
    /// No trees, no slices.
    #[error("the fabric has no trees, so there is nothing to set aside")]
    NoTrees,
    /// The fabric.
    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),
    /// The owner's name.
    #[error("`{0:.40}`: an owner is 1 to {MAX_OWNER} letters, digits or any of . _ : / @ + -")]
    Owner(String),
    /// As many as there may be.
    #[error("there are {MAX_SLICES} slices, and no more are kept")]
    TooMany,
    /// It has another one.
    #[error("{0} has a slice of other hosts: resize it, or delete it first")]
    Other(String),
    /// It has none.
    #[error("{0} has no slice")]
    None(String),
    /// A port that is no host's.
    #[error("{0} is no host's port")]
    UnknownPort(Guid),
    /// The allocator.
    #[error(transparent)]
    Refused(#[from] Refusal),
}
