//! The words that settings choose from.

use serde::{Deserialize, Serialize};

/// Where M_Keys come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyPolicy {
    /// From this file.
    Given,
    /// Generated, one for all ports.
    One,
    /// Generated, one for each.
    PerPort,
}

/// How tables are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingEngine {
    /// Along trees on a Clos, else up*/down*.
    Auto,
    /// Up*/down*.
    UpDown,
    /// Shortest ways in lanes.
    Lanes,
    /// Those by the lowest ports.
    Dor,
    /// The administrator's own tables.
    File,
}

impl From<RoutingEngine> for snin_fabric::routing::Engine {
    fn from(engine: RoutingEngine) -> Self {
        match engine {
            RoutingEngine::Auto => Self::Trees,
            RoutingEngine::UpDown => Self::UpDown,
            RoutingEngine::Lanes => Self::Lanes,
            RoutingEngine::Dor => Self::DimensionOrder,
            RoutingEngine::File => Self::File,
        }
    }
}

/// Where the consent to enforcing comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsentFrom {
    /// There is no consent.
    None,
    /// The file of settings.
    Static,
}

impl From<KeyPolicy> for snin_sm_database::keys::KeyPolicy {
    fn from(policy: KeyPolicy) -> Self {
        match policy {
            KeyPolicy::Given => Self::Given,
            KeyPolicy::One => Self::One,
            KeyPolicy::PerPort => Self::PerPort,
        }
    }
}
