//! The baseline: the subnet management mechanism that the seed evaluated, step by step.
//!
//! Its tasks follow each other strictly. Every period it asks all switches whether a port changed; traps are
//! not heeded. Where one did, everything that is known is forgotten and the fabric is discovered anew, in
//! propagation order: the NodeInfo of a node not seen before leads to the PortInfo of its every port, the
//! PortInfo of its management port to the address being written, the PortInfo of a port that is not Down to the
//! NodeInfo one hop further. Then routes are computed, every port is set to INITIALIZE, all tables are written,
//! and every port is set to ACTIVE. [`Factors`] give it, one by one, what ours does instead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_fabric::{ForwardingTable, Guid, Lid};
use snin_mad::{
    Attribute, AttributeId, DrPath, Mad, Method, NodeInfo, Notice, PhysicalState, PortInfo,
    PortState, Smp, SwitchInfo, TransactionId, Trap,
};
use snin_protocol::Time;

mod discovery;
mod region;
mod ways;
mod writing;

use ways::Letter;

use super::routes::{Graph, Router};
use super::{Factor, Factors, Phase, WINDOW};

/// From the controller being told to nothing being on its way without one: a window, and what hosts have given to
/// their adapters.
pub(super) const TOLD: Time = Time(WINDOW.0 + 2_000_000);

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
    /// SMPs in flight; the published mechanism sends all that it can.
    pub window: usize,
    /// What it is given of ours.
    pub factors: Factors,
}

/// Something is to be done.
#[derive(Debug)]
pub enum Output {
    /// Send an SMP to that address, [`PERMISSIVE`](snin_mad::PERMISSIVE) on a directed route.
    Send(Lid, Box<Mad>),
    /// Send the answer to a trap to that address.
    Repress(Lid, Box<Mad>),
    /// Another task begins.
    Begin(Phase),
    /// The controller is told what has no way.
    Tell,
}

/// What a question was about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// Whether a port changed.
    Sweep(Guid),
    /// The node behind this port of this node; `None`: the own node.
    Node(Option<(Guid, u8)>),
    Port(Guid, u8),
    Write,
    /// The table of this switch.
    Table(Guid),
}

struct Asked {
    what: What,
    path: DrPath,
    letter: Letter,
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
    /// The controller stops flows until then.
    Telling(Time),
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
    router: Router,
    /// By switch: the table that was written.
    held: BTreeMap<Guid, ForwardingTable>,
    /// Writes of each switch's table that are not answered.
    unwritten: BTreeMap<Guid, usize>,
    /// Addresses of the last fabric that was assimilated.
    settled: BTreeMap<Guid, Lid>,
    /// Switches of which something changed, nodes behind links that are gone, and ports asked for that.
    changed: BTreeSet<Guid>,
    suspects: BTreeSet<Guid>,
    asked_again: BTreeSet<(Guid, u8)>,
    /// Switches that reported a change while the last was assimilated.
    later: BTreeSet<Guid>,
    asked: BTreeMap<u64, Asked>,
    deadlines: BTreeSet<(Time, u64)>,
    /// Of those asked: not sweeps.
    busy: usize,
    waiting: VecDeque<(What, DrPath, Letter)>,
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
            router: Router::new(),
            held: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            settled: BTreeMap::new(),
            changed: BTreeSet::new(),
            suspects: BTreeSet::new(),
            asked_again: BTreeSet::new(),
            later: BTreeSet::new(),
            asked: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            busy: 0,
            waiting: VecDeque::new(),
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
        self.deadlines.clear();
        self.waiting.clear();
        self.unwritten.clear();
        self.later.clear();
        self.busy = 0;
        self.nodes.clear();
        self.order.clear();
        self.taken.clear();
        self.begin(Stage::Discovery, Phase::Discovery);
        self.get(What::Node(None), DrPath::HERE, NodeInfo::ID, 0, now);
    }

    /// What is to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_deadline`](Self::handle_deadline) is to be called.
    pub fn next_deadline(&self) -> Option<Time> {
        let computed = match self.stage {
            Stage::Computation(until) | Stage::Telling(until) => Some(until),
            _ => None,
        };
        let answers = self.deadlines.first().map(|deadline| deadline.0);
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

    /// Questions without an answer.
    pub const fn given_up(&self) -> u64 {
        self.given_up
    }

    fn begin(&mut self, stage: Stage, phase: Phase) {
        self.stage = stage;
        self.outputs.push_back(Output::Begin(phase));
    }

    const fn has(&self, factor: Factor) -> bool {
        self.config.factors.has(factor)
    }

    fn ask(&mut self, what: What, path: DrPath, mut letter: Letter, now: Time) {
        if self.asked.len() >= self.config.window {
            return self.waiting.push_back((what, path, letter));
        }
        self.transaction += 1;
        snin_mad::Header::edit(&mut letter.mad.0).transaction_id(TransactionId(self.transaction));
        self.outputs.push_back(letter.send());
        let deadline = now + self.config.timeout;
        self.deadlines.insert((deadline, self.transaction));
        self.busy += usize::from(!matches!(what, What::Sweep(_)));
        self.asked.insert(self.transaction, Asked { what, path, letter, deadline, attempts: 1 });
    }

    fn answered(&mut self, number: u64, now: Time) -> Option<Asked> {
        let asked = self.asked.remove(&number)?;
        self.deadlines.remove(&(asked.deadline, number));
        self.busy -= usize::from(!matches!(asked.what, What::Sweep(_)));
        while self.asked.len() < self.config.window
            && let Some((what, path, letter)) = self.waiting.pop_front()
        {
            self.ask(what, path, letter, now);
        }
        Some(asked)
    }

    fn get(&mut self, what: What, path: DrPath, attribute: AttributeId, modifier: u8, now: Time) {
        let (route, to) = self.way(what, path);
        let mad = Smp::get(attribute, modifier.into(), route).mad();
        self.ask(what, path, Letter { to, mad }, now);
    }

    fn set<A: Attribute>(&mut self, what: What, path: DrPath, at: u32, value: &A, now: Time) {
        let (route, to) = self.way(what, path);
        let mad = Smp::set(A::ID, at, route).mad().with(value);
        self.ask(what, path, Letter { to, mad }, now);
    }

    /// A MAD came in. Unsolicited answers are dropped, and so are traps, unless the baseline heeds them.
    pub fn handle(&mut self, mad: &Mad, now: Time) {
        let Ok(smp) = Smp::parse(&mad.0) else { return };
        if smp.method == Method::Trap {
            return self.trap(mad, now);
        }
        let Some(asked) = self.answered(smp.transaction_id.0, now) else { return };
        match asked.what {
            What::Sweep(guid) => {
                if mad.attribute::<SwitchInfo>().is_ok_and(|info| info.port_state_change) {
                    self.reported(guid, now);
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
            What::Table(guid) => self.written(guid, now),
        }
        self.go_on(now);
    }

    /// A trap 128 names its switch by an address; the answer ends its being repeated.
    fn trap(&mut self, mad: &Mad, now: Time) {
        let notice = mad.attribute::<Notice>().ok().and_then(|notice| notice.trap().ok().flatten());
        let Some(Trap::LinkStateChange(details)) = notice else { return };
        if !self.has(Factor::Traps) {
            return;
        }
        let mut answer = Box::new(mad.clone());
        answer.answer(snin_mad::Status::OK);
        self.outputs.push_back(Output::Repress(details.lid, answer));
        let mut nodes = self.nodes.iter();
        if let Some((&guid, _)) = nodes.find(|(_, node)| node.switch && node.lid == details.lid) {
            self.reported(guid, now);
            self.go_on(now);
        }
    }

    /// A switch reported a change: by a sweep or a trap.
    fn reported(&mut self, guid: Guid, now: Time) {
        match (self.stage, self.has(Factor::Region)) {
            (Stage::Idle, false) => self.start(now),
            (Stage::Idle, true) => {
                self.next_sweep = None;
                self.begin(Stage::Discovery, Phase::Discovery);
                self.look_at(guid, now);
            }
            (Stage::Discovery, true) => self.look_at(guid, now),
            // What is discovered from scratch has it already.
            (Stage::Discovery, false) => {}
            _ => {
                self.later.insert(guid);
            }
        }
    }

    /// Does what is due.
    pub fn handle_deadline(&mut self, now: Time) {
        if self.next_sweep.is_some_and(|at| at <= now) {
            return self.sweep(now);
        }
        while let Some(&(deadline, number)) = self.deadlines.first()
            && deadline <= now
        {
            let Some(asked) = self.asked.get_mut(&number) else { break };
            let swept = matches!(asked.what, What::Sweep(_));
            if !swept && asked.attempts < self.config.attempts {
                asked.attempts += 1;
                asked.deadline = now + self.config.timeout;
                self.deadlines.remove(&(deadline, number));
                self.deadlines.insert((now + self.config.timeout, number));
                self.outputs.push_back(asked.letter.send());
                continue;
            }
            self.given_up += 1;
            let Some(asked) = self.answered(number, now) else { continue };
            match (asked.what, self.stage) {
                (What::Sweep(guid), Stage::Idle) => {
                    match self.nodes.get(&guid).map(|node| node.path) {
                        // The way there is another by now.
                        Some(path) if path != asked.path => {
                            self.get(What::Sweep(guid), path, SwitchInfo::ID, 0, now);
                        }
                        // A switch that does not answer a sweep is one that changed.
                        Some(_) => return self.start(now),
                        None => {}
                    }
                }
                (What::Table(guid), _) => self.written(guid, now),
                _ => {}
            }
        }
        self.go_on(now);
    }

    fn sweep(&mut self, now: Time) {
        self.next_sweep = Some(now + self.config.sweep);
        let switches: Vec<(Guid, DrPath)> = self.switches().collect();
        for (guid, path) in switches {
            self.get(What::Sweep(guid), path, SwitchInfo::ID, 0, now);
        }
    }

    fn switches(&self) -> impl Iterator<Item = (Guid, DrPath)> {
        let nodes = self.order.iter().map(|guid| (*guid, &self.nodes[guid]));
        nodes.filter(|(_, node)| node.switch).map(|(guid, node)| (guid, node.path))
    }

    /// The next task, once nothing is under way.
    fn go_on(&mut self, now: Time) {
        match self.stage {
            Stage::Computation(until) | Stage::Telling(until) if until > now => return,
            Stage::Computation(_) if self.has(Factor::Told) => {
                self.outputs.push_back(Output::Tell);
                return self.begin(Stage::Telling(now + TOLD), Phase::Distribution);
            }
            Stage::Computation(_) | Stage::Telling(_) => {
                self.begin(Stage::Deactivation, Phase::Distribution);
                if !self.has(Factor::Open) && (self.has(Factor::Told) || !self.has(Factor::Overlap))
                {
                    self.close(now);
                }
            }
            _ => {}
        }
        while self.busy == 0 && self.waiting.is_empty() && self.stage != Stage::Idle {
            match self.stage {
                Stage::Idle | Stage::Computation(_) | Stage::Telling(_) => return,
                Stage::Discovery => return self.compute(now),
                Stage::Deactivation => {
                    self.stage = Stage::Tables;
                    self.distribute(now);
                }
                Stage::Tables => {
                    self.begin(Stage::Activation, Phase::Activation);
                    self.open(now);
                }
                Stage::Activation => {
                    self.begin(Stage::Idle, Phase::Done);
                    self.settle();
                    self.changed.clear();
                    self.next_sweep = Some(now + self.config.sweep);
                    for guid in std::mem::take(&mut self.later) {
                        self.reported(guid, now);
                    }
                }
            }
        }
    }

    fn compute(&mut self, now: Time) {
        if self.has(Factor::Region) {
            self.forget_unreachable();
        }
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
        let routes = self.router.route(&switches, graph, self.has(Factor::Entries));
        (self.tables, self.operations) = (routes.tables, routes.operations);
        let takes = Time(self.config.operation.nanos().saturating_mul(routes.operations));
        self.begin(Stage::Computation(now + takes), Phase::Computation);
        let closes = !self.has(Factor::Open) && !self.has(Factor::Told);
        if self.has(Factor::Overlap) && closes {
            self.close(now);
        }
    }
}

/// As it was read, but for the state to be written.
fn quiet(info: PortInfo, state: PortState) -> PortInfo {
    PortInfo { state, physical_state: PhysicalState::NoChange, ..info }
}
