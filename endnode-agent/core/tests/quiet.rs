//! The core allocates and frees nothing once its flows are open, through every kind of event: grants that come,
//! move, end and are lost, queue pairs that break and are evicted, controllers that forget, asks said again.

use std::alloc::System;
use std::sync::Arc;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use snin_agent_core::{
    Arrival, BreakReason, Call, Config, Event, FlowBuffers, FlowId, Mesh, Message, Notice, Output,
    PairId, Piece, PortCall, PortEvent, Post, Wanted,
};
use snin_fabric::{Dlid, Guid, Lid, TreeId};
use snin_protocol::message::{
    AgentMessage, Answer, ClockAnswer, ControllerMessage, FromAgent, Grant, Lease, Terms, ToAgent,
    Verdict,
};
use snin_protocol::{ConnectionNumber, Session, Term, Time};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How often this program has allocated or freed.
fn allocations() -> usize {
    let stats = COUNTING.stats();
    stats.allocations + stats.reallocations + stats.deallocations
}

const FLOWS: u32 = 6;
const TREES: u16 = 4;
/// Fewer than there are (peer, tree) pairs.
const PAIRS: u32 = 8;

struct World {
    mesh: Mesh,
    rng: ChaCha8Rng,
    now: Time,
    messages: u64,
    sequence: u64,
    heard: u64,
    session: Session,
    /// Said, and still being carried.
    carried: Vec<FromAgent>,
    connecting: Vec<PairId>,
    closing: Vec<PairId>,
    posted: Vec<(PairId, u64)>,
    arrived: u64,
    asked_twice: u64,
    closed: u64,
    /// Asks that were made while another one was still carried.
    asked_meanwhile: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let config = Config {
            pairs: PAIRS,
            flows: FLOWS,
            inbound_peers: 3,
            inbound_flows: 2,
            queue: 8,
            depth: 4,
            piece: 3000,
            mtu: 1000,
            stall: Time::millis(20),
            silence: Time::millis(60),
            linger: Time::millis(10),
            ask_again: Time::millis(3),
            ..Config::default()
        };
        let now = Time::secs(1);
        let mut world = Self {
            mesh: Mesh::new(config, now).unwrap(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            now,
            messages: 0,
            sequence: 0,
            heard: 0,
            session: Session(0),
            carried: Vec::new(),
            connecting: Vec::new(),
            closing: Vec::new(),
            posted: Vec::new(),
            arrived: 0,
            asked_twice: 0,
            closed: 0,
            asked_meanwhile: 0,
        };
        for flow in 0..FLOWS {
            // Opening a flow makes its memory, too.
            world.mesh.add_flow_buffers(FlowBuffers::new(&config));
            world.open(FlowId(flow));
        }
        world
    }

    fn open(&mut self, flow: FlowId) {
        let (peer, wanted) = (Guid(1 + u64::from(flow.0) / 2), Wanted::default());
        self.notify("a flow", Event::App(Call::Open { flow, peer, wanted }));
    }

    /// Has the mesh do something, and counts.
    fn quietly<T>(&mut self, what: &str, act: impl FnOnce(&mut Mesh, Time) -> T) -> T {
        let before = allocations();
        let outcome = act(&mut self.mesh, self.now);
        assert_eq!(allocations() - before, 0, "allocated or freed: {what}, at {}", self.now);
        outcome
    }

    fn notify(&mut self, what: &str, event: Event) {
        self.quietly(what, |mesh, now| mesh.handle(event, now));
    }

    fn controller(&mut self, what: &str, body: ControllerMessage) {
        let frame = ToAgent { session: self.session, term: Term(1), at: self.now, body };
        let frame = Arc::new(frame);
        let event = Event::Controller(Arc::clone(&frame));
        self.quietly(what, |mesh, now| mesh.handle(event, now));
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.quietly("poll_output", |mesh, _| mesh.poll_output()) {
            match output {
                Output::Port(PortCall::Connect { pair, .. }) => self.connecting.push(pair),
                Output::Port(PortCall::Post(Post { pair, ticket, .. })) => {
                    self.posted.push((pair, ticket));
                }
                Output::Port(PortCall::Close { pair }) => {
                    self.connecting.retain(|&other| other != pair);
                    self.posted.retain(|&(other, _)| other != pair);
                    self.closing.push(pair);
                }
                Output::Controller(says) => self.carry(says),
                Output::App(Notice::Closed { flow, .. }) => {
                    self.closed += 1;
                    self.open(flow);
                }
                Output::App(_) => {}
            }
        }
    }

    fn carry(&mut self, says: FromAgent) {
        if let AgentMessage::Ask(ask) = &says.body {
            let other = |said: &FromAgent| matches!(&said.body, AgentMessage::Ask(at) if at.number != ask.number);
            self.asked_meanwhile += u64::from(self.carried.iter().any(other));
        }
        self.carried.push(says);
    }

    /// The controller hears what was carried longest, or it is lost.
    fn receive(&mut self) {
        if self.carried.is_empty() {
            return;
        }
        let FromAgent { session, body } = self.carried.remove(0);
        if self.rng.random_ratio(1, 5) {
            return;
        }
        match body {
            AgentMessage::Hello(_) => {
                (self.session, self.sequence, self.heard) = (session, 0, 0);
                let (window, guard) = (Time::millis(1), Time::micros(10));
                let terms = Terms { window, guard, clock_error: Time::millis(5) };
                self.controller("a welcome", ControllerMessage::Welcome(terms));
            }
            AgentMessage::Clock(question) if session == self.session => {
                let answer = ClockAnswer { sent: question.sent };
                self.controller("the time", ControllerMessage::Clock(answer));
            }
            AgentMessage::Ask(ask) if session == self.session => {
                self.asked_twice += u64::from(ask.number <= self.heard);
                self.heard = self.heard.max(ask.number);
            }
            _ => {}
        }
    }

    fn lease(&mut self) {
        let (mut grants, mut answers) = (Vec::new(), Vec::new());
        for flow in 0..FLOWS {
            let connection = ConnectionNumber(flow);
            let tree = TreeId(self.rng.random_range(0..TREES));
            // Some were under way for too long.
            let from = self.now + Time::micros(self.rng.random_range(0..2000)) - Time::millis(1);
            let until = from + Time::micros(self.rng.random_range(50..20_000));
            match self.rng.random_range(0..10) {
                0 => answers.push(Answer { connection, verdict: Verdict::Served }),
                1 => {}
                _ => {
                    let dlid = Dlid(Lid(64 + tree.0));
                    grants.push(Grant {
                        connection,
                        tree,
                        dlid,
                        from,
                        until,
                        rate: 0,
                        pinned: false,
                        sl: 0,
                    });
                }
            }
        }
        self.sequence += 1;
        let lease =
            Lease { sequence: self.sequence, heard: self.heard, grants, answers, collective: None };
        self.controller("a lease", ControllerMessage::Lease(lease));
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<usize> {
        (!from.is_empty()).then(|| self.rng.random_range(0..from.len()))
    }

    fn port(&mut self) {
        match self.rng.random_range(0..100) {
            0 => self.notify("the port is down", Event::Port(PortEvent::Down)),
            1..10 => self.notify("the port is up", Event::Port(PortEvent::Up)),
            10..40 => {
                if let Some(at) = self.pick(&self.connecting.clone()) {
                    let pair = self.connecting.swap_remove(at);
                    self.notify("a queue pair is ready", Event::Port(PortEvent::Ready { pair }));
                }
            }
            40..60 => {
                if let Some(at) = self.pick(&self.closing.clone()) {
                    let pair = self.closing.swap_remove(at);
                    self.notify("a queue pair is gone", Event::Port(PortEvent::Closed { pair }));
                }
            }
            60..63 => {
                if let Some(at) = self.pick(&self.posted.clone()) {
                    let (pair, reason) = (self.posted[at].0, BreakReason::Failed);
                    self.notify(
                        "a queue pair broke",
                        Event::Port(PortEvent::Broken { pair, reason }),
                    );
                }
            }
            63..70 => {
                self.arrived += 1;
                let piece = Piece {
                    flow: FlowId(0),
                    sequence: self.arrived,
                    message: 0,
                    offset: 0,
                    bytes: 1,
                    last: true,
                };
                let peer = Guid(self.rng.random_range(1..5));
                let arrival = Arrival { peer, session: 1, piece };
                self.notify("something came", Event::Port(PortEvent::Arrived(arrival)));
            }
            _ => {
                if let Some(at) = self.pick(&self.posted.clone()) {
                    let (pair, ticket) = self.posted[at];
                    self.posted.retain(|&(other, older)| other != pair || older > ticket);
                    self.notify("pieces are done", Event::Port(PortEvent::Done { pair, ticket }));
                }
            }
        }
    }

    fn send(&mut self) {
        self.messages += 1;
        let bytes = self.rng.random_range(0..10_000);
        let message = Message { id: self.messages, bytes, due: self.now };
        let flow = FlowId(self.rng.random_range(0..FLOWS));
        self.notify("a message", Event::App(Call::Send { flow, message }));
    }

    fn step(&mut self) {
        match self.rng.random_range(0..1000) {
            0 => self.controller("a stranger", ControllerMessage::Stranger),
            1..3 => {
                // Long silence: the controller is lost, what lasts ends.
                self.now += Time::millis(80);
                self.quietly("after a silence", |mesh, now| mesh.handle_deadline(now));
            }
            3..5 => {
                let flow = FlowId(self.rng.random_range(0..FLOWS));
                self.notify("a flow's end", Event::App(Call::Close { flow }));
            }
            5..100 => self.lease(),
            100..300 => self.receive(),
            300..500 => self.send(),
            500..750 => self.port(),
            _ => {
                self.now += Time::micros(self.rng.random_range(0..500));
                if self.mesh.next_deadline().is_some_and(|at| at <= self.now) {
                    self.quietly("a deadline", |mesh, now| mesh.handle_deadline(now));
                }
            }
        }
        self.take_outputs();
    }
}

/// A program without the test harness: its own thread allocates beside a test, which would be counted here.
fn main() {
    let mut most = 0;
    for seed in 0..20 {
        let mut world = World::new(seed);
        for _ in 0..20_000 {
            world.step();
        }
        let seen = *world.mesh.counters();
        let happened = [
            seen.changes,
            seen.broken,
            seen.evicted,
            seen.overruns,
            seen.controller_lost,
            seen.late_grants,
            seen.again,
            seen.messages,
            world.asked_twice,
            world.closed,
        ];
        assert!(happened.iter().all(|&count| count > 3), "seed {seed}: {happened:?}, {seen:?}");
        most = most.max(world.asked_meanwhile);
    }
    assert!(most > 0, "an ask that was made while the last one was carried");
}
