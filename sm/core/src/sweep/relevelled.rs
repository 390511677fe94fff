//! Pairs of switches whose routes had to take another lane, and with it another service level. Programs know the
//! former level from their path records, so their hosts are told: who is asked to register again asks for paths
//! again, too.

use std::collections::BTreeSet;
use std::sync::Arc;

use snin_fabric::{Guid, NodeIndex};

use super::Sweep;
use crate::events::Output;
use crate::report::Report;
use crate::target::Target;

/// Hosts whose paths have another service level.
#[derive(Default)]
pub(super) struct Relevelled {
    /// The target of which it was said.
    said: Option<Arc<Target>>,
    /// They are told when tables are written: until then new levels are for routes that are not there yet.
    ports: BTreeSet<Guid>,
}

impl Sweep {
    /// Says which pairs have another level, once a target.
    pub(super) fn note_levels(&mut self, target: &Arc<Target>) {
        let relevelled = &mut self.relevelled;
        if relevelled.said.as_ref().is_some_and(|said| Arc::ptr_eq(said, target)) {
            return;
        }
        relevelled.said = Some(target.clone());
        let changed = target.routing.lanes.as_ref().map_or(&[][..], |lanes| lanes.changed());
        if changed.is_empty() {
            return;
        }
        let switches: BTreeSet<NodeIndex> =
            changed.iter().flat_map(|&(one, other)| [one, other]).collect();
        let hosts = target.routing.hosts.iter().map(|(_, host)| host);
        let hosts = hosts.filter(|host| switches.contains(&host.switch));
        let topology = &target.discovered.topology;
        let ports: BTreeSet<Guid> = hosts.map(|host| topology.port(host.port).guid).collect();
        let (pairs, hosts) = (changed.len(), ports.len());
        relevelled.ports.extend(ports);
        self.outputs.push_back(Output::Report(Report::Relevelled { pairs, hosts }));
    }

    /// Tables are written: hosts are told with the next writes, which follow.
    pub(super) fn tell_levels(&mut self) {
        let ports = std::mem::take(&mut self.relevelled.ports);
        self.pending.learnt |= !ports.is_empty();
        ports.into_iter().for_each(|port| self.lapse(port));
    }
}
