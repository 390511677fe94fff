//! Ports get their addresses and go up: both ends ARMED, then ACTIVE (IBA 14.4.3).

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::{Guid, Lid, PortIndex, PortNum};
use snin_mad::port::Capabilities;
use snin_mad::{MKey, PortInfo, PortState};
use snin_protocol::Time;

use crate::failures::Failures;
use crate::graph::Graph;
use crate::limits;
use crate::partitioning::{checking_trunks, writes};
use crate::qos_tables::{ports, tables, wanted};
use crate::query::{NodeId, PortId};
use crate::schedule::{PortWrite, Raise, Schedule, Step, StepId};
use crate::target::Target;
use crate::vls::{is_port_zero, operational_vls};
use snin_sm_database::config::Config;
use snin_sm_database::partition_plan::PartitionPlan;
use snin_sm_database::partitions::Block;

/// The ports that are left alone for now, since they did not take what was written last.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a> {
    pub(crate) failures: &'a Failures,
    /// Ports whose hosts have to register again.
    pub(crate) lapsed: &'a BTreeSet<Guid>,
    pub(crate) now: Time,
}

impl Held<'_> {
    fn holds(&self, end: PortId) -> bool {
        self.failures.holds(end, self.now)
    }
}

/// Moments that other steps wait for.
pub(crate) struct Milestones {
    /// Every link between switches is ACTIVE.
    pub(crate) links_up: StepId,
    /// Every table is written.
    pub(crate) tables: StepId,
}

/// Adds every write to a port that is due. Links between switches go up at once: nothing is forwarded over
/// them yet. Links to end ports go to ACTIVE when the tables are written: from then on their hosts expect to
/// be heard.
pub(crate) fn activate(
    schedule: &mut Schedule,
    graph: &Graph,
    target: &Target,
    partitions: PartitionPlan<'_>,
    manager: Lid,
    held: Held<'_>,
) -> Milestones {
    let (config, checks) = (partitions.config, BTreeMap::new());
    let mut ports = Ports { schedule, graph, target, config, partitions, manager, held, checks };
    let own = target.discovered.own_port(graph);
    let first = own.into_iter().chain(ports.switch_ports());
    let all: Vec<PortId> = first.map(|port| target.discovered.end(port)).collect();
    let own = own.map(|port| target.discovered.end(port));
    for &end in &all {
        if Some(end) != own || graph.node(end.0).is_switch() {
            ports.address(end, None);
        }
    }
    let keys = ports.partitions();
    ports.limits();
    let links = ports.links();
    let raised: Vec<Raised> = links.iter().map(|&link| ports.arm(link)).collect();
    let mut up = Vec::new();
    for link in raised.iter().filter(|link| !link.to_host) {
        up.extend(ports.activate(link));
    }
    let links_up = ports.schedule.add(Step::Milestone);
    up.into_iter().for_each(|step| ports.schedule.wait(step, links_up));
    let tables = ports.schedule.add(Step::Milestone);
    // A host is heard when it has its keys and no others.
    keys.into_iter().for_each(|step| ports.schedule.wait(step, tables));
    for link in raised.iter().filter(|link| link.to_host) {
        for step in ports.activate(link) {
            ports.schedule.wait(tables, step);
        }
    }
    Milestones { links_up, tables }
}

/// Adds the administrator's tables of service levels and lanes that are due. Nothing waits for them, and they come
/// last: no traffic needs them to arrive.
pub(crate) fn lanes(
    schedule: &mut Schedule,
    (config, graph): (&Config, &Graph),
    target: &Target,
    held: Held<'_>,
) {
    if !config.qos {
        return;
    }
    for end in ends(target, graph) {
        let Some(known) = graph.port(end).filter(|_| !held.holds(end)) else { continue };
        for table in tables(graph, end) {
            let Some(Some(now)) = known.qos_tables.get(&table) else { continue };
            if wanted(config, graph, end, table).is_some_and(|wanted| wanted != *now) {
                schedule.add(Step::QosTable(end, table));
            }
        }
    }
}

/// The ports whose tables are managed, as far as there are routes.
pub(crate) fn ends<'a>(
    target: &'a Target,
    graph: &'a Graph,
) -> impl Iterator<Item = PortId> + use<'a> {
    let discovered = &target.discovered;
    let nodes = discovered.topology.nodes().map(|node| discovered.id(node));
    let is_led_over = |end: &PortId| {
        let peer = |port| discovered.topology.peer(port);
        is_port_zero(graph, *end) || discovered.port(*end).and_then(peer).is_some()
    };
    nodes.flat_map(|id| ports(graph, id)).filter(is_led_over)
}

/// A link on its way up.
struct Raised {
    ends: [PortId; 2],
    to_host: bool,
    /// Its writes so far.
    arms: Vec<StepId>,
}

struct Ports<'a> {
    schedule: &'a mut Schedule,
    graph: &'a Graph,
    target: &'a Target,
    config: &'a Config,
    partitions: PartitionPlan<'a>,
    manager: Lid,
    held: Held<'a>,
    /// Writes that say what switches' ports check: what else is written to such a port comes after them.
    checks: BTreeMap<PortId, StepId>,
}

impl Ports<'_> {
    fn switch_ports(&self) -> impl Iterator<Item = PortIndex> + use<'_> {
        let topology = &self.target.discovered.topology;
        topology.switches().map(|switch| topology.port0(switch))
    }

    fn info(&self, end: PortId) -> Option<&PortInfo> {
        self.graph.port(end)?.info.as_ref()
    }

    /// The write that gives a port its addresses, if it has others; with it the port may go up, and its host is
    /// told to register again where what it had registered is forgotten.
    fn address(&mut self, end: PortId, state: Option<Raise>) -> Option<StepId> {
        let left_alone = self.held.holds(end) || self.graph.is_locked(end);
        let port = self.target.discovered.port(end).filter(|_| !left_alone)?;
        let info = self.info(end)?;
        let base = self.target.addresses.base(port);
        let lmc = self.target.addresses.lmc(port);
        let differs = |lid: &Lid| {
            (info.lid, info.lmc, info.master_sm_lid) != (*lid, lmc, self.manager)
                || info.gid_prefix != self.config.subnet_prefix()
                || !is_protected(self.graph, end, info)
                || self.limits_differ(end)
        };
        let address = base.filter(differs).map(|lid| (lid, lmc));
        let guid = self.target.discovered.topology.port(port).guid;
        let reregister = info.capabilities.has(Capabilities::CLIENT_REREGISTRATION)
            && self.held.lapsed.contains(&guid);
        let write = PortWrite { address, state, reregister, checks: None };
        (write != PortWrite::default()).then(|| self.schedule.add(Step::Port(end, write)))
    }

    /// Whether a port that has come up holds other limits than it shall. What comes up gets them as it is armed.
    fn limits_differ(&self, end: PortId) -> bool {
        let port = self.graph.port(end).filter(|port| !port.keeps_limits);
        let info = port.and_then(|port| port.info.as_ref());
        info.is_some_and(|info| limits::differs(self.config, self.graph, end, info))
    }

    /// Limits of switches' ports that are up: what gets an address has them written with it.
    fn limits(&mut self) {
        let topology = &self.target.discovered.topology;
        for port in topology.ports().filter(|&port| topology.peer(port).is_some()) {
            let end = self.target.discovered.end(port);
            let came_up = |info: &PortInfo| info.state != PortState::Initialize;
            if self.graph.node(end.0).is_switch()
                && !self.held.holds(end)
                && self.info(end).is_some_and(came_up)
                && self.limits_differ(end)
            {
                self.port(end, PortWrite::default());
            }
        }
    }

    /// A write to a port, after the one that says what it checks: each writes the rest as the port held it.
    fn port(&mut self, end: PortId, write: PortWrite) -> StepId {
        let step = self.schedule.add(Step::Port(end, write));
        if let Some(&checks) = self.checks.get(&end) {
            self.schedule.wait(checks, step);
        }
        step
    }

    /// Partition tables, of switches' ports before those of the end ports that they face.
    fn partitions(&mut self) -> Vec<StepId> {
        let mut all = Vec::new();
        for writes in writes(self.graph, self.target, self.partitions) {
            let facing = writes.facing.filter(|facing| !self.held.holds(facing.end));
            let mut before = Vec::new();
            if let Some(facing) = facing {
                before = self.keys(facing.end, facing.keys, &[]);
                if facing.checks.is_some() {
                    before = vec![self.check(facing.end, facing.checks, &before)];
                }
            }
            if !self.held.holds(writes.end) {
                all.extend(self.keys(writes.end, writes.keys, &before));
            }
            all.extend(before);
        }
        for end in checking_trunks(self.graph, self.target) {
            if !self.held.holds(end) {
                self.check(end, Some((false, false)), &[]);
            }
        }
        all
    }

    /// The blocks of a table, after what comes before them.
    fn keys(&mut self, end: PortId, keys: Vec<(u16, Block)>, before: &[StepId]) -> Vec<StepId> {
        let mut steps = Vec::new();
        for (block, keys) in keys {
            let step = self.schedule.add(Step::Keys(end, block, Box::new(keys)));
            before.iter().for_each(|&first| self.schedule.wait(first, step));
            steps.push(step);
        }
        steps
    }

    fn check(&mut self, end: PortId, checks: Option<(bool, bool)>, before: &[StepId]) -> StepId {
        let write = PortWrite { checks, ..PortWrite::default() };
        let step = self.schedule.add(Step::Port(end, write));
        before.iter().for_each(|&first| self.schedule.wait(first, step));
        self.checks.insert(end, step);
        step
    }

    /// Every cable, the own one first; last those between switches over which nothing leads until they are up.
    fn links(&self) -> Vec<[PortId; 2]> {
        let discovered = &self.target.discovered;
        let topology = &discovered.topology;
        let pair = |port| topology.peer(port).filter(|&peer| port < peer).map(|peer| [port, peer]);
        let links = topology.ports().filter_map(pair);
        let mut links: Vec<[PortId; 2]> =
            links.map(|ends| ends.map(|port| discovered.end(port))).collect();
        links.sort_by_key(|ends| !ends.iter().any(|&(node, _)| self.graph.is_own(node)));
        let left_out = |end: &PortId| {
            let led_over = discovered.port(*end).is_some_and(|port| topology.peer(port).is_some());
            self.graph.is_trunk(*end) && !led_over && !self.graph.withheld.contains(end)
        };
        let due = self.held.failures.due(self.held.now).filter(left_out);
        let again: BTreeSet<[PortId; 2]> = due
            .filter_map(|end| {
                let other = self.graph.link(end)?.to;
                Some([end.min(other), end.max(other)])
            })
            .collect();
        links.extend(again);
        links
    }

    fn arm(&mut self, ends: [PortId; 2]) -> Raised {
        let is_end = |end: PortId| !self.graph.node(end.0).is_switch();
        let base = |end: PortId| {
            let port = self.target.discovered.port(end)?;
            self.target.addresses.base(port)
        };
        let to_host = ends.iter().any(|&end| is_end(end));
        // A port without addresses stays INIT, and so does the one at the other end; and so do both while
        // one of them is left alone.
        let kept_down =
            ends.iter().any(|&end| is_end(end) && base(end).is_none() || self.held.holds(end));
        let are_ends = ends.map(is_end);
        let mut arms = Vec::new();
        for (end, is_end) in ends.into_iter().zip(are_ends) {
            let init = self.info(end).is_some_and(|info| info.state == PortState::Initialize);
            let state = (init && !kept_down).then_some(Raise::ToArmed);
            if is_end {
                arms.extend(self.address(end, state));
            } else if state.is_some() {
                let write = PortWrite { state, ..PortWrite::default() };
                arms.push(self.port(end, write));
            }
        }
        let ends = if kept_down { [(NodeId::FIRST, PortNum::NONE); 2] } else { ends };
        Raised { ends, to_host, arms }
    }

    fn activate(&mut self, link: &Raised) -> Vec<StepId> {
        let mut steps = Vec::new();
        for end in link.ends {
            let state = self.info(end).map(|info| info.state);
            if matches!(state, Some(PortState::Initialize | PortState::Armed)) {
                let write = PortWrite { state: Some(Raise::ToActive), ..PortWrite::default() };
                let step = self.port(end, write);
                link.arms.iter().for_each(|&arm| self.schedule.wait(arm, step));
                steps.push(step);
            }
        }
        steps
    }
}

/// Whether a port has the manager's key, and guards it as it shall; without one, whether it has none either.
/// One that hides its key has one.
fn is_protected(graph: &Graph, end: PortId, info: &PortInfo) -> bool {
    let held = (info.m_key, info.m_key_protect, info.m_key_lease_period);
    let wanted = graph.protection(end);
    let has_none = info.m_key == MKey(0) && info.m_key_protect == 0;
    held == wanted || wanted.0 == MKey(0) && has_none
}

/// Whether keys are written to this port: of a switch only to port 0 (IBA 14.2.5.6).
pub(crate) fn is_guarded(graph: &Graph, (node, port): PortId) -> bool {
    !graph.node(node).is_switch() || port == PortNum::ZERO
}

/// The PortInfo that a step writes.
pub(crate) fn port_info(
    graph: &Graph,
    end: PortId,
    write: PortWrite,
    config: &Config,
    manager: Lid,
) -> Option<PortInfo> {
    let held = graph.port(end)?.info.as_ref()?;
    let mut info = held.clone();
    info.state = match write.state {
        None => PortState::NoChange,
        Some(Raise::ToArmed) => PortState::Armed,
        Some(Raise::ToActive) => PortState::Active,
    };
    info.physical_state = snin_mad::PhysicalState::NoChange;
    info.link_down_default_state = snin_mad::port::LinkDownState::NoChange;
    info.client_reregister = write.reregister;
    if let Some((inbound, outbound)) = write.checks {
        info.partition_enforcement_inbound = inbound;
        info.partition_enforcement_outbound = outbound;
    }
    if let Some((lid, lmc)) = write.address {
        let new = (held.lid, held.master_sm_lid) != (lid, manager);
        info.client_reregister |= new && held.capabilities.has(Capabilities::CLIENT_REREGISTRATION);
        (info.lid, info.lmc) = (lid, lmc);
        info.master_sm_lid = manager;
        info.gid_prefix = config.subnet_prefix();
    }
    limits::limit(config, graph, end, &mut info);
    if is_guarded(graph, end) {
        (info.m_key, info.m_key_protect, info.m_key_lease_period) = graph.protection(end);
    }
    if write.state == Some(Raise::ToArmed)
        && let Some(other) = graph.link(end).and_then(|link| graph.port(link.to)?.info.as_ref())
    {
        // What both ends can. Only in INIT may these change without harm (IBA 14.2.5.6).
        let mtus = [held.mtu_cap, other.mtu_cap];
        info.neighbor_mtu = mtus.into_iter().min_by_key(|mtu| mtu.code())?;
        info.operational_vls = operational_vls(config, graph, end)?;
    }
    Some(info)
}

/// Whether the answer to a write says that it took.
pub(crate) fn took(write: PortWrite, info: &PortInfo) -> bool {
    let state = match write.state {
        None => true,
        Some(Raise::ToArmed) => info.state.code() >= PortState::Armed.code(),
        Some(Raise::ToActive) => info.state.code() >= PortState::Active.code(),
    };
    state && write.address.is_none_or(|(lid, lmc)| (info.lid, info.lmc) == (lid, lmc))
}
