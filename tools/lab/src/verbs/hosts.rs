//! The hosts: an agent each, and the application on it, which sends what it is to send and takes what comes.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use hdrhistogram::Histogram;
use snin_agent::{Agent, Driver, Flow, Settings};
use snin_agent_core::{FlowId, Notice};
use snin_daemon::session::Address;
use snin_daemon::settings::Loaded;
use snin_fabric::Guid;
use snin_protocol::Time;

use super::document::Agents;
use super::error::VerbsLabError;
use super::fabric::{Fabric, Place};
use super::interfaces;
use super::rates::Rates;
use super::worker::Worker;

/// Where agents listen for each other, on an address of their own.
const PORT: u16 = 18517;

/// What a host is to send: a message every `interval`, whether the last one has arrived or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Task {
    pub(super) source: usize,
    pub(super) destination: usize,
    pub(super) bytes: u32,
    pub(super) interval: Time,
}

/// What became of it.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) task: Task,
    /// Messages that were due.
    pub(super) due: u64,
    /// Messages that arrived while it ran.
    pub(super) arrived: u64,
    /// From when a message was due until its sender knew that it had arrived, in nanoseconds; what had not
    /// arrived at the end counts with its age.
    pub(super) latency: Histogram<u64>,
}

/// The data thread of all agents looks this often while nothing happens.
const NAP: Duration = Duration::from_millis(2);

/// All hosts of the lab.
pub(super) struct Hosts {
    guids: Vec<Guid>,
    agents: Vec<Agent>,
    drive: Worker,
    senders: Vec<Sender>,
    /// Messages that applications took.
    taken: u64,
    /// Queue pairs that broke, and why.
    pub(super) broken: Vec<String>,
}

impl Hosts {
    /// Starts an agent on every host.
    ///
    /// # Errors
    /// The first that does not run.
    pub(super) fn start(
        fabric: &Fabric,
        rates: &Rates,
        controller: &Address,
    ) -> Result<Self, VerbsLabError> {
        let places = fabric.places();
        let common = Settings {
            controller: Some(controller.to_string()),
            peers: places.iter().map(|p| (p.guid.to_string(), listen(p).to_string())).collect(),
            ..rates.agent(places.len(), fabric.trees())
        };
        let start = |(host, place): (usize, &Place)| {
            let mut settings = Loaded::defaults();
            settings.value = Settings {
                guid: Some(place.guid.to_string()),
                device: Some(interfaces::name(host)),
                listen: listen(place).to_string(),
                ..common.clone()
            };
            Agent::start_driven(&settings)
        };
        let started = places.iter().enumerate().map(start).collect::<Result<Vec<_>, _>>()?;
        let (agents, drivers) = started.into_iter().unzip();
        let guids = places.iter().map(|place| place.guid).collect();
        let drive = Worker::start("hosts", move |stops| drive(drivers, stops))?;
        Ok(Self { guids, agents, drive, senders: Vec::new(), taken: 0, broken: Vec::new() })
    }

    /// Has every host send every other a message of so many bytes; gives how many that are.
    pub(super) fn greet_all(&mut self, bytes: u32) -> Result<usize, VerbsLabError> {
        let all = 0..self.agents.len();
        let pairs = all.clone().flat_map(|a| all.clone().map(move |b| (a, b)));
        for (source, destination) in pairs.filter(|(a, b)| a != b) {
            self.begin(Task { source, destination, bytes, interval: Time::MAX })?;
        }
        Ok(self.senders.len())
    }

    /// Has a host begin with a task: a message now, with which its agent asks for a grant. The others are due
    /// from [`go`](Self::go) on.
    pub(super) fn begin(&mut self, task: Task) -> Result<(), VerbsLabError> {
        let agent = &self.agents[task.source];
        let flow = agent.connect(self.guids[task.destination]).map_err(failed)?;
        self.senders.push(Sender::new(task, flow, agent.now()));
        Ok(())
    }

    /// A task whose first message has not arrived, if there is one.
    pub(super) fn cold(&self) -> Option<String> {
        let cold = self.senders.iter().find(|sender| !sender.waiting.is_empty())?;
        let Task { source, destination, .. } = cold.task;
        Some(format!("host {source} has no answer from host {destination}"))
    }

    /// From now on messages are due, and count.
    pub(super) fn go(&mut self) -> Result<(), VerbsLabError> {
        for sender in &mut self.senders {
            sender.before = latency(&self.agents[sender.task.source], sender.flow.id())?;
        }
        for sender in &mut self.senders {
            let now = self.agents[sender.task.source].now();
            (sender.next, sender.due, sender.arrived) = (now, 0, 0);
        }
        Ok(())
    }

    /// Lets every host work once; how long until something is due again.
    pub(super) fn work(&mut self) -> Result<Time, VerbsLabError> {
        self.drive.check()?;
        for sender in &mut self.senders {
            sender.work(self.agents[sender.task.source].now())?;
        }
        for agent in &self.agents {
            self.taken += std::iter::from_fn(|| agent.try_recv()).count() as u64;
            while let Some(notice) = agent.notice() {
                if let Notice::Broken { peer, tree, reason } = notice {
                    let own = agent.guid();
                    self.broken.push(format!("{own} to {peer} along tree {tree}: {reason}"));
                }
            }
        }
        let wait = |sender: &Sender| sender.next - self.agents[sender.task.source].now();
        Ok(self.senders.iter().map(wait).min().unwrap_or(Time::MAX))
    }

    /// Ends all tasks: what became of them. What is under way still takes its time.
    pub(super) fn end(&mut self) -> Result<Vec<Done>, VerbsLabError> {
        self.senders.drain(..).map(|sender| sender.end(&self.agents)).collect()
    }

    /// An agent that has a flow still, if there is one.
    pub(super) fn unrest(&self) -> Result<Option<String>, VerbsLabError> {
        for agent in &self.agents {
            if let Some(flow) = agent.snapshot(None).map_err(failed)?.flows.first() {
                return Ok(Some(format!("{} has {flow:?}", agent.guid())));
            }
        }
        Ok(None)
    }

    /// What the agents did up to now.
    pub(super) fn account(&self) -> Result<Agents, VerbsLabError> {
        let mut all = Agents { taken: self.taken, ..Agents::default() };
        for agent in &self.agents {
            let counters = agent.snapshot(None).map_err(failed)?.counters;
            all.pairs += counters.connects;
            all.messages += counters.messages;
            all.irregular += counters.repeated + counters.lost;
            all.changes += counters.changes;
            all.leases += counters.confirms;
        }
        Ok(all)
    }
}

/// The one data thread of all agents: a wake for each message at each host is more than the machine has time for.
fn drive(mut drivers: Vec<Driver>, stops: &AtomicBool) -> io::Result<()> {
    while !stops.load(Ordering::Relaxed) {
        let worked = drivers.iter_mut().fold(false, |worked, driver| driver.poll() | worked);
        if !worked {
            thread::sleep(NAP);
        }
    }
    Ok(())
}

/// A task under way. All times are by the agent's clock.
struct Sender {
    task: Task,
    flow: Flow,
    /// When the next message is due.
    next: Time,
    /// Those that were due and have not arrived, oldest first: when they were.
    waiting: VecDeque<Time>,
    /// So many of these the agent has; for others it had no room yet.
    handed: usize,
    due: u64,
    arrived: u64,
    /// What the agent had counted before messages were.
    before: Histogram<u64>,
    message: Vec<u8>,
}

impl Sender {
    fn new(task: Task, flow: Flow, now: Time) -> Self {
        let (waiting, message) = (VecDeque::from([now]), vec![0; task.bytes as usize]);
        let (handed, due, arrived, before) = (0, 0, 0, histogram());
        Self { task, flow, next: Time::MAX, waiting, handed, due, arrived, before, message }
    }

    fn work(&mut self, now: Time) -> Result<(), VerbsLabError> {
        let arrived = self.handed - (self.flow.waiting() as usize).min(self.handed);
        self.waiting.drain(..arrived);
        self.handed -= arrived;
        self.arrived += arrived as u64;
        while self.next <= now {
            self.waiting.push_back(self.next);
            self.due += 1;
            self.next += self.task.interval;
        }
        while let Some(&due) = self.waiting.get(self.handed) {
            match self.flow.send_due(&self.message, due) {
                Ok(()) => self.handed += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn end(mut self, agents: &[Agent]) -> Result<Done, VerbsLabError> {
        let agent = &agents[self.task.source];
        let now = agent.now();
        self.work(now)?;
        let mut latency = latency(agent, self.flow.id())?;
        latency.subtract(&self.before).expect("the agent counted these too");
        for due in self.waiting {
            latency.saturating_record((now - due).nanos());
        }
        Ok(Done { task: self.task, due: self.due, arrived: self.arrived, latency })
    }
}

/// What an agent has counted of a flow.
fn latency(agent: &Agent, flow: FlowId) -> Result<Histogram<u64>, VerbsLabError> {
    let seen = agent.snapshot(Some(flow)).map_err(failed)?;
    Ok(seen.latency.unwrap_or_else(histogram))
}

/// As agents have them.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds and digits that can be")
}

/// Where a host's agent listens. Hosts share a machine: the low 16 bits are the host's LID here as well.
fn listen(place: &Place) -> Address {
    let [high, low] = place.base.0.to_be_bytes();
    Address::Plain((Ipv4Addr::new(127, 9, high, low), PORT).into())
}

fn failed(error: io::Error) -> VerbsLabError {
    VerbsLabError::Stopped(format!("an agent: {error}"))
}

pub(super) fn sleep(time: Time) {
    thread::sleep(Duration::from_nanos(time.nanos()));
}
