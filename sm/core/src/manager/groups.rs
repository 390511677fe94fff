//! Multicast groups as the sweep is told of them.

use snin_fabric::Mlid;

use super::Manager;
use snin_sm_database::records::{self, Change, Database};
use snin_sweep::Groups;

impl Manager {
    /// Whether groups or members have changed since the sweep was last told.
    pub(super) fn regroups(&mut self) -> bool {
        let since = self.database.since(self.grouped);
        let about = |change: &Change| matches!(change, Change::Groups(_) | Change::Members(_));
        let changed = since.is_none_or(|mut changes| changes.any(about));
        self.grouped = self.database.cursor();
        changed
    }
}

/// Every group's members as the sweep wants to know them: by address, and who gets what is sent.
pub(super) fn members(database: &Database) -> Groups {
    let mut groups = Groups::new();
    let address = |group: &records::Group| Mlid::new(group.record.mlid.0);
    for mlid in database.all::<records::Groups>().iter().filter_map(|(_, group)| address(group)) {
        groups.entry(mlid).or_default();
    }
    for ((mgid, guid), member) in database.all::<records::Members>().iter() {
        let group = database.get::<records::Groups>(mgid).and_then(address);
        let Some(mlid) = group else { continue };
        // A port that joined by an alias GUID is known by its own.
        let own = database.by_guid(*guid).and_then(|(_, port)| port.guid).unwrap_or(*guid);
        let group = groups.entry(mlid).or_default();
        match member.state.receives() {
            true => group.full.insert(own),
            false => group.send_only.insert(own),
        };
    }
    groups
}
