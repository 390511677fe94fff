//! What a controller is asked, and what it answers.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use snin_fabric::Guid;

use super::{Certificate, Events, Operation, operations};
use crate::view::Policy;

mod collectives;
mod setting_aside;

pub use collectives::*;
pub use setting_aside::*;

operations! {
    /// Every request to a controller.
    Request of "snin-controller" {
        GetStatus "status" -> Status,
        GetWindows "windows" -> Windows,
        GetGrants "grants" -> Grants,
        GetFabric "fabric" -> Fabric,
        SetPolicy "policy" -> PolicyInForce,
        GetPath "path" -> Path,
        GetOwner "owner" -> Owners,
        GetWhy "why" -> Why,
        TestLink "link_test" -> LinkTestBegun,
        GetLinkTest "link_tested" -> LinkTestResult,
        GetEvents "events" -> Events,
        GetSlices "slices" -> Slices,
        CreateSlice "slice_create" -> SliceMade,
        ResizeSlice "slice_resize" -> SliceMade,
        DeleteSlice "slice_delete" -> SliceDeleted,
        ExplainSlice "slice_explain" -> SliceExplained,
        GetSliceTrees "slice_trees" -> SliceTrees,
        Reserve "request" -> Reservation,
        SetCollective "collective" -> CollectiveSet,
        Release "release" -> Released,
        GetReservations "requests" -> Reservations,
    }
}

/// Who the controller is, the fabric, counters.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetStatus {}

/// The answer to [`GetStatus`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The controller's identity.
    pub name: String,
    /// Whether it grants connections, and all that was checked is well.
    pub healthy: bool,
    /// What it does, or why it grants nothing.
    pub state: String,
    /// Whether it stands by for another controller, and so grants nothing.
    pub standby: bool,
    /// The controller that leads, as far as a standby knows.
    pub leader: Option<String>,
    /// The term under which it grants, or did last; else the least that it would.
    pub term: u64,
    /// The least term that most agents would follow, where they have heard of a later one.
    pub least_term: Option<u64>,
    /// Is non-interference in effect?
    pub policy: Policy,
    /// The length of a window, in microseconds.
    pub window_us: u64,
    /// The controller's own clock, in nanoseconds.
    pub now_ns: u64,
    /// Where agents call.
    pub listen: Vec<String>,
    /// Sessions with agents.
    pub sessions: usize,
    /// A certificate that has ended, or ends within a month.
    pub certificate: Option<Certificate>,
    /// Connections to the control socket that were refused, or ended to make room.
    pub clients_turned_away: u64,
    /// Why the state is not on the disk.
    pub not_stored: Option<String>,
    /// How often it could not be stored.
    pub storage_failures: u64,
    /// The version of the fabric's view.
    pub view: Option<u64>,
    /// Why the fabric has no trees to grant.
    pub not_clos: Option<String>,
    /// Whether the tables are those of another manager than ours, which changes them as it likes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub found_tables: bool,
    /// What was counted, by name.
    pub counters: BTreeMap<String, u64>,
    /// Windows that were missed, by cause.
    pub missed_by: BTreeMap<String, u64>,
    /// The last window before which some were missed.
    pub last_missed: Option<Missed>,
    /// The last window.
    pub last_window: Option<Window>,
}

/// Windows that were over before they could be decided.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Missed {
    /// How many.
    pub missed: u64,
    /// How late the next one was decided, in microseconds.
    pub late_us: u64,
    /// Why.
    #[serde(flatten)]
    pub because: Because,
}

/// What took the time that a window was late.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Because {
    /// What took most of it.
    pub cause: String,
    /// The same in a sentence.
    pub why: String,
    /// Microseconds, by cause.
    pub shares_us: BTreeMap<String, u64>,
}

/// The last windows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetWindows {
    /// How many of them.
    #[serde(default = "ten")]
    pub count: u64,
}

const fn ten() -> u64 {
    10
}

/// The answer to [`GetWindows`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Windows {
    /// The oldest first.
    pub windows: Vec<Window>,
}

/// A window that was decided.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Its number.
    pub epoch: u64,
    /// Connections that were asked for.
    pub requested: u32,
    /// Connections that were granted.
    pub granted: u32,
    /// Connections that are given back, and whose packets may be under way.
    pub draining: u32,
    /// Connections that wait, by reason.
    pub deferred: BTreeMap<String, u32>,
    /// Connections that can never be granted.
    pub refused: u32,
    /// Connections that got another tree.
    pub moved: u32,
    /// Connections that stand still for that.
    pub paused: u32,
    /// Directed links between switches that are somebody's.
    pub links: u32,
    /// Connections on the most loaded of them.
    pub max_link_load: u32,
    /// How long the decision took, in microseconds.
    pub took_us: u64,
    /// How late it was, in microseconds.
    pub late_us: u64,
    /// Windows before it that were over by then.
    pub missed: u64,
    /// Why, where some were.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub because: Option<Because>,
}

/// Every grant in force of a connection; what members of a collective have is in [`Slices`] and [`Path`].
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetGrants {}

/// The answer to [`GetGrants`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Grants {
    /// In no particular order.
    pub grants: Vec<Grant>,
}

/// A connection along a tree of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Grant {
    /// The host that sends.
    pub from: String,
    /// Its port.
    #[schemars(with = "String")]
    pub from_port: Guid,
    /// The host that receives.
    pub to: String,
    /// Its port.
    #[schemars(with = "String")]
    pub to_port: Guid,
    /// The sender's number of the connection.
    pub connection: u32,
    /// Its class.
    pub class: u8,
    /// The tree that it has.
    pub tree: u16,
    /// The address that leads along it.
    pub dlid: u16,
    /// From when on, by the controller's clock in nanoseconds.
    pub from_ns: u64,
    /// Until when.
    pub until_ns: u64,
    /// Whether it lasts until it is given back.
    pub pinned: bool,
}

/// Hosts, trees, and what cannot be used.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetFabric {
    /// Only the hosts so called, by their whole name or their host's; all where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<BTreeSet<String>>,
}

/// The answer to [`GetFabric`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Fabric {
    /// The manager or the file that says so.
    pub source: String,
    /// The version of the view.
    pub version: u64,
    /// How many switches there are.
    pub switches: usize,
    /// Each host port has 2^LMC addresses.
    pub lmc: u8,
    /// The trees.
    pub trees: Vec<Tree>,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// Trees that cannot be used at a switch.
    pub unusable: Vec<Unusable>,
}

/// A tree of routes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Tree {
    /// Its number.
    pub tree: u16,
    /// The switch at its root.
    pub root: String,
    /// The plane that it is in.
    pub plane: u16,
}

/// A host's port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Its number.
    pub host: u32,
    /// Its name.
    pub name: String,
    /// The port's GUID.
    #[schemars(with = "String")]
    pub port: Guid,
    /// The switch that it hangs on.
    pub switch: String,
    /// The adapter's GUID.
    #[schemars(with = "String")]
    pub node_guid: Guid,
    /// The switch's GUID.
    #[schemars(with = "String")]
    pub switch_guid: Guid,
    /// Its base address.
    pub lid: Option<u16>,
}

/// A tree that cannot be used at a switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Unusable {
    /// The switch.
    pub switch: String,
    /// The tree.
    pub tree: u16,
}

/// The policy; another one, where no manager holds it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPolicy {
    /// The new policy; none only asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Policy>,
}

/// The answer to [`SetPolicy`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PolicyInForce {
    /// Is non-interference in effect?
    pub policy: Policy,
}

/// The way from one host to another: of its grant if it has one, else of ordinary traffic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetPath {
    /// The host that sends: a name, port GUID or number.
    pub from: String,
    /// The host that receives.
    pub to: String,
}

/// The answer to [`GetPath`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Path {
    /// The host that sends.
    pub from: Option<String>,
    /// The host that receives.
    pub to: Option<String>,
    /// The address that is used.
    pub dlid: u16,
    /// The grant, if there is one.
    pub grant: Option<Grant>,
    /// Whose slice it is in whose collective both take part: the way is that of its time slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<String>,
    /// The switches on the way, and the port out of each.
    pub hops: Vec<Hop>,
    /// Whether the tables are those of another manager than ours, which changes them as it likes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub found_tables: bool,
}

/// A step of a way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// The switch.
    pub switch: String,
    /// The port out of it.
    pub port: u8,
}

/// Whether what one host asks for to another one is granted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetWhy {
    /// The host that sends: a name, port GUID or number.
    pub from: String,
    /// The host that receives.
    pub to: String,
}

/// The answer to [`GetWhy`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// Whether all that is asked for may be sent, and something is.
    pub granted: bool,
    /// Whose slice it is in whose collective both take part: the sender has its time slots.
    pub collective: Option<String>,
    /// The connections that are asked for.
    pub connections: Vec<ConnectionStatus>,
    /// On tables of another manager: how many trees lead from the one leaf to the host on the other. With one
    /// there is no choice, and what others have is waited for.
    #[serde(default)]
    pub found_trees: Option<usize>,
}

/// A connection that is asked for, as of the last window.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionStatus {
    /// The sender's number of it.
    pub connection: u32,
    /// The tree of its grant.
    pub tree: Option<u16>,
    /// Why it waits, or is refused; none where it is granted.
    pub why: Option<String>,
    /// Windows in a row that there was no tree for it.
    pub windows_waited: u32,
    /// Connections that still have links of its way.
    pub behind: Vec<String>,
}

/// Whose a directed link is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetOwner {
    /// The port that sends on the link, such as leaf3/20.
    pub port: String,
}

/// The answer to [`GetOwner`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Owners {
    /// The port that sends.
    pub link: String,
    /// The port at the other end.
    pub to: Option<String>,
    /// The grants that own the link; empty where it is free.
    pub owners: Vec<Grant>,
    /// Whether the tables are those of another manager than ours, which changes them as it likes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub found_tables: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_false(is: &bool) -> bool {
    !*is
}

/// Messages of a host's agent to another one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestLink {
    /// The host: a name, port GUID or number.
    pub port: String,
    /// How many.
    #[serde(default = "thousand")]
    pub messages: u64,
}

const fn thousand() -> u64 {
    1_000
}

/// The answer to [`TestLink`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LinkTestBegun {
    /// The test's number.
    pub number: u32,
}

/// What came of a test.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetLinkTest {
    /// The test's number.
    pub id: u64,
}

/// The answer to [`GetLinkTest`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LinkTestResult {
    /// The test's number.
    pub number: u32,
    /// Whether it has ended.
    pub done: bool,
    /// The port whose link it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub port: Option<Guid>,
    /// Messages that were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
    /// Messages that arrived; none where no agent is.
    #[serde(default)]
    pub arrived: Option<u32>,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetEvents {
    /// Only after the event with this number.
    #[serde(default)]
    pub since: u64,
    /// And every later event, each a line of its own.
    #[serde(default)]
    pub follow: bool,
}
