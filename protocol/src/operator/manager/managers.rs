//! A subnet's managers: who of them is master, and which may enforce a configuration.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use snin_fabric::Guid;

use super::State;

/// Every subnet manager that is known.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetManagers {}

/// The answer to [`GetManagers`] and [`SetPriority`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Managers {
    /// The one that was asked first, then the others by GUID.
    pub managers: Vec<Manager>,
}

/// A subnet manager.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Manager {
    /// Its port's GUID.
    #[schemars(with = "String")]
    pub guid: Guid,
    /// Where it is: `node/port`, as far as that is known.
    pub at: String,
    /// It is the one that was asked.
    pub own: bool,
    /// What it is; none where that is not known.
    pub state: Option<State>,
    /// 0 to 15; the highest goes before, of equal ones the lowest GUID.
    pub priority: u8,
    /// How long ago it last answered, in seconds.
    pub heard_seconds_ago: Option<f64>,
    /// Why it is what it is, or what is the matter with it.
    pub why: String,
    /// How far the mirror between it and the one that was asked is, where there is one.
    pub mirror: Option<Mirror>,
}

/// A copy of a subnet database.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Mirror {
    /// It mirrors the one that was asked; else that one mirrors it.
    pub follows: bool,
    /// The whole database was told.
    pub whole: bool,
    /// Changes that are not there yet.
    pub behind: u64,
    /// Settings that differ, in words.
    pub differ: Vec<String>,
}

/// The manager that is asked has another priority until it is started again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPriority {
    /// The priority.
    #[schemars(range(max = 15))]
    pub value: u8,
}

/// A standby shall do nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisableManager {
    /// The GUID of the standby's port.
    #[schemars(with = "String")]
    pub to: Guid,
}

/// A manager that does nothing shall stand by.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StandManagerBy {
    /// The GUID of the manager's port.
    #[schemars(with = "String")]
    pub to: Guid,
}

/// A standby shall look at the subnet itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HaveManagerDiscover {
    /// The GUID of the standby's port.
    #[schemars(with = "String")]
    pub to: Guid,
}

/// The answer to [`DisableManager`], [`StandManagerBy`] and [`HaveManagerDiscover`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ManagerTold {
    /// The GUID of the manager's port.
    #[schemars(with = "String")]
    pub to: Guid,
    /// What it was told, as the specification calls it.
    pub told: String,
    /// What became of it.
    pub outcome: String,
}

/// What the cluster's service holds for managers, and whether the one that is asked may enforce.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetCluster {}

/// The answer to [`GetCluster`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// Whether it may enforce.
    pub verdict: Verdict,
    /// The same in a sentence.
    pub why: String,
    /// The configuration manager that is chosen.
    #[schemars(with = "Option<String>")]
    pub chosen: Option<Guid>,
    /// The newest version of the expected configuration, 0 where none is named.
    pub expected: u64,
    /// Managers that live, and what each says of itself.
    #[schemars(with = "BTreeMap<String, String>")]
    pub managers: BTreeMap<Guid, String>,
    /// Managers that may not be chosen, and why.
    #[schemars(with = "BTreeMap<String, String>")]
    pub barred: BTreeMap<Guid, String>,
}

/// Whether a manager may enforce a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing was read yet.
    Unknown,
    /// The cluster's service does not answer, or what it says is not understood.
    Unreachable,
    /// This manager may not be chosen.
    Barred,
    /// A newer configuration is expected than this manager has.
    Outdated,
    /// Another manager is chosen.
    Other,
    /// No manager is chosen yet.
    NotChosen,
    /// This one is chosen, and not master yet.
    NotMaster,
    /// This one is chosen, and waits until the one before it enforces nothing any more.
    Succeeds,
    /// It may.
    Granted,
}

impl Verdict {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Unreachable => "unreachable",
            Self::Barred => "barred",
            Self::Outdated => "outdated",
            Self::Other => "other",
            Self::NotChosen => "not-chosen",
            Self::NotMaster => "not-master",
            Self::Succeeds => "succeeds",
            Self::Granted => "granted",
        }
    }
}
