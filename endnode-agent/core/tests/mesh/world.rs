//! Agents, their ports, a controller and lossy ways between them, in virtual time from one seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_agent_core::{
    Call, Config, Event, FlowId, Io, Mesh, Message, Notice, Output, Port as _, PortEvent, Wanted,
    poll,
};
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::message::{FromAgent, Terms, ToAgent};

use crate::checker::Checker;
use crate::controller::Controller;
use crate::fake_port::{FakePort, Later, Nature};

pub(crate) struct Setting {
    pub(crate) seed: u64,
    pub(crate) hosts: usize,
    pub(crate) flows: u32,
    pub(crate) trees: u16,
    pub(crate) messages: u64,
    pub(crate) terms: Terms,
    /// How far the own clocks are from the controller's, at most.
    pub(crate) skew: Time,
    /// When another controller takes over, if one does.
    pub(crate) takes_over: Option<Time>,
    pub(crate) config: Config,
    pub(crate) nature: Nature,
    /// Of a thousand control messages.
    pub(crate) lost: u32,
    pub(crate) control_delay: Time,
    /// How often any queue pair breaks without cause.
    pub(crate) disturbance: Option<Time>,
    pub(crate) most_time: Time,
}

enum WorldEvent {
    Frame(usize, ToAgent),
    Report(usize, FromAgent),
    Port(usize, PortEvent),
    Start(usize),
    Wake(usize),
    Window,
    Disturb,
    TakeOver,
}

struct Agent {
    mesh: Mesh,
    port: FakePort,
    /// What the mesh is to be told.
    events: VecDeque<Event>,
    /// What the mesh was told, and what it wanted done.
    recorded: Vec<(Time, Option<Event>)>,
    outputs: Vec<u64>,
    /// Own clock less true time, plus a second.
    fast: Time,
    start_at: Time,
    wake_at: Time,
    /// By flow: messages handed over, messages sent.
    messages: BTreeMap<FlowId, (u64, u64)>,
}

/// What a mesh works with at one moment.
struct AgentIo<'a> {
    port: &'a mut FakePort,
    events: &'a mut VecDeque<Event>,
    recorded: &'a mut Vec<(Time, Option<Event>)>,
    all: &'a mut Vec<u64>,
    local: Time,
    /// What is not for the port.
    outputs: Vec<Output>,
}

/// Stands for an output; the output itself lends memory.
fn digest(output: &Output) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{output:?}").hash(&mut hasher);
    hasher.finish()
}

impl Io for AgentIo<'_> {
    fn next_event(&mut self) -> Option<Event> {
        let told = self.events.pop_front();
        told.or_else(|| self.port.poll().map(Event::Port))
    }

    fn record(&mut self, now: Time, event: Option<&Event>) {
        self.recorded.push((now, event.cloned()));
    }

    fn carry_out(&mut self, output: Output) {
        self.all.push(digest(&output));
        match output {
            Output::Port(call) => self.port.carry_out(call),
            other => self.outputs.push(other),
        }
    }

    fn now(&self) -> Time {
        self.local
    }
}

pub(crate) struct World {
    setting: Setting,
    now: Time,
    order: u64,
    queue: BinaryHeap<Reverse<(Time, u64, usize)>>,
    events: BTreeMap<usize, WorldEvent>,
    agents: Vec<Agent>,
    pub(crate) controller: Controller,
    pub(crate) checker: Checker,
    rng: ChaCha8Rng,
}

const SECOND: Time = Time::secs(1);

fn guid(host: usize) -> Guid {
    Guid(100 + host as u64)
}

impl World {
    pub(crate) fn new(setting: Setting) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(setting.seed);
        let mut split = || ChaCha8Rng::seed_from_u64(rng.random());
        let controller = Controller::new(setting.hosts, setting.trees, setting.terms, split());
        let agents = (0..setting.hosts)
            .map(|host| {
                let error = setting.skew.nanos();
                let fast = SECOND + Time(split().random_range(0..=2 * error)) - Time(error);
                let config = Config { port: guid(host), ..setting.config };
                let mesh = Mesh::new(config, fast).unwrap();
                let port = FakePort::new(host, guid(host), setting.nature, split());
                let messages = (0..setting.flows).map(|flow| (FlowId(flow), (0, 0))).collect();
                let events = VecDeque::new();
                Agent {
                    mesh,
                    port,
                    events,
                    recorded: Vec::new(),
                    outputs: Vec::new(),
                    fast,
                    start_at: Time::MAX,
                    wake_at: Time::MAX,
                    messages,
                }
            })
            .collect();
        let mut world = Self {
            now: SECOND,
            order: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            agents,
            controller,
            checker: Checker::default(),
            rng,
            setting,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.plan(self.now, WorldEvent::Window);
        if let Some(pause) = self.setting.disturbance {
            self.plan(self.now + pause, WorldEvent::Disturb);
        }
        if let Some(after) = self.setting.takes_over {
            self.plan(self.now + after, WorldEvent::TakeOver);
        }
        for host in 0..self.setting.hosts {
            for number in 0..self.setting.flows {
                let flow = FlowId(number);
                let to =
                    (host + 1 + number as usize % (self.setting.hosts - 1)) % self.setting.hosts;
                self.notify(
                    host,
                    Event::App(Call::Open { flow, peer: guid(to), wanted: Wanted::default() }),
                );
                for _ in 0..4 {
                    self.send_another(host, flow);
                }
            }
            self.run_agent(host);
        }
    }

    fn plan(&mut self, at: Time, event: WorldEvent) {
        let key = self.order as usize;
        self.events.insert(key, event);
        self.queue.push(Reverse((at.max(self.now), self.order, key)));
        self.order += 1;
    }

    fn local(&self, host: usize) -> Time {
        self.now + self.agents[host].fast - SECOND
    }

    /// Gives an agent an event, which it handles when it is next run.
    fn notify(&mut self, host: usize, event: Event) {
        self.agents[host].events.push_back(event);
    }

    fn send_another(&mut self, host: usize, flow: FlowId) {
        let due = self.local(host);
        let bytes = match self.rng.random_range(0..4) {
            0 => self.rng.random_range(0..3),
            1 => self.rng.random_range(0..5_000),
            _ => self.rng.random_range(0..300_000),
        };
        let count = self.agents[host].messages.get_mut(&flow).unwrap();
        if count.0 < self.setting.messages {
            let message = Message { id: count.0, bytes, due };
            count.0 += 1;
            self.notify(host, Event::App(Call::Send { flow, message }));
        }
    }

    /// Lets everything happen until all is sent.
    pub(crate) fn run(&mut self) {
        while let Some(Reverse((at, _, key))) = self.queue.pop() {
            assert!(at < SECOND + self.setting.most_time, "not done by {at}: {}", self.state());
            self.now = at;
            let event = self.events.remove(&key).unwrap();
            self.handle(event);
            if self.is_done() {
                return;
            }
        }
    }

    fn is_done(&self) -> bool {
        let sent =
            |agent: &Agent| agent.messages.values().all(|&(_, sent)| sent == self.setting.messages);
        self.agents.iter().all(sent)
    }

    fn state(&self) -> String {
        let line = |agent: &Agent| {
            let flows: Vec<_> = agent.mesh.flows().collect();
            let pairs: Vec<_> = agent.mesh.pairs().collect();
            format!("{:?}\n{flows:?}\n{pairs:?}\n{:?}\n", agent.messages, agent.mesh.counters())
        };
        self.agents.iter().map(line).collect()
    }

    fn handle(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Frame(host, frame) => {
                self.notify(host, Event::Controller(Arc::new(frame)));
                self.run_agent(host);
            }
            WorldEvent::Report(host, message) => {
                if let Some(answer) = self.controller.receive(host, message, self.now) {
                    self.send_frame(host, answer);
                }
            }
            WorldEvent::TakeOver => self.controller.take_over(),
            WorldEvent::Port(host, event) => {
                self.agents[host].port.inbox.push_back(event);
                self.run_agent(host);
            }
            WorldEvent::Start(host) => {
                self.agents[host].start_at = Time::MAX;
                let config = self.setting.config;
                let port = &mut self.agents[host].port;
                port.now = self.now;
                if port.next_start().is_some_and(|at| at <= self.now) {
                    port.start(|bytes| config.wire(bytes));
                }
                self.run_agent(host);
            }
            WorldEvent::Wake(host) => {
                self.agents[host].wake_at = Time::MAX;
                self.run_agent(host);
            }
            WorldEvent::Window => self.window(),
            WorldEvent::Disturb => {
                let host = self.rng.random_range(0..self.setting.hosts);
                self.agents[host].port.now = self.now;
                self.agents[host].port.break_any();
                self.run_agent(host);
                let pause = self.setting.disturbance.unwrap();
                self.plan(self.now + pause, WorldEvent::Disturb);
            }
        }
    }

    fn window(&mut self) {
        for (host, frame) in self.controller.window(self.now, &mut self.checker) {
            self.send_frame(host, frame);
        }
        let next = self.now + self.setting.terms.window;
        self.plan(next, WorldEvent::Window);
    }

    fn send_frame(&mut self, host: usize, frame: ToAgent) {
        if let Some(at) = self.control_way(frame.at) {
            self.plan(at, WorldEvent::Frame(host, frame));
        }
    }

    /// When a control message arrives that is sent at a time, if it does.
    fn control_way(&mut self, sent: Time) -> Option<Time> {
        let lost = self.rng.random_range(0..1000) < self.setting.lost;
        let delay = Time(self.rng.random_range(0..=self.setting.control_delay.nanos()));
        (!lost).then(|| sent + delay)
    }

    /// Gives an agent its turn, and plans all that follows from it.
    fn run_agent(&mut self, host: usize) {
        let local = self.local(host);
        let Agent { mesh, port, events, recorded, outputs: all, .. } = &mut self.agents[host];
        port.now = self.now;
        let mut io = AgentIo { port, events, recorded, all, local, outputs: Vec::new() };
        while poll(mesh, &mut io, 64) > 0 {}
        for output in io.outputs {
            match output {
                Output::Controller(report) => {
                    if let Some(at) = self.control_way(self.now) {
                        self.plan(at, WorldEvent::Report(host, report));
                    }
                }
                Output::App(notice) => self.notice(host, notice),
                Output::Port(_) => unreachable!("the port was asked already"),
            }
        }
        self.plan_port(host);
        self.plan_wake(host);
    }

    fn notice(&mut self, host: usize, notice: Notice) {
        match notice {
            Notice::Sent { flow, message, .. } => {
                let count = self.agents[host].messages.get_mut(&flow).unwrap();
                assert_eq!(message, count.1, "messages complete in order");
                count.1 += 1;
                assert!(self.checker.messages(host, flow) > message, "complete means arrived");
                self.send_another(host, flow);
                self.plan(self.now, WorldEvent::Wake(host));
            }
            Notice::Received { peer, piece } => {
                self.checker.received((peer.0 - 100) as usize, &piece);
            }
            Notice::Lost { .. } | Notice::Declined { .. } => panic!("{notice:?}"),
            _ => {}
        }
    }

    fn plan_port(&mut self, host: usize) {
        let port = &mut self.agents[host].port;
        let sent: Vec<_> = port.sent.drain(..).collect();
        let later: Vec<_> = port.later.drain(..).collect();
        let start = port.next_start().filter(|&at| at < self.agents[host].start_at);
        for sent in sent {
            self.checker.sent(&sent, self.setting.terms.guard);
        }
        for (at, later) in later {
            let event = match later {
                Later::Event(event) => WorldEvent::Port(host, event),
                Later::Delivery(to, arrival) => {
                    WorldEvent::Port((to.0 - 100) as usize, PortEvent::Arrived(arrival))
                }
            };
            self.plan(at, event);
        }
        if let Some(at) = start {
            self.agents[host].start_at = at;
            self.plan(at, WorldEvent::Start(host));
        }
    }

    fn plan_wake(&mut self, host: usize) {
        let agent = &mut self.agents[host];
        if let Some(deadline) = agent.mesh.next_deadline() {
            let at = deadline + SECOND - agent.fast;
            if at < agent.wake_at {
                agent.wake_at = at;
                self.plan(at, WorldEvent::Wake(host));
            }
        }
    }

    /// Makes every mesh again from what it was told: it wants the same done, and ends the same.
    pub(crate) fn replay(&self) {
        for agent in &self.agents {
            let mut outputs = agent.outputs.iter();
            let mut again = Mesh::new(*agent.mesh.config(), agent.fast).unwrap();
            for (at, event) in agent.recorded.iter().cloned() {
                match event {
                    Some(event) => again.handle(event, at),
                    None => again.handle_deadline(at),
                }
                while let Some(output) = again.poll_output() {
                    assert_eq!(outputs.next(), Some(&digest(&output)), "at {at}: {output:?}");
                }
            }
            assert_eq!(outputs.next(), None);
            assert_eq!(again.counters(), agent.mesh.counters());
            assert!(again.flows().eq(agent.mesh.flows()) && again.pairs().eq(agent.mesh.pairs()));
        }
    }

    /// Sums a counter over all agents.
    pub(crate) fn sum(&self, counter: impl Fn(&snin_agent_core::Counters) -> u64) -> u64 {
        self.agents.iter().map(|agent| counter(agent.mesh.counters())).sum()
    }

    pub(crate) fn most_pairs(&self) -> usize {
        self.agents.iter().map(|agent| agent.port.most_pairs).max().unwrap()
    }

    pub(crate) fn received(&self, host: usize, flow: FlowId) -> u64 {
        self.checker.messages(host, flow)
    }
}
