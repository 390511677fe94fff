//! What the cluster's service holds for managers, and whom that makes configuration manager.
//!
//! | key | value |
//! |---|---|
//! | `configuration-manager` | the GUID of the manager that is chosen; managers write it, and the cluster may |
//! | `blacklist/GUID` | why this manager may not be chosen |
//! | `health/GUID` | `ok`, or what is the matter with the manager's node: then it may not be chosen |
//! | `expected` | the newest version of the expected configuration; a manager with an older one is not chosen, and
//! | | the one that enforces a newer one writes it |
//! | `managers/GUID` | what a living manager says of itself: `state=master ports=2/2 priority=5 version=3` |

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use snin_fabric::Guid;

use crate::election::Priority;

/// The key of the manager that is chosen.
pub const CHOSEN: &str = "configuration-manager";
/// The key of the newest version of the expected configuration.
pub const EXPECTED: &str = "expected";
/// Entries that are read; with more nothing is allowed.
const MOST: usize = 4_096;
/// Bytes of a reason that are kept.
const LONGEST: usize = 200;

/// An entry as it was read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Which change made it, from 1.
    pub revision: u64,
}

/// What a living manager says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registration {
    /// Its place in the order; `chosen` is not said.
    pub priority: Priority,
    /// The version of the expected configuration that it has.
    pub version: u64,
}

impl Registration {
    /// The key of a manager's entry.
    pub fn key(guid: Guid) -> String {
        format!("managers/{guid}")
    }
}

impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Priority { ports_ok, good_ports, master, operator, .. } = self.priority;
        let state = if master { "master" } else { "standby" };
        let ports = if ports_ok { "all" } else { "some" };
        let version = self.version;
        write!(f, "state={state} ports={good_ports},{ports} priority={operator} version={version}")
    }
}

/// What a registration lacks, or has wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no state=master|standby ports=N,all|some priority=N version=N")]
pub struct BadRegistration;

impl FromStr for Registration {
    type Err = BadRegistration;

    fn from_str(text: &str) -> Result<Self, BadRegistration> {
        let field = |name: &str| {
            let mut fields = text.split_ascii_whitespace();
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let read = || {
            let (good, all) = field("ports")?.split_once(',')?;
            let priority = Priority {
                chosen: false,
                ports_ok: all == "all",
                good_ports: good.parse().ok()?,
                master: field("state")? == "master",
                operator: field("priority")?.parse().ok()?,
            };
            Some(Self { priority, version: field("version")?.parse().ok()? })
        };
        read().ok_or(BadRegistration)
    }
}

/// All entries, understood.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Entries {
    /// Who is chosen, and which change did that.
    pub chosen: Option<(Guid, u64)>,
    /// Managers that may not be chosen, and why.
    pub barred: BTreeMap<Guid, String>,
    /// The newest version of the expected configuration, 0 where none is named.
    pub newest: u64,
    /// Which change named it, 0 where none did.
    pub named: u64,
    /// Managers that live.
    pub managers: BTreeMap<Guid, Registration>,
}

impl Entries {
    /// Reads them. Keys that are not in the table above are passed over: later versions may have more.
    ///
    /// # Errors
    /// What is wrong with one of them: then nothing is allowed.
    pub fn read(entries: Vec<Entry>) -> Result<Self, String> {
        if entries.len() > MOST {
            return Err(format!("{} entries: {MOST} are read", entries.len()));
        }
        let mut read = Self::default();
        for Entry { key, value, revision } in entries {
            let value = value.trim();
            let wrong = |what: &str| format!("{key:.80} is `{value:.40}`: {what}");
            let about =
                |guid: &str| guid.parse::<Guid>().map_err(|error| format!("{key:.80}: {error}"));
            match key.split_once('/') {
                None if key == CHOSEN => {
                    let guid = value.parse().map_err(|_| wrong("a manager's port GUID"))?;
                    read.chosen = Some((guid, revision));
                }
                None if key == EXPECTED => {
                    read.newest = value.parse().map_err(|_| wrong("the number of a version"))?;
                    read.named = revision;
                }
                Some(("blacklist", guid)) => {
                    let why = value.chars().take(LONGEST).collect();
                    read.barred.insert(about(guid)?, why);
                }
                Some(("health", guid)) if value != "ok" => {
                    let why = value.chars().take(LONGEST).collect();
                    read.barred.entry(about(guid)?).or_insert(why);
                }
                Some(("managers", guid)) => {
                    let said = value
                        .parse()
                        .map_err(|error: BadRegistration| wrong(&error.to_string()))?;
                    read.managers.insert(about(guid)?, said);
                }
                _ => {}
            }
        }
        Ok(read)
    }

    /// Why a manager may not be chosen.
    pub fn objection(&self, guid: Guid) -> Option<String> {
        self.barred.get(&guid).cloned()
    }

    /// Whether a living manager says that it is master.
    pub fn has_master(&self) -> bool {
        self.managers.values().any(|said| said.priority.master)
    }

    /// Who is to be configuration manager: the one that is chosen, as long as it may be; else the present master;
    /// else the first in the order of managers (statements 28 and 30).
    pub fn choice(&self) -> Option<Guid> {
        let may = |(guid, said): &(&Guid, &Registration)| {
            !self.barred.contains_key(guid) && said.version >= self.newest
        };
        let able = || self.managers.iter().filter(may);
        let stays = self.chosen.filter(|(chosen, _)| able().any(|(guid, _)| guid == chosen));
        let first = || {
            able().max_by_key(|(guid, said)| (said.priority.master, said.priority, Reverse(**guid)))
        };
        stays.map(|(guid, _)| guid).or_else(|| first().map(|(guid, _)| *guid))
    }
}
