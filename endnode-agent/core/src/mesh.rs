//! The mesh: its parts, its four verbs, and what can be seen of it.

use hdrhistogram::Histogram;
use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;
use snin_protocol::message::{Grant, MAX_ANSWERS, Wait};

use super::config::{Config, ConfigError};
use super::context::Context;
use super::controller_session::{ControllerSession, ControllerState};
use super::counters::Counters;
use super::events::{Arrival, Call, Decline, Event, FlowId, Notice, Output, PortEvent};
use super::flow::FlowBuffers;
use super::flows::Flows;
use super::linking::Links;
use super::pairs::State;
use super::receive::{Inbounds, Verdict};
use super::sending::Sender;
use super::timers::Timer;

/// The queue pair mesh of one port. See the [crate](crate)'s documentation.
#[derive(Debug)]
pub struct Mesh {
    context: Context,
    sender: Sender,
    inbound: Inbounds,
    controller: ControllerSession,
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
    /// When the configuration contradicts itself.
    pub fn new(config: Config, now: Time) -> Result<Self, ConfigError> {
        config.check()?;
        let mut context = Context::new(config, most_outputs(&config));
        Ok(Self {
            sender: Sender {
                flows: Flows::new(config.flows),
                links: Links::new(config.pairs, config.depth),
            },
            inbound: Inbounds::new(config.inbound_peers, config.inbound_flows),
            controller: ControllerSession::new(&mut context, now),
            context,
        })
    }

    /// Something happened.
    pub fn handle(&mut self, event: Event, now: Time) {
        let Self { context, sender, controller, .. } = self;
        match event {
            Event::App(Call::LinkTested(tested)) => controller.tested(context, tested),
            Event::App(call) => self.call(call, now),
            Event::Port(event) => self.port_event(&event, now),
            Event::Controller(frame) => controller.frame(context, sender, &frame, now),
            Event::Malformed => context.counters.malformed += 1,
        }
        self.go_on(now);
    }

    /// What is to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.context.take_output()
    }

    /// When [`handle_deadline`](Self::handle_deadline) is to be called; earlier does no harm.
    pub fn next_deadline(&self) -> Option<Time> {
        self.context.timers.first()
    }

    /// The time has come.
    pub fn handle_deadline(&mut self, now: Time) {
        let Self { context, sender, controller, .. } = self;
        while let Some(timer) = context.timers.take_due(now) {
            match timer {
                Timer::ControllerSession => controller.listen(context, sender, now),
                Timer::Flow(index) => sender.tend(context, index, now),
                Timer::Pair(slot) => sender.tend_pair(context, slot, now),
                Timer::TimeSlot => sender.next_time_slot(context, now),
            }
        }
        self.go_on(now);
    }

    /// After each event: what may be posted is, and what may be said to the controller.
    fn go_on(&mut self, now: Time) {
        let Self { context, sender, controller, .. } = self;
        sender.post_all(context, now);
        controller.talk_if_due(context, sender, now);
    }

    fn call(&mut self, call: Call, now: Time) {
        let (Call::Open { flow, .. } | Call::Send { flow, .. } | Call::Close { flow }) = call
        else {
            return;
        };
        if let Err(reason) = self.carry_out(call, now) {
            self.context.counters.declined += 1;
            self.context.notify(Notice::Declined { flow, reason });
        }
    }

    fn carry_out(&mut self, call: Call, now: Time) -> Result<(), Decline> {
        let Self { context, sender, .. } = self;
        match call {
            Call::Open { flow, peer, wanted } => {
                sender.flows.open(context, flow, (peer, wanted), now)?;
            }
            Call::Send { flow, message } => {
                let is_unserved = sender.flows.push(context, flow, message)?;
                sender.queued(context, flow, is_unserved, now);
            }
            Call::Close { flow } => {
                sender.flows.close(flow)?;
                sender.tend(context, flow.0, now);
            }
            Call::LinkTested(_) => {}
        }
        Ok(())
    }

    fn port_event(&mut self, event: &PortEvent, now: Time) {
        match event {
            PortEvent::Arrived(arrival) => self.receive(arrival),
            PortEvent::PeerGone { peer, session } => self.inbound.forget(*peer, *session),
            event => self.sender.port_event(&mut self.context, event, now),
        }
    }

    fn receive(&mut self, arrival: &Arrival) {
        let Arrival { peer, piece, .. } = *arrival;
        let Self { context, inbound, .. } = self;
        match inbound.judge(arrival) {
            Verdict::Deliver => {}
            Verdict::DeliverAfterGap(pieces) => {
                context.counters.lost += pieces;
                context.notify(Notice::Lost { peer, flow: piece.flow, pieces });
            }
            Verdict::Repeated => return context.counters.repeated += 1,
            Verdict::TooMany => return context.counters.too_many += 1,
        }
        context.counters.received += 1;
        context.notify(Notice::Received { peer, piece });
    }

    /// Gives it the memory of one more flow, which it would make itself when the flow is opened.
    pub fn add_flow_buffers(&mut self, buffers: FlowBuffers) {
        self.sender.flows.add_buffers(buffers);
    }

    /// The counters.
    pub const fn counters(&self) -> &Counters {
        &self.context.counters
    }

    /// What it was made from.
    pub const fn config(&self) -> &Config {
        &self.context.config
    }

    /// The state of the controller, as far as it is known.
    pub const fn controller(&self) -> ControllerState {
        self.controller.state(&self.context.config)
    }

    /// How many peers have flows to here that are remembered.
    pub fn inbound_peers(&self) -> usize {
        self.inbound.peers()
    }

    /// The open flows, by number.
    pub fn flows(&self) -> impl Iterator<Item = FlowStatus> {
        self.sender.flows.iter().map(|flow| FlowStatus {
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
        self.sender.flows.find(flow)?.latency.as_ref()
    }

    /// The queue pairs, by peer and tree.
    pub fn pairs(&self) -> impl Iterator<Item = PairStatus> {
        self.sender.links.pairs.taken().map(|(_, pair)| PairStatus {
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
