//! A mesh at a time, told what happens step by step, and everything that it wants done.

use std::sync::Arc;

use snin_agent_core::{
    Call, Config, Counters, Event, FlowId, LossPolicy, Mesh, Message, Output, PairId, PortCall,
    PortEvent, Post, Wanted,
};
use snin_fabric::{Dlid, Guid, Lid, TreeId};
use snin_protocol::message::{
    AgentMessage, Answer, Ask, Change, Confirm, ControllerMessage, FromAgent, Grant, Lease,
    Request, Terms, ToAgent,
};
use snin_protocol::{Session, Term, Time};

pub(crate) const FLOW: FlowId = FlowId(0);
pub(crate) const PEER: Guid = Guid(7);
pub(crate) const TREE: TreeId = TreeId(3);
pub(crate) const GUARD: Time = Time::micros(1);
pub(crate) const MS: Time = Time::millis(1);

/// A mesh at a time, with everything that it wanted done.
pub(crate) struct Bench {
    pub(crate) mesh: Mesh,
    pub(crate) now: Time,
    pub(crate) outputs: Vec<Output>,
    pub(crate) session: Session,
    pub(crate) leases: u64,
    pub(crate) asks: u64,
}

impl Bench {
    /// 8 Gbit/s: a byte a nanosecond; no overhead, a clock without error.
    pub(crate) fn config() -> Config {
        Config {
            pairs: 2,
            flows: 3,
            inbound_peers: 1,
            inbound_flows: 4,
            queue: 2,
            depth: 4,
            piece: 1000,
            mtu: 100,
            overhead: 0,
            rate: 8_000_000_000,
            clock_error: Some(Time::ZERO),
            ask_time: Time::secs(100),
            silence: Time::secs(10),
            longest_grant: Time::secs(1),
            ..Config::default()
        }
    }

    /// A mesh that is welcome.
    pub(crate) fn new(config: Config) -> Self {
        let mut bench = Self::stranger(config);
        bench.pass(Time(1));
        bench.welcome();
        bench.take();
        bench
    }

    /// A mesh that knows no peer.
    pub(crate) fn stranger(config: Config) -> Self {
        let now = Time::secs(1);
        let session = Session(config.session);
        let mesh = Mesh::new(config, now).unwrap();
        Self { mesh, now, outputs: Vec::new(), session, leases: 0, asks: 0 }
    }

    pub(crate) fn welcome(&mut self) {
        let terms = Terms { window: MS, guard: GUARD, clock_error: Time::micros(10) };
        self.controller(ControllerMessage::Welcome(terms));
    }

    /// With one flow that wants to send, and has asked.
    pub(crate) fn asking(config: Config, bytes: u64) -> Self {
        let mut bench = Self::new(config);
        bench.open(FLOW, PEER);
        bench.send(FLOW, 0, bytes);
        assert_eq!(bench.take(), [bench.asks(1, request(FLOW))]);
        bench.asks = 1;
        bench
    }

    /// With one flow that is granted `TREE` from now for a millisecond, and a queue pair that is ready.
    pub(crate) fn granted(config: Config, bytes: u64) -> (Self, PairId) {
        let mut bench = Self::asking(config, bytes);
        bench.grant(FLOW, TREE, Time::ZERO, MS);
        let pair = bench.connected();
        (bench, pair)
    }

    /// One without a controller, after a first message that is done.
    pub(crate) fn ungranted(config: Config) -> (Self, PairId) {
        let config = Config { controller: false, loss: LossPolicy::BestEffort, ..config };
        let mut bench = Self::stranger(config);
        bench.open(FLOW, PEER);
        bench.send(FLOW, 0, 10);
        let pair = bench.connected();
        bench.done(pair, 0);
        bench.take();
        (bench, pair)
    }

    pub(crate) fn notify(&mut self, event: Event) {
        self.mesh.handle(event, self.now);
        self.collect();
    }

    pub(crate) fn collect(&mut self) {
        while let Some(output) = self.mesh.poll_output() {
            self.outputs.push(output);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    pub(crate) fn pass(&mut self, time: Time) {
        let until = self.now + time;
        while let Some(deadline) = self.mesh.next_deadline().filter(|&at| at <= until) {
            self.now = self.now.max(deadline);
            self.mesh.handle_deadline(self.now);
            self.collect();
        }
        self.now = until;
    }

    pub(crate) fn open(&mut self, flow: FlowId, peer: Guid) {
        self.notify(Event::App(Call::Open { flow, peer, wanted: Wanted::default() }));
    }

    pub(crate) fn send(&mut self, flow: FlowId, id: u64, bytes: u64) {
        let message = Message { id, bytes, due: self.now };
        self.notify(Event::App(Call::Send { flow, message }));
    }

    pub(crate) fn frame(&self, body: ControllerMessage) -> ToAgent {
        ToAgent { session: self.session, term: Term(1), at: self.now, body }
    }

    pub(crate) fn controller(&mut self, body: ControllerMessage) {
        self.notify(Event::Controller(Arc::new(self.frame(body))));
    }

    /// The next lease.
    pub(crate) fn lease(&mut self, grants: Vec<Grant>, answers: Vec<Answer>) {
        self.leases += 1;
        let lease =
            Lease { sequence: self.leases, heard: self.asks, grants, answers, collective: None };
        self.controller(ControllerMessage::Lease(lease));
    }

    /// A lease of nothing but this.
    pub(crate) fn grant(&mut self, flow: FlowId, tree: TreeId, from: Time, length: Time) {
        let from = self.now + from;
        self.lease(vec![grant(flow, tree, from, from + length)], vec![]);
    }

    pub(crate) fn asks(&self, number: u64, change: Change) -> Output {
        self.says(AgentMessage::Ask(Ask { number, changes: vec![change].into() }))
    }

    pub(crate) fn confirms(&self, sequence: u64) -> Output {
        self.says(AgentMessage::Confirm(Confirm { sequence }))
    }

    pub(crate) fn says(&self, body: AgentMessage) -> Output {
        Output::Controller(FromAgent { session: self.session, body })
    }

    /// Connects what is to be connected.
    pub(crate) fn connected(&mut self) -> PairId {
        let connect = |output: &Output| match output {
            Output::Port(PortCall::Connect { pair, .. }) => Some(*pair),
            _ => None,
        };
        let pair = self.take().iter().rev().find_map(connect).expect("a queue pair to connect");
        self.notify(Event::Port(PortEvent::Ready { pair }));
        pair
    }

    /// Connects all that is to be connected.
    pub(crate) fn connect_all(&mut self) -> Vec<PairId> {
        let connect = |output: &Output| match output {
            Output::Port(PortCall::Connect { pair, .. }) => Some(*pair),
            _ => None,
        };
        let pairs: Vec<PairId> = self.take().iter().filter_map(connect).collect();
        pairs.iter().for_each(|&pair| self.notify(Event::Port(PortEvent::Ready { pair })));
        pairs
    }

    /// What was posted since the last look.
    pub(crate) fn posts(&mut self) -> Vec<Post> {
        let posted = |output: &Output| match output {
            Output::Port(PortCall::Post(post)) => Some(*post),
            _ => None,
        };
        self.take().iter().filter_map(posted).collect()
    }

    /// Bytes of what was posted since the last look.
    pub(crate) fn posted(&mut self) -> Vec<u32> {
        let posted = |output: &Output| match output {
            Output::Port(PortCall::Post(Post { piece, .. })) => Some(piece.bytes),
            _ => None,
        };
        self.take().iter().filter_map(posted).collect()
    }

    pub(crate) fn done(&mut self, pair: PairId, ticket: u64) {
        self.notify(Event::Port(PortEvent::Done { pair, ticket }));
    }

    pub(crate) fn counters(&self) -> Counters {
        *self.mesh.counters()
    }
}

pub(crate) fn grant(flow: FlowId, tree: TreeId, from: Time, until: Time) -> Grant {
    let dlid = Dlid(Lid(64 + tree.0));
    Grant { connection: flow.into(), tree, dlid, from, until, rate: 0, pinned: false, sl: 0 }
}

pub(crate) fn request(flow: FlowId) -> Change {
    Change::Request(Request {
        connection: flow.into(),
        destination: PEER,
        windows: 0,
        rate: 0,
        class: 0,
        pinned: false,
        tree: None,
    })
}
