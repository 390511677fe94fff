//! A collective as it is wanted, and why it is refused.

use serde::{Deserialize, Serialize};
use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;
use snin_protocol::collective::{CollectiveKind, CollectiveKindError};

/// A collective that is wanted in a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CollectiveWanted {
    /// Who sends to whom.
    pub kind: CollectiveKind,
    /// How long a phase lasts, where there are several.
    pub slot: Time,
}

/// Why there is no collective. One line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CollectiveError {
    /// It goes over a slice.
    #[error("{0} has no slice: make one with `snin slice create {0} --hosts N`")]
    NoSlice(String),
    /// The slice lacks links.
    #[error("the slice of {0} lacks links that were cut")]
    NotWhole(String),
    /// The members.
    #[error(transparent)]
    Kind(#[from] CollectiveKindError),
    /// The guard would leave nothing of a slot.
    #[error("slots of {slot} are too short: {least} is the least, of which {lost} are guard")]
    Slot {
        /// As asked for.
        slot: Time,
        /// The least.
        least: Time,
        /// What is lost of each slot.
        lost: Time,
    },
    /// A member has no way to another one.
    #[error("{from} has no way to {to} along tree {}", tree.0)]
    NoWay {
        /// The one.
        from: Guid,
        /// The other.
        to: Guid,
        /// The tree.
        tree: TreeId,
    },
    /// Two members would share a link.
    #[error(
        "in phase {phase} {one} and {other} would share a link: the slice has fewer trees than this pattern needs"
    )]
    Shared {
        /// From 0.
        phase: u32,
        /// The one.
        one: Guid,
        /// The other.
        other: Guid,
    },
}
