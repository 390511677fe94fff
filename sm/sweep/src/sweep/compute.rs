//! What is known is computed elsewhere: what is asked for, and what comes of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use snin_fabric::{Guid, Lid, NodeIndex, NodeKind, PortIndex};
use snin_protocol::Time;

use super::{Stage, Sweep};
use crate::discovered::Discovered;
use crate::events::Output;
use crate::graph::Node;
use crate::lane_tables;
use crate::multicast::Groups;
use crate::planning::{Computed, FormerTarget, Found, Job, Work};
use crate::query::NodeId;
use crate::report::Report;
use crate::target::Target;
use snin_sm_database::error::Dropped;

/// Computations that were asked for, and the last that was done.
#[derive(Default)]
pub(super) struct Computations {
    /// How many there were.
    jobs: u64,
    /// One under way whose unusable pairs are told at once.
    early: Option<u64>,
    /// The last one of tables: what was known, and what came of it. The same is not computed again.
    last: Option<(Arc<Found>, Arc<Target>)>,
    /// The administrator's own tables.
    own_tables: Arc<String>,
}

impl Computations {
    /// None yet.
    pub(super) fn new(own_tables: String) -> Self {
        Self { own_tables: Arc::new(own_tables), ..Self::default() }
    }

    /// Whether one is under way whose unusable pairs are told at once.
    pub(super) const fn is_early(&self) -> bool {
        self.early.is_some()
    }

    /// Nothing is told early, and the next one is of everything.
    pub(super) fn forget(&mut self) {
        (self.early, self.last) = (None, None);
    }
}

impl Sweep {
    /// As soon as a cable is known to be gone, the pairs that need it are published: long before the last
    /// port is read. And as soon as one is there again, where it is.
    pub(super) fn publish_early(&mut self) {
        let Stage::Survey(survey) = &mut self.stage else { return };
        let tells = self.publishing.last().is_some() && self.leave.leads;
        if tells && !self.computations.is_early() && std::mem::take(&mut survey.has_news) {
            self.computations.early = self.compute(self.serving.groups.clone());
        }
    }

    pub(super) fn begin_computing(&mut self, now: Time) {
        let (job, recalled) = (self.compute(self.serving.groups.clone()), self.recalled.take());
        match (job, recalled) {
            (Some(number), Some(recalled)) => self.begin_telling(recalled, number),
            (Some(number), None) => self.stage = Stage::Computing(number),
            (None, Some(_)) => self.begin_anew(),
            (None, None) => self.settle(now),
        }
    }

    /// Has what is known computed; the number by which the result will be known.
    pub(super) fn compute(&mut self, groups: Arc<Groups>) -> Option<u64> {
        if self.graph.ids().len() == 0 {
            return None;
        }
        let discovered = match Discovered::of(&self.graph, &self.failures) {
            Ok(discovered) => discovered,
            Err(error) => {
                self.outputs.push_back(Output::Report(Report::Contradiction(error.to_string())));
                return None;
            }
        };
        let topology = &discovered.topology;
        let held = |port: PortIndex| {
            let end = discovered.end(port);
            let addressed = match topology.node(topology.port(port).node).kind {
                NodeKind::Switch => end.1.0 == 0,
                NodeKind::Adapter | NodeKind::Router => end.1.0 != 0,
            };
            let info = self.graph.port(end).and_then(|port| port.info.as_ref());
            info.filter(|_| addressed).map_or(Lid::NONE, |info| info.lid)
        };
        let capacity = |(_, node): (NodeId, &Node)| {
            node.switch.as_ref().map(|info| Lid(info.linear_fdb_cap.saturating_sub(1)))
        };
        let least = self.graph.managed().filter_map(capacity).min();
        let incapable = self.incapable(&discovered);
        let mut found = Found {
            held: topology.ports().map(held).collect(),
            saved: self.saved.clone(),
            lmc: self.config.lmc().or(self.saved.lmc),
            unmanaged_trees: self.config.unmanaged_trees.into(),
            engine: self.config.routing,
            lanes: lane_tables::lanes_of_paths(&self.config, &self.graph, &discovered),
            roots: self.config.roots.iter().copied().map(Guid).collect(),
            lfts: self.computations.own_tables.clone(),
            most: least.unwrap_or(Lid::MAX_UNICAST).min(Lid::MAX_UNICAST),
            own: discovered.own_port(&self.graph),
            discovered: Arc::new(discovered),
            former: self
                .computations
                .last
                .as_ref()
                .map(|(last, _)| last.former.clone())
                .unwrap_or_default(),
            laned: self.computations.last.as_ref().and_then(|(last, _)| last.laned.clone()),
        };
        let known = self.computations.last.as_ref().filter(|(last, _)| **last == found);
        let work = match known {
            Some((found, target)) => Work::Known(found.clone(), target.clone()),
            None => {
                let last = self.computations.last.as_ref().map(|(_, target)| target);
                found.former = last.map(|target| target.order()).unwrap_or_default();
                let laned = last.filter(|target| target.routing.lanes.is_some());
                found.laned = laned.cloned().map(FormerTarget);
                Work::Fabric(Arc::new(found))
            }
        };
        Some(self.run(work, groups, incapable))
    }

    /// Has it done; the number by which the result will be known.
    pub(super) fn run(
        &mut self,
        work: Work,
        groups: Arc<Groups>,
        incapable: BTreeSet<NodeIndex>,
    ) -> u64 {
        self.computations.jobs += 1;
        let job = Job { number: self.computations.jobs, work, groups, incapable };
        self.outputs.push_back(Output::Compute(Box::new(job)));
        self.computations.jobs
    }

    pub(super) fn computed(&mut self, computed: Computed, now: Time) {
        let regroups = computed.found.is_none();
        if let (Some(found), Ok((target, _))) = (&computed.found, &computed.result) {
            let is_known =
                self.computations.last.as_ref().is_some_and(|(_, last)| Arc::ptr_eq(last, target));
            if !is_known {
                self.note_levels(target);
            }
            self.computations.last = Some((found.clone(), target.clone()));
        }
        let early = self.computations.early == Some(computed.number);
        let wanted = matches!(self.stage, Stage::Computing(number) if number == computed.number);
        if early {
            self.computations.early = None;
            if let (Ok((target, _)), false) = (&computed.result, wanted) {
                self.publish(target, true);
            }
        }
        if !wanted {
            if self.computed_while_telling(&computed) {
                return;
            }
            if !early {
                self.metrics.count_dropped(Dropped::Outdated);
            }
            return;
        }
        self.stage = Stage::Idle;
        match computed.result {
            Err(error) => {
                self.outputs.push_back(Output::Report(Report::NoRouting(error)));
                self.settle(now);
            }
            // Something happened meanwhile.
            Ok(_) if self.looks_again() => self.pending.learnt = true,
            Ok((target, plan)) if regroups => self.begin_regrouping(target, plan),
            Ok((target, plan)) => self.begin_applying(target, plan, now),
        }
    }
}
