//! The mesh: its parts, its four verbs, and what can be seen of it.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;
use snin_protocol::message::{Grant, MAX_ANSWERS, Wait};

use super::clock::Clock;
use super::config::{Config, ConfigError};
use super::controller_session::ControllerSession;
use super::counters::Counters;
use super::events::{
    Arrival, Call, Decline, Event, FlowId, Message, Notice, Output, PortCall, PortEvent, Wanted,
};
use super::flow::{Flow, FlowBuffers};
use super::pairs::{Pairs, State};
use super::receive::{Inbounds, Verdict};
use super::timers::{Timer, Timers};

/// The queue pair mesh of one port. See the [crate](crate)'s documentation.
#[derive(Debug)]
pub struct Mesh {
    pub(super) config: Config,
    pub(super) clock: Clock,
    /// By number.
    pub(super) flows: Vec<Option<Flow>>,
    /// For flows to come.
    flow_buffers: Vec<FlowBuffers>,
    /// The number of the first piece of a number's next flow: a receiver tells old from new by them.
    sequences: Vec<u64>,
    /// Flows with something to post, and whose turn it was.
    pub(super) backlogged: Vec<u32>,
    pub(super) next_backlogged: usize,
    pub(super) pairs: Pairs,
    inbound: Inbounds,
    pub(super) timers: Timers,
    outputs: VecDeque<Output>,
    pub(super) counters: Counters,
    /// Bytes posted and not done: what the port may still have to send.
    pub(super) backlog: u64,
    pub(super) controller: ControllerSession,
    pub(super) port_up: bool,
    /// FlowBuffers to note the slots that flows want.
    pub(super) wanted: Vec<bool>,
}

/// What can be seen of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowStatus {
    /// Its number.
    pub flow: FlowId,
    /// Where it leads.
    pub peer: Guid,
    /// The grant in force.
    pub current: Option<Grant>,
    /// The one that follows it.
    pub next: Option<Grant>,
    /// Why it has none, as the controller last said.
    pub wait: Option<Wait>,
    /// Messages that are not complete.
    pub waiting: usize,
    /// Pieces under way.
    pub outstanding: u32,
}

/// What can be seen of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairStatus {
    /// The peer.
    pub peer: Guid,
    /// The tree.
    pub tree: TreeId,
    /// How it is.
    pub state: PairState,
    /// Pieces under way.
    pub outstanding: usize,
}

/// The most outputs of one event: everything posted that may be, a queue pair's messages complete, every queue
/// pair given up and made again, a notice of each flow, and the answers of a lease.
fn most_outputs(config: &Config) -> usize {
    let (pairs, flows) = (config.pairs as usize, config.flows as usize);
    (pairs.min(flows) + 1) * config.depth as usize + 4 * (pairs + flows) + 2 * MAX_ANSWERS
}

/// How a queue pair is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PairState {
    /// Being made.
    Connecting,
    /// Of use.
    Ready,
    /// Being given up.
    Closing,
    /// Broken, made anew after a pause.
    Paused,
}

impl Mesh {
    /// A mesh without flows. All tables are made here.
    ///
    /// # Errors
    /// What the configuration cannot mean.
    pub fn new(config: Config, now: Time) -> Result<Self, ConfigError> {
        config.check()?;
        let flows = config.flows as usize;
        let mut mesh = Self {
            config,
            clock: match config.clock_error {
                Some(error) => Clock::kept(error, config.drift),
                None => Clock::unknown(config.drift),
            },
            flows: (0..flows).map(|_| None).collect(),
            flow_buffers: Vec::with_capacity(flows),
            sequences: vec![0; flows],
            backlogged: Vec::with_capacity(flows),
            next_backlogged: 0,
            pairs: Pairs::new(config.pairs, config.depth),
            inbound: Inbounds::new(config.inbound_peers, config.inbound_flows),
            timers: Timers::new(config.flows, config.pairs),
            outputs: VecDeque::with_capacity(most_outputs(&config)),
            counters: Counters::default(),
            backlog: 0,
            controller: ControllerSession::new(&config, now),
            port_up: true,
            wanted: vec![false; config.pairs as usize],
        };
        mesh.timers.set(Timer::ControllerSession, now);
        Ok(mesh)
    }

    /// Something happened.
    pub fn handle(&mut self, event: Event, now: Time) {
        match event {
            Event::App(call) => self.call(call, now),
            Event::Port(event) => self.port_event(event, now),
            Event::Controller(frame) => self.frame(&frame, now),
            Event::Malformed => self.counters.malformed += 1,
        }
        self.go_on(now);
    }

    /// What is to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_deadline`](Self::handle_deadline) is to be called; earlier does no harm.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first()
    }

    /// The time has come.
    pub fn handle_deadline(&mut self, now: Time) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                Timer::ControllerSession => self.listen(now),
                Timer::Flow(index) => self.tend(index, now),
                Timer::Pair(slot) => self.tend_pair(slot, now),
            }
        }
        self.go_on(now);
    }

    fn call(&mut self, call: Call, now: Time) {
        let (flow, outcome) = match call {
            Call::Open { flow, peer, wanted } => (flow, self.open(flow, (peer, wanted), now)),
            Call::Send { flow, message } => (flow, self.send(flow, message, now)),
            Call::Close { flow } => (flow, self.close(flow, now)),
        };
        if let Err(reason) = outcome {
            self.notify(Notice::Declined { flow, reason });
        }
    }

    fn open(&mut self, flow: FlowId, to: (Guid, Wanted), now: Time) -> Result<(), Decline> {
        let Some(&first) = self.sequences.get(flow.index()) else {
            return self.decline(Decline::NoSuchNumber);
        };
        let place = &mut self.flows[flow.index()];
        if place.is_some() {
            return self.decline(Decline::AlreadyOpen);
        }
        let buffers = self.flow_buffers.pop().unwrap_or_else(|| FlowBuffers::new(&self.config));
        *place = Some(Flow::new(flow, to, first, buffers, now));
        Ok(())
    }

    fn send(&mut self, flow: FlowId, message: Message, now: Time) -> Result<(), Decline> {
        let most = self.config.queue;
        let Some(open) = self.open_flow(flow) else { return self.decline(Decline::NotOpen) };
        if !open.push(message, most) {
            return self.decline(Decline::QueueFull(message.id));
        }
        let unserved = open.is_unserved();
        self.list(flow.0, now);
        // Of everything else that it has to do by itself, timers know when.
        if unserved {
            self.tend(flow.0, now);
        }
        Ok(())
    }

    fn close(&mut self, flow: FlowId, now: Time) -> Result<(), Decline> {
        let Some(open) = self.open_flow(flow) else { return self.decline(Decline::NotOpen) };
        open.close();
        self.tend(flow.0, now);
        Ok(())
    }

    fn decline<T>(&mut self, reason: Decline) -> Result<T, Decline> {
        self.counters.declined += 1;
        Err(reason)
    }

    /// A flow that takes messages.
    fn open_flow(&mut self, flow: FlowId) -> Option<&mut Flow> {
        let open = self.flows.get_mut(flow.index())?.as_mut();
        open.filter(|flow| !flow.closing)
    }

    /// A closed flow is gone.
    pub(super) fn remove(&mut self, index: u32) {
        let Some(flow) = self.flows[index as usize].take() else {
            return;
        };
        self.sequences[index as usize] = flow.sequence;
        if flow.listed {
            self.backlogged.retain(|&backlogged| backlogged != index);
        }
        self.notify(Notice::Closed { flow: flow.id, unsent: flow.unsent });
        self.add_flow_buffers(flow.into_buffers());
    }

    fn port_event(&mut self, event: PortEvent, now: Time) {
        match event {
            PortEvent::Ready { pair } => self.pair_ready(pair),
            PortEvent::Done { pair, ticket } => self.done(pair, ticket, now),
            PortEvent::Broken { pair, reason } => {
                if self.pairs.get(pair).is_some() {
                    self.break_pair(pair.slot, reason, now);
                }
            }
            PortEvent::Closed { pair } => self.pair_closed(pair, now),
            PortEvent::Arrived(arrival) => self.receive(&arrival),
            PortEvent::PeerGone { peer, session } => self.inbound.forget(peer, session),
            PortEvent::Up => self.port_is_up(now),
            PortEvent::Down => self.port_is_down(now),
        }
    }

    fn receive(&mut self, arrival: &Arrival) {
        let Arrival { peer, piece, .. } = *arrival;
        match self.inbound.judge(arrival) {
            Verdict::Deliver => {}
            Verdict::DeliverAfterGap(pieces) => {
                self.counters.lost += pieces;
                self.notify(Notice::Lost { peer, flow: piece.flow, pieces });
            }
            Verdict::Repeated => return self.counters.repeated += 1,
            Verdict::TooMany => return self.counters.too_many += 1,
        }
        self.counters.received += 1;
        self.notify(Notice::Received { peer, piece });
    }

    /// After each event: what may be posted is, and what may be said to the controller.
    fn go_on(&mut self, now: Time) {
        self.post_all(now);
        self.talk_if_due(now);
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        self.outputs.push_back(Output::App(notice));
    }

    pub(super) fn put(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn ask_port(&mut self, call: PortCall) {
        self.outputs.push_back(Output::Port(call));
    }

    /// Gives it the memory of one more flow, which it would make itself when the flow is opened.
    pub fn add_flow_buffers(&mut self, buffers: FlowBuffers) {
        // More than there can be flows are of no use.
        if self.flow_buffers.len() < self.flows.len() {
            self.flow_buffers.push(buffers);
        }
    }

    /// What was counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What it was made from.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// How many peers have flows to here that are remembered.
    pub fn inbound_peers(&self) -> usize {
        self.inbound.peers()
    }

    /// The open flows, by number.
    pub fn flows(&self) -> impl Iterator<Item = FlowStatus> {
        self.flows.iter().flatten().map(|flow| FlowStatus {
            flow: flow.id,
            peer: flow.peer,
            current: flow.current,
            next: flow.next,
            wait: flow.wait,
            waiting: flow.waiting(),
            outstanding: flow.outstanding,
        })
    }

    /// How long a flow's messages took from when they were due, in nanoseconds.
    pub fn latency(&self, flow: FlowId) -> Option<&Histogram<u64>> {
        self.flows.get(flow.index())?.as_ref()?.latency.as_ref()
    }

    /// The queue pairs, by peer and tree.
    pub fn pairs(&self) -> impl Iterator<Item = PairStatus> {
        self.pairs.taken().map(|(_, pair)| PairStatus {
            peer: pair.route.peer,
            tree: pair.route.tree,
            state: match pair.state {
                State::Connecting(_) => PairState::Connecting,
                State::Ready => PairState::Ready,
                State::Closing => PairState::Closing,
                State::Free | State::Paused(_) => PairState::Paused,
            },
            outstanding: pair.posted.len(),
        })
    }
}
