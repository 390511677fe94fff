//! The world: agents, the controller, the subnet manager and what happens to them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash};
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_controller_core::Core;
use snin_controller_core::config::Config;
use snin_controller_core::events::{Event, Output, WindowReport};
use snin_controller_core::orders::SliceRecord;
use snin_fabric::view::PlannedView;
use snin_fabric::{Guid, PortIndex};
use snin_protocol::codec::{decode, encode};
use snin_protocol::message::{AgentMessage, Confirm, FromAgent, Request, ToAgent, ViewChange};
use snin_protocol::{ConnectionNumber, Term, Time};

use super::agent::{Agent, Turn};
use super::between;
use super::checker::Checker;
use super::fabric::{Fabric, Plant};
use super::life::Life;
use super::orders::Orders as _;

enum Happening {
    ToController(Guid, Vec<u8>),
    ToAgent(usize, Vec<u8>),
    Wake(usize),
    Controller,
    Window,
    Lost(Guid),
    Restart(usize),
    Told(Event),
    Repaired,
    Published,
}

/// What the subnet manager is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manager {
    Idle,
    /// Cables are cut; the manager waits until no connection uses them to repair tables.
    WaitsForClear(u64),
    Writes,
}

pub struct World {
    pub now: Time,
    pub core: Core,
    pub agents: Vec<Agent>,
    pub checker: Checker,
    pub reports: Vec<WindowReport>,
    pub clears: Vec<u64>,
    pub life: Life,
    pub whole: Fabric,
    pub fabric: Fabric,
    next_fabric: Option<Fabric>,
    plant: Plant,
    cut: BTreeSet<PortIndex>,
    manager: Manager,
    version: u64,
    unusable: ViewChange,
    place: BTreeMap<Guid, usize>,
    queue: BTreeMap<(Time, u64), Happening>,
    queued: u64,
    waking: Vec<Time>,
    core_at: Time,
    rng: ChaCha8Rng,
    pub hash: DefaultHasher,
    pub takeovers: u64,
    pub cuts: u64,
}

impl World {
    pub fn new(fabric: Fabric, life: Life, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let start = between(&mut rng, Time::ZERO, Time::millis(50));
        let core = Core::new(life.config.clone(), fabric.view(1), start).unwrap();
        let ports = fabric.ports();
        let agent = |&port: &Guid| {
            let mut agent = Agent::new(port, life.drain);
            agent.hasty = life.hasty;
            agent
        };
        let mut world = Self {
            now: start,
            core,
            agents: ports.iter().map(agent).collect(),
            checker: Checker::default(),
            reports: Vec::new(),
            clears: Vec::new(),
            plant: Plant::new(&fabric),
            whole: fabric.clone(),
            fabric,
            next_fabric: None,
            cut: BTreeSet::new(),
            manager: Manager::Idle,
            version: 1,
            unusable: ViewChange::default(),
            place: ports.iter().enumerate().map(|(place, &port)| (port, place)).collect(),
            queue: BTreeMap::new(),
            queued: 0,
            waking: vec![Time::MAX; ports.len()],
            core_at: Time::MAX,
            rng,
            hash: DefaultHasher::new(),
            takeovers: 0,
            cuts: 0,
            life,
        };
        for place in 0..world.agents.len() {
            world.set_clock(place);
            world.agents[place].look(start);
            world.after_agent(place);
        }
        world.after_core();
        world.later(world.life.config.window, Happening::Window);
        world
    }

    fn later(&mut self, after: Time, what: Happening) {
        self.queued += 1;
        self.queue.insert((self.now + after, self.queued), what);
    }

    fn set_clock(&mut self, place: usize) {
        let skew = self.life.skew.0 as i64;
        // Clocks at the ends of what is allowed are the hardest.
        self.agents[place].ahead = match self.rng.random_range(0..4) {
            0 => skew,
            1 => -skew,
            _ => self.rng.random_range(-skew..=skew),
        };
    }

    fn chance(&mut self, in_a_thousand: u32) -> bool {
        in_a_thousand > 0 && self.rng.random_range(0..1000) < in_a_thousand
    }

    pub fn run(&mut self, windows: u64) {
        let end = self.now + self.life.config.window * windows;
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((at, _), what) = entry.remove_entry();
            self.now = at;
            self.happen(what);
        }
        self.now = end;
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::ToController(from, bytes) => {
                let (message, _) = decode::<FromAgent>(&bytes).unwrap().unwrap();
                self.core.handle(Event::Received { from, message }, self.now);
                self.after_core();
            }
            Happening::ToAgent(place, bytes) => {
                let (message, _) = decode::<ToAgent>(&bytes).unwrap().unwrap();
                if self.agents[place].alive {
                    self.agents[place].receive(&message, self.now);
                    self.after_agent(place);
                }
            }
            Happening::Wake(place) => {
                if self.waking[place] <= self.now {
                    self.waking[place] = Time::MAX;
                    self.agents[place].look(self.now);
                    self.after_agent(place);
                }
            }
            Happening::Controller => {
                if self.core_at <= self.now {
                    self.core_at = Time::MAX;
                    self.core.handle_deadline(self.now);
                    self.after_core();
                }
            }
            Happening::Window => self.live(),
            Happening::Lost(port) => self.notify(Event::AgentLost(port)),
            Happening::Restart(place) => {
                self.set_clock(place);
                self.agents[place].restart(self.now);
                self.after_agent(place);
            }
            Happening::Told(event) => self.notify(event),
            Happening::Repaired => self.repaired(),
            Happening::Published => self.published(),
        }
    }

    pub fn notify(&mut self, event: Event) {
        self.core.handle(event, self.now);
        self.after_core();
    }

    fn send(&mut self, what: impl Fn() -> Happening) {
        let copies = 1 + u32::from(self.chance(self.life.doubled));
        for _ in 0..copies {
            if self.chance(self.life.lost) {
                continue;
            }
            let (least, most) = self.life.delay;
            let most = if self.chance(self.life.stragglers) { self.life.straggle } else { most };
            let after = between(&mut self.rng, least, most);
            self.later(after, what());
        }
    }

    fn after_core(&mut self) {
        while let Some(output) = self.core.poll_output() {
            format!("{} {output:?}", self.now).hash(&mut self.hash);
            match output {
                Output::Send { to, message } => {
                    let bytes = encode(&message).unwrap();
                    let Some(&place) = self.place.get(&to) else { continue };
                    if let (true, snin_protocol::message::ControllerMessage::Lease(lease)) =
                        (self.life.forged, &message.body)
                    {
                        // A planted bug: a confirmation that is not the agent's is sent at once.
                        let body = AgentMessage::Confirm(Confirm { sequence: lease.sequence });
                        let forged = FromAgent { session: message.session, body };
                        let forged = encode(&forged).unwrap();
                        self.later(Time(1), Happening::ToController(to, forged));
                    }
                    self.send(|| Happening::ToAgent(place, bytes.clone()));
                }
                Output::Clear(clear) => {
                    self.clears.push(clear.version);
                    if self.manager == Manager::WaitsForClear(clear.version) {
                        self.begin_repair();
                    }
                }
                Output::LinkTested(..) => {}
                Output::Window(report) => self.reports.push(report),
                Output::Note(note) => {
                    let text = format!("{note:?}");
                    assert!(!text.contains("Certificate"), "{text}");
                }
            }
        }
        if let Some(at) = self.core.next_deadline()
            && at < self.core_at
        {
            self.core_at = at;
            self.later(at - self.now, Happening::Controller);
        }
    }

    fn after_agent(&mut self, place: usize) {
        let now = self.now;
        let agent = &mut self.agents[place];
        let port = agent.port;
        for turn in std::mem::take(&mut agent.turns) {
            match turn {
                Turn::Stop(number, dlid) => {
                    self.checker.stop((port, number), dlid, now, now + self.life.drain);
                }
                Turn::Start(number, dlid) => {
                    if let Some((request, _)) = agent.wanted.get(&number)
                        && self.cut.is_empty()
                    {
                        let destination = self.plant.destination(port, dlid);
                        assert_eq!(destination, Some(request.destination));
                    }
                    self.checker.start(&self.plant, (port, number), dlid, now);
                }
            }
        }
        for message in std::mem::take(&mut agent.outbox) {
            let bytes = encode(&message).unwrap();
            self.send(|| Happening::ToController(port, bytes.clone()));
        }
        let at = self.agents[place].wake_at(now);
        if at < self.waking[place] {
            self.waking[place] = at;
            self.later(at - now, Happening::Wake(place));
        }
    }

    pub fn request(&mut self, place: usize, number: u32, destination: usize, windows: u32) {
        let request = self.ask(number, destination, windows);
        self.agents[place].request(request);
        self.after_agent(place);
    }

    pub fn ask(&self, number: u32, destination: usize, windows: u32) -> Request {
        Request {
            connection: ConnectionNumber(number),
            destination: self.agents[destination].port,
            windows,
            rate: 0,
            class: 0,
            pinned: false,
            tree: None,
        }
    }

    pub fn close(&mut self, place: usize, number: u32) {
        self.agents[place].close(ConnectionNumber(number), self.now);
        self.after_agent(place);
    }

    /// What happens by itself in a window.
    fn live(&mut self) {
        self.later(self.life.config.window, Happening::Window);
        for place in 0..self.agents.len() {
            self.live_as(place);
        }
        if self.chance(self.life.cuts) {
            self.cut_or_restore();
        }
        if self.chance(self.life.takeovers) {
            self.take_over();
        }
    }

    fn live_as(&mut self, place: usize) {
        if !self.agents[place].alive {
            return;
        }
        if self.chance(self.life.crashes) {
            self.agents[place].crash(self.now);
            self.after_agent(place);
            let away = between(&mut self.rng, Time::micros(100), self.life.config.window * 8);
            self.later(away, Happening::Restart(place));
            if self.chance(500) {
                let port = self.agents[place].port;
                self.later(Time::micros(300), Happening::Lost(port));
            }
            return;
        }
        if self.chance(100) {
            self.set_clock(place);
            self.agents[place].look(self.now);
        }
        if self.chance(self.life.requests) {
            let number = self.rng.random_range(0..3);
            let windows = if self.life.exclusive { 0 } else { self.rng.random_range(0..4) };
            let to = self.rng.random_range(0..self.agents.len());
            let pinned = self.chance(50);
            let free = if self.life.exclusive {
                self.agents[place].wanted.is_empty() && !self.is_wanted(to)
            } else {
                !self.agents[place].wanted.contains_key(&ConnectionNumber(number))
            };
            if free {
                let request = Request { pinned, ..self.ask(number, to, windows) };
                self.agents[place].request(request);
            }
        }
        if self.chance(self.life.withdrawals) {
            let number = self.rng.random_range(0..3);
            self.agents[place].close(ConnectionNumber(number), self.now);
        }
        self.after_agent(place);
    }

    fn is_wanted(&self, place: usize) -> bool {
        let port = self.agents[place].port;
        let mut wanted = self.agents.iter().flat_map(|agent| agent.wanted.values());
        wanted.any(|(request, _)| request.destination == port)
    }

    pub fn cut_or_restore(&mut self) {
        if self.manager != Manager::Idle {
            return;
        }
        if self.cut.len() > 2 || (!self.cut.is_empty() && self.chance(300)) {
            let mended = *self.cut.first().unwrap();
            let mut cut = self.cut.clone();
            cut.remove(&mended);
            self.restore(cut);
        } else {
            let trunks = self.whole.trunks();
            let trunk = trunks[self.rng.random_range(0..trunks.len())];
            self.cut_cable(trunk);
        }
    }

    /// First the controller hears what is unusable, then tables are repaired, then it hears of those.
    pub fn cut_cable(&mut self, trunk: PortIndex) {
        let mut cut = self.cut.clone();
        cut.insert(trunk);
        let next = self.whole.without(&cut);
        let same = next.routing.forest.len() == self.whole.routing.forest.len();
        if cut == self.cut || !same {
            return;
        }
        self.cuts += 1;
        self.cut = cut;
        self.version += 1;
        self.unusable =
            ViewChange { version: self.version, unusable: next.named(&next.uncovered()) };
        self.next_fabric = Some(next);
        self.manager = Manager::WaitsForClear(self.version);
        if self.life.impatient {
            self.begin_repair();
        }
        let told = Event::Unusable(self.unusable.clone());
        self.later(Time::micros(50), Happening::Told(told));
    }

    fn begin_repair(&mut self) {
        self.manager = Manager::Writes;
        self.later(Time::micros(30), Happening::Repaired);
    }

    fn repaired(&mut self) {
        let Some(next) = self.next_fabric.take() else { return };
        self.plant.write_tables(&next);
        self.checker.tables_changed(&self.plant, self.now, self.life.drain);
        self.fabric = next;
        self.later(Time::micros(200), Happening::Published);
    }

    fn published(&mut self) {
        self.manager = Manager::Idle;
        self.version += 1;
        let view = self.fabric.view(self.version);
        self.notify(Event::View(view));
    }

    /// Tables first: nothing was granted along what comes back.
    pub fn restore(&mut self, cut: BTreeSet<PortIndex>) {
        self.cut = cut;
        self.next_fabric = Some(self.whole.without(&self.cut));
        self.manager = Manager::Writes;
        self.repaired();
    }

    /// Another controller takes over; what the old one sent is still under way.
    pub fn take_over(&mut self) {
        self.takeovers += 1;
        let term = Term(self.core.config().term.0 + 1);
        let config = Config { term, ..self.life.config.clone() };
        let view = PlannedView::clone(&self.fabric.view(self.version));
        let owners: Vec<String> = self.core.slice_owners().map(str::to_owned).collect();
        let slices: Vec<SliceRecord> =
            owners.iter().filter_map(|owner| self.core.slice_record(owner).cloned()).collect();
        self.core = Core::new(config, Arc::new(view), self.now).unwrap();
        self.core.restore_slices(slices);
        self.core_at = Time::MAX;
        self.version += 1;
        if let Manager::WaitsForClear(version) = &mut self.manager {
            *version = self.version;
            self.unusable.version = self.version;
            self.core.handle(Event::Unusable(self.unusable.clone()), self.now);
        }
        self.after_core();
    }
}
