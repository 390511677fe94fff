//! No two things of a database have one number.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Snapshot;

pub(super) fn unique(merged: &Snapshot, wrong: &mut Vec<String>) {
    let mut owner: BTreeMap<u32, u64> = BTreeMap::new();
    for (guid, entry) in &merged.lids {
        let Some((lid, lmc)) = entry.value else { continue };
        let first = u32::from(lid.0);
        for lid in first..first + (1 << lmc.bits()) {
            if lid == 0 || lid > 0xBFFF {
                wrong.push(format!("{guid} has LID {lid}: that is none"));
            }
            if let Some(other) = owner.insert(lid, guid.0) {
                wrong.push(format!("{guid} and {other:#018x} both have LID {lid}"));
            }
        }
    }
    for ((node, port), entry) in &merged.ports {
        let Some(record) = &entry.value else { continue };
        let base = u32::from(record.base.0);
        let Some(guid) = record.guid.filter(|_| base != 0) else { continue };
        let last = base + (1 << record.lmc.bits()) - 1;
        for lid in [base, last] {
            if owner.get(&lid) != Some(&guid.0) {
                wrong.push(format!("port {port} of {node} has LID {lid}, and that is not its own"));
            }
        }
    }
    let mut guids: BTreeSet<u64> = merged.lids.keys().map(|guid| guid.0).collect();
    guids.extend(merged.nodes.keys().map(|guid| guid.0));
    for alias in merged.aliases.values().filter_map(|entry| entry.value) {
        if !guids.insert(alias.0) {
            wrong.push(format!("the alias {alias} is there twice"));
        }
    }
}
