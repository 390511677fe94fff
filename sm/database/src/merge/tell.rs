//! Whose software may name by number what has another number now.

use std::collections::BTreeMap;

use snin_fabric::Guid;
use snin_mad::Gid;

use super::map::Map;
use super::report::{Report, Tell, Widened};
use super::snapshot::Snapshot;
use crate::partitions::key_in_name;
use crate::records::Port;

/// By port: what shows that a number is used there.
type Uses = BTreeMap<Guid, Vec<String>>;

/// Notes every port of an absorbed subnet whose software may use a number that changes.
pub(super) fn tell(absorbed: &Snapshot, map: &Map, report: &mut Report) {
    let mut note = |kind, from: &str, to: &str, uses: Uses| {
        for (port, because) in uses {
            let node = name(absorbed, port);
            let (from, to) = (from.to_owned(), to.to_owned());
            report.tell.push(Tell { port, node, kind, from, to, because });
        }
    };
    for (&from, &to) in &map.partitions {
        let (from_text, to_text) = (format!("{from:#06x}"), format!("{to:#06x}"));
        note("partition", &from_text, &to_text, of_partition(absorbed, from));
    }
    for (&name, &to) in &map.groups {
        note("group", &name.to_string(), &to.to_string(), of_group(absorbed, map, name));
    }
    for (&from, &to) in &map.services {
        let mut uses = Uses::new();
        for ((id, gid, key), entry) in &absorbed.services {
            if *id == from && entry.value.is_some() {
                let because = format!("offers it in {key:#06x}");
                uses.entry(gid.guid()).or_default().push(because);
            }
        }
        note("service", &format!("{from:#018x}"), &format!("{to:#018x}"), uses);
    }
    for (&from, &to) in &map.aliases {
        let mut uses = Uses::new();
        for ((port, entry), alias) in &absorbed.aliases {
            if alias.value == Some(from) {
                uses.entry(*port).or_default().push(format!("has it as entry {entry}"));
            }
        }
        note("alias", &from.to_string(), &to.to_string(), uses);
    }
    widened(absorbed, map, report);
}

fn name(of: &Snapshot, port: Guid) -> String {
    let place = of.ports.iter().find(|(_, entry)| {
        entry.value.as_ref().is_some_and(|record: &Port| record.guid == Some(port))
    });
    let node = place.and_then(|((node, _), _)| of.nodes.get(node)?.value.as_ref());
    node.map_or_else(String::new, |node| node.name.to_string())
}

fn of_partition(absorbed: &Snapshot, number: u16) -> Uses {
    let mut uses = Uses::new();
    for (_, port) in absorbed.in_partition(number) {
        if let Some(guid) = port.guid {
            uses.entry(guid).or_default().push("in its table of partitions".to_owned());
        }
    }
    let group = |mgid: &Gid| absorbed.groups.get(mgid)?.value.as_ref();
    for ((mgid, port), entry) in &absorbed.members {
        let key = group(mgid).map(|group| group.record.p_key.base());
        if entry.value.is_some() && key == Some(number) {
            let what = if key_in_name(*mgid).is_some() {
                "an IP interface of that number"
            } else {
                "a group"
            };
            let because = format!("{what} ({mgid})");
            uses.entry(*port).or_default().push(because);
        }
    }
    for ((id, gid, key), entry) in &absorbed.services {
        if entry.value.is_some() && key & 0x7FFF == number {
            uses.entry(gid.guid()).or_default().push(format!("service {id:#018x}"));
        }
    }
    uses
}

fn of_group(absorbed: &Snapshot, map: &Map, name: Gid) -> Uses {
    let mut uses = Uses::new();
    for ((mgid, port), entry) in &absorbed.members {
        if entry.value.is_some() && map.name(*mgid) == name {
            uses.entry(*port).or_default().push("is a member".to_owned());
        }
    }
    uses
}

fn widened(absorbed: &Snapshot, map: &Map, report: &mut Report) {
    for (subscriber, entry) in &absorbed.subscriptions {
        let Some(subscription) = &entry.value else { continue };
        let from = (subscription.info.lid_begin, subscription.info.lid_end);
        if map.wanted(from.0, from.1).0 != from.0
            && map.wanted(from.0, from.1).0 == snin_mad::sa::ANY_LID
        {
            report.widened.push(Widened { port: subscriber.port, from });
        }
    }
}
