//! Taking over with a copy of the last master's database: ports are told who is master before anything is asked.
//!
//! ```text
//! recall -> judge -> tell ports -> light survey, samples, what is in doubt -> compute -> apply
//!                    compute
//! ```
//!
//! Each port that had its address is told its new master. The fabric is computed meanwhile, as the database has
//! it; from then on hosts are answered. A switch whose tables came to the same numbers at the last master is taken
//! to hold them; all others are in doubt and are read. The survey that follows asks every switch whether something
//! changed, reads a block of each table and some ports, and what is in doubt. The result is applied as ever, and
//! where the copy was right, nothing is left to be written.

use std::collections::{BTreeMap, VecDeque};

use snin_fabric::lft::BLOCK;
use snin_fabric::{Guid, Lid};
use snin_mad::{Mad, PortInfo};
use snin_protocol::Time;

use super::{Stage, Sweep};
use crate::activate::{is_guarded, port_info};
use crate::events::Output;
use crate::lane_tables;
use crate::multicast::{self, McPlan};
use crate::planning::Computed;
use crate::qos_tables;
use crate::query::{NodeId, PortId, Query};
use crate::report::Report;
use crate::schedule::PortWrite;
use crate::smp;
use crate::target::Target;
use snin_sm_database::mad_address::LocalPort;
use snin_sm_database::programmed::{lanes_sum, linear_sum, multicast_sum};
use snin_sm_database::records::{Database, Ports, Programmed, Programs};

/// What was recalled beside the graph.
pub(super) struct Recalled {
    /// What the tables of nodes came to.
    programs: BTreeMap<Guid, Programmed>,
    /// Ports that had the addresses which they were to have.
    ends: VecDeque<PortId>,
}

/// Ports are told who is master.
pub(super) struct Telling {
    recalled: Recalled,
    in_flight: usize,
    told: usize,
    /// The computation that is waited for.
    job: Option<u64>,
    /// It came to nothing: what was recalled contradicts itself.
    failed: bool,
}

impl Sweep {
    /// Takes the database's word for the fabric, as if a survey had ended with it; `false` where that cannot be.
    pub fn recall(&mut self, database: &Database) -> bool {
        self.surveys += 1;
        if !self.graph.recall(database, self.surveys) {
            return false;
        }
        let own = self.graph.own_end();
        let ends = database.all::<Ports>().iter().filter_map(|(&(guid, num), port)| {
            let is_addressed = port.assigned == Some((port.info.lid, port.info.lmc));
            let end = (self.graph.find(guid).filter(|_| is_addressed)?, num);
            (is_guarded(&self.graph, end) && end != own).then_some(end)
        });
        let ends = [own].into_iter().chain(ends).collect();
        let programs = database.all::<Programs>().iter();
        let programs = programs.map(|(&guid, &programmed)| (guid, programmed)).collect();
        self.recalled = Some(Recalled { programs, ends });
        self.transactions.abandon(|_| false);
        self.unsent.clear();
        (self.stage, self.pending) = (Stage::Idle, super::Pending::default());
        self.pending.learnt = true;
        self.leave.end_survey();
        true
    }

    /// Begins to tell ports who is master, while job `number` is computed.
    pub(super) fn begin_telling(&mut self, recalled: Recalled, number: u64) {
        let (in_flight, told, job, failed) = (0, 0, Some(number), false);
        let telling = Telling { recalled, in_flight, told, job, failed };
        self.stage = Stage::Telling(Box::new(telling));
    }

    /// Tells the next ports; whether all know it, and the fabric is computed.
    pub(super) fn tell(&mut self, now: Time) -> bool {
        let own = self.graph.port(self.graph.own_end()).and_then(|port| port.info.as_ref());
        let manager = own.map_or(Lid::NONE, |info| info.lid);
        while self.has_room() {
            let Stage::Telling(telling) = &mut self.stage else { return true };
            let Some(end) = telling.recalled.ends.pop_front() else { break };
            let Some(mad) = self.herald(end, manager) else { continue };
            if let Stage::Telling(telling) = &mut self.stage {
                telling.in_flight += 1;
            }
            let mad = self.transactions.send(Query::Tell(end.0, end.1), Some(end.0), mad, now);
            self.send(mad);
        }
        let Stage::Telling(telling) = &mut self.stage else { return true };
        if telling.in_flight > 0 || !telling.recalled.ends.is_empty() {
            return false;
        }
        let ports = std::mem::take(&mut telling.told);
        if ports > 0 {
            self.outputs.push_back(Output::Report(Report::TookOver { ports }));
        }
        if telling.job.is_some() {
            return false;
        }
        if std::mem::replace(&mut telling.failed, false) {
            self.stage = Stage::Idle;
            self.begin_anew();
            return true;
        }
        // Ports know who is master: now what was recalled is looked at.
        self.stage = Stage::Idle;
        self.committed.end_stage(true);
        (self.pending.light, self.pending.learnt) = (true, true);
        self.pending.awake.extend(self.graph.unexplained());
        true
    }

    /// The write by which a port learns of its master, where it can be reached and does not know.
    fn herald(&self, end: PortId, manager: Lid) -> Option<(LocalPort, Mad)> {
        let held = self.graph.port(end)?.info.as_ref()?;
        let is_unicast = |lid: Lid| (Lid(1)..=Lid::MAX_UNICAST).contains(&lid);
        if !is_unicast(held.lid) || !is_unicast(manager) || self.graph.is_locked(end) {
            return None;
        }
        let write = PortWrite { address: Some((held.lid, held.lmc)), ..PortWrite::default() };
        let info = port_info(&self.graph, end, write, &self.config, manager)?;
        let (key, route) = (self.graph.key_to_show(end, 0), self.graph.path_to(end)?);
        Some((route.from, smp::set(key, route.path, end.1.0.into(), &info)))
    }

    /// A port was told, or did not say so: then it is read again.
    pub(super) fn told(&mut self, end: PortId, answer: Option<&Mad>) {
        let Stage::Telling(telling) = &mut self.stage else { return };
        telling.in_flight = telling.in_flight.saturating_sub(1);
        let Some(mut info) = answer.and_then(|mad| mad.attribute::<PortInfo>().ok()) else {
            self.pending.rechecks.insert(Query::ReadPort(end.0, end.1));
            return;
        };
        telling.told += 1;
        if is_guarded(&self.graph, end) {
            // It is hidden from whom showed the one that was there before.
            (info.m_key, ..) = self.graph.protection(end);
        }
        if let Some(port) = self.graph.port_mut(end) {
            port.info = Some(info);
        }
    }

    /// Nothing more is told: another manager may be master.
    pub(super) fn tell_no_more(&mut self) {
        if let Stage::Telling(telling) = &mut self.stage {
            telling.recalled.ends.clear();
        }
    }

    /// Whether this is what telling ports waits for: hosts are answered from now on, where every table comes to
    /// what it came to at the last master.
    pub(super) fn computed_while_telling(&mut self, computed: &Computed) -> bool {
        let Stage::Telling(telling) = &mut self.stage else { return false };
        if telling.job.take_if(|job| *job == computed.number).is_none() {
            return false;
        }
        let programs = std::mem::take(&mut telling.recalled.programs);
        match &computed.result {
            Err(_) => telling.failed = true,
            Ok((target, plan)) => {
                let all = self.presume(target, plan, &programs);
                self.graph.lanes = lane_tables::lane_use(&self.config, &self.graph, target);
                if qos_tables::are_managed(&self.config, &self.graph) {
                    self.presume_lanes(&programs);
                }
                self.target = Some(target.clone());
                self.serving.plan = Some(plan.clone());
                self.lane_writes.told |= programs.values().any(|known| known.lanes.is_some());
                if all {
                    self.leave.leads = true;
                    self.publish(target, false);
                }
            }
        }
        true
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

    /// Takes nodes to hold tables of service levels and lanes that came to the same at the last master.
    fn presume_lanes(&mut self, programs: &BTreeMap<Guid, Programmed>) {
        for (guid, known) in programs {
            let Some(id) = self.graph.find(*guid).filter(|_| known.lanes.is_some()) else {
                continue;
            };
            let managed = qos_tables::managed(&self.config, &self.graph, id);
            let sum = lanes_sum(managed.iter().map(|(end, table, held)| (end.1, *table, held)));
            for (end, table, held) in managed.into_iter().filter(|_| known.lanes == Some(sum)) {
                if let Some(port) = self.graph.port_mut(end) {
                    port.qos_tables.insert(table, Some(held));
                }
            }
        }
    }

    /// What a node's tables of service levels and lanes come to, where all are known.
    fn lanes(&self, id: NodeId) -> Option<u64> {
        let managed = qos_tables::are_managed(&self.config, &self.graph)
            .then(|| qos_tables::managed(&self.config, &self.graph, id))?;
        let held = managed.iter().map(|(end, table, _)| {
            let held = self.graph.port(*end)?.qos_tables.get(table)?.as_ref()?;
            Some((end.1, *table, held))
        });
        let held: Vec<_> = held.collect::<Option<_>>()?;
        Some(lanes_sum(held.into_iter()))
    }

    /// What the tables of a node come to, for the next master.
    pub(super) fn programmed(&self, id: NodeId) -> Programmed {
        let (node, lanes) = (self.graph.node(id), self.lanes(id));
        if !node.is_switch() {
            return Programmed { lanes, ..Programmed::default() };
        }
        let linear = node.shadow.sum();
        let is_read =
            self.serving.plan.as_ref().is_some_and(|plan| multicast::is_read(node, plan.groups()));
        let multicast = is_read.then(|| multicast_sum(node.masks.held()));
        Programmed { linear, multicast, lanes }
    }
}
