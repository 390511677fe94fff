//! What of the manager's work has to survive a restart.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use snin_fabric::{Guid, Lid, Lmc};

use crate::keys::KeySecret;
use crate::merge::Lineage;

/// What has to survive a restart: everything that would come out otherwise if it were planned anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The LMC of every host port, once it was chosen.
    pub lmc: Option<Lmc>,
    /// First address and how many, by port GUID, of absent ports too.
    pub lids: BTreeMap<Guid, (Lid, Lmc)>,
    /// What generated M_Keys follow from. The driver makes it when there is none yet.
    pub keys: Option<KeySecret>,
    /// The same of subnets that were joined to this one: ports that were theirs may have keys of theirs still.
    pub former_keys: Vec<KeySecret>,
    /// Place among a port's addresses of every tree, by root and plane.
    pub trees: BTreeMap<(Guid, u16), u16>,
    /// The subnets that the numbers come from.
    pub lineage: Lineage,
}

/// Secrets of other subnets that are kept, the last ones.
const MOST_FORMER: usize = 16;

impl Saved {
    /// Ports of a subnet that was joined may have keys that follow from these.
    pub fn hold_former(&mut self, keys: impl IntoIterator<Item = KeySecret>) {
        for keys in keys {
            let known = self.keys.iter().chain(&self.former_keys).any(|known| *known == keys);
            if !known {
                self.former_keys.push(keys);
            }
        }
        let more = self.former_keys.len().saturating_sub(MOST_FORMER);
        self.former_keys.drain(..more);
    }
}
