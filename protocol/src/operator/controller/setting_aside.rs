//! What a controller sets aside: slices, and ports for connections to come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use snin_fabric::Guid;

/// Every slice.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetSlices {}

/// The answer to [`GetSlices`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Slices {
    /// By owner.
    pub slices: Vec<Slice>,
    /// Hosts that are in none, where the fabric has trees.
    pub free_hosts: Option<u32>,
    /// Whether the trees are those of another manager's tables, which changes them as it likes.
    #[serde(default)]
    pub found_tables: bool,
}

/// Hosts, and links that only they use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// Whose it is.
    pub owner: String,
    /// Its hosts.
    pub hosts: Vec<String>,
    /// Their ports.
    #[schemars(with = "Vec<String>")]
    pub ports: Vec<Guid>,
    /// Directed links between switches that are its own.
    pub links: u32,
    /// Whether every host can send to every other one within it.
    pub whole: bool,
    /// Connections of others that are on its links still.
    pub foreign: usize,
    /// Whether programs that are not the owner's run on its hosts too.
    pub shared: bool,
    /// The collective that its hosts take part in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<String>,
    /// Whether it is whole, and its links are its own already.
    pub ready: bool,
}

/// Hosts for a slice: `count` or `hosts`.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSlice {
    /// Whose it is.
    pub owner: String,
    /// So many hosts, wherever there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// These hosts, by name, port GUID or number, or lists of them as Slurm writes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Whether programs that are not the owner's run on its hosts too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
}

/// Other hosts for a slice: `count` or `hosts`.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeSlice {
    /// Whose it is.
    pub owner: String,
    /// So many hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// These hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

/// The answer to [`CreateSlice`] and [`ResizeSlice`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceMade {
    /// The slice.
    #[serde(flatten)]
    pub slice: Slice,
    /// Whether there was none before.
    pub created: bool,
}

/// A slice is given back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteSlice {
    /// Whose it is.
    pub owner: String,
}

/// The answer to [`DeleteSlice`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceDeleted {
    /// Whose it was.
    pub owner: String,
    /// Whether there was one.
    pub deleted: bool,
}

/// What the slice of `owner` is like; or where one of `count` hosts, or of `hosts`, would go.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainSlice {
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// So many hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// These hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

/// The answer to [`ExplainSlice`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceExplained {
    /// Whether there is one, or would be one.
    pub possible: bool,
    /// Why there would be none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Hosts that are in no slice.
    pub free_hosts: Option<u32>,
    /// The slice.
    #[serde(flatten)]
    pub slice: Option<Slice>,
    /// The links of a slice that there is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<SlicePair>,
}

/// Both links between a leaf and a tree's way up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SlicePair {
    /// The leaf.
    pub leaf: String,
    /// The tree.
    pub tree: u16,
}

/// What a job's nodes need to know of its slice.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetSliceTrees {
    /// Whose it is.
    pub owner: String,
    /// The user whose programs may read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Pairs of port GUIDs; each gets a tree of its own in the slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<(String, String)>>")]
    pub pairs: Option<Vec<(Guid, Guid)>>,
}

/// The answer to [`GetSliceTrees`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceTrees {
    /// Whose it is.
    pub owner: String,
    /// The file that agents and the preload library read.
    pub text: String,
    /// Whether every host can send to every other one within it.
    pub whole: bool,
    /// Whether it is whole, and its links are its own already.
    pub ready: bool,
}

/// The ports of two hosts are kept for a connection: for `windows` of them or for a time, from now or a time on.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    /// The host that sends; by an agent it is the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The host that receives.
    pub to: String,
    /// So many windows; one where no time is given either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<u64>,
    /// From when on, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// For how long, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ns: Option<u64>,
    /// In whose name; operators only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// The answer to [`Reserve`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reservation {
    /// Its number.
    pub id: u64,
    /// Whose it is.
    pub owner: String,
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// From when on, in nanoseconds since 1970.
    pub at_ns: u64,
    /// Until when, in nanoseconds since 1970.
    pub until_ns: u64,
    /// Whether it waits for its time.
    pub state: String,
    /// Windows that it has had.
    pub windows: u64,
    /// Those of them in which the connection was granted.
    pub used: u64,
}

/// A reservation is given back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Its number.
    pub id: u64,
}

/// The answer to [`Release`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Released {
    /// Its number.
    pub id: u64,
    /// Always true: what cannot be given back is refused.
    pub released: bool,
}

/// Every reservation that is not over; a user of a host sees its own.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetReservations {}

/// The answer to [`GetReservations`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Reservations {
    /// In the order of their numbers.
    pub requests: Vec<Reservation>,
}
