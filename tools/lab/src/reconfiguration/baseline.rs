//! The baseline: the subnet management mechanism that the seed evaluated, step by step.
//!
//! Its tasks follow each other strictly. Every period it asks all switches whether a port changed; traps are
//! not heeded. Where one did, everything that is known is forgotten and the fabric is discovered anew, in
//! propagation order: the NodeInfo of a node not seen before leads to the PortInfo of its every port, the
//! PortInfo of its management port to the address being written, the PortInfo of a port that is not Down to the
//! NodeInfo one hop further. Then routes are computed, every port is set to INITIALIZE, all tables are written,
//! and every port is set to ACTIVE.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_fabric::{ForwardingTable, Guid, Lid};
use snin_mad::{
    Attribute, AttributeId, DrPath, LinearForwarding, Mad, NodeInfo, NodeType, PhysicalState,
    PortInfo, PortState, Route, Smp, SwitchInfo, TransactionId,
};
use snin_protocol::Time;

use super::Phase;
use super::routes::{self, Graph};

/// What the baseline is told once.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// From one sweep to the next.
    pub sweep: Time,
    /// How long an elementary step of the computation takes.
    pub operation: Time,
    /// How long an answer may take.
    pub timeout: Time,
    /// How often a question is asked.
    pub attempts: u8,
}

/// Something is to be done.
#[derive(Debug)]
pub enum Output {
    /// Send an SMP, on its directed route.
    Send(Box<Mad>),
    /// Another task begins.
    Begin(Phase),
}

/// What a question was about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// Whether a port changed.
    Sweep,
    /// Who is behind this port of this node; `None`: who am I.
    Node(Option<(Guid, u8)>),
    Port(Guid, u8),
    Write,
}

struct Asked {
    what: What,
    path: DrPath,
    mad: Mad,
    deadline: Time,
    attempts: u8,
}

struct Node {
    path: DrPath,
    switch: bool,
    /// The port that it is managed by: 0, or an adapter's own.
    own: u8,
    lid: Lid,
    ports: BTreeMap<u8, PortInfo>,
    /// By port: the node behind it.
    links: BTreeMap<u8, Guid>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Idle,
    Discovery,
    Computation(Time),
    Deactivation,
    Tables,
    Activation,
}

/// The mechanism, as a state machine without a clock: see the module's documentation.
pub struct Baseline {
    config: Config,
    stage: Stage,
    nodes: BTreeMap<Guid, Node>,
    /// In the order of discovery.
    order: Vec<Guid>,
    taken: BTreeSet<Lid>,
    tables: Vec<ForwardingTable>,
    asked: BTreeMap<u64, Asked>,
    transaction: u64,
    next_sweep: Option<Time>,
    outputs: VecDeque<Output>,
    operations: u64,
    given_up: u64,
}

impl Baseline {
    /// A mechanism that has not begun.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            stage: Stage::Idle,
            nodes: BTreeMap::new(),
            order: Vec::new(),
            taken: BTreeSet::new(),
            tables: Vec::new(),
            asked: BTreeMap::new(),
            transaction: 0,
            next_sweep: None,
            outputs: VecDeque::new(),
            operations: 0,
            given_up: 0,
        }
    }

    /// Begins: discovers the fabric.
    pub fn start(&mut self, now: Time) {
        self.next_sweep = None;
        self.asked.clear();
        self.nodes.clear();
        self.order.clear();
        self.taken.clear();
        self.begin(Stage::Discovery, Phase::Discovery);
        let mad = Smp::get(NodeInfo::ID, 0, Route::directed(DrPath::HERE)).mad();
        self.ask(What::Node(None), DrPath::HERE, mad, now);
    }

    /// What is to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_deadline`](Self::handle_deadline) is to be called.
    pub fn next_deadline(&self) -> Option<Time> {
        let computed = match self.stage {
            Stage::Computation(until) => Some(until),
            _ => None,
        };
        let answers = self.asked.values().map(|asked| asked.deadline).min();
        [computed, answers, self.next_sweep].into_iter().flatten().min()
    }

    /// Elementary steps of the last computation.
    pub const fn operations(&self) -> u64 {
        self.operations
    }

    /// When it sweeps next; `None` while it is busy.
    pub const fn next_sweep(&self) -> Option<Time> {
        self.next_sweep
    }

    /// Questions that nobody answered.
    pub const fn given_up(&self) -> u64 {
        self.given_up
    }

    fn begin(&mut self, stage: Stage, phase: Phase) {
        self.stage = stage;
        self.outputs.push_back(Output::Begin(phase));
    }

    fn ask(&mut self, what: What, path: DrPath, mut mad: Mad, now: Time) {
        self.transaction += 1;
        snin_mad::Header::edit(&mut mad.0).transaction_id(TransactionId(self.transaction));
        self.outputs.push_back(Output::Send(Box::new(mad.clone())));
        let deadline = now + self.config.timeout;
        self.asked.insert(self.transaction, Asked { what, path, mad, deadline, attempts: 1 });
    }

    fn get(&mut self, what: What, path: DrPath, attribute: AttributeId, modifier: u8, now: Time) {
        let mad = Smp::get(attribute, modifier.into(), Route::directed(path)).mad();
        self.ask(what, path, mad, now);
    }

    fn set<A: Attribute>(&mut self, path: DrPath, modifier: u32, value: &A, now: Time) {
        let mad = Smp::set(A::ID, modifier, Route::directed(path)).mad().with(value);
        self.ask(What::Write, path, mad, now);
    }

    /// A MAD came in. What nobody asked for, traps among it, is dropped.
    pub fn handle(&mut self, mad: &Mad, now: Time) {
        let Ok(smp) = Smp::parse(&mad.0) else { return };
        let Some(asked) = self.asked.remove(&smp.transaction_id.0) else { return };
        match asked.what {
            What::Sweep => {
                if mad.attribute::<SwitchInfo>().is_ok_and(|info| info.port_state_change) {
                    return self.start(now);
                }
            }
            What::Node(behind) => {
                if let Ok(info) = mad.attribute() {
                    self.node(behind, asked.path, &info, now);
                }
            }
            What::Port(guid, port) => {
                if let Ok(info) = mad.attribute() {
                    self.port(guid, port, info, now);
                }
            }
            What::Write => {}
        }
        self.go_on(now);
    }

    /// Does what is due.
    pub fn handle_deadline(&mut self, now: Time) {
        if self.next_sweep.is_some_and(|at| at <= now) {
            return self.sweep(now);
        }
        let late: Vec<u64> = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.deadline <= now)
            .map(|(&number, _)| number)
            .collect();
        for number in late {
            let Some(asked) = self.asked.get_mut(&number) else { continue };
            if asked.what == What::Sweep || asked.attempts >= self.config.attempts {
                // A switch that does not answer a sweep is one that changed.
                let swept = asked.what == What::Sweep;
                self.asked.remove(&number);
                self.given_up += 1;
                if swept {
                    return self.start(now);
                }
                continue;
            }
            asked.attempts += 1;
            asked.deadline = now + self.config.timeout;
            self.outputs.push_back(Output::Send(Box::new(asked.mad.clone())));
        }
        self.go_on(now);
    }

    fn sweep(&mut self, now: Time) {
        self.next_sweep = Some(now + self.config.sweep);
        let paths: Vec<DrPath> = self.switches().map(|node| node.path).collect();
        for path in paths {
            self.get(What::Sweep, path, SwitchInfo::ID, 0, now);
        }
    }

    fn switches(&self) -> impl Iterator<Item = &Node> {
        self.order.iter().map(|guid| &self.nodes[guid]).filter(|node| node.switch)
    }

    fn node(&mut self, behind: Option<(Guid, u8)>, path: DrPath, info: &NodeInfo, now: Time) {
        let guid = info.node_guid;
        if let Some((from, port)) = behind
            && let Some(from) = self.nodes.get_mut(&from)
        {
            from.links.insert(port, guid);
        }
        if self.nodes.contains_key(&guid) {
            return;
        }
        let switch = info.node_type == NodeType::Switch;
        let own = if switch { 0 } else { info.local_port.0 };
        let (ports, links) = (BTreeMap::new(), BTreeMap::new());
        let node = Node { path, switch, own, lid: Lid::NONE, ports, links };
        self.nodes.insert(guid, node);
        self.order.push(guid);
        let asked = if switch { 0..=info.num_ports } else { own..=own };
        for port in asked {
            self.get(What::Port(guid, port), path, PortInfo::ID, port, now);
        }
    }

    fn port(&mut self, guid: Guid, port: u8, info: PortInfo, now: Time) {
        let Some(node) = self.nodes.get_mut(&guid) else { return };
        let (path, switch, own) = (node.path, node.switch, node.own);
        node.ports.insert(port, info.clone());
        if port == own {
            let lid = self.address(info.lid);
            self.nodes.entry(guid).and_modify(|node| node.lid = lid);
            let new = quiet(PortInfo { lid, ..info.clone() }, PortState::NoChange);
            self.set(path, port.into(), &new, now);
        }
        // The other end of an adapter's port is where it was found from, but for the manager's own.
        let leads_on = if switch { port > 0 } else { path.hops() == 0 };
        if leads_on
            && info.state != PortState::Down
            && let Some(path) = path.then(snin_fabric::PortNum(port))
        {
            self.get(What::Node(Some((guid, port))), path, NodeInfo::ID, 0, now);
        }
    }

    /// The one that the port has, if nobody else has it; else the first that is free.
    fn address(&mut self, has: Lid) -> Lid {
        let free = |lid: &Lid| !self.taken.contains(lid);
        let lid = Some(has).filter(|&lid| lid != Lid::NONE).filter(free);
        let lid = lid.or_else(|| (1..=Lid::MAX_UNICAST.0).map(Lid).find(free)).unwrap_or(Lid::NONE);
        self.taken.insert(lid);
        lid
    }

    /// The next task, once nothing is under way.
    fn go_on(&mut self, now: Time) {
        if let Stage::Computation(until) = self.stage {
            if until <= now {
                self.begin(Stage::Deactivation, Phase::Distribution);
                self.all_ports(PortState::Initialize, now);
            }
            return;
        }
        while self.asked.is_empty() && self.stage != Stage::Idle {
            match self.stage {
                Stage::Idle | Stage::Computation(_) => return,
                Stage::Discovery => return self.compute(now),
                Stage::Deactivation => {
                    self.stage = Stage::Tables;
                    self.distribute(now);
                }
                Stage::Tables => {
                    self.begin(Stage::Activation, Phase::Activation);
                    self.all_ports(PortState::Active, now);
                }
                Stage::Activation => {
                    self.begin(Stage::Idle, Phase::Done);
                    self.next_sweep = Some(now + self.config.sweep);
                }
            }
        }
    }

    fn compute(&mut self, now: Time) {
        let switches: Vec<Guid> =
            self.order.iter().copied().filter(|guid| self.nodes[guid].switch).collect();
        let number: BTreeMap<Guid, usize> =
            switches.iter().enumerate().map(|(number, &guid)| (guid, number)).collect();
        let mut graph = Graph::default();
        for (at, guid) in switches.iter().enumerate() {
            let node = &self.nodes[guid];
            graph.ends.push((node.lid, at, 0));
            let mut links = Vec::new();
            for (&port, behind) in &node.links {
                match number.get(behind) {
                    Some(&behind) => links.push((port, behind)),
                    None => graph.ends.push((self.nodes[behind].lid, at, port)),
                }
            }
            graph.links.push(links);
        }
        let routes = routes::compute(&graph);
        (self.tables, self.operations) = (routes.tables, routes.operations);
        let takes = Time(self.config.operation.nanos().saturating_mul(routes.operations));
        self.begin(Stage::Computation(now + takes), Phase::Computation);
    }

    fn all_ports(&mut self, state: PortState, now: Time) {
        let mut writes = Vec::new();
        for node in self.order.iter().map(|guid| &self.nodes[guid]) {
            for (&port, info) in &node.ports {
                let linked = port > 0 && info.state != PortState::Down;
                if linked {
                    let lid = if port == node.own { node.lid } else { info.lid };
                    let new = quiet(PortInfo { lid, ..info.clone() }, state);
                    writes.push((node.path, port, new));
                }
            }
        }
        for (path, port, new) in writes {
            self.set(path, port.into(), &new, now);
        }
    }

    fn distribute(&mut self, now: Time) {
        let paths: Vec<DrPath> = self.switches().map(|node| node.path).collect();
        let tables = std::mem::take(&mut self.tables);
        for (&path, table) in paths.iter().zip(&tables) {
            let top = Lid(table.len().saturating_sub(1) as u16);
            for block in 0..=top.0 / LinearForwarding::EMPTY.ports.len() as u16 {
                let ports = table.block(block).map(snin_fabric::PortNum);
                self.set(path, block.into(), &LinearForwarding { ports }, now);
            }
            // The write clears PortStateChange too.
            let (linear_fdb_top, port_state_change, life_time) = (top, true, LIFE_TIME);
            let rest = SwitchInfo::default();
            let info = SwitchInfo { linear_fdb_top, port_state_change, life_time, ..rest };
            self.set(path, 0, &info, now);
        }
    }
}

/// SwitchInfo:LifeTimeValue that is written, besides the top.
const LIFE_TIME: u8 = 18;

/// As it was read, but for the state to be written.
fn quiet(info: PortInfo, state: PortState) -> PortInfo {
    PortInfo { state, physical_state: PhysicalState::NoChange, ..info }
}
