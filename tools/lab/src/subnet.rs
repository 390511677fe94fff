//! A sweep core and the configuration beside it, which manage an emulated fabric in virtual time.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use snin_configuration::{Configuration, Expected, Instruction, Limits, Mode, Tests, learn};
use snin_emulator::data::PortLanes;
use snin_emulator::{AttachError, ClientId, Emulator};
use snin_fabric::check::cover::{CoverReport, cover};
use snin_fabric::check::credit::{CreditReport, Traffic, credit};
use snin_fabric::check::walk::{WalkReport, walk};
use snin_fabric::{
    Addresses, ForwardingTable, Lid, NodeIndex, NodeKind, PortIndex, PortNum, Topology,
};
use snin_mad::capture::Recording;
use snin_mad::{Attribute as _, Mad, PERMISSIVE, PKey, PhysicalState, PortInfo, PortState};
use snin_protocol::Time;
use snin_sm_core::Report;
use snin_sm_database::error::ConfigError;
use snin_sm_database::judgement::Consent;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::saved::Saved;
use snin_sweep::{Event, FabricView, Missing, Output, Sweep};

use super::event::Act;

/// Where the manager sits among its own ports: it has one.
const HOME: LocalPort = LocalPort(0);
/// How long nothing may be under way for the fabric to count as settled.
const QUIET: Time = Time::millis(20);
/// How far ahead something that will happen by itself is waited for.
const FORESIGHT: Time = Time::secs(5);

/// Why there is no subnet to simulate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubnetError {
    /// A manager needs a port.
    #[error("no adapter is cabled: the subnet manager has no place")]
    NoHome,
    /// The port is taken.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A number is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// What happened between two moments.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cost {
    /// SMPs that the manager sent.
    pub smps: u64,
    /// Of those, the ones that wrote.
    pub sets: u64,
    /// Blocks of forwarding tables written.
    pub blocks: u64,
    /// Of those, the ones written first with entries dropped, so that no state on the way has a loop.
    pub rewritten: u64,
    /// SMPs sent before the first view of it was published.
    pub smps_to_view: Option<u64>,
    /// From the start until the last SMP.
    pub time: Time,
}

/// A fabric's cables, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cables {
    /// All of them.
    pub all: usize,
    /// Those that are not cut, between nodes that have power.
    pub up: usize,
    /// Of those, the ones whose both ports are ACTIVE.
    pub active: usize,
}

/// What the checkers say of a fabric.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What there is to check.
    pub cover: CoverReport,
    /// Whether every address arrives.
    pub routes: WalkReport,
    /// Whether the fabric can deadlock.
    pub credit: CreditReport,
}

impl Judged {
    /// True when all is there, reaches all, and cannot deadlock.
    pub const fn is_ok(&self) -> bool {
        self.cover.is_ok() && self.routes.joins_all() && self.credit.is_ok()
    }
}

/// The fabric, its manager, and their common clock.
pub struct Subnet {
    emulator: Emulator,
    client: ClientId,
    sweep: Sweep,
    configuration: Configuration,
    /// Every view that was not taken yet, and the last.
    views: Vec<Arc<FabricView>>,
    view: Option<Arc<FabricView>>,
    /// Switches that were written to since [`take_written`](Self::take_written) was last called.
    written: Rc<RefCell<BTreeSet<NodeIndex>>>,
    /// Ports of switches whose links the manager has disabled.
    disabled: Rc<RefCell<BTreeSet<PortIndex>>>,
    /// SMPs sent when the first view after [`Subnet::mark`] came.
    first_view: Option<u64>,
    sent: u64,
    last_sent: Time,
    reports: Vec<Report>,
    /// Where every MAD of the manager's is written down, until one cannot be.
    recording: io::Result<Option<Recording<Box<dyn io::Write>>>>,
}

impl Subnet {
    /// Puts a manager at the first cabled adapter of a fabric that was just switched on.
    ///
    /// # Errors
    /// See [`SubnetError`].
    pub fn new(
        topology: &Topology,
        hardware: snin_emulator::Config,
        config: snin_sm_database::config::Config,
    ) -> Result<Self, SubnetError> {
        let mut emulator = Emulator::new(topology, hardware);
        let adapters = topology.nodes().filter(|&n| topology.node(n).kind == NodeKind::Adapter);
        let mut ports = adapters.flat_map(|n| topology.cables(n).collect::<Vec<_>>());
        let home: PortIndex = ports.next().ok_or(SubnetError::NoHome)?.0;
        let client = emulator.attach(home)?;
        let written = Rc::new(RefCell::new(BTreeSet::new()));
        let disabled = Rc::new(RefCell::new(BTreeSet::new()));
        let (notes, shut) = (written.clone(), disabled.clone());
        emulator.watch(move |fabric, write| {
            notes.borrow_mut().insert(write.node);
            let num = PortNum(write.modifier as u8);
            let port = fabric.topology().port_of(write.node, num);
            if let Some(port) = port.filter(|_| write.attribute == PortInfo::ID) {
                let mut shut = shut.borrow_mut();
                match fabric.port_info(port).physical_state {
                    PhysicalState::Disabled => shut.insert(port),
                    _ => shut.remove(&port),
                };
            }
        });
        let mut sweep = Sweep::new(config, Saved::default())?;
        sweep.be_judged();
        let (views, view, first_view) = (Vec::new(), None, None);
        let (sent, last_sent, reports) = (0, Time::ZERO, Vec::new());
        Ok(Self {
            emulator,
            client,
            sweep,
            configuration: Configuration::new(Limits::default()),
            views,
            view,
            written,
            disabled,
            first_view,
            sent,
            last_sent,
            reports,
            recording: Ok(None),
        })
    }

    /// Has every MAD that the manager sends or gets written down from now on, at its virtual time.
    pub fn record(&mut self, to: Box<dyn io::Write>) {
        self.recording = Recording::begin(to).map(Some);
    }

    /// Ends that.
    ///
    /// # Errors
    /// When a MAD could not be written down.
    pub fn end_recording(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.recording, Ok(None))? {
            Some(mut recording) => recording.flush(),
            None => Ok(()),
        }
    }

    /// The manager's own address is permissive where the other one is: on directed routes.
    fn note(&mut self, at: Time, other: Lid, mad: &Mad, sent: bool) {
        let Ok(Some(recording)) = &mut self.recording else { return };
        let own = match &self.view {
            Some(view) if other != PERMISSIVE => view.manager(),
            _ => PERMISSIVE,
        };
        let (from, to) = if sent { (own, other) } else { (other, own) };
        if let Err(error) = recording.add(at.nanos(), from, to, mad) {
            self.recording = Err(error);
        }
    }

    /// Brings the fabric up; gives what that cost, or what it had cost when the time was over.
    pub fn bring_up(&mut self, limit: Time) -> Cost {
        self.measure(limit, |subnet| {
            let now = subnet.emulator.now();
            subnet.sweep.handle(Event::Start, now);
        })
    }

    /// Lets something happen now, and waits until the manager has dealt with it.
    pub fn strike(&mut self, act: impl Into<Act>, limit: Time) -> Cost {
        let act = act.into();
        self.measure(limit, |subnet| subnet.cause(act))
    }

    /// Lets time pass until `now`, and something happen then.
    pub fn inject(&mut self, act: impl Into<Act>, now: Time) {
        self.run_until(now);
        self.cause(act.into());
    }

    fn cause(&mut self, act: Act) {
        let now = self.emulator.now();
        match act {
            Act::Fault(fault) => self.emulator.inject(fault, now),
            Act::PhaseOut(switch) => self.phase(switch, true),
            Act::PhaseIn(switch) => self.phase(switch, false),
        }
    }

    /// An operator has all ports of a switch phased out or in. The fabric, as it is when that is first wanted, is
    /// what is expected; there is consent.
    fn phase(&mut self, switch: NodeIndex, out: bool) {
        if self.configuration.expected().is_none() {
            let tests = Tests { timer: Time::secs(5), ..Tests::default() };
            let expected = Expected { tests, ..learn(&self.sweep.seen(), Mode::Enabled, None) };
            let expected = Some(Arc::new(expected));
            self.configuration.instruct(Instruction::Expect { expected, forced: false });
            let consent = Consent::Granted { by: "the lab".to_owned(), until: None };
            self.configuration.instruct(Instruction::Consent(consent));
        }
        let guid = self.emulator.fabric().topology().node(switch).guid;
        let expected = self.configuration.expected().cloned().unwrap_or_default();
        let ports = expected.switches.get(&guid).into_iter().flat_map(|it| it.ports.keys());
        for &num in ports {
            self.configuration.instruct(match out {
                true => Instruction::PhaseOut((guid, num), String::new()),
                false => Instruction::PhaseIn((guid, num)),
            });
        }
        self.work();
    }

    /// The controller says that a view, and all before it, are clear.
    pub fn clear(&mut self, version: u64) {
        let now = self.emulator.now();
        self.sweep.handle(Event::Clear { version }, now);
        self.work();
    }

    /// When manager or fabric next have something to do.
    pub fn next_time(&self) -> Option<Time> {
        self.emulator.next_event_time().into_iter().chain(self.next_deadline()).min()
    }

    fn next_deadline(&self) -> Option<Time> {
        self.sweep.next_deadline().into_iter().chain(self.configuration.next_deadline()).min()
    }

    /// Lets time pass.
    pub fn run_until(&mut self, until: Time) {
        loop {
            self.work();
            let Some(next) = self.next_time().filter(|&next| next <= until) else { break };
            self.emulator.advance(next);
            self.work();
            let now = self.emulator.now();
            if self.next_deadline().is_some_and(|deadline| deadline <= now) {
                self.sweep.handle_deadline(now);
                self.configuration.handle_deadline(now);
            }
        }
        self.emulator.advance(until.max(self.emulator.now()));
    }

    fn measure(&mut self, limit: Time, begin: impl FnOnce(&mut Self)) -> Cost {
        let start = self.now();
        let before = self.metrics().clone();
        let sent = self.sent;
        self.first_view = None;
        begin(self);
        self.settle(start + limit);
        let after = self.metrics();
        Cost {
            smps: after.smps() - before.smps(),
            sets: after.sets() - before.sets(),
            blocks: after.blocks_written - before.blocks_written,
            rewritten: after.blocks_rewritten - before.blocks_rewritten,
            smps_to_view: self.first_view.map(|by_then| by_then - sent),
            time: self.last_sent.max(start) - start,
        }
    }

    /// Runs until the manager has been idle for a while and nothing more is about to happen by itself: a
    /// node that reboots comes back, a link that trains comes up.
    fn settle(&mut self, limit: Time) {
        let mut idle_since = None;
        while self.now() < limit {
            self.work();
            let now = self.now();
            let coming = [self.emulator.next_event_time(), self.configuration.next_deadline()];
            let coming = coming.into_iter().flatten().min().filter(|&at| at < now + FORESIGHT);
            if !self.sweep.is_idle() {
                idle_since = None;
            } else if let Some(at) = coming {
                self.run_until(at.min(limit));
                continue;
            } else if now - *idle_since.get_or_insert(now) >= QUIET {
                return;
            }
            self.run_until((now + Time::millis(1)).min(limit));
        }
    }

    /// Does what the core wants done, until it wants nothing.
    fn work(&mut self) {
        loop {
            self.configure();
            while let Some(output) = self.sweep.poll_output() {
                self.obey(output);
                self.configure();
            }
            let Some(received) = self.emulator.poll(self.client) else { return };
            self.note(received.at, received.slid, &received.mad, false);
            let (source, bytes) = (received.slid, &received.mad.0[..]);
            let event = match received.mad.header().class().is_subnet() {
                true => Event::Mad { port: HOME, source, bytes },
                false => {
                    let from = Origin { lid: source, qp: 1, sl: 0, p_key: PKey::DEFAULT };
                    Event::General { port: HOME, from, bytes }
                }
            };
            self.sweep.handle(event, received.at);
        }
    }

    /// Configuration has its say.
    fn configure(&mut self) {
        let now = self.emulator.now();
        self.sweep.configure(&mut self.configuration, now);
        self.sweep.look_at_passed(&mut self.configuration, now);
        while let Some(report) = self.configuration.next_report() {
            self.reports.push(Report::Port(report));
        }
    }

    fn obey(&mut self, output: Output) {
        let now = self.emulator.now();
        match output {
            Output::Send { to, mad, .. } => {
                let to = match to {
                    Destination::Directed => PERMISSIVE,
                    Destination::Lid(lid) => lid,
                };
                (self.sent, self.last_sent) = (self.sent + 1, now);
                self.note(now, to, &mad, true);
                self.emulator.send(self.client, &mad, to, now);
            }
            Output::Compute(job) => {
                self.sweep.handle(Event::Computed(Box::new(job.run())), now);
            }
            Output::View(view) => {
                self.first_view.get_or_insert(self.sent);
                self.views.push(view.clone());
                self.view = Some(view);
            }
            // Of ports under test; no program asks for records here.
            Output::Answer { to, mad, .. } => {
                self.note(now, to.lid, &mad, true);
                self.emulator.send(self.client, &mad, to.lid, now);
            }
            // No controller is asked for what agents send.
            Output::TestLink { number, .. } => {
                self.sweep.handle(Event::LinkTested { number, arrived: None }, now);
            }
            // Nothing has to survive.
            // One manager needs no mirror, and no cluster.
            Output::Save(_) | Output::Served(_) => {}
            Output::Report(report) => self.reports.push(Report::Sweep(report)),
        }
    }

    /// The time.
    pub const fn now(&self) -> Time {
        self.emulator.now()
    }

    /// The last view published.
    pub fn view(&self) -> Option<&FabricView> {
        self.view.as_deref()
    }

    /// The same, to be kept.
    pub fn last_view(&self) -> Option<Arc<FabricView>> {
        self.view.clone()
    }

    /// The views published since the last call, in order.
    pub fn take_views(&mut self) -> Vec<Arc<FabricView>> {
        std::mem::take(&mut self.views)
    }

    /// The nodes that were written to since the last call.
    pub fn take_written(&mut self) -> BTreeSet<NodeIndex> {
        self.written.take()
    }

    /// The switches' ports whose links the manager has disabled.
    pub fn disabled(&self) -> BTreeSet<PortIndex> {
        self.disabled.borrow().clone()
    }

    /// The manager's counters.
    pub const fn metrics(&self) -> &snin_sweep::Metrics {
        self.sweep.metrics()
    }

    /// What is not as it should be, by name.
    pub fn missing(&self) -> Vec<Missing> {
        self.sweep.missing()
    }

    /// What the manager had to tell.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// How many cables there are, over how many of them something can pass now, and how many of those are active
    /// at both ends.
    pub fn cables(&self) -> Cables {
        let fabric = self.emulator.fabric();
        let live = fabric.live_topology();
        let ends = live.ports().filter_map(|port| Some((port, live.peer(port)?)));
        let active = |port| fabric.port_state(port) == PortState::Active;
        let both = ends.filter(|&(port, peer)| port < peer && active(port) && active(peer));
        let (all, up) = (fabric.topology().cable_count(), live.cable_count());
        Cables { all, up, active: both.count() }
    }

    /// What the ports and switches themselves hold now: addresses, and a table a switch. `None` where ports
    /// hold addresses that contradict each other.
    pub fn read_back(&self) -> Option<(Addresses, Vec<ForwardingTable>)> {
        let fabric = self.emulator.fabric();
        Some((fabric.addresses().ok()?, fabric.tables()))
    }

    /// The lanes of all ports now.
    pub fn lanes(&self) -> Vec<PortLanes> {
        self.emulator.fabric().lanes()
    }

    /// What a switch forwards now.
    pub fn table(&self, switch: NodeIndex) -> ForwardingTable {
        self.emulator.fabric().table(switch)
    }

    /// The addresses of all ports now; `None` where ports contradict each other.
    pub fn addresses(&self) -> Option<Addresses> {
        self.emulator.fabric().addresses().ok()
    }

    /// The checkers' word on the tables and addresses that the switches and ports hold now, over the cables
    /// that are up. `None` where ports hold addresses that contradict each other.
    pub fn judge(&self, named: usize) -> Option<Judged> {
        let fabric = self.emulator.fabric();
        let live = fabric.live_topology();
        let addresses = fabric.addresses().ok()?;
        let tables = fabric.tables();
        Some(Judged {
            cover: cover(&live, &addresses, named),
            routes: walk(&live, &addresses, &tables, named),
            credit: credit(&live, &addresses, &tables, Traffic::All, |_, _| 0),
        })
    }
}
