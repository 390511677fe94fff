//! Collectives: what the hosts of a slice do together, as one request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::collective::CollectiveKind;

/// The hosts of a slice take part in a collective, until it is ended or the slice is given back.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetCollective {
    /// Whose slice it is.
    pub owner: String,
    /// Who sends to whom; none ends the collective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<CollectiveKind>,
    /// How long a phase lasts, in nanoseconds; by default what one takes for `bytes`, or 20 times its guard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_ns: Option<u64>,
    /// The bytes of its own that each member has, for the least time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Only say what it would be.
    #[serde(default)]
    pub explain: bool,
}

/// The answer to [`SetCollective`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CollectiveSet {
    /// Whose slice it is.
    pub owner: String,
    /// The collective that its hosts take part in, or would.
    pub collective: Option<Collective>,
}

/// What the hosts of a slice do together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Collective {
    /// Who sends to whom, such as `ring` or `halo 4x4x1`.
    pub kind: String,
    /// The members' hosts, in their order.
    pub members: Vec<String>,
    /// The tree of each.
    pub trees: Vec<u16>,
    /// Its phases: in each a member sends to one other at most.
    pub phases: u32,
    /// How long a phase lasts, where there are several, in nanoseconds.
    pub slot_ns: Option<u64>,
    /// What is lost of each of these: nothing is sent then.
    pub guard_ns: Option<u64>,
    /// The directed links that it uses.
    pub links: usize,
    /// Members that send on the most loaded of them at one moment: where it is one, no packet waits for another
    /// member's.
    pub max_link_load: u32,
    /// Queue pairs that a member needs.
    pub queue_pairs: u32,
    /// Bit/s of the slowest link; 0 where no rate is known.
    pub rate: u64,
    /// The least time for `bytes`, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_ns: Option<u64>,
    /// The same without guards, at the rate of the slowest link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_rate_ns: Option<u64>,
    /// Members that may send, or are about to.
    pub granted: usize,
}
