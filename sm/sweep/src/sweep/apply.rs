//! Writing what was computed, and publishing it.

use std::collections::BTreeSet;
use std::sync::Arc;

use snin_fabric::{Lid, PortNum};
use snin_mad::{LinearForwarding, Mad, MulticastForwarding, PKeyTable, PortInfo, SwitchInfo};
use snin_protocol::Time;

use super::{Applying, MOST_FAILURES, Stage, Sweep};
use crate::activate::{Held, activate, is_guarded, lanes, took};
use crate::distribute::{count_blocks, distribute};
use crate::events::Output;
use crate::graph::{Graph, Lock};
use crate::lane_tables;
use crate::limits;
use crate::mft_shadow::MaskBlock;
use crate::multicast::{self, McPlan};
use crate::planning::named_places;
use crate::qos_tables;
use crate::query::{NodeId, PortId, Query};
use crate::report::Report;
use crate::schedule::{Schedule, Step, StepId};
use crate::smp;
use crate::target::Target;
use snin_sm_database::saved::Saved;

impl Sweep {
    pub(super) fn begin_applying(&mut self, target: Arc<Target>, plan: Arc<McPlan>, now: Time) {
        let own = target.discovered.own_port(&self.graph);
        let manager = own.and_then(|port| target.addresses.base(port)).unwrap_or(Lid::NONE);
        self.leave.leads = true;
        self.lane_writes.wait();
        self.graph.lanes = lane_tables::lane_use(&self.config, &self.graph, &target);
        self.save(&target);
        self.publish(&target, true);
        let waits = self.publishing.wait(self.config.clear_wait(), now);
        let mut schedule = Schedule::default();
        if manager != Lid::NONE {
            let topology = &target.discovered.topology;
            let ports = target.addresses.iter().map(|(port, ..)| topology.port(port).guid);
            self.registrations.found(ports);
            let lapsed = self.registrations.lapsed();
            let held = Held { failures: &self.failures, lapsed, now };
            let (graph, partitions) = (&self.graph, self.partitions());
            let milestones = activate(&mut schedule, graph, &target, partitions, manager, held);
            let (links_up, tables) = (milestones.links_up, milestones.tables);
            let known = (&self.config, &self.graph);
            distribute(&mut schedule, known, &target, manager, links_up, tables);
            // No link comes to carry unicast that would close a circle with what is taken off.
            let moments = (Some(links_up), Some(tables));
            multicast::distribute(&mut schedule, &self.graph, &target, &plan, moments);
            lanes(&mut schedule, known, &target, held);
        }
        schedule.begin();
        let (blocks, twice) = count_blocks(&schedule);
        self.metrics.blocks_written += blocks;
        self.metrics.blocks_rewritten += twice;
        let touched = schedule.steps().iter().filter_map(|step| match step {
            Step::Port((node, _), _) => self.beside(*node),
            _ => None,
        });
        let touched: Vec<NodeId> = touched.collect();
        self.unverified.extend(touched);
        let written: BTreeSet<PortId> = schedule.steps().iter().filter_map(Step::owner).collect();
        let due: BTreeSet<PortId> = self.failures.due(now).collect();
        // Nothing is left to be written there: only its answers were lost.
        for &end in due.difference(&written) {
            // A cable that was left out may be led over again.
            self.pending.learnt |= self.graph.is_trunk(end) && self.failures.count(end) > 1;
            self.failures.clear(end);
        }
        let mut applying = Applying::new(schedule, target, plan, manager);
        applying.tried = due.intersection(&written).copied().collect();
        applying.wait(waits, now);
        self.begin(applying);
    }

    /// The switch, if it is one.
    fn beside(&self, node: NodeId) -> Option<NodeId> {
        self.graph.node(node).is_switch().then_some(node)
    }

    pub(super) fn apply(&mut self, now: Time) -> bool {
        if self.is_held(now) {
            return false;
        }
        if let Stage::Applying(applying) = &mut self.stage
            && applying.schedule.is_stopped()
        {
            let unsent = self.transactions.agent_queues().clear();
            let unsent = unsent.into_iter().filter_map(Query::step);
            unsent.for_each(|id| applying.schedule.finish(id, false));
        }
        while self.has_room() {
            let Stage::Applying(applying) = &mut self.stage else { return true };
            let agent_queues = self.transactions.agent_queues();
            let waited = agent_queues.next().and_then(Query::step);
            let Some(id) = waited.or_else(|| applying.schedule.next()) else { break };
            let step = applying.schedule.step(id);
            let agent = step.and_then(Step::node);
            if agent.is_some_and(|agent| self.unsent.contains_key(&agent)) {
                // It is silent just now; what it has to be told, it is told when it answers again.
                applying.incomplete = true;
                applying.schedule.finish(id, false);
                continue;
            }
            if !agent_queues.admit(agent, Query::Step(id)) {
                continue;
            }
            let mad = step.and_then(|step| {
                smp::write(&self.graph, &self.config, &applying.target, applying.manager, step)
            });
            match mad {
                Some(mad) => {
                    let mad = self.transactions.send(Query::Step(id), agent, mad, now);
                    self.send(mad);
                }
                None => self.step_failed(id, false, now),
            }
        }
        let Stage::Applying(applying) = &mut self.stage else { return true };
        if !applying.schedule.is_done() {
            return false;
        }
        let Stage::Applying(applying) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return true;
        };
        self.applied(*applying, now);
        true
    }

    /// Tables are left alone as long as a host may send by what they are to be: in between packets would
    /// meet others on links that are not theirs.
    fn is_held(&mut self, now: Time) -> bool {
        let Stage::Applying(applying) = &mut self.stage else { return false };
        let stopped = applying.schedule.is_stopped();
        let is_clear = |version| self.publishing.is_clear(version);
        applying.waits.take_if(|(version, until)| stopped || is_clear(*version) || *until <= now);
        applying.waits.is_some()
    }

    fn applied(&mut self, applying: Applying, now: Time) {
        self.committed.end_stage(false);
        if !applying.taken.is_empty() {
            let label = |(&id, &blocks): (&NodeId, &u32)| {
                let node = self.graph.node(id);
                (node.guid(), node.label(), blocks)
            };
            let switches = applying.taken.iter().map(label).collect();
            self.outputs.push_back(Output::Report(Report::Tables { switches }));
        }
        if applying.only_lanes {
            return;
        }
        if applying.schedule.is_stopped() {
            // No other program can write the own switch's tables, nor does it help to try harder.
            let own = self.graph.own_end();
            let refuses = self.failures.holds(own, now) || self.graph.is_locked(own);
            if self.graph.node(own.0).is_switch() && refuses {
                let full = self.pending.full;
                self.pending = super::Pending { full, ..super::Pending::default() };
                self.ready();
                self.settle(now);
            } else {
                self.pending.learnt = true;
            }
            return;
        }
        if applying.incomplete {
            // What waits for a node that is silent now waits until that is known to last.
            if self.pending.is_empty() {
                self.settle(now);
            }
            return;
        }
        for &end in applying.tried.difference(&applying.failed) {
            self.failures.clear(end);
            // Now tables may lead over it.
            self.pending.learnt |= self.graph.is_trunk(end);
        }
        self.lane_writes.begin();
        self.publish(&applying.target, false);
        self.tell_levels();
        self.cables.note(&applying.target);
        self.publish_served(&applying);
        if !applying.regroups {
            self.ready();
        }
        let unverified = std::mem::take(&mut self.unverified);
        if unverified.is_empty() {
            self.settle(now);
        } else {
            // A switch that was reset meanwhile says so when it is asked.
            self.pending.verify.extend(unverified);
        }
    }

    fn ready(&mut self) {
        let version = self.publishing.version();
        let missing = self.missing();
        self.outputs.push_back(Output::Report(Report::Ready { version, missing }));
    }

    pub(super) fn step_answered(&mut self, id: StepId, mad: &Mad, ok: bool, now: Time) {
        let Stage::Applying(applying) = &mut self.stage else { return };
        let Some(step) = applying.schedule.step(id).cloned() else { return };
        let graph = &mut self.graph;
        let took = ok
            && match &step {
                Step::Port(end, write) => mad.attribute::<PortInfo>().is_ok_and(|mut info| {
                    let took = took(*write, &info);
                    let discovered = &applying.target.discovered;
                    if took
                        && (write.reregister || write.address.is_some())
                        && let Some(port) = discovered.port(*end)
                    {
                        self.registrations.told(discovered.topology.port(port).guid);
                    }
                    if is_guarded(graph, *end) {
                        // It is hidden from whom showed the one that was there before.
                        (info.m_key, ..) = graph.protection(*end);
                    }
                    let keeps = took && limits::differs(&self.config, graph, *end, &info);
                    if let Some(port) = graph.port_mut(*end) {
                        (port.info, port.keeps_limits) = (Some(info), keeps);
                    }
                    took
                }),
                Step::Keys(end, block, keys) => mad.attribute::<PKeyTable>().is_ok_and(|table| {
                    graph.put_keys(*end, *block, table.keys);
                    table.keys == **keys
                }),
                Step::QosTable(end, table) => table.read(mad).is_ok_and(|lanes| {
                    let took = qos_tables::wanted(&self.config, graph, *end, *table).as_ref()
                        == Some(&lanes);
                    if let Some(port) = graph.port_mut(*end) {
                        port.qos_tables.insert(*table, Some(lanes));
                    }
                    took
                }),
                Step::Block(node, block) => {
                    let wanted = applying.target.discovered.index(*node).map(|switch| {
                        *applying.target.routing.tables[switch.index()].block(*block)
                    });
                    block_taken(graph, *node, *block, mad, wanted)
                }
                Step::Dropping(node, block, ports) => {
                    block_taken(graph, *node, *block, mad, Some(**ports))
                }
                Step::Top(node, top) => mad.attribute::<SwitchInfo>().is_ok_and(|info| {
                    let node = graph.node_mut(*node);
                    node.shadow.set_top(info.linear_fdb_top);
                    let took = info.linear_fdb_top == *top;
                    node.keeps_life_time = info.life_time != limits::life_time(&self.config);
                    node.switch = Some(info);
                    took
                }),
                Step::Masks(node, part) => masks_taken(graph, *node, part, mad),
                Step::MulticastTop(node, top) => mad.attribute::<SwitchInfo>().is_ok_and(|info| {
                    let took = info.multicast_fdb_top == *top;
                    graph.node_mut(*node).switch = Some(info);
                    took
                }),
                Step::Milestone | Step::Barrier => true,
            };
        if let (true, Step::Block(node, _) | Step::Dropping(node, ..)) = (took, &step) {
            *applying.taken.entry(*node).or_insert(0) += 1;
        }
        if let (true, true, Some(end)) = (took, applying.only_lanes, step.end()) {
            self.lane_writes.answered(end);
        }
        match took {
            true => applying.schedule.finish(id, true),
            false => self.step_failed(id, false, now),
        }
    }

    /// The step was refused, or it cannot be told whether it was done: what it wrote is read again. It is the
    /// port's own trouble, unless tables lead over it.
    pub(super) fn step_failed(&mut self, id: StepId, silent: bool, now: Time) {
        let Stage::Applying(applying) = &mut self.stage else { return };
        let Some(step) = applying.schedule.step(id).cloned() else { return };
        applying.schedule.finish(id, false);
        let Some(end) = step.owner() else { return };
        if let (Step::Masks(switch, _), false) = (&step, silent) {
            // It has no such table: from now on no tree leads over it.
            self.graph.node_mut(*switch).masks.give_up();
            applying.schedule.stop();
            self.pending.learnt = true;
            return;
        }
        // Whose key is another's is left out from now on, which is no failure. The own node cannot be.
        if silent && self.graph.hides_key(end) {
            self.pending.learnt |= !self.graph.is_locked(end);
            self.graph.lock(end, Lock::Key);
            if self.graph.node(end.0).is_switch() {
                applying.schedule.stop();
            }
            return;
        }
        let is_first = applying.failed.insert(end);
        if let (Step::QosTable(end, table), true) = (&step, applying.only_lanes) {
            return self.lane_table_failed((*end, *table), silent, is_first, now);
        }
        let what = self.read_again(&step);
        if is_first {
            self.failures.note(end, what, silent, now);
        }
        let carries_others = step.carries_others(&self.graph);
        self.pending.learnt |= carries_others || self.failures.count(end) == 1;
        if !carries_others {
            return;
        }
        if let Stage::Applying(applying) = &mut self.stage {
            applying.incomplete = true;
            if step.stops_all() {
                applying.schedule.stop();
            }
        }
        let its_tables = matches!(step, Step::Block(..) | Step::Dropping(..) | Step::Top(..));
        if its_tables && self.failures.count(end) > MOST_FAILURES && !self.graph.is_own(end.0) {
            self.graph.lock(end, Lock::Refuses);
        }
    }

    /// Has read again what a step may have written; which attribute that is.
    fn read_again(&mut self, step: &Step) -> &'static str {
        let (rechecks, graph) = (&mut self.pending.rechecks, &mut self.graph);
        if let Some(switch) = step.node().filter(|&node| graph.node(node).is_switch()) {
            rechecks.insert(Query::ReadSwitch(switch));
        }
        match *step {
            Step::Port((node, port), _) => {
                rechecks.insert(Query::ReadPort(node, port));
                "PortInfo"
            }
            Step::Keys((node, port), block, _) => {
                rechecks.insert(Query::ReadKeys(node, port, block));
                "P_KeyTable"
            }
            Step::QosTable((node, port), table) => {
                rechecks.insert(Query::ReadQosTable(node, port, table));
                table.name()
            }
            Step::Block(node, block) | Step::Dropping(node, block, _) => {
                graph.node_mut(node).shadow.forget_block(block);
                "LinearForwardingTable"
            }
            Step::Top(node, _) => {
                graph.node_mut(node).switch = None;
                "SwitchInfo"
            }
            Step::Masks(node, ref part) => {
                graph.node_mut(node).masks.forget(part.block, part.position);
                "MulticastForwardingTable"
            }
            Step::MulticastTop(node, _) => {
                graph.node_mut(node).switch = None;
                "SwitchInfo"
            }
            Step::Milestone | Step::Barrier => "",
        }
    }

    /// What was given is remembered, for ports that are not there now too.
    fn save(&mut self, target: &Target) {
        let mut saved = Saved { lmc: Some(target.routing.plan.lmc()), ..(*self.saved).clone() };
        let topology = &target.discovered.topology;
        let given = |lid| target.addresses.owner(Lid(lid)).is_some();
        // An address that another port got is no longer remembered for an absent one.
        saved.lids.retain(|_, (lid, lmc)| {
            let last = lid.0.saturating_add((lmc.addresses() - 1) as u16);
            !(lid.0..=last).any(given)
        });
        let addresses = target.addresses.iter();
        let lids = addresses.map(|(port, base, lmc)| (topology.port(port).guid, (base, lmc)));
        saved.lids.extend(lids);
        let places: Vec<_> = named_places(target).collect();
        saved.trees.retain(|_, place| !places.iter().any(|(_, given)| given == place));
        saved.trees.extend(places);
        saved.lineage = self.lineage(&saved);
        if saved != *self.saved {
            self.saved = Arc::new(saved);
            self.note_partitions();
            self.outputs.push_back(Output::Save(self.saved.clone()));
        }
    }
}

fn masks_taken(graph: &mut Graph, node: NodeId, part: &MaskBlock, mad: &Mad) -> bool {
    let Ok(table) = mad.attribute::<MulticastForwarding>() else { return false };
    let entries = table.masks.map(|mask| mask.0);
    graph.node_mut(node).masks.set(part.block, part.position, &entries);
    entries == part.entries
}

fn block_taken(
    graph: &mut Graph,
    node: NodeId,
    block: u16,
    mad: &Mad,
    wanted: Option<[u8; 64]>,
) -> bool {
    let Ok(table) = mad.attribute::<LinearForwarding>() else { return false };
    let ports = table.ports.map(|PortNum(port)| port);
    graph.node_mut(node).shadow.set_block(block, &ports);
    wanted == Some(ports)
}
