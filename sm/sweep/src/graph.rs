//! The known fabric: nodes, their ports, which port is cabled to which, and the way to each.

pub(crate) mod homes;
mod keys;
mod recall;
mod unread;
mod ways;

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::{Guid, Lid, NodeKind, PortNum};
use snin_mad::{NodeInfo, PortInfo, PortState, SmInfo, SwitchInfo};
use snin_protocol::Time;

use self::homes::Homes;
use crate::keyring::Keyring;
use crate::lft_shadow::LftShadow;
use crate::mft_shadow::Masks;
use crate::query::{NodeId, PortId};
use snin_sm_database::directed_route::DirectedRoute;
use snin_sm_database::partitions;
use snin_sm_database::qos_table::{LaneUse, QosTable, QosTableId};

/// A cable, seen from one end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The other end.
    pub(crate) to: PortId,
    /// The survey that last asked who is there.
    pub(crate) confirmed: u32,
}

/// Why there is no link although the cable is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// The neighbour does not answer.
    Mute,
    /// The neighbour has a GUID that another node has already.
    Clash(Guid),
}

/// Why a port is left as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lock {
    /// It is guarded by a key that it does not show.
    Key,
    /// The switch takes no writes to its tables, however often they are tried.
    Refuses,
}

/// How much of partition tables is read.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct KeyTables {
    /// All blocks. Else the first, where every port has the default partition and no other: further ones only of
    /// ports that another manager put into others.
    pub(crate) whole: bool,
    /// Those of switches' ports that face end ports, too.
    pub(crate) checked: bool,
}

/// One port of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Port {
    /// PortGUID, where it was told.
    pub(crate) guid: Option<Guid>,
    /// PortInfo as last read or written.
    pub(crate) info: Option<PortInfo>,
    /// Its partition table as last read or written, from its first block on.
    pub(crate) keys: Vec<partitions::Block>,
    /// Tables of service levels and lanes as last read or written; none where the agent has no such table.
    pub qos_tables: BTreeMap<QosTableId, Option<QosTable>>,
    /// It was in INIT since those were last known: what a reset left in them need not be read.
    pub(crate) was_init: bool,
    /// The other subnet manager that sits here, as it last spoke of itself.
    pub(crate) manager: Option<SmInfo>,
    /// The how manieth of the keys that it may have it is shown.
    pub(crate) guess: u8,
    pub(crate) link: Option<Link>,
    pub(crate) trouble: Option<Trouble>,
    /// The node that was behind it until it stopped to answer there.
    pub(crate) formerly: Option<NodeId>,
    /// Why it is left as it is: port 0 for its switch.
    pub(crate) locked: Option<Lock>,
    /// Active since before the last schedule began: proof that its switch has not been reset since.
    pub(crate) steady: bool,
    /// It took a write and kept other limits than were written: they are not written again for their own sake.
    pub(crate) keeps_limits: bool,
}

impl Port {
    /// Its tables of service levels and lanes are not known any more.
    pub(crate) fn forget_qos_tables(&mut self) {
        self.qos_tables.clear();
        let info = self.info.as_ref();
        self.was_init = info.is_some_and(|info| info.state == PortState::Initialize);
    }

    /// Whether SMPs pass: not DOWN.
    pub(crate) fn is_up(&self) -> bool {
        self.info.as_ref().is_some_and(is_up)
    }
}

/// Not DOWN.
pub(crate) const fn is_up(info: &PortInfo) -> bool {
    matches!(
        info.state,
        PortState::Initialize | PortState::Armed | PortState::Active | PortState::ActiveDefer
    )
}

/// One switch, adapter or router.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) info: NodeInfo,
    /// NodeDescription, once it was told.
    pub(crate) name: Option<Box<str>>,
    pub(crate) switch: Option<SwitchInfo>,
    /// It took a write of SwitchInfo and kept its own LifeTimeValue.
    pub(crate) keeps_life_time: bool,
    /// By number, port 0 included.
    pub(crate) ports: Vec<Port>,
    pub(crate) shadow: LftShadow,
    pub(crate) masks: Masks,
    /// The survey that last met it.
    pub(crate) seen: u32,
    /// When it last answered.
    pub(crate) heard: Time,
    /// The way there; none while it cannot be reached.
    pub(crate) path: Option<DirectedRoute>,
    /// Two switches claim to be this one: only what its own ports see holds.
    pub(crate) contested: bool,
    /// It answered once and then no more.
    pub(crate) lost: bool,
    /// Some port went down or came up since its table was last known for sure.
    pub(crate) shaken: bool,
    /// The survey that last took its table for unknown.
    pub(crate) mirrored: u32,
    /// Something of it or its ports may be other than it was when it was last written into the database.
    pub(crate) touched: bool,
}

impl Node {
    fn new(info: NodeInfo) -> Self {
        Self {
            kind: info.node_type.kind(),
            name: None,
            switch: None,
            keeps_life_time: false,
            ports: vec![Port::default(); usize::from(info.num_ports) + 1],
            shadow: LftShadow::default(),
            masks: Masks::default(),
            seen: 0,
            heard: Time::ZERO,
            path: None,
            contested: false,
            lost: false,
            shaken: false,
            mirrored: 0,
            touched: true,
            info,
        }
    }

    pub(crate) fn is_switch(&self) -> bool {
        self.kind == NodeKind::Switch
    }

    pub(crate) const fn guid(&self) -> Guid {
        self.info.node_guid
    }

    /// Whether no port that is cabled takes writes.
    pub(crate) fn is_locked(&self) -> bool {
        if self.is_switch() {
            return self.ports.first().is_some_and(|port| port.locked.is_some());
        }
        let mut cabled = self.ports.iter().filter(|port| port.link.is_some()).peekable();
        cabled.peek().is_some() && cabled.all(|port| port.locked.is_some())
    }

    /// Its external ports.
    pub(crate) fn external(&self) -> impl Iterator<Item = (PortNum, &Port)> {
        self.ports.iter().enumerate().skip(1).map(|(num, port)| (PortNum(num as u8), port))
    }

    /// The name that people know it by.
    pub(crate) fn label(&self) -> String {
        match self.name.as_deref() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => self.guid().to_string(),
        }
    }
}

/// More nodes than a subnet has addresses are a mistake or an attack.
const MOST_NODES: usize = 1 << 17;

/// Everything known.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    by_guid: BTreeMap<Guid, NodeId>,
    by_port_guid: BTreeMap<Guid, PortId>,
    /// Which key guards which port.
    pub(crate) keyring: Keyring,
    /// How much of partition tables is read.
    pub(crate) key_tables: KeyTables,
    /// Switches' ports whose cables are left out of routes: what is behind them is not as it is expected, or
    /// is being tested.
    pub(crate) withheld: BTreeSet<PortId>,
    /// What tables of lanes are for.
    pub(crate) lanes: LaneUse,
    /// Where the manager itself is.
    pub(crate) homes: Homes,
}

impl Graph {
    /// Nothing known but the keys, the partitions and how many local ports there are.
    pub(crate) fn guarded_by(keyring: Keyring, key_tables: KeyTables, ports: u8) -> Self {
        Self { keyring, key_tables, homes: Homes::new(ports), ..Self::default() }
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        let node = &mut self.nodes[id.index()];
        node.touched = true;
        node
    }

    pub(crate) fn port(&self, (node, port): PortId) -> Option<&Port> {
        self.nodes.get(node.index())?.ports.get(port.index())
    }

    pub(crate) fn port_mut(&mut self, (node, port): PortId) -> Option<&mut Port> {
        let node = self.nodes.get_mut(node.index())?;
        node.touched = true;
        node.ports.get_mut(port.index())
    }

    /// Everything of these nodes is in the database.
    pub(crate) fn settle(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        nodes.into_iter().for_each(|id| self.nodes[id.index()].touched = false);
    }

    /// Every node ever met.
    pub(crate) fn ids(
        &self,
    ) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// Every node that can be reached.
    pub(crate) fn reachable(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.ids().map(|id| (id, self.node(id))).filter(|(_, node)| node.path.is_some())
    }

    /// Every node that can be reached and takes writes.
    pub(crate) fn managed(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.reachable().filter(|&(id, node)| !node.is_locked() || self.is_own(id))
    }

    /// The node with this GUID.
    pub(crate) fn find(&self, guid: Guid) -> Option<NodeId> {
        self.by_guid.get(&guid).copied()
    }

    /// The node that says this of itself; a new one if it was never met, `None` when there are too many.
    pub(crate) fn admit(&mut self, info: &NodeInfo) -> Option<NodeId> {
        if let Some(id) = self.find(info.node_guid) {
            return Some(id);
        }
        if self.nodes.len() >= MOST_NODES {
            return None;
        }
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node::new(info.clone()));
        self.by_guid.insert(info.node_guid, id);
        Some(id)
    }

    /// Another node behind the same GUID: its hardware was exchanged. The ports that the other one hung on.
    pub(crate) fn replace(&mut self, id: NodeId, info: &NodeInfo) -> Vec<PortId> {
        let ends = self.isolate(id);
        self.nodes[id.index()] = Node::new(info.clone());
        ends
    }

    /// Switches that were there and are not.
    pub(crate) fn miss_switches(&mut self) {
        let gone = |node: &&mut Node| node.path.is_none() && node.switch.is_some();
        self.nodes.iter_mut().filter(gone).for_each(|node| node.lost = true);
    }

    /// What is out of reach is not missed any more: that is how the fabric is.
    pub(crate) fn forgive(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.path.is_none()) {
            (node.lost, node.switch) = (false, None);
        }
    }

    /// Whether something is behind a port that no SMP reaches: a path has 63 hops at most.
    pub(crate) fn is_too_far(&self, end: PortId) -> bool {
        let node = self.node(end.0);
        let Some(path) = node.path.filter(|_| node.is_switch()) else { return false };
        let out = self.port(end).filter(|port| port.is_up());
        let reached =
            |port: &Port| port.link.is_some_and(|link| self.node(link.to.0).path.is_some());
        path.then(end.1).is_none() && out.is_some_and(|port| !reached(port))
    }

    /// Forgets all but which GUID has which place.
    pub(crate) fn forget(&mut self) {
        self.by_port_guid.clear();
        for node in &mut self.nodes {
            *node = Node::new(node.info.clone());
        }
    }

    /// Notes the GUID of the port that was met from `via`; if another port has it, that one.
    pub(crate) fn claim_port_guid(
        &mut self,
        end: PortId,
        guid: Guid,
        via: Option<PortId>,
    ) -> Option<PortId> {
        let holder = self.by_port_guid.get(&guid).copied().filter(|&holder| {
            let port = self.port(holder).filter(|port| port.guid == Some(guid));
            let linked = port.and_then(|port| port.link).is_some_and(|link| Some(link.to) != via);
            holder != end && (linked || self.is_home(holder))
        });
        if holder.is_none() {
            self.by_port_guid.insert(guid, end);
            if let Some(port) = self.port_mut(end) {
                port.guid = Some(guid);
            }
        }
        holder
    }

    /// Joins two ports, and ends the links that they had before.
    pub(crate) fn connect(&mut self, a: PortId, b: PortId, survey: u32) {
        for (end, other) in [(a, b), (b, a)] {
            if self.link(end).is_some_and(|link| link.to != other) {
                self.disconnect(end);
            }
        }
        for (end, to) in [(a, b), (b, a)] {
            if let Some(port) = self.port_mut(end) {
                port.link = Some(Link { to, confirmed: survey });
                (port.trouble, port.formerly) = (None, None);
            }
        }
    }

    /// Takes the cable off both ends; the other end, if there was one.
    pub(crate) fn disconnect(&mut self, end: PortId) -> Option<PortId> {
        let link = self.port_mut(end)?.link.take()?;
        if let Some(port) = self.port_mut(link.to) {
            port.link = None;
        }
        Some(link.to)
    }

    /// Takes every cable off the node; the ports at the other ends.
    pub(crate) fn isolate(&mut self, id: NodeId) -> Vec<PortId> {
        let ports = 0..self.node(id).ports.len() as u8;
        ports.filter_map(|port| self.disconnect((id, PortNum(port)))).collect()
    }

    pub(crate) fn link(&self, end: PortId) -> Option<Link> {
        self.port(end)?.link
    }

    /// The port that holds this address, given by this manager or another.
    pub(crate) fn holder(&self, lid: Lid) -> Option<PortId> {
        let holds = |port: &Port| {
            port.info.as_ref().is_some_and(|info| {
                let block = info.lid.index()..info.lid.index() + info.lmc.addresses();
                info.lid != Lid::NONE && block.contains(&lid.index())
            })
        };
        self.reachable().find_map(|(id, node)| {
            // Only port 0 of a switch has an address.
            let addressed = if node.is_switch() { &node.ports[..1] } else { &node.ports[..] };
            let num = addressed.iter().position(holds)?;
            Some((id, PortNum(num as u8)))
        })
    }

    /// Whether the port's cable joins two switches, so that tables lead over it.
    pub(crate) fn is_trunk(&self, end: PortId) -> bool {
        let far = self.link(end).is_some_and(|link| self.node(link.to.0).is_switch());
        far && self.node(end.0).is_switch()
    }

    /// The node, with the port where the node has several that can be meant.
    pub(crate) fn end_name(&self, end: PortId) -> String {
        let node = self.node(end.0);
        if node.is_switch() || node.info.num_ports == 1 {
            return node.label();
        }
        self.port_name(end)
    }

    /// `node/port`, as people point at ports.
    pub(crate) fn port_name(&self, (node, port): PortId) -> String {
        format!("{}/{port}", self.node(node).label())
    }
}
