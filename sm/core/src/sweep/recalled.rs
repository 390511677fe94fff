//! Taking over with a copy of the last master's database: ports are told who is master before anything is asked.
//!
//! ```text
//! recall -> judge -> compute -> herald -> light survey, samples, what is in doubt -> compute -> apply
//! ```
//!
//! The fabric is computed as the database has it. A switch whose tables came to the same numbers at the last
//! master is taken to hold them; all others are in doubt and are read. Then each port that has its address is told
//! its new master, and hosts are answered meanwhile. The survey that follows asks every switch whether something
//! changed, reads a block of each table and some ports, and what is in doubt. The result is applied as ever, and
//! where the copy was right, nothing is left to be written.

use std::collections::BTreeMap;
use std::sync::Arc;

use snin_fabric::lft::BLOCK;
use snin_fabric::{Guid, Lid};
use snin_protocol::Time;

use super::{Applying, Stage, Sweep};
use crate::activate::{Held, herald};
use crate::database::{Database, Programmed, Programs};
use crate::events::{Output, Report};
use crate::multicast::{self, McPlan};
use crate::planning::Target;
use crate::programmed::{linear_sum, multicast_sum};
use crate::query::NodeId;
use crate::schedule::Schedule;

impl Sweep {
    /// Takes the database's word for the fabric, as if a survey had ended with it; `false` where that cannot be.
    pub(crate) fn recall(&mut self, database: &Database) -> bool {
        self.surveys += 1;
        if !self.graph.recall(database, self.surveys) {
            return false;
        }
        let programs = database.all::<Programs>().iter();
        self.recalled = Some(programs.map(|(&guid, &programmed)| (guid, programmed)).collect());
        self.transactions.abandon(|_| false);
        (self.stage, self.pending) = (Stage::Idle, super::Pending::default());
        self.pending.learnt = true;
        self.leave.end_survey();
        true
    }

    /// Tells every port that has its address who is master now.
    pub(super) fn herald(
        &mut self,
        target: Arc<Target>,
        plan: Arc<McPlan>,
        programs: &BTreeMap<Guid, Programmed>,
        now: Time,
    ) {
        let own = target.discovered.own_port(&self.graph);
        let manager = own.and_then(|port| target.addresses.base(port)).unwrap_or(Lid::NONE);
        if manager == Lid::NONE {
            return self.begin_anew();
        }
        if self.presume(&target, &plan, programs) {
            self.leave.leads = true;
            self.publish(&target, false);
        }
        let mut schedule = Schedule::default();
        let held = Held { failures: &self.failures, lapsed: &self.lapsed, now };
        herald(&mut schedule, &self.graph, &target, &self.config, manager, held);
        schedule.begin();
        let mut applying = Applying::new(schedule, target, plan, manager);
        applying.heralds = true;
        self.begin(applying);
    }

    /// Takes switches to hold their tables where those came to the same at the last master; whether all do.
    fn presume(
        &mut self,
        target: &Target,
        plan: &McPlan,
        programs: &BTreeMap<Guid, Programmed>,
    ) -> bool {
        let (top, mut all) = (target.addresses.top(), true);
        for switch in target.discovered.topology.switches() {
            let node = self.graph.node_mut(target.discovered.id(switch));
            let known = programs.get(&node.guid()).copied().unwrap_or_default();
            let table = target.routing.tables.get(switch.index());
            match table.filter(|table| known.linear == Some(linear_sum(table, top))) {
                None => all = false,
                Some(table) => {
                    let blocks = 0..=(top.index() / BLOCK) as u16;
                    blocks.for_each(|block| node.shadow.set_block(block, table.block(block)));
                }
            }
            let masks = plan.table(switch);
            if let Some(masks) = masks.filter(|m| known.multicast == Some(multicast_sum(m))) {
                multicast::presume(node, masks, plan.groups());
            }
        }
        all
    }

    /// Ports know who is master: now what was recalled is looked at.
    pub(super) fn heralded(&mut self, applying: &Applying) {
        let ports = applying.schedule.steps().len();
        self.outputs.push_back(Output::Report(Report::TookOver { ports }));
        self.pending.light = true;
        self.pending.learnt = true;
        self.pending.awake.extend(self.graph.unexplained());
    }

    /// What the tables of a switch come to, for the next master.
    pub(super) fn programmed(&self, id: NodeId) -> Programmed {
        let node = self.graph.node(id);
        if !node.is_switch() {
            return Programmed::default();
        }
        let linear = node.shadow.sum();
        let is_read =
            self.plan.as_ref().is_some_and(|plan| multicast::is_read(node, plan.groups()));
        let multicast = is_read.then(|| multicast_sum(node.masks.held()));
        Programmed { linear, multicast }
    }
}
