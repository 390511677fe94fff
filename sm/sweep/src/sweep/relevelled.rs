//! Pairs of switches whose routes had to take another lane, and with it another service level. Programs know the
//! former level from their path records, so their hosts are told: who is asked to register again asks for paths
//! again, too.

use std::collections::BTreeSet;

use snin_fabric::{Guid, NodeIndex};

use super::Sweep;
use crate::events::Output;
use crate::report::Report;
use crate::target::Target;

/// Who has another service level since the last change.
#[derive(Default)]
pub(super) struct Relevelled {
    /// Pairs of switches. Several computations may follow one change.
    pairs: BTreeSet<(Guid, Guid)>,
    /// Ports of hosts on them.
    ports: BTreeSet<Guid>,
    /// Tables were written since: what comes now is another change.
    is_told: bool,
}

impl Sweep {
    /// Notes which pairs have another level by a target that was computed just now.
    pub(super) fn note_levels(&mut self, target: &Target) {
        if std::mem::take(&mut self.relevelled.is_told) {
            self.relevelled = Relevelled::default();
        }
        let changed = target.routing.lanes.as_ref().map_or(&[][..], |lanes| lanes.changed());
        let topology = &target.discovered.topology;
        let guid = |switch: NodeIndex| topology.node(switch).guid;
        let switches: BTreeSet<NodeIndex> =
            changed.iter().flat_map(|&(one, other)| [one, other]).collect();
        let hosts = target.routing.hosts.iter().map(|(_, host)| host);
        let hosts = hosts.filter(|host| switches.contains(&host.switch));
        let Relevelled { pairs, ports, .. } = &mut self.relevelled;
        pairs.extend(changed.iter().map(|&(one, other)| (guid(one), guid(other))));
        ports.extend(hosts.map(|host| topology.port(host.port).guid));
    }

    /// Tables are written. It is said who has another level, and hosts are told with the next writes: until now
    /// new levels were for routes that were not there yet.
    pub(super) fn tell_levels(&mut self) {
        let Relevelled { pairs, ports, is_told } = &mut self.relevelled;
        let (pairs, ports) = (pairs.len(), std::mem::take(ports));
        *is_told = true;
        if ports.is_empty() {
            return;
        }
        let hosts = ports.len();
        self.outputs.push_back(Output::Report(Report::Relevelled { pairs, hosts }));
        self.pending.learnt = true;
        ports.into_iter().for_each(|port| self.lapse(port));
    }

    /// Pairs of switches that have another service level since the last change.
    pub fn relevelled_pairs(&self) -> usize {
        self.relevelled.pairs.len()
    }
}
