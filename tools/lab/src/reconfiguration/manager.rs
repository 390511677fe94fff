//! Either mechanism on an emulated fabric: what it sends and when, by task.

use std::collections::{BTreeMap, VecDeque};

use snin_emulator::{ClientId, Emulator, Received};
use snin_mad::header::Method;
use snin_mad::{
    Attribute, LinearForwarding, Mad, PERMISSIVE, PortInfo, PortState, Smp, SwitchInfo,
};
use snin_protocol::Time;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sweep::{Computed, Event, Sweep};

use super::baseline::{self, Baseline};
use super::{Costs, Factors, Phase};

/// Where the manager sits among its own ports: it has one.
const HOME: LocalPort = LocalPort(0);

enum Core {
    Baseline(Box<Baseline>),
    Ours(Box<Sweep>),
}

/// A manager, what waits for it, and what it did.
pub(super) struct Manager {
    core: Core,
    client: ClientId,
    costs: Costs,
    waiting: VecDeque<Received>,
    /// Until then it works at what came in last.
    busy_until: Time,
    computing: Option<(Time, Box<Computed>)>,
    phase: Phase,
    /// When each phase began, in order.
    pub(super) marks: Vec<(Phase, Time)>,
    /// SMPs sent, by task.
    pub(super) smps: BTreeMap<Phase, u64>,
    /// Operations of all computations.
    pub(super) operations: u64,
    /// Blocks of forwarding tables written.
    pub(super) blocks: u64,
    /// When the last of those was sent.
    pub(super) last_block: Option<Time>,
    /// When anything was last written.
    pub(super) last_write: Time,
    /// When a view was first published.
    pub(super) viewed: Option<Time>,
    /// The times of all SMPs sent.
    pub(super) sent: Vec<Time>,
}

impl Manager {
    pub(super) fn baseline(client: ClientId, costs: &Costs, factors: Factors) -> Self {
        let config = baseline::Config {
            sweep: costs.sweep,
            operation: costs.operation,
            timeout: Time::millis(50),
            attempts: 3,
            window: costs.window,
            factors,
        };
        Self::new(Core::Baseline(Box::new(Baseline::new(config))), client, costs)
    }

    pub(super) fn ours(sweep: Sweep, client: ClientId, costs: &Costs) -> Self {
        Self::new(Core::Ours(Box::new(sweep)), client, costs)
    }

    fn new(core: Core, client: ClientId, costs: &Costs) -> Self {
        Self {
            core,
            client,
            costs: costs.clone(),
            waiting: VecDeque::new(),
            busy_until: Time::ZERO,
            computing: None,
            phase: Phase::Done,
            marks: Vec::new(),
            smps: BTreeMap::new(),
            operations: 0,
            blocks: 0,
            last_block: None,
            last_write: Time::ZERO,
            viewed: None,
            sent: Vec::new(),
        }
    }

    /// Brings the fabric up.
    pub(super) fn start(&mut self, emulator: &mut Emulator) {
        let now = emulator.now();
        match &mut self.core {
            Core::Baseline(baseline) => baseline.start(now),
            Core::Ours(sweep) => {
                sweep.handle(Event::Start, now);
                self.enter(Phase::Discovery, now);
            }
        }
        self.work(emulator);
    }

    /// The change happens now: what is counted begins anew.
    pub(super) fn mark(&mut self, now: Time) {
        self.marks.clear();
        self.smps.clear();
        (self.operations, self.blocks, self.last_block, self.last_write) = (0, 0, None, now);
        self.viewed = None;
        self.sent.clear();
        self.enter(Phase::Detection, now);
    }

    pub(super) const fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// When the baseline sweeps next.
    pub(super) fn next_sweep(&self) -> Option<Time> {
        match &self.core {
            Core::Baseline(baseline) => baseline.next_sweep(),
            Core::Ours(_) => None,
        }
    }

    fn enter(&mut self, phase: Phase, now: Time) {
        if self.phase != phase {
            self.phase = phase;
            self.marks.push((phase, now));
        }
    }

    /// When it has something to do by itself.
    pub(super) fn next_time(&self) -> Option<Time> {
        let deadline = match &self.core {
            Core::Baseline(baseline) => baseline.next_deadline(),
            Core::Ours(sweep) => sweep.next_deadline(),
        };
        let free = (!self.waiting.is_empty()).then_some(self.busy_until);
        let computed = self.computing.as_ref().map(|computing| computing.0);
        [deadline, free, computed].into_iter().flatten().min()
    }

    /// Does everything that is due.
    pub(super) fn work(&mut self, emulator: &mut Emulator) {
        let now = emulator.now();
        while let Some(received) = emulator.poll(self.client) {
            if self.waiting.is_empty() {
                self.busy_until = self.busy_until.max(now + self.costs.manager);
            }
            self.waiting.push_back(received);
        }
        if self.computing.as_ref().is_some_and(|computing| computing.0 <= now)
            && let Some((_, computed)) = self.computing.take()
            && let Core::Ours(sweep) = &mut self.core
        {
            sweep.handle(Event::Computed(computed), now);
            self.enter(Phase::Distribution, now);
        }
        while self.busy_until <= now
            && let Some(received) = self.waiting.pop_front()
        {
            self.busy_until = now + self.costs.manager;
            self.take(&received, now);
            self.obey(emulator);
        }
        let deadline = match &mut self.core {
            Core::Baseline(baseline) => baseline.next_deadline(),
            Core::Ours(sweep) => sweep.next_deadline(),
        };
        if deadline.is_some_and(|deadline| deadline <= now) {
            match &mut self.core {
                Core::Baseline(baseline) => baseline.handle_deadline(now),
                Core::Ours(sweep) => sweep.handle_deadline(now),
            }
        }
        self.obey(emulator);
    }

    fn take(&mut self, received: &Received, now: Time) {
        match &mut self.core {
            Core::Baseline(baseline) => baseline.handle(&received.mad, now),
            Core::Ours(sweep) => {
                let (source, bytes) = (received.slid, &received.mad.0[..]);
                sweep.handle(Event::Mad { port: HOME, source, bytes }, now);
                if !sweep.is_idle() && matches!(self.phase, Phase::Done | Phase::Detection) {
                    self.enter(Phase::Discovery, now);
                }
            }
        }
    }

    fn obey(&mut self, emulator: &mut Emulator) {
        let now = emulator.now();
        loop {
            match &mut self.core {
                Core::Baseline(baseline) => match baseline.poll_output() {
                    Some(baseline::Output::Send(to, mad) | baseline::Output::Repress(to, mad)) => {
                        self.note(&mad, now);
                        emulator.send(self.client, &mad, to, now);
                    }
                    Some(baseline::Output::Begin(phase)) => {
                        if phase == Phase::Computation {
                            self.operations += baseline.operations();
                        }
                        self.enter(phase, now);
                    }
                    Some(baseline::Output::Tell) => {
                        self.viewed.get_or_insert(now);
                    }
                    None => return,
                },
                Core::Ours(sweep) => match sweep.poll_output() {
                    Some(output) => self.obey_ours(output, emulator, now),
                    None => break,
                },
            }
        }
        if let Core::Ours(sweep) = &self.core
            && sweep.is_idle()
            && self.computing.is_none()
            && !matches!(self.phase, Phase::Done | Phase::Detection)
        {
            self.enter(Phase::Done, now);
        }
    }

    fn obey_ours(&mut self, output: snin_sweep::Output, emulator: &mut Emulator, now: Time) {
        use snin_sweep::Output;
        match output {
            Output::Send { to, mad, .. } => {
                let to = match to {
                    Destination::Directed => PERMISSIVE,
                    Destination::Lid(lid) => lid,
                };
                self.note(&mad, now);
                emulator.send(self.client, &mad, to, now);
            }
            Output::Compute(job) => {
                // The job does not say how much it did: the operations are those of its size.
                let operations = if job.computes_tables() { size(emulator) } else { 0 };
                let computed = Box::new(job.run());
                self.operations += operations;
                let takes = Time(self.costs.operation.nanos().saturating_mul(operations));
                self.computing = Some((now + takes, computed));
                self.enter(Phase::Computation, now);
            }
            Output::View(_) => {
                self.viewed.get_or_insert(now);
            }
            // No program asks for records here, and nothing has to survive.
            Output::Answer { .. }
            | Output::Save(_)
            | Output::Served(_)
            | Output::TestLink { .. }
            | Output::Report(_) => {}
        }
    }

    /// Counts an SMP by the task that it belongs to.
    fn note(&mut self, mad: &Mad, now: Time) {
        let task = self.task(mad, now);
        *self.smps.entry(task).or_insert(0) += 1;
        self.sent.push(now);
        if task == Phase::Activation && self.phase == Phase::Distribution {
            self.enter(Phase::Activation, now);
        }
    }

    fn task(&mut self, mad: &Mad, now: Time) -> Phase {
        let Ok(smp) = Smp::parse(&mad.0) else { return self.phase };
        if smp.method == Method::Set {
            self.last_write = now;
        }
        let idle = matches!(self.phase, Phase::Detection | Phase::Done);
        match (smp.method, smp.attribute) {
            (Method::Get, _) if idle => Phase::Detection,
            (Method::Get, _) => Phase::Discovery,
            (Method::Set, PortInfo::ID) => match PortInfo::view(PortInfo::data(&mad.0)).state() {
                PortState::Armed | PortState::Active => Phase::Activation,
                PortState::Initialize => Phase::Distribution,
                // An address: the baseline gives it while it discovers.
                _ if self.phase == Phase::Discovery => Phase::Discovery,
                _ => Phase::Distribution,
            },
            (Method::Set, LinearForwarding::ID) => {
                self.blocks += 1;
                self.last_block = Some(now);
                Phase::Distribution
            }
            (Method::Set, SwitchInfo::ID) => Phase::Distribution,
            (Method::TrapRepress, _) => Phase::Detection,
            _ => Phase::Distribution,
        }
    }
}

/// What our computation does, in the baseline's operations: from every destination's switch every link is looked
/// at twice (down, then up), and every switch's entry of every address is written and compared.
fn size(emulator: &Emulator) -> u64 {
    let fabric = emulator.fabric();
    let live = fabric.live_topology();
    let switches = live.switches().filter(|&switch| fabric.is_powered(switch));
    let links: Vec<u64> = switches.map(|switch| live.switch_links(switch).count() as u64).collect();
    let (switches, links) = (links.len() as u64, links.iter().sum::<u64>());
    let ends = live.nodes().filter(|&node| fabric.is_powered(node)).count() as u64;
    switches * links * 2 + switches * ends * 2
}
