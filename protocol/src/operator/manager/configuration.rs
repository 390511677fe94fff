//! What is expected of a fabric, by versions, and how its ports are.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use snin_fabric::Guid;

/// The expected configuration from which the fabric, as it is, differs in nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LearnConfiguration {
    /// Ports with a cable are tested before they are used.
    #[serde(default)]
    pub test: bool,
    /// Ports without a cable are disabled.
    #[serde(default)]
    pub spares: bool,
    /// In the manner of OpenSM's files, a line a port, instead of TOML.
    #[serde(default)]
    pub lines: bool,
}

/// The answer to [`LearnConfiguration`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LearntConfiguration {
    /// The file's text.
    pub text: String,
}

/// A version of the expected configuration.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowConfiguration {
    /// Its number; none: the one in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// In the manner of OpenSM's files, a line a port, instead of as it was applied.
    #[serde(default)]
    pub lines: bool,
}

/// The answer to [`ShowConfiguration`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShownConfiguration {
    /// Its number.
    pub version: u64,
    /// The file's text.
    pub text: String,
}

/// Everything that is not as expected.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareConfiguration {
    /// As this file expects it; none: as what is in force does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// The answer to [`CompareConfiguration`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Differences {
    /// By switch and port.
    pub differences: Vec<Difference>,
}

/// What is not as expected at a port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The port, such as leaf3/20.
    pub at: String,
    /// The switch's GUID.
    #[schemars(with = "String")]
    pub guid: Guid,
    /// The port's number.
    pub port: u8,
    /// What, in a line.
    pub what: String,
}

/// What speaks against a file: what would cut the fabric, or the manager's own port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckConfiguration {
    /// The file, which the manager reads.
    pub file: String,
}

/// The answer to [`CheckConfiguration`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Objections {
    /// Each a line.
    pub objections: Vec<String>,
}

/// A file is the next version, and enforced from now on.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyConfiguration {
    /// The file, which the manager reads.
    pub file: String,
    /// Even where it cuts the fabric.
    #[serde(default)]
    pub force: bool,
    /// Who applies it, for the history.
    #[serde(default = "unknown")]
    pub by: String,
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The answer to [`ApplyConfiguration`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConfigurationApplied {
    /// Its number.
    pub version: u64,
    /// What speaks against it; each a line.
    pub objections: Vec<String>,
    /// Whether the manager enforces it. It does not without the consent of the cluster or of the settings.
    pub enforced: bool,
}

/// The versions that are kept.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetHistory {}

/// The answer to [`GetHistory`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The oldest first.
    pub versions: Vec<Version>,
}

/// A version of the expected configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// Its number, from 1.
    pub version: u64,
    /// When it was applied, in seconds since 1970.
    pub at: u64,
    /// Who applied it.
    pub by: String,
    /// Whether it is enforced even where it cuts the fabric.
    pub forced: bool,
    /// The name of its text in the store.
    pub text: String,
    /// In how many pieces the text is there.
    pub pieces: usize,
}

/// Ports of which something is expected.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetPorts {
    /// Those too that are as they should be.
    #[serde(default)]
    pub all: bool,
}

/// The answer to [`GetPorts`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ports {
    /// The version that is in force, 0 where none is.
    pub version: u64,
    /// Whether the manager enforces it. It does not without the consent of the cluster or of the settings.
    pub enforced: bool,
    /// By switch and number.
    pub ports: Vec<Port>,
}

/// A port of which something is expected.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    /// The port, such as leaf3/20.
    pub at: String,
    /// The switch's GUID.
    #[schemars(with = "String")]
    pub guid: Guid,
    /// Its number.
    pub port: u8,
    /// How it shall be, as the file says it.
    pub expected: String,
    /// How it is.
    pub state: PortState,
    /// Why.
    pub why: String,
}

/// How a port is of which something is expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortState {
    /// As it should be.
    Ok,
    /// It has passed the tests.
    Passed,
    /// It is tested.
    Testing,
    /// It has failed.
    Failed,
    /// It is left as it is, since the fabric would be cut.
    Kept,
    /// An operator took it out of use.
    Quarantined,
    /// Traffic is moved away from it.
    Leaving,
    /// Traffic was moved away, and its link is disabled.
    PhasedOut,
}

impl PortState {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Passed => "passed",
            Self::Testing => "testing",
            Self::Failed => "failed",
            Self::Kept => "kept",
            Self::Quarantined => "quarantined",
            Self::Leaving => "leaving",
            Self::PhasedOut => "phased-out",
        }
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A port is tested now; one that is in use stays so meanwhile.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestPort {
    /// The port, such as leaf3/20, or the switch: all of its ports. A switch may be named by its GUID.
    pub port: String,
}

/// A port that failed, or is in quarantine, has another chance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleasePort {
    /// As in [`TestPort`].
    pub port: String,
}

/// A port is taken out of use at once, until it is released.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuarantinePort {
    /// As in [`TestPort`].
    pub port: String,
    /// Why, for those who read the status.
    #[serde(default)]
    pub why: String,
}

/// Traffic is moved away from a port, then its link is disabled; it stays so until it is phased in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhasePortOut {
    /// As in [`TestPort`].
    pub port: String,
    /// Why, for those who read the status.
    #[serde(default)]
    pub why: String,
}

/// A port that was phased out is tested, and used again; all ports of a switch together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhasePortIn {
    /// As in [`TestPort`].
    pub port: String,
}

/// The answer to [`TestPort`], [`ReleasePort`], [`QuarantinePort`], [`PhasePortOut`] and [`PhasePortIn`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PortsTold {
    /// The port or the switch.
    pub port: String,
    /// How many ports that are.
    pub ports: usize,
}
