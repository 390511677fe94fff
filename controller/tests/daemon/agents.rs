//! Agents: the real mesh and real sessions, over ports that send at their rate and lose nothing.
//!
//! What a port sends begins at the moment by which the mesh decided it: how long the machine keeps this thread
//! waiting says nothing of grants.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;
use snin_agent_core::{
    Call as Asked, Config, Event, FlowId, Mesh, Message, Notice, Output, PortCall, PortEvent,
    Route, Wanted,
};
use snin_daemon::clock::Clock;
use snin_daemon::session::{Address, Call, Caller, Limits, Received};
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::message::{FromAgent, ToAgent};
use tokio::select;

use super::watcher::{Sent, Watcher};

const RATE: u64 = 1_000_000_000;
/// Messages of a flow before its host turns to another peer.
const MESSAGES: u64 = 20;
const BYTES: u64 = 60_000;

/// All agents of a fabric, on a thread of their own until this is dropped.
pub(crate) struct Agents {
    pub(crate) watcher: Arc<Mutex<Watcher>>,
    stops: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Agents {
    pub(crate) fn start(watcher: Watcher, controller: &Address, seed: u64) -> Self {
        let hosts = watcher.hosts();
        let watcher = Arc::new(Mutex::new(watcher));
        let stops = Arc::new(AtomicBool::new(false));
        let (seen, stop, address) = (watcher.clone(), stops.clone(), controller.clone());
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let plan = Arc::new(Plan::new(hosts.clone(), seed));
                let mut all = tokio::task::JoinSet::new();
                for port in hosts {
                    let agent = Agent::new(port, &address, plan.clone(), seen.clone());
                    all.spawn(agent.run(stop.clone()));
                }
                while let Some(ended) = all.join_next().await {
                    ended.unwrap();
                }
            });
        });
        Self { watcher, stops, thread: Some(thread) }
    }

    /// Waits until so many pieces more were sent.
    pub(crate) fn send_more(&self, pieces: usize) {
        let began = std::time::Instant::now();
        let goal = self.count() + pieces;
        while self.count() < goal {
            let is_alive = !self.thread.as_ref().unwrap().is_finished();
            assert!(
                is_alive && began.elapsed() < super::process::PATIENCE,
                "{} of {goal} pieces",
                self.count()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.watcher.lock().unwrap().count()
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// The peer of every agent: one random permutation after the other.
struct Plan {
    hosts: Vec<Guid>,
    seed: u64,
}

impl Plan {
    const fn new(hosts: Vec<Guid>, seed: u64) -> Self {
        Self { hosts, seed }
    }

    fn peer(&self, port: Guid, round: u64) -> Guid {
        let mut to = self.hosts.clone();
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ round);
        loop {
            to.shuffle(&mut rng);
            if self.hosts.iter().zip(&to).all(|(from, to)| from != to) {
                let place = self.hosts.iter().position(|&host| host == port).unwrap();
                return to[place];
            }
        }
    }
}

struct Agent {
    port: Guid,
    clock: Clock,
    mesh: Mesh,
    caller: Caller<ToAgent, FromAgent>,
    plan: Arc<Plan>,
    watcher: Arc<Mutex<Watcher>>,
    routes: BTreeMap<u32, Route>,
    free_at: Time,
    /// What the port will say, by when.
    later: Vec<(Time, PortEvent)>,
    round: u64,
    sent: u64,
    peer: Guid,
}

impl Agent {
    fn new(port: Guid, to: &Address, plan: Arc<Plan>, watcher: Arc<Mutex<Watcher>>) -> Self {
        let clock = Clock::system();
        let config = Config {
            port,
            session: 1,
            pairs: 64,
            flows: 4,
            depth: 4,
            piece: 65_536,
            mtu: 4_096,
            rate: RATE,
            controller: true,
            ask_time: Time::millis(50),
            longest_grant: Time::secs(2),
            silence: Time::secs(2),
            linger: Time::millis(50),
            ..Config::default()
        };
        let caller = call(to, port);
        Self {
            port,
            clock,
            mesh: Mesh::new(config, clock.now()).unwrap(),
            caller,
            plan,
            watcher,
            routes: BTreeMap::new(),
            free_at: Time::ZERO,
            later: Vec::new(),
            round: 0,
            sent: 0,
            peer: port,
        }
    }

    async fn run(mut self, stops: Arc<AtomicBool>) {
        self.turn_to_next();
        while !stops.load(Ordering::Relaxed) {
            let now = self.clock.now();
            self.work(now);
            let first = self.later.iter().map(|&(at, _)| at).min();
            let due = first.into_iter().chain(self.mesh.next_deadline()).min();
            let nap =
                due.map_or(Time::millis(20), |due| (due - self.clock.now()).min(Time::millis(20)));
            select! {
                heard = self.caller.next() => if let Received::Said(_, frame) = heard {
                    let now = self.clock.now();
                    // The port first, as agents do: else what was sent in time would look as if it were under way.
                    self.hear_port(now);
                    self.mesh.handle(Event::Controller(Arc::new(frame)), now);
                },
                () = tokio::time::sleep(Duration::from_nanos(nap.nanos())) => {}
            }
        }
    }

    fn hear_port(&mut self, now: Time) {
        let (due, later) = self.later.drain(..).partition(|&(at, _)| at <= now);
        self.later = later;
        let due: Vec<(Time, PortEvent)> = due;
        for (_, event) in due {
            self.mesh.handle(Event::Port(event), now);
        }
    }

    fn work(&mut self, now: Time) {
        self.hear_port(now);
        if self.mesh.next_deadline().is_some_and(|at| at <= now) {
            self.mesh.handle_deadline(now);
        }
        while let Some(output) = self.mesh.poll_output() {
            match output {
                Output::Controller(message) => drop(self.caller.send(&message).unwrap()),
                Output::Port(call) => self.port(call, now),
                Output::App(notice) => self.receive(notice, now),
            }
        }
    }

    fn port(&mut self, call: PortCall, now: Time) {
        match call {
            PortCall::Connect { pair, route } => {
                self.routes.insert(pair.slot, route);
                self.later.push((now, PortEvent::Ready { pair }));
            }
            PortCall::Close { pair } => {
                self.later.push((now.max(self.free_at), PortEvent::Closed { pair }));
            }
            PortCall::Post(post) => {
                let route = self.routes[&post.pair.slot];
                let start = now.max(self.free_at);
                let bits = self.mesh.config().wire(post.piece.bytes.into()) * 8;
                let end = start + Time(bits * 1_000_000_000 / RATE);
                self.free_at = end;
                self.later.push((end, PortEvent::Done { pair: post.pair, ticket: post.ticket }));
                let dlid = route.dlid.expect("grants name addresses");
                let sent = Sent { from: self.port, to: route.peer, dlid, start, end };
                self.watcher.lock().unwrap().sees(sent);
            }
        }
    }

    fn receive(&mut self, notice: Notice, now: Time) {
        match notice {
            Notice::Sent { .. } => {
                self.sent += 1;
                if self.sent < MESSAGES {
                    self.send(now);
                } else {
                    self.mesh.handle(Event::App(Asked::Close { flow: FlowId(0) }), now);
                }
            }
            Notice::Closed { .. } => self.turn_to_next(),
            Notice::Declined { .. } | Notice::Broken { .. } => panic!("{notice:?}"),
            _ => {}
        }
    }

    /// The next permutation.
    fn turn_to_next(&mut self) {
        self.peer = self.plan.peer(self.port, self.round);
        (self.round, self.sent) = (self.round + 1, 0);
        let now = self.clock.now();
        let (flow, peer, wanted) = (FlowId(0), self.peer, Wanted::default());
        self.mesh.handle(Event::App(Asked::Open { flow, peer, wanted }), now);
        self.send(now);
    }

    fn send(&mut self, now: Time) {
        let message = Message { id: self.sent, bytes: BYTES, due: now };
        self.mesh.handle(Event::App(Asked::Send { flow: FlowId(0), message }), now);
    }
}

/// The session of a port's agent with a controller.
pub(crate) fn call(to: &Address, port: Guid) -> Caller<ToAgent, FromAgent> {
    Caller::start(Call {
        to: to.clone(),
        service: Service::Grants,
        role: Role::Controller,
        peer: None,
        identity: Identity::Agent(port),
        limits: Limits::default(),
        credentials: None,
    })
}

/// Somewhere within `most`.
pub(crate) fn within(most: Duration, rng: &mut ChaCha8Rng) -> Duration {
    Duration::from_micros(rng.random_range(0..most.as_micros() as u64))
}
