//! What a subnet manager manages, and what it is told to look at.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use snin_fabric::Guid;

use super::Certificate;

/// What is managed, and what is missing.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetStatus {}

/// The answer to [`GetStatus`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// What the manager is: discovering, master, or standby where there is another.
    pub state: State,
    /// Whether the subnet is up, nothing is missing or gone, no link is slow, the partitions are those of the
    /// file, the state is stored, and the certificate, where there is one, has not ended.
    pub healthy: bool,
    /// The manager's port.
    pub port: ManagerPort,
    /// The subnet, once it was up.
    pub subnet: Option<Subnet>,
    /// Seconds from the start of the program until the subnet was up for the first time.
    pub up_after_seconds: Option<f64>,
    /// Masters with another key beside this one: nothing is written until they are gone.
    pub rivals: usize,
    /// What is not as it should be.
    pub missing: Vec<String>,
    /// Cables that were there, and with them hosts: the fabric does without them.
    pub gone: Vec<String>,
    /// Links whose width or speed is below what both ends can do.
    pub slow: Vec<String>,
    /// Why the file of partitions was not taken when it was last read.
    pub partitions_refused: Option<String>,
    /// Why the file of levels of service was not taken.
    #[serde(default)]
    pub qos_policy_refused: Option<String>,
    /// The manager that keeps the subnet, where this one only reads it.
    #[serde(default)]
    pub master_sm: Option<MasterSm>,
    /// Other managers, by `node/port`, and what they are.
    pub managers: BTreeMap<String, String>,
    /// Why there is no subnet, where the core said why.
    pub trouble: Option<String>,
    /// Why addresses, trees, groups or services are not stored, where they are not. It is tried again.
    pub not_stored: Option<String>,
    /// How often something could not be stored.
    pub storage_failures: u64,
    /// The certificate of sessions, or the CA's, where it has ended or ends within a month.
    pub certificate: Option<Certificate>,
    /// Connections of the control socket that were turned away: too many, or idle ones that made room.
    pub clients_turned_away: u64,
    /// What was sent.
    pub smps: Smps,
    /// What hosts asked.
    pub requests: HostRequests,
}

/// A manager beside which this one only reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MasterSm {
    /// Its address.
    pub lid: u16,
    /// Whether its subnet administration took the subscription to reports of changes. If not, changes are seen by
    /// looking.
    pub reports_changes: bool,
    /// Reports that came.
    pub reports: u64,
}

/// What a subnet manager is (IBA 14.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It was told to do nothing.
    NotActive,
    /// It looks at the fabric.
    Discovering,
    /// Another one is master.
    Standby,
    /// It manages the subnet.
    Master,
    /// Another one keeps the subnet, and this one only reads it.
    ReadOnly,
}

impl State {
    /// Every one.
    pub const ALL: [Self; 5] =
        [Self::NotActive, Self::Discovering, Self::Standby, Self::Master, Self::ReadOnly];

    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotActive => "notactive",
            Self::Discovering => "discovering",
            Self::Standby => "standby",
            Self::Master => "master",
            Self::ReadOnly => "readonly",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The port of a manager.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ManagerPort {
    /// As in messages.
    pub name: String,
    /// Its GUID.
    #[schemars(with = "String")]
    pub guid: Guid,
    /// Its first address, 0 while it has none.
    pub lid: u16,
}

/// What was found and made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Subnet {
    /// The version of the view.
    pub version: u64,
    /// All nodes.
    pub nodes: usize,
    /// Of those, switches.
    pub switches: usize,
    /// Host ports.
    pub hosts: usize,
    /// Routing trees.
    pub trees: usize,
    /// 2^lmc addresses a host port.
    pub lmc: u8,
    /// The highest address in use.
    pub highest_lid: u16,
    /// Pairs of a switch with hosts and a tree that must not be granted.
    pub unusable_pairs: usize,
    /// The service level of what is granted, which has a lane of its own; 0: it has none.
    pub granted_sl: u8,
    /// Ports at which granted traffic shares a lane with ordinary traffic, since they have one only.
    pub shared_lanes: usize,
    /// A line about them, where there are any.
    pub lanes: Option<String>,
    /// How tables are made: trees, updown, lanes or dor.
    pub routing: String,
    /// Virtual lanes that paths take; where there are several, programs have to send with the service level of
    /// their path record.
    pub path_lanes: u8,
    /// Pairs of switches whose service level is another since the last change: programs on their hosts have to ask
    /// for their paths again.
    #[serde(default)]
    pub relevelled_pairs: usize,
    /// Why tables are not made as configured, where they are not.
    pub routing_instead: Option<String>,
    /// How evenly ordinary traffic loads the links; absent while it is counted.
    pub link_loads: Option<LinkLoads>,
}

/// Pairs of hosts on links between switches, if every host sends to every other one's base address.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LinkLoads {
    /// On the most loaded link.
    pub most: u64,
    /// On average over all links.
    pub mean: f64,
    /// Pairs whose route does not arrive.
    pub lost: u64,
}

/// SMPs of this run.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Smps {
    /// All that were sent.
    pub sent: u64,
    /// Of those, by method and attribute.
    pub by_name: BTreeMap<String, u64>,
    /// Of those, the ones sent again.
    pub retries: u64,
    /// Answers that came.
    pub answers: u64,
    /// Questions given up.
    pub unanswered: u64,
    /// Blocks of forwarding tables written.
    pub lft_blocks: u64,
    /// How often the port had no room.
    pub port_full: u64,
}

/// Requests to subnet administration of this run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HostRequests {
    /// Those that were answered.
    pub answered: u64,
    /// Those that wait for their turn now.
    pub waiting: usize,
    /// Those for which there was no room.
    pub refused: u64,
}

/// Partitions are read again, and everything is looked at; answered when it is done.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sweep {}

/// Every port gets another M_Key, where they are generated; answered when it is done.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKeys {}

/// The answer to [`Sweep`] and [`RotateKeys`]: what was done until nothing was left to be done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// How much was looked at.
    pub kind: SweepKind,
    /// How long it took.
    pub seconds: f64,
    /// SMPs sent.
    pub smps: u64,
    /// Of those, the ones that wrote.
    pub sets: u64,
    /// Of those, blocks of forwarding tables.
    pub lft_blocks: u64,
    /// SMPs sent again.
    pub retries: u64,
    /// Questions given up.
    pub unanswered: u64,
}

/// How much a sweep looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SweepKind {
    /// Everything.
    Full,
    /// Every switch was asked whether something changed.
    Light,
    /// Only what a trap named.
    Local,
}

impl SweepKind {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Light => "light",
            Self::Local => "local",
        }
    }
}

/// A node has joined or left, as a health monitor says: it is looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportHealth {
    /// The node's GUID.
    #[schemars(with = "String")]
    pub node: Guid,
}

/// The answer to [`ReportHealth`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HealthReported {
    /// The node's GUID.
    #[schemars(with = "String")]
    pub node: Guid,
}
