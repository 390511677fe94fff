//! Tables of lanes are read and written when nothing else is left to be done, some at a time. There are as many as
//! pairs of ports of a switch, packets arrive without them, and no repair waits for all of them.

use std::collections::BTreeMap;

use snin_protocol::Time;

use super::{Applying, Stage, Sweep};
use crate::activate::ends;
use crate::failures::Failures;
use crate::graph::Graph;
use crate::lane_tables::{self, GrantedLanes, TableState};
use crate::qos_tables::tables;
use crate::query::{PortId, Query};
use crate::schedule::{Schedule, Step};
use crate::survey::Survey;
use crate::target::Target;
use snin_sm_database::qos_table::{LaneUse, QosTableId};

/// A table of a port.
type PortTable = (PortId, QosTableId);

/// So many are read or written before anything else has its turn.
const CHUNK: usize = 1_024;
/// A table that stays unanswered so often in a row is one that the port does not have.
const MOST_SILENT: u32 = 3;

/// How far the tables are.
#[derive(Default)]
pub(super) struct LaneWrites {
    /// Everything else is written.
    ready: bool,
    /// All of them were found right since.
    done: bool,
    /// So many ports were looked at in this pass.
    position: usize,
    /// Something was read or written in this pass, so that another one follows.
    worked: bool,
    /// What the last survey asked.
    asked: Vec<PortTable>,
    /// Ports that left something without an answer. An entry goes when the port answers, when the table is taken
    /// for missing, or when the port is out of reach.
    silent: Failures,
    /// Ports have had these tables: what is granted may be told its level.
    pub(super) told: bool,
}

impl LaneWrites {
    /// Of a manager that begins; `told`: it was here before, and had written them.
    pub(super) fn new(told: bool) -> Self {
        Self { told, ..Self::default() }
    }

    /// Everything else is to be written first.
    pub(super) const fn wait(&mut self) {
        self.ready = false;
    }

    /// Everything else is written: they are looked at.
    pub(super) const fn begin(&mut self) {
        (self.ready, self.done, self.position, self.worked) = (true, false, 0, false);
    }

    /// When a port that was silent is tried again.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.silent.next_retry().filter(|_| self.ready && self.done)
    }

    /// Begins once more when that is due.
    pub(super) fn handle_deadline(&mut self, now: Time) {
        if self.next_deadline().is_some_and(|due| due <= now) {
            self.begin();
        }
    }

    /// A port took one of its tables.
    pub(super) fn answered(&mut self, end: PortId) {
        self.silent.clear(end);
    }

    /// A port left one of its tables without an answer, in this round for the first time where `is_first`; whether
    /// it is taken not to have it.
    fn note_silent(&mut self, end: PortId, table: QosTableId, is_first: bool, now: Time) -> bool {
        if is_first {
            self.silent.note(end, table.name(), true, now);
        }
        self.silent.count(end) >= MOST_SILENT
    }

    /// What the last survey asked and did not learn.
    fn note_unread(&mut self, graph: &mut Graph, now: Time) {
        let mut unread = BTreeMap::<PortId, Vec<QosTableId>>::new();
        for (end, table) in std::mem::take(&mut self.asked) {
            let is_read = graph.port(end).is_some_and(|port| port.qos_tables.contains_key(&table));
            unread.entry(end).or_default().extend((!is_read).then_some(table));
        }
        for (end, tables) in unread {
            let Some(&first) = tables.first() else {
                self.silent.clear(end);
                continue;
            };
            if self.note_silent(end, first, true, now)
                && let Some(port) = graph.port_mut(end)
            {
                port.qos_tables.extend(tables.into_iter().map(|table| (table, None)));
            }
        }
    }
}

impl Sweep {
    /// Whether some of them are to be looked at.
    pub(super) fn owes_lane_tables(&self) -> bool {
        let granted = &self.lane_writes;
        let are_wanted = self.graph.lanes != LaneUse::AsTheyAre && !self.config.qos;
        granted.ready && !granted.done && are_wanted && self.leave.is_given()
    }

    /// Has the next of them read or written; `false` where none is left.
    pub(super) fn begin_lane_tables(&mut self, now: Time) -> bool {
        if !self.owes_lane_tables() {
            return false;
        }
        let (Some(target), Some(plan)) = (self.target.clone(), self.serving.plan.clone()) else {
            return false;
        };
        self.lane_writes.note_unread(&mut self.graph, now);
        self.lane_writes.silent.retain(|end| self.graph.path_to(end).is_some());
        let (reads, writes) = self.next_lane_tables(&target, now);
        self.lane_writes.worked |= !(reads.is_empty() && writes.is_empty());
        if !reads.is_empty() {
            self.surveys += 1;
            self.metrics.surveys += 1;
            (self.regrouping, self.only_lanes) = (false, true);
            let mut survey = Survey::local(self.surveys);
            for &((node, port), table) in &reads {
                survey.demand(Query::ReadQosTable(node, port, table));
            }
            self.lane_writes.asked = reads;
            self.stage = Stage::Survey(Box::new(survey.of_manager(self.manager())));
            return true;
        }
        if !writes.is_empty() {
            let mut schedule = Schedule::default();
            for (end, table) in writes {
                schedule.add(Step::QosTable(end, table));
            }
            schedule.begin();
            let manager = self.publishing.manager();
            let mut applying = Applying::new(schedule, target, plan, manager);
            applying.only_lanes = true;
            self.begin(applying);
            return true;
        }
        // What failed in this pass may be right by now.
        if std::mem::take(&mut self.lane_writes.worked) {
            self.lane_writes.position = 0;
            return true;
        }
        self.lane_writes.done = true;
        if self.lane_writes.silent.is_empty() {
            self.lane_writes.told = true;
            self.publish(&target, false);
        }
        false
    }

    /// The tables that are due from where the pass is: those to be read, then those to be written. A port whose
    /// tables are read is looked at again.
    fn next_lane_tables(&mut self, target: &Target, now: Time) -> (Vec<PortTable>, Vec<PortTable>) {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let first = self.lane_writes.position;
        for end in ends(target, &self.graph).skip(first) {
            if reads.len() + writes.len() >= CHUNK {
                break;
            }
            self.lane_writes.position += 1;
            let waits = self.unsent.contains_key(&end.0)
                || self.failures.holds(end, now)
                || self.lane_writes.silent.holds(end, now)
                || self.graph.is_locked(end)
                || self.graph.path_to(end).is_none();
            let Some(port) = self.graph.port(end).filter(|_| !waits) else { continue };
            for table in tables(&self.graph, end) {
                match lane_tables::state(&self.config, &self.graph, end, port, table) {
                    TableState::Right => {}
                    TableState::Unread => reads.push((end, table)),
                    TableState::Due => writes.push((end, table)),
                }
            }
        }
        if !reads.is_empty() {
            self.lane_writes.position = first;
        }
        (reads, writes)
    }

    /// A port did not take one of them, or did not say so.
    pub(super) fn lane_table_failed(
        &mut self,
        (end, table): PortTable,
        silent: bool,
        is_first: bool,
        now: Time,
    ) {
        let is_missing = !silent || self.lane_writes.note_silent(end, table, is_first, now);
        let Some(port) = self.graph.port_mut(end) else { return };
        // Where granted traffic shares a lane, this is said. The port is as good as any otherwise.
        match is_missing {
            true => port.qos_tables.insert(table, None),
            false => port.qos_tables.remove(&table),
        };
    }

    /// What is said of them: the level once ports have the tables.
    pub(super) fn granted_lanes(&self, target: &Target) -> GrantedLanes {
        let mut lanes = lane_tables::told(&self.config, &self.graph, target);
        if !self.config.qos && !self.lane_writes.told {
            lanes.level = 0;
        }
        lanes
    }
}
