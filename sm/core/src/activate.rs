//! Ports get their addresses and go up: both ends ARMED, then ACTIVE (IBA 14.4.3).

use snin_fabric::{PortIndex, PortNum};
use snin_mad::port::Capabilities;
use snin_mad::{MKey, PortInfo, PortState};

use super::ask::{End, NodeId};
use super::graph::Graph;
use super::lanes::{operational_vls, wanted};
use super::planning::Target;
use super::schedule::{PortWrite, Raise, Schedule, Step, StepId};
use crate::config::Config;
use snin_fabric::Lid;

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
    config: &Config,
    manager: Lid,
) -> Milestones {
    let mut ports = Ports { schedule, graph, target, config, manager };
    let own = target.discovered.own_port(graph);
    let first = own.into_iter().chain(ports.switch_ports());
    let all: Vec<PortIndex> = first.collect();
    for &port in &all {
        let end = target.discovered.end(port);
        if Some(port) != own || graph.node(end.0).is_switch() {
            ports.address(port, None);
        }
    }
    ports.partitions();
    if config.qos {
        ports.lanes();
    }
    let links = ports.links();
    let raised: Vec<Raised> = links.iter().map(|&link| ports.arm(link)).collect();
    let mut up = Vec::new();
    for link in raised.iter().filter(|link| !link.to_host) {
        up.extend(ports.activate(link));
    }
    let links_up = ports.schedule.add(Step::Milestone);
    up.into_iter().for_each(|step| ports.schedule.wait(step, links_up));
    let tables = ports.schedule.add(Step::Milestone);
    for link in raised.iter().filter(|link| link.to_host) {
        for step in ports.activate(link) {
            ports.schedule.wait(tables, step);
        }
    }
    Milestones { links_up, tables }
}

/// A link on its way up.
struct Raised {
    ends: [End; 2],
    to_host: bool,
    /// Its writes so far.
    arms: Vec<StepId>,
}

struct Ports<'a> {
    schedule: &'a mut Schedule,
    graph: &'a Graph,
    target: &'a Target,
    config: &'a Config,
    manager: Lid,
}

impl Ports<'_> {
    fn switch_ports(&self) -> impl Iterator<Item = PortIndex> + use<'_> {
        let topology = &self.target.discovered.topology;
        topology.switches().map(|switch| topology.port0(switch))
    }

    fn info(&self, end: End) -> Option<&PortInfo> {
        self.graph.port(end)?.info.as_ref()
    }

    /// The write that gives a port its addresses, if it has others; with it the port may go up.
    fn address(&mut self, port: PortIndex, state: Option<Raise>) -> Option<StepId> {
        let end = self.target.discovered.end(port);
        let info = self.info(end)?;
        let base = self.target.addresses.base(port);
        let lmc = self.target.addresses.lmc(port);
        let differs = |lid: &Lid| {
            (info.lid, info.lmc, info.master_sm_lid) != (*lid, lmc, self.manager)
                || info.gid_prefix != self.config.subnet_prefix()
                || !is_protected(info, self.config)
        };
        let address = base.filter(differs).map(|lid| (lid, lmc));
        (address.is_some() || state.is_some())
            .then(|| self.schedule.add(Step::Port(end, PortWrite { address, state })))
    }

    fn partitions(&mut self) {
        let wanted = self.config.partition_block();
        for (port, ..) in self.target.addresses.iter() {
            let end = self.target.discovered.end(port);
            let keys = self.graph.port(end).and_then(|port| port.keys.as_deref());
            if keys.is_some_and(|keys| keys != &wanted) {
                self.schedule.add(Step::Keys(end));
            }
        }
    }

    /// Tables of service levels and lanes. Ports that are still INIT get their limit when they are armed.
    fn lanes(&mut self) {
        let topology = &self.target.discovered.topology;
        for port in topology.ports().filter(|&port| topology.peer(port).is_some()) {
            let end = self.target.discovered.end(port);
            let held = self.graph.port(end).into_iter().flat_map(|port| &port.lanes);
            for (&table, held) in held {
                let wanted = wanted(self.config, self.graph, end, table);
                if held.is_some() && wanted.is_some() && *held != wanted {
                    self.schedule.add(Step::Lanes(end, table));
                }
            }
            let limit = self.config.qos_high_limit;
            let other = |info: &PortInfo| {
                info.vl_high_limit != limit && info.state != PortState::Initialize
            };
            if self.info(end).is_some_and(other) {
                self.schedule.add(Step::Port(end, PortWrite::default()));
            }
        }
    }

    /// Every cable, the own one first.
    fn links(&self) -> Vec<[PortIndex; 2]> {
        let topology = &self.target.discovered.topology;
        let own = self.target.discovered.index(NodeId::OWN);
        let pair = |port| topology.peer(port).filter(|&peer| port < peer).map(|peer| [port, peer]);
        let mut links: Vec<[PortIndex; 2]> = topology.ports().filter_map(pair).collect();
        links.sort_by_key(|ends| !ends.iter().any(|&end| Some(topology.port(end).node) == own));
        links
    }

    fn arm(&mut self, ends: [PortIndex; 2]) -> Raised {
        let topology = &self.target.discovered.topology;
        let is_end = |port: PortIndex| !topology.is_switch(topology.port(port).node);
        let to_host = ends.iter().any(|&end| is_end(end));
        // A port without addresses stays INIT, and so does the one at the other end.
        let kept_down =
            ends.iter().any(|&end| is_end(end) && self.target.addresses.base(end).is_none());
        let mut arms = Vec::new();
        for port in ends {
            let end = self.target.discovered.end(port);
            let init = self.info(end).is_some_and(|info| info.state == PortState::Initialize);
            let state = (init && !kept_down).then_some(Raise::ToArmed);
            if is_end(port) {
                arms.extend(self.address(port, state));
            } else if state.is_some() {
                let write = PortWrite { address: None, state };
                arms.push(self.schedule.add(Step::Port(end, write)));
            }
        }
        let ends = if kept_down {
            [(NodeId::OWN, PortNum::NONE); 2]
        } else {
            ends.map(|port| self.target.discovered.end(port))
        };
        Raised { ends, to_host, arms }
    }

    fn activate(&mut self, link: &Raised) -> Vec<StepId> {
        let mut steps = Vec::new();
        for end in link.ends {
            let state = self.info(end).map(|info| info.state);
            if matches!(state, Some(PortState::Initialize | PortState::Armed)) {
                let write = PortWrite { address: None, state: Some(Raise::ToActive) };
                let step = self.schedule.add(Step::Port(end, write));
                link.arms.iter().for_each(|&arm| self.schedule.wait(arm, step));
                steps.push(step);
            }
        }
        steps
    }
}

/// Whether a port has the manager's key, and guards it as it shall; without one, whether it shows none.
fn is_protected(info: &PortInfo, config: &Config) -> bool {
    let held = (info.m_key, info.m_key_protect, info.m_key_lease_period);
    held == config.protection() || config.m_key == 0 && info.m_key == MKey(0)
}

/// Whether keys are written to this port: of a switch only to port 0 (IBA 14.2.5.6).
pub(crate) fn is_guarded(graph: &Graph, (node, port): End) -> bool {
    !graph.node(node).is_switch() || port == PortNum::ZERO
}

/// The PortInfo that a step writes.
pub(crate) fn port_info(
    graph: &Graph,
    end: End,
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
    info.client_reregister = false;
    if let Some((lid, lmc)) = write.address {
        let new = (held.lid, held.master_sm_lid) != (lid, manager);
        info.client_reregister = new && held.capabilities.has(Capabilities::CLIENT_REREGISTRATION);
        (info.lid, info.lmc) = (lid, lmc);
        info.master_sm_lid = manager;
        info.gid_prefix = config.subnet_prefix();
        info.master_sm_sl = 0;
    }
    if is_guarded(graph, end) {
        (info.m_key, info.m_key_protect, info.m_key_lease_period) = config.protection();
    }
    if config.qos {
        info.vl_high_limit = config.qos_high_limit;
    }
    if write.state == Some(Raise::ToArmed)
        && let Some(other) = graph.link(end).and_then(|link| graph.port(link.to)?.info.as_ref())
    {
        // What both ends can. Only in INIT may these change without harm (IBA 14.2.5.6).
        let mtus = [held.mtu_cap, other.mtu_cap];
        info.neighbor_mtu = mtus.into_iter().min_by_key(|mtu| mtu.code())?;
        info.operational_vls = operational_vls(graph, end)?;
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
