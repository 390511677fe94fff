//! What a subnet manager is asked, and what it answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use snin_fabric::Guid;

use super::{Certificate, Events, Operation, operations};

mod configuration;
mod managers;
mod status;

pub use configuration::*;
pub use managers::*;
pub use status::*;

operations! {
    /// Every request to a subnet manager.
    Request of "snin-sm" {
        GetStatus "status" -> Status,
        Sweep "sweep" -> Activity,
        RotateKeys "rotate-keys" -> Activity,
        ReportHealth "health" -> HealthReported,
        GetManagers "managers" -> Managers,
        SetPriority "priority" -> Managers,
        DisableManager "disable" -> ManagerTold,
        StandManagerBy "standby" -> ManagerTold,
        HaveManagerDiscover "discover" -> ManagerTold,
        GetCluster "cluster" -> Cluster,
        GetDump "dump" -> Dump,
        GetTables "lfts" -> Tables,
        GetDatabase "database" -> Database,
        GetEvents "events" -> Events,
        LearnConfiguration "config-learn" -> LearntConfiguration,
        ShowConfiguration "config-show" -> ShownConfiguration,
        CompareConfiguration "config-diff" -> Differences,
        CheckConfiguration "config-check" -> Objections,
        ApplyConfiguration "config-apply" -> ConfigurationApplied,
        GetHistory "config-history" -> History,
        GetPorts "port-status" -> Ports,
        TestPort "port-test" -> PortsTold,
        ReleasePort "port-release" -> PortsTold,
        QuarantinePort "port-quarantine" -> PortsTold,
        PhasePortOut "port-phase-out" -> PortsTold,
        PhasePortIn "port-phase-in" -> PortsTold,
    }
}

/// The fabric as text.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetDump {}

/// The answer to [`GetDump`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Dump {
    /// The version of the view.
    pub version: u64,
    /// The fabric as ibnetdiscover prints it.
    pub topology: String,
    /// Who has which addresses, as OpenSM's guid2lid has it.
    pub guid2lid: String,
}

/// The switches; or the forwarding table of one of them.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetTables {
    /// The switch's GUID; none: which switches there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub switch: Option<Guid>,
}

/// The answer to [`GetTables`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Tables {
    /// Where no switch was named.
    All {
        /// Every switch that has a table.
        switches: Vec<Switch>,
    },
    /// Where one was.
    One(SwitchTable),
}

/// A switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Switch {
    /// Its GUID.
    #[schemars(with = "String")]
    pub guid: Guid,
    /// Its name.
    pub name: String,
    /// Its address.
    pub lid: u16,
}

/// A switch's forwarding table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SwitchTable {
    /// The switch.
    #[serde(flatten)]
    pub switch: Switch,
    /// The port out of it, by LID.
    pub ports: BTreeMap<String, u8>,
    /// The table as OpenSM dumps it; none where it is shown elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The subnet database as a file.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetDatabase {
    /// What the subnet is called in it; none: it is called by its master's GUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// M_Keys too; for root and the manager's own user only.
    #[serde(default)]
    pub secrets: bool,
}

/// The answer to [`GetDatabase`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Database {
    /// The file's text.
    pub database: String,
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
