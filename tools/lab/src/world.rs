//! One virtual time for all: the subnet manager's sweep, the controller's windows, the meshes of all agents,
//! the control channel between them, and the data that goes over the emulated fabric.
//!
//! Everything that happens is a `ScenarioEvent` in one queue, ordered by time and by when it was planned;
//! the network, the manager and the controller say themselves when they want to go on. So a run replays
//! from its seed.

mod asking;
mod diverted;
mod measure;
mod news;
mod strike;
mod unasked;

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_agent_core::PortEvent;
use snin_controller_core::Core;
use snin_controller_core::config::{Config, Policy};
use snin_controller_core::events::WindowReport;
use snin_emulator::data::{self, Transport};
use snin_fabric::hosts::{Host as HostPort, HostId, Hosts};
use snin_fabric::traffic::Demand;
use snin_fabric::{Addresses, ForwardingTable, Guid, Lid, NodeIndex, PortIndex, Topology, TreeId};
use snin_protocol::{Epoch, Time};
use snin_sweep::FabricView;

use super::bound::{Judge, Limit};
use super::channel::Channel;
use super::event::ScenarioEvent as Planned;
use super::guard;
use super::host::Host;
use super::lanes::Ordinary;
use super::subnet::Subnet;
use super::traffic::{Served, Tally, Traffic, degree};
use super::wire::Wire;
use strike::Cables;
use unasked::Levels;

/// What a user decides.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Clocks, losses, paths.
    pub seed: u64,
    /// Windows to run.
    pub windows: u32,
    /// How long a window is.
    pub window: Time,
    /// How much of each window is simulated.
    pub slice: Time,
    /// For how many windows a connection sends.
    pub hold: u32,
    /// How far an agent's clock may be from the controller's.
    pub skew: Time,
    /// How far clocks really are; more than `skew` is a bug, planted to see it found out.
    pub clocks: Time,
    /// How long a control message takes, about.
    pub control_latency: Time,
    /// Of a million control messages, those that are lost.
    pub control_loss: u32,
    /// The most queue pairs of an agent.
    pub queue_pairs: u32,
    /// Is non-interference in effect?
    pub policy: Policy,
    /// How many hosts have no agent, and so ask for no grants.
    pub unmanaged: u32,
    /// Hosts that flood base addresses instead of those.
    pub ordinary: Option<Ordinary>,
    /// Bounds to judge.
    pub bounds: Vec<Limit>,
    /// Acknowledged, or not.
    pub transport: Transport,
    /// Rates and sizes.
    pub data: data::Config,
    /// What happens to the fabric.
    pub events: Vec<Planned>,
}

/// What cannot be simulated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WorldError {
    /// The data plane.
    #[error(transparent)]
    Data(#[from] data::ConfigError),
    /// The controller.
    #[error(transparent)]
    Controller(#[from] snin_controller_core::error::ConfigError),
    /// An agent.
    #[error(transparent)]
    Agent(#[from] snin_agent_core::ConfigError),
    /// The manager published nothing.
    #[error("the subnet manager published no view")]
    NoView,
    /// Ports contradict each other.
    #[error("ports hold addresses that contradict each other")]
    Addresses,
    /// A window ends before all is sent that it simulates.
    #[error("{0} of sending do not fit into a window of {1}")]
    TooLong(Time, Time),
    /// There are not so many.
    #[error("{0} hosts without an agent, of {1} hosts in all")]
    Unmanaged(u32, usize),
    /// An event names what is not there.
    #[error("--event {0}")]
    Event(String),
}

/// What was sent in a window along a tree; by who did not ask, along that of base addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// By whom.
    pub source: HostId,
    /// To whom.
    pub destination: HostId,
    /// By which port.
    pub port: PortIndex,
    /// Along which tree.
    pub tree: TreeId,
    /// To which address.
    pub lid: Lid,
    /// How many bytes.
    pub bytes: u64,
    /// Bit/s that were asked for, where that is less than the links carry.
    pub rate: Option<u64>,
}

/// What was sent in a window, and what came of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Carried {
    /// A message each.
    pub sent: Vec<Sent>,
    /// Payload that arrived in time.
    pub in_time: u64,
    /// Payload that was to be sent.
    pub possible: u64,
}

/// The state of a window as soon as all senders have begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sending {
    /// From 0.
    pub number: u32,
    /// A message each: first of flows with a granted tree, then of hosts without an agent.
    pub sent: Vec<Sent>,
    /// How long the longest takes to be sent.
    pub longest: Time,
}

/// A window that is over.
#[derive(Clone, Debug)]
pub struct Window {
    /// From 0.
    pub number: u32,
    /// How long the longest message took that could be sent.
    pub longest: Time,
    /// What was sent in it by who was granted a tree.
    pub granted: Carried,
    /// What hosts without an agent sent.
    pub unasked: Carried,
    /// What the controller says of it; nothing where the window could not be decided.
    pub report: WindowReport,
    /// Data packets that each port sent in it.
    pub packets: Vec<u64>,
}

impl Window {
    /// What was sent, whenever it began.
    pub fn sending(&self) -> Sending {
        Sending::of(self.number, &self.granted, &self.unasked, self.longest)
    }
}

impl Sending {
    fn of(number: u32, granted: &Carried, unasked: &Carried, longest: Time) -> Self {
        Self { number, sent: [granted.sent.as_slice(), &unasked.sent].concat(), longest }
    }
}

/// What was counted over all windows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Times that a connection had to wait for the next window.
    pub deferred: u64,
    /// Connections that changed trees in service.
    pub moved: u64,
    /// Of those, the ones that had to stop meanwhile.
    pub paused: u64,
    /// The most owners of a directed link in any window: the controller's certificate, and what was seen.
    pub max_link_load: u32,
    /// Control messages sent, and those of them that were lost.
    pub control: (u64, u64),
    /// Messages whose way was changed while they were on it.
    pub diverted: u64,
    /// Windows with a certificate that did not hold.
    pub certificates_failed: u64,
}

enum ScenarioEvent {
    ToController(u32, Vec<u8>),
    ToAgent(u32, Vec<u8>),
    View(Arc<FabricView>),
    Clear(u64),
    Port(u32, PortEvent),
    Wake(u32),
    /// A host's own clock says that a window begins.
    Offer(u32),
    WindowBegins,
    /// The last clock says that the window has begun.
    AllSend,
    SliceEnds,
    Strike(usize),
    /// A node that was switched off has power again.
    Back(NodeIndex),
}

/// See the module's documentation.
pub struct World<'a> {
    setup: Setup,
    topology: &'a Topology,
    hosts_of: Hosts,
    subnet: Subnet,
    controller: Core,
    hosts: BTreeMap<u32, Host>,
    place: BTreeMap<Guid, u32>,
    clocks: ChaCha8Rng,
    channel: Channel,
    wire: Wire,
    traffic: Traffic,
    /// Hosts without an agent, and the hosts to which they send.
    unasked: BTreeMap<HostId, Vec<Demand>>,
    levels: Levels,
    addresses: Addresses,
    tables: Arc<Vec<ForwardingTable>>,
    cables: Cables,
    /// Bit/s of the slowest cable, where that is known.
    slowest: Option<u64>,
    queue: BTreeMap<(Time, u64), ScenarioEvent>,
    planned: u64,
    now: Time,
    drain: Time,
    /// The most that a host has of anything to send or receive at once.
    degree: usize,
    /// When the first window begins, and how many have.
    first: Epoch,
    begun: u32,
    reports: BTreeMap<Epoch, WindowReport>,
    /// The first message of the window.
    from: u32,
    /// How long the longest message takes that may be sent in it.
    longest: Time,
    /// Packets of every port before it.
    packets: Vec<u64>,
    sending: Option<Sending>,
    finished: Option<Window>,
    totals: Totals,
    notes: Vec<String>,
}

impl<'a> World<'a> {
    /// Agents and a controller for a fabric that its manager has brought up.
    ///
    /// # Errors
    /// What cannot be simulated.
    pub fn new(setup: Setup, topology: &'a Topology, subnet: Subnet) -> Result<Self, WorldError> {
        let view = subnet.last_view().ok_or(WorldError::NoView)?;
        let (addresses, tables) = subnet.read_back().ok_or(WorldError::Addresses)?;
        let (data, levels) = unasked::lanes(&setup);
        let slowest = asking::slowest(topology, &data);
        let longest = guard::longest(topology, &addresses, &tables, &data, slowest)?;
        // Where others are on the links too, one packet of theirs may be in the way at each switch.
        let in_the_way =
            if unasked::share(&setup) { longest.packet * longest.hops } else { Time::ZERO };
        let drain = longest.time + in_the_way;
        let judge = Judge::new(&setup.bounds);
        let mut wire = Wire::new(topology, data, &addresses, &tables, judge)?;
        if levels.are_programmed() {
            wire.set_lanes(subnet.lanes());
        }
        let now = subnet.now();
        let config = Config {
            window: setup.window,
            lead: setup.window / 8,
            clock_error: setup.skew,
            drain,
            guard: setup.skew + drain,
            repeat: Time::millis(1).max(setup.control_latency * 4),
            policy: setup.policy,
            bounds: setup.bounds.iter().map(|&limit| limit.into()).collect(),
            ..Config::default()
        };
        let controller = Core::new(config, view, now)?;
        let hosts_of = Hosts::of(topology);
        let guid = |(id, host): (HostId, &HostPort)| (topology.port(host.port).guid, id.0);
        let place = hosts_of.iter().map(guid).collect();
        let unasked = unasked::chosen(&setup, hosts_of.len())?;
        let mut seeds = ChaCha8Rng::seed_from_u64(setup.seed);
        let channel = Channel::new(setup.control_latency, setup.control_loss, seeds.random());
        let mut world = Self {
            // One window to say hello, one to ask.
            first: Epoch::of(now, setup.window).after(3),
            clocks: ChaCha8Rng::seed_from_u64(seeds.random()),
            traffic: Traffic::new(hosts_of.len(), setup.hold),
            unasked,
            levels,
            packets: vec![0; topology.port_count()],
            tables: Arc::new(tables),
            setup,
            topology,
            hosts_of,
            subnet,
            controller,
            hosts: BTreeMap::new(),
            place,
            channel,
            wire,
            addresses,
            cables: Cables::default(),
            slowest,
            queue: BTreeMap::new(),
            planned: 0,
            now,
            drain,
            degree: 1,
            begun: 0,
            reports: BTreeMap::new(),
            from: 0,
            longest: Time::ZERO,
            sending: None,
            finished: None,
            totals: Totals::default(),
            notes: Vec::new(),
        };
        world.plan_events()?;
        world.plan(world.start_of(0), ScenarioEvent::WindowBegins);
        Ok(world)
    }

    /// An acknowledgement reaches the sender a little after the last packet is there.
    fn receive_out(&mut self) {
        if self.setup.transport == Transport::Rc {
            self.run_until(self.now + self.drain * 2);
        }
    }

    fn start_of(&self, window: u32) -> Time {
        self.first.after(u64::from(window)).start(self.setup.window)
    }

    fn plan(&mut self, at: Time, happening: ScenarioEvent) {
        self.planned += 1;
        self.queue.insert((at.max(self.now), self.planned), happening);
    }

    /// Runs the next window until all have begun whose clocks and control messages are as good as they should
    /// be; `None` after the last. `pattern` is asked for the pattern of that number when all of the one before
    /// is done.
    ///
    /// # Errors
    /// What `pattern` says, and what cannot be simulated.
    pub fn begin_window<E: From<WorldError>>(
        &mut self,
        mut pattern: impl FnMut(usize) -> Result<Vec<Demand>, E>,
    ) -> Result<Option<Sending>, E> {
        self.receive_out();
        if self.begun == self.setup.windows {
            return Ok(None);
        }
        if self.begun == 0 {
            // Conversations begin before there is anything to ask for.
            let demands = self.who_ask(pattern(0)?);
            self.degree = degree(&demands, self.hosts_of.len()).max(1);
            self.meet(&demands)?;
            self.run_until(self.start_of(0) - self.setup.window);
            self.ask(&demands)?;
        } else if self.traffic.is_over() {
            let demands = self.who_ask(pattern(self.traffic.patterns().len())?);
            self.meet(&demands)?;
            self.ask(&demands)?;
        }
        Ok(Some(self.run_to(|world| world.sending.take())))
    }

    /// Runs the window that has begun to the end of what is simulated of it.
    pub fn end_window(&mut self) -> Window {
        self.run_to(|world| world.finished.take())
    }

    /// Lets time pass until there is something.
    fn run_to<T>(&mut self, mut something: impl FnMut(&mut Self) -> Option<T>) -> T {
        loop {
            if let Some(found) = something(self) {
                return found;
            }
            self.step(Time::MAX);
        }
    }

    /// Lets time pass.
    fn run_until(&mut self, until: Time) {
        while self.now < until {
            self.step(until);
        }
    }

    /// Goes on to the next event, `until` at the latest.
    fn step(&mut self, until: Time) {
        let first = self.queue.first_key_value().map(|(&(at, _), _)| at);
        let others = [first, self.controller.next_deadline(), self.subnet.next_time()];
        let next = others.into_iter().flatten().min().unwrap_or(until).min(until).max(self.now);
        self.now = self.wire.run_until(next);
        let news = self.wire.take_news();
        if !news.is_empty() {
            return news.into_iter().for_each(|news| self.receive(news));
        }
        if self.subnet.next_time().is_some_and(|at| at <= self.now) {
            self.subnet.run_until(self.now);
            self.after_subnet();
        }
        if self.controller.next_deadline().is_some_and(|at| at <= self.now) {
            self.controller.handle_deadline(self.now);
            self.after_controller();
        }
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let happening = entry.remove();
            self.happen(happening);
        }
    }

    /// The guard of every grant, and what of it is the longest path.
    pub fn guard(&self) -> (Time, Time) {
        (self.setup.skew + self.drain, self.drain)
    }

    /// Counted over all windows.
    pub fn totals(&self) -> Totals {
        Totals { control: self.channel.counted(), ..self.totals }
    }

    /// What applications asked for.
    pub const fn tally(&self) -> Tally {
        self.traffic.tally()
    }

    /// Every pattern asked for so far.
    pub fn patterns(&self) -> &[Served] {
        self.traffic.patterns()
    }

    /// The data plane, its checker and its judge.
    pub const fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The hosts that a connection of the lab joins.
    pub fn demand(&self, connection: u32) -> Option<Demand> {
        self.traffic.demand(connection)
    }

    /// The data plane, for those who plant bugs there.
    pub const fn wire_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// What every switch forwards now.
    pub fn tables(&self) -> Arc<Vec<ForwardingTable>> {
        self.tables.clone()
    }

    /// The addresses of all ports now.
    pub const fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Things worth telling.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
