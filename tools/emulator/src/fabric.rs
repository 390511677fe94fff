//! The hardware of a whole fabric, and what a test may look at that no manager can.

use snin_fabric::addresses::AddressError;
use snin_fabric::{
    Addresses, ForwardingTable, Guid, Lid, LinkRate, Lmc, NodeIndex, NodeKind, PortIndex, PortNum,
    Speed, Topology,
};
use snin_mad::port::Capabilities2;
use snin_mad::{AttributeId, LinearForwarding, MKey, NodeString, PortInfo, PortState, SwitchInfo};
use snin_mad::{PhysicalState, Table};
use snin_protocol::Time;

use crate::config::{Config, Noise};
use crate::counters::Counters;
use crate::hardware::{Blank, Health, NO_PORT, Node, Port, Switch, image};

/// Every node and port, with what managers wrote into them.
pub struct Fabric {
    topology: Topology,
    config: Config,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ports: Vec<Port>,
    /// What the hardware wants to happen later; taken away by the emulator after every event.
    pub(crate) wishes: Vec<Wish>,
}

/// What hardware wants to happen later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// The port and its peer train.
    Train(u32),
    /// The port takes its link down when what it sends now has left.
    Rest(u32),
    /// The port has a trap to send.
    Trap(u32),
}

/// A write that an agent accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// When.
    pub at: Time,
    /// Where.
    pub node: NodeIndex,
    /// What.
    pub attribute: AttributeId,
    /// Which instance: port, block...
    pub modifier: u32,
    /// Where a port's link is disabled: the port's state before. The link over which the write came goes down when
    /// the answer has left.
    pub disables: Option<PortState>,
}

impl Fabric {
    pub(crate) fn new(topology: &Topology, config: Config) -> Self {
        let node = |index| new_node(topology, &config, index);
        let nodes: Vec<Node> = topology.nodes().map(node).collect();
        let ports = topology.ports().map(|index| new_port(topology, index)).collect();
        let mut fabric =
            Self { topology: topology.clone(), config, nodes, ports, wishes: Vec::new() };
        for port in 0..fabric.ports.len() as u32 {
            fabric.reset_port(port);
        }
        for port in 0..fabric.ports.len() as u32 {
            if fabric.can_train(port) {
                fabric.ports[port as usize].set_physical(PhysicalState::LinkUp);
                fabric.ports[port as usize].set_state(PortState::Initialize);
            }
        }
        fabric
    }

    /// Forgets everything that was written to a node, as a loss of power does. Its links are down.
    pub(crate) fn reset_node(&mut self, node: u32) {
        let model = self.config.model(NodeIndex(node));
        let state = &mut self.nodes[node as usize];
        state.led = false;
        state.busy_until = Time::ZERO;
        state.waiting = 0;
        if let Some(switch) = &mut state.switch {
            let enhanced = self.topology.node(NodeIndex(node)).enhanced_port0;
            **switch = Switch::new(model, enhanced);
        }
        for port in self.ports_of(node) {
            self.reset_port(port);
        }
    }

    fn reset_port(&mut self, index: u32) {
        let (node, num) = {
            let port = &self.ports[index as usize];
            (port.node, port.num)
        };
        let blank = match &self.nodes[node as usize].switch {
            Some(switch) => Blank::of_switch(&switch.model, num),
            None => Blank::of_adapter(&self.config.adapter),
        };
        let mut info = blank.port_info(num);
        run_at(&mut info, self.topology.port(PortIndex(index)).rate.unwrap_or(LinkRate::NDR4));
        if num == 0 {
            info.state = PortState::Active;
            info.physical_state = PhysicalState::LinkUp;
        }
        let port = &mut self.ports[index as usize];
        port.info = image(&info);
        port.free_at = Time::ZERO;
        port.counters = Counters::default();
        port.counted_from = None;
        port.tables = None;
        if let Some(notices) = &mut port.notices {
            notices.clear();
        }
        port.lease_ends = None;
        port.rest = None;
    }

    pub(crate) fn ports_of(&self, node: u32) -> std::ops::RangeInclusive<u32> {
        let node = &self.nodes[node as usize];
        node.first_port..=node.first_port + u32::from(node.ports)
    }

    /// The port that a node is managed by when a MAD comes in by `port`: a switch's port 0, an adapter's own.
    pub(crate) fn end_port(&self, port: u32) -> u32 {
        let node = &self.nodes[self.ports[port as usize].node as usize];
        if node.is_switch() { node.first_port } else { port }
    }

    pub(crate) fn node_of(&self, port: u32) -> &Node {
        &self.nodes[self.ports[port as usize].node as usize]
    }

    /// What was behind port `a` is behind port `b` from now on, and the other way round.
    pub(crate) fn change_places(&mut self, a: u32, b: u32) {
        self.recable(self.topology.with_swapped_cables(PortIndex(a), PortIndex(b)));
    }

    /// From now on cables are as they are there.
    pub(crate) fn recable(&mut self, topology: Topology) {
        self.topology = topology;
        for port in self.topology.ports() {
            self.ports[port.index()].cable =
                self.topology.peer(port).map_or(NO_PORT, |peer| peer.0);
        }
    }

    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    /// What is emulated, with all its cables as they are now.
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The topology without the cables over which nothing can pass now: those that are cut, and those whose
    /// link is down for another reason. Indices are those of [`Fabric::topology`].
    pub fn live_topology(&self) -> Topology {
        let is_down = |port: &PortIndex| self.port_state(*port) == PortState::Down;
        let down: Vec<PortIndex> = self.topology.ports().filter(is_down).collect();
        self.topology.without_cables(&down)
    }

    /// What every switch's table forwards now, by switch: up to LinearFDBTop, as [`snin_fabric::check`]
    /// wants it.
    pub fn tables(&self) -> Vec<ForwardingTable> {
        self.topology.switches().map(|switch| self.table(switch)).collect()
    }

    /// What one switch's table forwards now.
    pub fn table(&self, switch: NodeIndex) -> ForwardingTable {
        let Some(switch) = &self.nodes[switch.index()].switch else {
            return ForwardingTable::default();
        };
        let mut table = ForwardingTable::up_to(switch.info.linear_fdb_top);
        let length = table.len().min(switch.linear.len());
        table.set_row(Lid(0), &switch.linear[..length]);
        table
    }

    /// The port by which a switch forwards an address now; 0: it is its own.
    pub fn forwards(&self, switch: NodeIndex, lid: Lid) -> Option<PortNum> {
        let switch = self.nodes[switch.index()].switch.as_deref()?;
        switch.forward(lid).map(PortNum)
    }

    /// Which port answers to which LID.
    ///
    /// # Errors
    /// The first port whose addresses are misaligned or taken.
    pub fn addresses(&self) -> Result<Addresses, (PortIndex, AddressError)> {
        let mut addresses = Addresses::none(self.ports.len());
        for (index, port) in self.ports.iter().enumerate() {
            if port.lid() != Lid::NONE {
                let index = PortIndex(index as u32);
                let lmc = port.view().lmc();
                addresses.assign(index, port.lid(), lmc).map_err(|error| (index, error))?;
            }
        }
        Ok(addresses)
    }

    /// PortState of a port.
    pub fn port_state(&self, port: PortIndex) -> PortState {
        self.ports[port.index()].state()
    }

    /// PortInfo of a port, the M_Key too. An M_Key lease that ran out shows only after the next SMP.
    pub fn port_info(&self, port: PortIndex) -> PortInfo {
        PortInfo::parse(&self.ports[port.index()].info).unwrap_or_default()
    }

    /// SwitchInfo of a switch; `None` for other nodes.
    pub fn switch_info(&self, node: NodeIndex) -> Option<&SwitchInfo> {
        self.nodes[node.index()].switch.as_deref().map(|switch| &switch.info)
    }

    /// What a port counted.
    pub fn counters(&self, port: PortIndex) -> &Counters {
        &self.ports[port.index()].counters
    }

    /// How often a port was told to ask its clients to register again (PortInfo:ClientReregister).
    pub fn reregistrations(&self, port: PortIndex) -> u64 {
        self.ports[port.index()].reregistrations
    }

    /// Whether a node has power.
    pub fn is_powered(&self, node: NodeIndex) -> bool {
        self.nodes[node.index()].powered
    }

    /// Every link is at `state`: both ends of every cable.
    pub fn all_links(&self, state: PortState) -> bool {
        let cabled = |port: &PortIndex| self.topology.peer(*port).is_some();
        self.topology.ports().filter(cabled).all(|port| self.port_state(port) == state)
    }

    /// As if a manager had been here: addresses, tables, LinearFDBTop and MasterSMLID written, every link
    /// that is up active. What is in neither stays as it is.
    pub(crate) fn configure(
        &mut self,
        addresses: &Addresses,
        tables: &[ForwardingTable],
        master: Lid,
    ) {
        for (port, lid, lmc) in addresses.iter() {
            self.address(port, lid, lmc);
            let info = &mut self.ports[port.index()].info;
            PortInfo::edit(info).master_sm_lid(master);
        }
        for (node, table) in self.nodes.iter_mut().zip(tables) {
            if let Some(switch) = &mut node.switch {
                let cap = usize::from(switch.info.linear_fdb_cap);
                let blocks = table.len().div_ceil(LinearForwarding::EMPTY.ports.len());
                let length = (blocks * LinearForwarding::EMPTY.ports.len()).min(cap);
                switch.linear.clear();
                switch.linear.extend(table.entries().take(length));
                switch.linear.resize(length, PortNum::NONE.0);
                let top = table.len().min(cap).saturating_sub(1);
                switch.info.linear_fdb_top = Lid(top as u16);
            }
        }
        for port in &mut self.ports {
            if port.state() == PortState::Initialize {
                port.set_state(PortState::Active);
            }
        }
    }

    pub(crate) fn address(&mut self, port: PortIndex, lid: Lid, lmc: Lmc) {
        PortInfo::edit(&mut self.ports[port.index()].info).lid(lid).lmc(lmc);
    }

    pub(crate) fn protect(&mut self, port: PortIndex, key: MKey, protect: u8, lease: u16) {
        PortInfo::edit(&mut self.ports[port.index()].info)
            .m_key(key)
            .m_key_protect(protect & 3)
            .m_key_lease_period(lease);
    }
}

/// Shows a rate, and the capabilities that go with it (IBA 14.2.5.6, CapabilityMask2).
fn run_at(info: &mut PortInfo, rate: LinkRate) {
    info.set_rate(rate);
    let needs = [
        (Speed::Hdr, Capabilities2::LINK_SPEED_HDR),
        (Speed::Ndr, Capabilities2::LINK_SPEED_NDR),
        (Speed::Xdr, Capabilities2::EXTENDED_SPEEDS2.with(Capabilities2::LINK_SPEED_XDR)),
    ];
    for (_, capability) in needs.iter().filter(|(speed, _)| rate.speed >= *speed) {
        info.capabilities2 = info.capabilities2.with(*capability);
    }
}

fn new_node(topology: &Topology, config: &Config, index: NodeIndex) -> Node {
    let node = topology.node(index);
    let model = config.model(index);
    let is_switch = node.kind == NodeKind::Switch;
    Node {
        kind: node.kind,
        guid: node.guid,
        system_image: node.system_image,
        vendor: node.vendor,
        device: node.device,
        ports: node.ports,
        first_port: topology.port0(index).0,
        description: NodeString::new(&node.name),
        partition_cap: if is_switch { model.partition_cap } else { config.adapter.partition_cap },
        led: false,
        powered: true,
        life: 0,
        health: Health::Well,
        application: true,
        busy_until: Time::ZERO,
        waiting: 0,
        switch: is_switch.then(|| Box::new(Switch::new(model, node.enhanced_port0))),
    }
}

fn new_port(topology: &Topology, index: PortIndex) -> Port {
    let port = topology.port(index);
    let own = topology.node(port.node).guid;
    Port {
        node: port.node.0,
        num: topology.num(index).0,
        guid: if port.guid == Guid(0) { own } else { port.guid },
        cable: topology.peer(index).map_or(NO_PORT, |peer| peer.0),
        cut: false,
        rest: None,
        info: [0; 64],
        attempt: 0,
        free_at: Time::ZERO,
        counters: Counters::default(),
        counted_from: None,
        tables: None,
        notices: None,
        lease_ends: None,
        noise: Noise::NONE,
        symbol_errors: 0,
        refuses: false,
        client: None,
        reregistrations: 0,
    }
}
