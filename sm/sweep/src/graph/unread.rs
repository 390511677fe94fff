//! What a survey could not read.

use std::collections::BTreeSet;

use snin_fabric::PortNum;

use super::{Graph, Lock, Port, Trouble};
use crate::report::Missing;

impl Graph {
    /// Nodes and ports of which not all is known, by name. `alone`: this manager's own ports are cut off, so that
    /// everything else is silent for that reason.
    pub(crate) fn unread(&self, alone: bool) -> BTreeSet<Missing> {
        let mut missing = BTreeSet::new();
        for id in self.ids() {
            let node = self.node(id);
            if node.path.is_none() {
                if node.lost && !alone {
                    missing.insert(Missing::Lost { guid: node.guid(), name: node.label() });
                }
                continue;
            }
            let locked = |(_, port): &(u8, &Port)| port.locked == Some(Lock::Key);
            for (num, _) in (0u8..).zip(&node.ports).filter(locked) {
                let name = self.end_name((id, PortNum(num)));
                missing.insert(Missing::Locked { guid: node.guid(), name });
            }
            if node.masks.is_absent() {
                let (name, what) = (node.label(), "MulticastForwardingTable");
                missing.insert(Missing::Refused { name, what });
            }
            if node.name.is_none() {
                missing.insert(Missing::Nameless(node.guid()));
            }
            for (num, port) in node.external() {
                let at = || self.port_name((id, num));
                if let Some(Trouble::Clash(guid)) = port.trouble {
                    missing.insert(Missing::DuplicateGuid { guid, at: at() });
                } else if self.is_too_far((id, num)) {
                    missing.insert(Missing::TooFar { guid: node.guid(), at: at() });
                } else if port.is_up() && port.trouble == Some(Trouble::Mute) {
                    // A node that is missed by name is not missed once more by every port that led there.
                    let named = port.formerly.map(|id| self.node(id));
                    if !named.is_some_and(|node| node.lost && node.path.is_none()) {
                        missing.insert(Missing::Mute(at()));
                    }
                }
            }
        }
        missing
    }
}
