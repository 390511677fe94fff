//! The mesh: its parts, its four verbs, the short ways of what every message does, and what can be seen of it.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;
use snin_protocol::message::{Grant, MAX_ANSWERS, ToAgent, Wait};

use super::clock::Clock;
use super::config::{Config, ConfigError};
use super::conversation::Conversation;
use super::counters::Counters;
use super::events::{
    Arrival, Call, Decline, Event, FlowId, Message, Notice, Output, PortCall, PortEvent, Wanted,
};
use super::flow::{Flow, Room};
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
    rooms: Vec<Room>,
    /// The number of the first piece of a number's next flow: a receiver tells old from new by them.
    sequences: Vec<u64>,
    /// Flows with something to post, and whose turn it was.
    pub(super) hungry: Vec<u32>,
    pub(super) turn: usize,
    pub(super) pairs: Pairs,
    inbound: Inbounds,
    pub(super) timers: Timers,
    /// When it was last told the time.
    pub(super) seen: Time,
    outputs: VecDeque<Output>,
    pub(super) counters: Counters,
    /// Bytes posted and not done: what the port may still have to send.
    pub(super) backlog: u64,
    pub(super) talk: Conversation,
    pub(super) port_up: bool,
    /// A flow whose last piece under way was done just now.
    pub(super) quiet: Option<u32>,
    /// Room to note the slots that flows want.
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

/// The most that may be to be done after one event: everything posted that may be, every queue pair given up and
/// made again, a word on each flow, and the answers of a lease.
fn most_outputs(config: &Config) -> usize {
    let (pairs, flows) = (config.pairs as usize, config.flows as usize);
    pairs.min(flows) * config.depth as usize + 4 * (pairs + flows) + 2 * MAX_ANSWERS
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
            rooms: Vec::with_capacity(flows),
            sequences: vec![0; flows],
            hungry: Vec::with_capacity(flows),
            turn: 0,
            pairs: Pairs::new(config.pairs, config.depth),
            inbound: Inbounds::new(config.inbound),
            timers: Timers::new(config.flows, config.pairs),
            seen: now,
            outputs: VecDeque::with_capacity(most_outputs(&config)),
            counters: Counters::default(),
            backlog: 0,
            talk: Conversation::new(&config, now),
            port_up: true,
            quiet: None,
            wanted: vec![false; config.pairs as usize],
        };
        mesh.timers.set(Timer::Conversation, now);
        Ok(mesh)
    }

    /// Something happened.
    #[inline]
    pub fn handle(&mut self, event: Event, now: Time) {
        match event {
            Event::App(call) => self.call(call, now),
            Event::Port(event) => self.port_event(event, now),
            Event::Controller(frame) => self.frame(&frame, now),
            Event::Malformed => self.counters.malformed += 1,
        }
        self.go_on(now);
    }

    /// As [`Event::Controller`], for one who keeps the frame: so that whoever made it frees it.
    pub fn handle_frame(&mut self, frame: &ToAgent, now: Time) {
        self.frame(frame, now);
        self.go_on(now);
    }

    /// What is to be done next.
    #[inline]
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front()?;
        if self.outputs.is_empty() {
            // Begins at the front again, so that memory is touched only as far as it was ever full.
            self.outputs.clear();
        }
        Some(output)
    }

    /// When [`handle_deadline`](Self::handle_deadline) is to be called; earlier does no harm.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first()
    }

    /// The time has come.
    pub fn handle_deadline(&mut self, now: Time) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                Timer::Conversation => self.listen(now),
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
            self.tell(Notice::Declined { flow, reason });
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
        let room = self.rooms.pop().unwrap_or_else(|| Room::new(&self.config));
        *place = Some(Flow::new(flow, to, first, room, now));
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
        self.hurry(flow.0);
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
            self.hungry.retain(|&hungry| hungry != index);
        }
        self.tell(Notice::Closed { flow: flow.id, unsent: flow.unsent });
        self.furnish(flow.into_room());
    }

    fn port_event(&mut self, event: PortEvent, now: Time) {
        match event {
            PortEvent::Ready { pair } => self.pair_ready(pair),
            PortEvent::Done { pair, ticket } => {
                while let Some((flow, message, latency)) = self.finish(pair, ticket, now) {
                    self.tell(Notice::Sent { flow, message, latency });
                }
            }
            PortEvent::Broken { pair, reason } => {
                if self.pairs.get(pair).is_some() {
                    self.break_pair(pair.slot, reason, now);
                }
            }
            PortEvent::Closed { pair } => self.pair_closed(pair, now),
            PortEvent::Arrived(arrival) => {
                let Arrival { peer, piece, .. } = arrival;
                if self.receive(&arrival) {
                    self.tell(Notice::Received { peer, piece });
                }
            }
            PortEvent::Up => self.port_is_up(now),
            PortEvent::Down => self.port_is_down(now),
        }
    }

    /// As [`PortEvent::Arrived`], on the short way: whether the piece is for the application, after what it is
    /// told before.
    #[inline]
    pub fn receive(&mut self, arrival: &Arrival) -> bool {
        let is_news = self.inbound.follows(arrival) || self.is_news(arrival);
        self.counters.received += u64::from(is_news);
        is_news
    }

    #[cold]
    fn is_news(&mut self, arrival: &Arrival) -> bool {
        match self.inbound.judge(arrival) {
            Verdict::Deliver => return true,
            Verdict::DeliverAfterGap(pieces) => {
                self.counters.lost += pieces;
                let (peer, flow) = (arrival.peer, arrival.piece.flow);
                self.tell(Notice::Lost { peer, flow, pieces });
                return true;
            }
            Verdict::Repeated => self.counters.repeated += 1,
            Verdict::TooMany => self.counters.too_many += 1,
        }
        false
    }

    /// Whether nobody waits and everything so far has been carried out: what is posted now is posted next.
    #[inline]
    pub(super) fn is_clear_ahead(&self) -> bool {
        self.hungry.is_empty() && self.outputs.is_empty()
    }

    /// After what happened on a short way: what was waiting for it.
    #[inline]
    pub fn go_on(&mut self, now: Time) {
        self.seen = now;
        if !self.hungry.is_empty() {
            self.post_all(now);
        }
        self.talk_if_due(now);
    }

    pub(super) fn tell(&mut self, notice: Notice) {
        self.outputs.push_back(Output::App(notice));
    }

    pub(super) fn put(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn ask_port(&mut self, call: PortCall) {
        self.outputs.push_back(Output::Port(call));
    }

    /// Gives it the memory of one more flow, which it would make itself when the flow is opened.
    pub fn furnish(&mut self, room: Room) {
        // More than there can be flows are of no use.
        if self.rooms.len() < self.flows.len() {
            self.rooms.push(room);
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

    /// How long those of a flow's messages took from when they were due, in nanoseconds, whose own completion was
    /// told.
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
