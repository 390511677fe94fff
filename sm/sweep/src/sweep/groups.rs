//! Multicast groups change more often than the fabric: then nothing else is computed or written.

use std::collections::BTreeSet;
use std::sync::Arc;

use snin_fabric::multicast::MulticastTable;
use snin_fabric::{Guid, NodeIndex};

use super::{Applying, Stage, Sweep};
use crate::discovered::Discovered;
use crate::events::Output;
use crate::multicast::{Groups, McPlan, distribute, unread};
use crate::planning::Work;
use crate::schedule::{Schedule, Step};
use crate::survey::Survey;
use crate::target::Target;

/// The multicast groups, and how they are served.
#[derive(Default)]
pub(super) struct Serving {
    /// As administration knows them.
    pub(super) groups: Arc<Groups>,
    /// How they were last meant to be served.
    pub(super) plan: Option<Arc<McPlan>>,
    /// Those that were last said to be served.
    served: Arc<Groups>,
}

impl Sweep {
    /// What a switch holds of its multicast forwarding table, as far as it was read or written: the blocks that
    /// groups are in.
    pub fn multicast_table(&self, switch: Guid) -> Option<&MulticastTable> {
        let node = self.graph.node(self.graph.find(switch)?);
        (node.is_switch() && !node.masks.is_absent()).then(|| node.masks.held())
    }

    /// The most groups that every switch with a multicast forwarding table can hold; none without such switches.
    pub fn multicast_capacity(&self) -> Option<u16> {
        let capacity = |(_, node): (_, &crate::graph::Node)| {
            let info = node.switch.as_ref().filter(|_| !node.masks.is_absent())?;
            (info.multicast_fdb_cap > 0).then_some(info.multicast_fdb_cap)
        };
        self.graph.managed().filter_map(capacity).min()
    }

    /// Whether there are other groups than those that are served.
    pub(super) fn regroups(&self) -> bool {
        let same = |plan: &Arc<McPlan>| Arc::ptr_eq(plan.groups(), &self.serving.groups);
        self.leave.leads
            && self.target.is_some()
            && self.serving.plan.as_ref().is_some_and(|plan| !same(plan))
    }

    /// Has what is not known read, then trees grown.
    pub(super) fn begin_grouping(&mut self) -> bool {
        let (true, Some(target), Some(plan)) = (self.regroups(), &self.target, &self.serving.plan)
        else {
            return false;
        };
        let unread = unread(&self.graph, &self.serving.groups);
        // What a switch holds that is silent just now is not asked again before it is known why it is.
        let is_silent = |agent| self.unsent.contains_key(&agent);
        if unread.iter().any(|query| !query.agent().is_some_and(is_silent)) {
            self.surveys += 1;
            self.metrics.surveys += 1;
            self.regrouping = true;
            self.stage = Stage::Survey(Box::new(Survey::local(self.surveys)));
            return true;
        }
        if !unread.is_empty() {
            return false;
        }
        let work = Work::Groups(target.clone(), plan.clone());
        let incapable = self.incapable(&target.discovered);
        self.regrouping = true;
        self.stage = Stage::Computing(self.run(work, self.serving.groups.clone(), incapable));
        true
    }

    /// Writes what groups need, and nothing else.
    pub(super) fn begin_regrouping(&mut self, target: Arc<Target>, plan: Arc<McPlan>) {
        let manager = self.publishing.manager();
        let mut schedule = Schedule::default();
        distribute(&mut schedule, &self.graph, &target, &plan, (None, None));
        schedule.begin();
        let mut applying = Applying::new(schedule, target, plan, manager);
        applying.regroups = true;
        self.begin(applying);
    }

    /// Begins to write.
    pub(super) fn begin(&mut self, applying: Applying) {
        let is_masks = |step: &&Step| matches!(step, Step::Masks(..));
        self.metrics.masks_written +=
            applying.schedule.steps().iter().filter(is_masks).count() as u64;
        let tables = |step: &Step| match step {
            Step::Block(node, _) | Step::Dropping(node, ..) | Step::Top(node, _) => Some(*node),
            Step::Masks(node, _) | Step::QosTable((node, _), _) => Some(*node),
            _ => None,
        };
        let nodes = applying.schedule.steps().iter().filter_map(tables);
        self.committed.rewrite(nodes.map(|id| self.graph.node(id).guid()));
        self.target = Some(applying.target.clone());
        self.serving.plan = Some(applying.plan.clone());
        self.stage = Stage::Applying(Box::new(applying));
    }

    /// Switches without a multicast forwarding table.
    pub(super) fn incapable(&self, discovered: &Discovered) -> BTreeSet<NodeIndex> {
        let has_none = |switch: &NodeIndex| {
            let node = self.graph.node(discovered.id(*switch));
            let capacity = node.switch.as_ref().map_or(0, |info| info.multicast_fdb_cap);
            capacity == 0 || node.masks.is_absent()
        };
        discovered.topology.switches().filter(has_none).collect()
    }

    /// Says which groups are served from now on.
    pub(super) fn publish_served(&mut self, applying: &Applying) {
        let groups = applying.plan.groups();
        if !Arc::ptr_eq(groups, &self.serving.served) {
            self.serving.served = groups.clone();
            self.outputs.push_back(Output::Served(groups.clone()));
        }
    }
}
