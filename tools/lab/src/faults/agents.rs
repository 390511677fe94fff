//! Agents as processes: a mesh, an adapter, a session with a controller, and an application that sends.

use std::collections::VecDeque;

use rand::RngExt as _;
use snin_agent_core::{
    Arrival, BreakReason, Call, Config, Event, FlowId, Io, Mesh, Message, Notice, Output, PairId,
    Port as _, PortEvent, Wanted, poll,
};
use snin_fabric::Guid;
use snin_mad::PortState;
use snin_protocol::Time;
use snin_protocol::message::{AgentMessage, Confirm, ControllerMessage, FromAgent, Lease};

use super::adapter::Adapter;
use super::controllers::config;
use super::net::{Heard, Process, Running, Said, Service};
use super::site::{Happening, Site};
use super::{Planted, SetupError};

/// The only flow of an agent.
const FLOW: FlowId = FlowId(0);
/// How long a piece is under way, and its acknowledgement after it.
const PATH: Time = Time::micros(5);
const ACKNOWLEDGEMENT: Time = Time::micros(10);
/// How long an adapter tries to get through what gets lost.
const RETRY: Time = Time::millis(2);
/// What a turn of a mesh may handle.
const TURN: usize = 64;
/// A clock is at most so far from true time.
const AHEAD: i64 = 20_000_000;
/// So that no clock is before its beginning.
const BEGIN: i64 = 1_000_000_000;

/// An agent.
pub(super) struct Agent {
    mesh: Mesh,
    config: Config,
    pub(super) adapter: Adapter,
    events: VecDeque<Event>,
    session: Option<u64>,
    /// Own clock less true time, in nanoseconds.
    ahead: i64,
    /// When it is woken, and when its port begins, as far as that is planned.
    wake_at: Time,
    start_at: Time,
    /// What its application sends to whom, if it does.
    flow: Option<(Guid, u64)>,
    closing: bool,
    /// The adapter says that the link is there.
    is_up: bool,
    /// The sender's session of the piece that arrived last.
    arriving: u64,
    /// When a message of it was sent last.
    pub(super) sent_at: Time,
}

/// What a mesh works with at one moment.
struct AgentIo<'a> {
    adapter: &'a mut Adapter,
    events: &'a mut VecDeque<Event>,
    said: Vec<FromAgent>,
    notices: Vec<Notice>,
    own: Time,
}

impl Io for AgentIo<'_> {
    fn next_event(&mut self) -> Option<Event> {
        let told = self.events.pop_front();
        told.or_else(|| self.adapter.poll().map(Event::Port))
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Port(call) => self.adapter.carry_out(call),
            Output::Controller(message) => self.said.push(message),
            Output::App(notice) => self.notices.push(notice),
        }
    }

    fn now(&self) -> Time {
        self.own
    }
}

fn local(now: Time, ahead: i64) -> Time {
    Time(now.0.saturating_add_signed(BEGIN + ahead))
}

impl Site {
    pub(super) fn add_agent(&mut self, n: usize) -> Result<(), SetupError> {
        let config = Config {
            port: self.hosts[n].0,
            pairs: 16,
            flows: 1,
            inbound_peers: 64,
            inbound_flows: 1,
            queue: 4,
            depth: 2,
            piece: 64 << 10,
            // A piece of full size takes about 10 ms, so that windows are as busy as can be with few events.
            rate: 50_000_000,
            acknowledgement: ACKNOWLEDGEMENT,
            histogram: None,
            ..Config::default()
        };
        let mesh = Mesh::new(config, Time::ZERO);
        self.agents.push(Agent {
            mesh: mesh.map_err(|error| SetupError::Config(error.to_string()))?,
            config,
            adapter: Adapter::default(),
            events: VecDeque::new(),
            session: None,
            ahead: 0,
            wake_at: Time::MAX,
            start_at: Time::MAX,
            flow: None,
            closing: false,
            is_up: false,
            arriving: 0,
            sent_at: Time::ZERO,
        });
        let controllers = (0..self.setup.controllers).map(Process::Controller).collect();
        self.net.add_caller(Process::Agent(n), Service::Grants, 0, controllers);
        Ok(())
    }

    pub(super) fn start_agent(&mut self, n: usize) {
        let (now, life) = (self.now(), self.life(Process::Agent(n)));
        let ahead = self.rng.random_range(-AHEAD..=AHEAD);
        let agent = &mut self.agents[n];
        let config = Config { session: u64::from(life), ..agent.config };
        // The configuration was taken once.
        if let Ok(mesh) = Mesh::new(config, local(now, ahead)) {
            agent.mesh = mesh;
        }
        let free_at = agent.adapter.free_at;
        agent.adapter = Adapter { now, free_at, ..Adapter::default() };
        agent.events.clear();
        (agent.session, agent.ahead) = (None, ahead);
        (agent.wake_at, agent.start_at) = (Time::MAX, Time::MAX);
        // A mesh takes its link to be there until it hears otherwise.
        (agent.flow, agent.closing, agent.is_up) = (None, false, true);
        self.act(n);
    }

    /// Its queue pairs are gone with it, and their other ends hear of that.
    pub(super) fn end_agent(&mut self, n: usize) {
        let (guid, session) = (self.hosts[n].0, u64::from(self.life(Process::Agent(n))));
        self.agents[n].adapter.waiting.clear();
        for other in 0..self.agents.len() {
            let concerned = self.agents[n].adapter.pairs.values();
            if concerned.into_iter().any(|pair| pair.peer == self.hosts[other].0) {
                let event = PortEvent::PeerGone { peer: guid, session };
                self.plan_port(other, Time::millis(1), event);
            }
        }
    }

    fn plan_port(&mut self, n: usize, after: Time, event: PortEvent) {
        let life = self.life(Process::Agent(n));
        self.plan(after, Happening::Port { agent: n, life, event });
    }

    pub(super) fn port_event(&mut self, n: usize, event: PortEvent) {
        if let PortEvent::Arrived(arrival) = event {
            self.agents[n].arriving = arrival.session;
        }
        self.agents[n].adapter.inbox.push_back(event);
        self.run_agent(n);
    }

    pub(super) fn wake_agent(&mut self, n: usize) {
        self.agents[n].wake_at = Time::MAX;
        self.run_agent(n);
    }

    /// The application goes on: now and then it wants another peer.
    pub(super) fn act(&mut self, n: usize) {
        let life = self.life(Process::Agent(n));
        let agent = &mut self.agents[n];
        match agent.flow {
            None => self.open_flow(n),
            Some(_) if !agent.closing => {
                agent.closing = true;
                agent.events.push_back(Event::App(Call::Close { flow: FLOW }));
            }
            Some(_) => {}
        }
        if self.setup.planted == Some(Planted::ClockJumps) {
            self.agents[n].ahead = -self.agents[n].ahead;
        }
        let after = Time::millis(self.rng.random_range(2_000..8_000));
        self.plan(after, Happening::Act { agent: n, life });
        self.run_agent(n);
    }

    fn open_flow(&mut self, n: usize) {
        let place = self.rng.random_range(1..self.hosts.len());
        let peer = self.hosts[(n + place) % self.hosts.len()].0;
        let agent = &mut self.agents[n];
        agent.flow = Some((peer, 0));
        agent.events.push_back(Event::App(Call::Open {
            flow: FLOW,
            peer,
            wanted: Wanted::default(),
        }));
        self.send_message(n);
    }

    fn send_message(&mut self, n: usize) {
        let bytes = self.rng.random_range(0..256 << 10);
        let now = self.now();
        let agent = &mut self.agents[n];
        let Some((_, next)) = agent.flow.as_mut().filter(|_| !agent.closing) else { return };
        let message = Message { id: *next, bytes, due: local(now, agent.ahead) };
        *next += 1;
        agent.events.push_back(Event::App(Call::Send { flow: FLOW, message }));
    }

    pub(super) fn agent_hears(&mut self, n: usize, heard: Heard) {
        match heard {
            Heard::Opened { session, .. } => self.agents[n].session = Some(session),
            Heard::Closed { session, .. } => {
                if self.agents[n].session == Some(session) {
                    self.agents[n].session = None;
                }
                self.caller_closed(Process::Agent(n), session);
            }
            Heard::Said { session, said: Said::ToAgent(message), .. } => {
                if self.agents[n].session == Some(session) {
                    if self.setup.planted == Some(Planted::ConfirmsAtOnce)
                        && let ControllerMessage::Lease(Lease { sequence, .. }) = message.body
                    {
                        let body = AgentMessage::Confirm(Confirm { sequence });
                        let said = FromAgent { session: message.session, body };
                        self.say(session, Process::Agent(n), Said::FromAgent(said));
                    }
                    self.agents[n].events.push_back(Event::Controller(message));
                    self.run_agent(n);
                }
            }
            Heard::Said { .. } => {}
        }
    }

    /// Gives mesh and adapter their turns, and plans what follows.
    fn run_agent(&mut self, n: usize) {
        let process = Process::Agent(n);
        if !self.runs(process) {
            return;
        }
        let now = self.now();
        loop {
            let Agent { mesh, adapter, events, ahead, .. } = &mut self.agents[n];
            adapter.now = now;
            let (said, notices, own) = (Vec::new(), Vec::new(), local(now, *ahead));
            let mut io = AgentIo { adapter, events, said, notices, own };
            let handled = poll(mesh, &mut io, TURN);
            let AgentIo { said, notices, .. } = io;
            let is_idle = handled == 0 && notices.is_empty();
            for message in said {
                if let Some(session) = self.agents[n].session {
                    self.say(session, process, Said::FromAgent(message));
                }
            }
            notices.into_iter().for_each(|notice| self.notice(n, &notice));
            self.after_adapter(n);
            if is_idle {
                break;
            }
        }
        let agent = &mut self.agents[n];
        if let Some(deadline) = agent.mesh.next_deadline() {
            let at = Time(deadline.0.saturating_add_signed(-(BEGIN + agent.ahead))).max(now);
            if at < agent.wake_at {
                agent.wake_at = at;
                let life = self.life(process);
                self.plan(at - now, Happening::Wake { agent: n, life });
            }
        }
    }

    fn notice(&mut self, n: usize, notice: &Notice) {
        match *notice {
            Notice::Sent { message, .. } => {
                self.agents[n].sent_at = self.now();
                let session = u64::from(self.life(Process::Agent(n)));
                if let Some(why) = self.judges.sent((self.hosts[n].0, session), message) {
                    self.violated("sent is not arrived", why);
                }
                self.summary.messages += 1;
                self.send_message(n);
            }
            Notice::Received { peer, piece } => {
                let life = self.life(Process::Agent(n));
                let from = (peer, self.agents[n].arriving);
                if let Some(why) = self.judges.received((n, life), from, &piece) {
                    self.violated("order", format_args!("agent{n}: {why}"));
                }
            }
            Notice::Closed { .. } => {
                let agent = &mut self.agents[n];
                (agent.flow, agent.closing) = (None, false);
                let session = u64::from(self.life(Process::Agent(n)));
                self.judges.closed((self.hosts[n].0, session));
                self.open_flow(n);
            }
            Notice::Lost { peer, flow, pieces } => {
                let what = format!("agent{n}: {pieces} pieces of {peer} {flow:?}");
                self.violated("a reliable queue pair lost pieces", what);
            }
            _ => {}
        }
    }

    /// What the adapter was told to do.
    fn after_adapter(&mut self, n: usize) {
        let now = self.now();
        let adapter = &mut self.agents[n].adapter;
        let later = std::mem::take(&mut adapter.later);
        let connecting = std::mem::take(&mut adapter.connecting);
        for (at, event) in later {
            self.plan_port(n, at.max(now) - now, event);
        }
        connecting.into_iter().for_each(|pair| self.connect(n, pair));
        let agent = &mut self.agents[n];
        if let Some(at) = agent.adapter.next_start().map(|at| at.max(now))
            && at < agent.start_at
        {
            agent.start_at = at;
            let life = self.life(Process::Agent(n));
            self.plan(at - now, Happening::Start { agent: n, life });
        }
    }

    /// Both ends' agents speak to each other over base addresses, by the tables as they are.
    fn connect(&mut self, n: usize, id: PairId) {
        let Some(pair) = self.agents[n].adapter.pairs.get(&id).copied() else { return };
        let peer = self.hosts.iter().position(|&(guid, _)| guid == pair.peer);
        let reachable = peer.filter(|&peer| {
            let fabric = self.emulator.fabric();
            let (own, other) = (self.hosts[n].1, self.hosts[peer].1);
            let lid = fabric.port_info(other).lid;
            self.runs(Process::Agent(peer))
                && fabric.carry(own, lid).is_ok_and(|(at, _)| at == other)
                && pair.lid.is_some()
        });
        let (after, event) = match reachable {
            Some(peer) => {
                let peer_life = self.life(Process::Agent(peer));
                if let Some(pair) = self.agents[n].adapter.pairs.get_mut(&id) {
                    pair.peer_life = peer_life;
                }
                (Time::millis(1), PortEvent::Ready { pair: id })
            }
            None => {
                if let Some(pair) = self.agents[n].adapter.pairs.get_mut(&id) {
                    pair.broken = true;
                }
                let reason = BreakReason::Unconnected;
                (Time::millis(50), PortEvent::Broken { pair: id, reason })
            }
        };
        self.plan_port(n, after, event);
    }

    /// The port begins with the next piece; also while its agent stands still.
    pub(super) fn start_piece(&mut self, n: usize, life: u32) {
        let (now, process) = (self.now(), Process::Agent(n));
        if self.life(process) != life || self.running(process) == Running::Dead {
            return;
        }
        let agent = &mut self.agents[n];
        agent.start_at = Time::MAX;
        agent.adapter.now = now;
        if agent.adapter.next_start().is_none_or(|at| at > now) {
            return self.after_adapter(n);
        }
        let Some(waiting) = agent.adapter.waiting.pop_front() else { return };
        let Some(pair) = agent.adapter.pairs.get(&waiting.pair).copied() else { return };
        let bytes = agent.config.wire(waiting.piece.bytes.into());
        let lasts = Time((bytes * 8_000_000_000).div_ceil(agent.config.rate));
        let end = now + lasts;
        agent.adapter.free_at = end;
        self.summary.pieces += 1;
        let lid = pair.lid.unwrap_or_default();
        self.fold(&[now.0.to_le_bytes(), u64::from(lid.0).to_le_bytes()].concat());
        let guard = config().guard;
        let carried = self.emulator.fabric().carry(self.hosts[n].1, lid);
        let from = (self.hosts[n].0, waiting.piece.flow);
        if let Some(why) = self.judges.within(from, lid, (now, end), guard) {
            self.violated("outside its grant", format_args!("agent{n}: {why}"));
        }
        if let Ok((_, links)) = &carried
            && let Some((link, other)) = self.judges.occupy(n, links, (now, end + PATH))
        {
            let name = self.topology.port_name(link).to_string();
            let what = format!("{name}: agent{n} by {lid} while agent{other} is there");
            self.violated("two owners of a link", what);
        }
        let peer = self.hosts.iter().position(|&(guid, _)| guid == pair.peer);
        let arrived = match (carried, peer) {
            (Ok((port, _)), Some(peer)) if self.hosts[peer].1 == port => {
                let there = Process::Agent(peer);
                let lives = self.running(there) != Running::Dead;
                (lives && self.life(there) == pair.peer_life).then_some(peer)
            }
            _ => None,
        };
        match arrived {
            Some(peer) => {
                let arrival =
                    Arrival { peer: from.0, session: u64::from(life), piece: waiting.piece };
                self.judges.arrived((from.0, u64::from(life)), &waiting.piece);
                self.plan_port(peer, lasts + PATH, PortEvent::Arrived(arrival));
                let done = PortEvent::Done { pair: waiting.pair, ticket: waiting.ticket };
                self.plan_port(n, lasts + PATH + ACKNOWLEDGEMENT, done);
            }
            None => {
                self.summary.lost += 1;
                let at = end + RETRY;
                self.agents[n].adapter.break_pair(waiting.pair, BreakReason::Failed, at);
            }
        }
        self.after_adapter(n);
    }

    /// Adapters notice when their links come and go.
    pub(super) fn look_at_ports(&mut self) {
        for n in 0..self.agents.len() {
            let state = self.emulator.fabric().port_state(self.hosts[n].1);
            let is_up = state == PortState::Active;
            if self.agents[n].is_up != is_up && self.runs(Process::Agent(n)) {
                self.agents[n].is_up = is_up;
                let event = if is_up { PortEvent::Up } else { PortEvent::Down };
                self.port_event(n, event);
            }
        }
    }
}
