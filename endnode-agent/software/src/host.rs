//! One host's agent: its mesh, its port, and what is sent from there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use snin_agent_core::{
    Call, Config, ConfigError, ControllerState, Counters, Event, FlowId, Io, Mesh, Message, Notice,
    Output, Port as _, Wanted, poll,
};
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::message::{FromAgent, LinkTest, LinkTested, MAX_TEST_MESSAGES, ToAgent};
use snin_protocol::software_port::messages::{FromFabric, PortStatus, ToFabric};

use crate::port::SoftwarePort;

/// What has not arrived of a test by then has not.
const PATIENCE: Time = Time::secs(5);
/// Bytes of the longest message of a test.
const LONGEST: u32 = 1 << 20;
/// Messages whose time is kept.
const LATENCIES: usize = 1 << 16;
/// Events of the port that are taken in one turn.
const AT_ONCE: usize = 256;

/// Messages to one peer, one after the other, and then the connection is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// The port that they are sent to.
    pub peer: Guid,
    /// Bytes of each.
    pub bytes: u64,
    /// How many.
    pub messages: u32,
    /// Windows that are asked for; 0: until all is sent.
    pub windows: u32,
    /// The test of the link that it is.
    pub test: Option<u32>,
}

/// What became of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All of it was sent.
    Done {
        /// The port that it was sent to.
        peer: Guid,
        /// From when it was asked for until the last message had arrived.
        took: Time,
    },
    /// The controller refuses the connection.
    Refused {
        /// To this port.
        peer: Guid,
    },
}

#[derive(Clone, Copy, Debug)]
struct Running {
    job: Job,
    since: Time,
    left: u32,
    refused: bool,
}

/// All that a mesh works with, for a turn.
struct Turn<'a> {
    port: &'a mut SoftwarePort,
    heard: &'a mut VecDeque<ToAgent>,
    says: &'a mut Vec<FromAgent>,
    notices: &'a mut Vec<Notice>,
    now: Time,
}

impl Io for Turn<'_> {
    /// The port's events come first: by a lease that is heard before them, what the port has sent in time would
    /// look as if it were under way still.
    fn next_event(&mut self) -> Option<Event> {
        let said = || Some(Event::Controller(Arc::new(self.heard.pop_front()?)));
        self.port.poll().map(Event::Port).or_else(said)
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Port(call) => self.port.carry_out(call),
            Output::Controller(message) => self.says.push(message),
            Output::App(notice) => self.notices.push(notice),
        }
    }

    fn now(&self) -> Time {
        self.now
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Host {
    guid: Guid,
    mesh: Mesh,
    port: SoftwarePort,
    jobs: Vec<Option<Running>>,
    free: Vec<u32>,
    /// What the controller said, until the next poll.
    heard: VecDeque<ToAgent>,
    says: Vec<FromAgent>,
    outcomes: Vec<Outcome>,
    notices: Vec<Notice>,
    /// Until when tests last, by flow. What ends the flow takes it out.
    tests: BTreeMap<FlowId, Time>,
    /// Pieces that came.
    received: u64,
    /// How long messages took, the first so many.
    latencies: Vec<Time>,
}

impl Host {
    /// An agent at the port that the fabric has said it is at; `config` is the mesh's but for what the port says.
    ///
    /// # Errors
    /// When `config` contradicts itself.
    pub fn new(status: &PortStatus, config: &Config, now: Time) -> Result<Self, ConfigError> {
        let mtu = status.mtu.max(256);
        let config = Config { port: status.port, rate: status.rate.max(1), mtu, ..*config };
        Ok(Self {
            guid: status.port,
            mesh: Mesh::new(config, now)?,
            port: SoftwarePort::new(status, config.session),
            jobs: vec![None; config.flows as usize],
            free: (0..config.flows).rev().collect(),
            heard: VecDeque::new(),
            says: Vec::new(),
            outcomes: Vec::new(),
            notices: Vec::new(),
            tests: BTreeMap::new(),
            received: 0,
            latencies: Vec::new(),
        })
    }

    /// Its port.
    pub const fn guid(&self) -> Guid {
        self.guid
    }

    /// Begins to send, on this flow; `None` where it has as many connections as it may, or nothing is to be sent.
    pub fn send(&mut self, job: Job, now: Time) -> Option<FlowId> {
        if job.messages == 0 {
            return None;
        }
        let number = self.free.pop()?;
        let running = Running { job, since: now, left: job.messages, refused: false };
        self.jobs[number as usize] = Some(running);
        let flow = FlowId(number);
        if job.test.is_some() {
            self.tests.insert(flow, now + PATIENCE);
        }
        let wanted = Wanted { windows: job.windows, ..Wanted::default() };
        self.mesh.handle(Event::App(Call::Open { flow, peer: job.peer, wanted }), now);
        self.offer(flow, 0, job.bytes, now);
        Some(flow)
    }

    fn offer(&mut self, flow: FlowId, id: u64, bytes: u64, now: Time) {
        let message = Message { id, bytes, due: now };
        self.mesh.handle(Event::App(Call::Send { flow, message }), now);
    }

    /// The fabric says something to its port.
    pub fn receive(&mut self, said: FromFabric) {
        self.port.receive(said);
    }

    /// The controller says something; it is heeded with the next [`poll`](Self::poll).
    pub fn receive_controller(&mut self, said: ToAgent) {
        self.heard.push_back(said);
    }

    /// Whether anything is to be done.
    pub fn is_due(&self, now: Time) -> bool {
        self.port.has_news()
            || !self.heard.is_empty()
            || self.next_deadline().is_some_and(|at| at <= now)
    }

    /// When something is due by itself.
    pub fn next_deadline(&self) -> Option<Time> {
        self.mesh.next_deadline().into_iter().chain(self.tests.values().copied()).min()
    }

    /// Does what is to be done; what is to be told to the fabric goes to `fabric`.
    pub fn poll(&mut self, now: Time, mut fabric: impl FnMut(&ToFabric)) {
        for flow in self.tests.extract_if(.., |_, until| *until <= now).map(|(flow, _)| flow) {
            self.mesh.handle(Event::App(Call::Close { flow }), now);
        }
        loop {
            self.port.set_time(now);
            let Self { mesh, port, heard, says, notices, .. } = self;
            let events = poll(mesh, &mut Turn { port, heard, says, notices, now }, AT_ONCE);
            self.port.take_says().for_each(|said| fabric(&said));
            let notices = std::mem::take(&mut self.notices);
            let heeded = notices.len();
            notices.into_iter().for_each(|notice| self.heed(notice, now));
            if events == 0 && heeded == 0 {
                return;
            }
        }
    }

    fn heed(&mut self, notice: Notice, now: Time) {
        match notice {
            Notice::Sent { flow, message, latency } => {
                let Some(running) = &mut self.jobs[flow.index()] else { return };
                if running.job.test.is_none() && self.latencies.len() < LATENCIES {
                    self.latencies.push(latency);
                }
                running.left -= 1;
                let (left, bytes) = (running.left, running.job.bytes);
                if left > 0 {
                    return self.offer(flow, message + 1, bytes, now);
                }
                self.mesh.handle(Event::App(Call::Close { flow }), now);
            }
            Notice::Refused { flow, .. } => {
                let Some(running) = &mut self.jobs[flow.index()] else { return };
                if !std::mem::replace(&mut running.refused, true) {
                    self.mesh.handle(Event::App(Call::Close { flow }), now);
                }
            }
            Notice::Closed { flow, .. } => {
                let Some(running) = self.jobs[flow.index()].take() else { return };
                self.free.push(flow.0);
                self.tests.remove(&flow);
                if let Some(number) = running.job.test {
                    return self.tested(number, running.job.messages - running.left, now);
                }
                let took = now - running.since;
                let done = running.left == 0;
                let peer = running.job.peer;
                self.outcomes.push(match done {
                    true => Outcome::Done { peer, took },
                    false => Outcome::Refused { peer },
                });
            }
            Notice::Received { .. } => self.received += 1,
            Notice::LinkTest(LinkTest { number, peer, messages, bytes }) => {
                let (bytes, messages) =
                    (bytes.min(LONGEST).into(), messages.min(MAX_TEST_MESSAGES));
                let job = Job { peer, bytes, messages, windows: 0, test: Some(number) };
                if self.send(job, now).is_none() {
                    self.tested(number, 0, now);
                }
            }
            _ => {}
        }
    }

    fn tested(&mut self, number: u32, arrived: u32, now: Time) {
        let tested = LinkTested { number, arrived };
        self.mesh.handle(Event::App(Call::LinkTested(tested)), now);
    }

    /// What is to be told to the controller.
    pub fn take_says(&mut self) -> Vec<FromAgent> {
        std::mem::take(&mut self.says)
    }

    /// What became of jobs.
    pub fn take_outcomes(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// Jobs that are not done.
    pub fn open(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// How long messages took that were sent, from when they were due.
    pub fn latencies(&self) -> &[Time] {
        &self.latencies
    }

    /// Pieces that came.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// What came that was no piece of a message.
    pub const fn malformed(&self) -> u64 {
        self.port.malformed()
    }

    /// What the mesh counted.
    pub const fn counters(&self) -> &Counters {
        self.mesh.counters()
    }

    /// Whether the controller is heard.
    pub fn controller(&self) -> ControllerState {
        self.mesh.controller()
    }

    /// The mesh, to look at.
    pub const fn mesh(&self) -> &Mesh {
        &self.mesh
    }
}
