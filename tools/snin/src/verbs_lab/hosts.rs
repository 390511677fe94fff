//! The hosts: an agent's mesh each, on real queue pairs, and the traffic that they are to send. One loop
//! drives them all, the controller too, and sleeps between.

use std::collections::{BTreeMap, VecDeque};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use snin_agent::core::{Call, Config, Event, FlowId, Mesh, Message, Notice, Output, Wanted, turn};
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::message::FromAgent;

use super::controllers::Controller;
use super::error::VerbsLabError;
use super::links::Links;
use super::wire::{Clock, Wire};

/// Completions are looked for this often.
const TICK: Time = Time::millis(2);
/// How long hosts have to come to rest.
const REST: Time = Time::secs(20);
/// A host sends to one other at a time.
const FLOW: FlowId = FlowId(0);

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

struct Sender {
    task: Task,
    /// When the next message is due.
    next: Time,
    /// When the second is.
    from: Time,
    number: u64,
    /// The first message that counts.
    first: u64,
    arrived: u64,
    waiting: VecDeque<(u64, Time)>,
    latency: Histogram<u64>,
}

struct Host {
    guid: Guid,
    mesh: Mesh,
    sender: Option<Sender>,
    closed: bool,
}

/// Hosts, controller and wire while something is sent.
pub(super) struct Hosts<'a> {
    clock: Clock,
    wire: &'a mut Wire,
    links: &'a mut [Links],
    pub(super) controller: Controller,
    hosts: Vec<Host>,
    by_guid: BTreeMap<Guid, usize>,
    /// Queue pairs that broke, and why.
    pub(super) broken: Vec<String>,
}

impl<'a> Hosts<'a> {
    /// Hosts with fresh meshes, `config` each, that send nothing yet.
    pub(super) fn new(
        (clock, wire, links): (Clock, &'a mut Wire, &'a mut [Links]),
        guids: &[Guid],
        config: Config,
        controller: Controller,
    ) -> Result<Self, VerbsLabError> {
        links.iter_mut().for_each(Links::release);
        let mut hosts = Vec::new();
        for &guid in guids {
            let mesh = Mesh::new(Config { port: guid, ..config }, clock.now());
            let mesh = mesh.map_err(|error| VerbsLabError::Stopped(error.to_string()))?;
            hosts.push(Host { guid, mesh, sender: None, closed: true });
        }
        let by_guid = guids.iter().zip(0..).map(|(&guid, host)| (guid, host)).collect();
        Ok(Self { clock, wire, links, controller, hosts, by_guid, broken: Vec::new() })
    }

    /// The time.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// The fabric.
    pub(super) const fn wire(&mut self) -> &mut Wire {
        self.wire
    }

    /// Has a host begin with a task: a message now, with which it asks for a grant, then from `from` on.
    pub(super) fn begin(&mut self, task: Task, from: Time) {
        let (peer, now) = (self.hosts[task.destination].guid, self.clock.now());
        let host = &mut self.hosts[task.source];
        let open = Call::Open { flow: FLOW, peer, wanted: Wanted::default() };
        host.mesh.handle(Event::App(open), now);
        host.closed = false;
        let (number, first, arrived, waiting) = (0, 0, 0, VecDeque::new());
        let (next, latency) = (now, histogram());
        host.sender = Some(Sender { task, next, from, number, first, arrived, waiting, latency });
    }

    /// Messages that were due before now do not count.
    pub(super) fn forget(&mut self) {
        for sender in self.hosts.iter_mut().filter_map(|host| host.sender.as_mut()) {
            (sender.first, sender.arrived) = (sender.number, 0);
            sender.latency.reset();
        }
    }

    /// Lets everything work until then.
    pub(super) fn run_until(&mut self, until: Time) -> Result<(), VerbsLabError> {
        loop {
            self.wire.check()?;
            let next = self.work();
            let now = self.clock.now();
            if now >= until {
                return Ok(());
            }
            sleep((next - now).min(until - now).min(TICK));
        }
    }

    /// Ends all tasks: what became of them. What is under way is waited for.
    pub(super) fn finish(&mut self) -> Result<Vec<Done>, VerbsLabError> {
        let now = self.clock.now();
        let mut all = Vec::new();
        for host in &mut self.hosts {
            let Some(mut sender) = host.sender.take() else { continue };
            for (_, due) in sender.waiting.iter().filter(|(id, _)| *id >= sender.first) {
                sender.latency.saturating_record((now - *due).nanos());
            }
            let Sender { task, number, first, arrived, latency, .. } = sender;
            all.push(Done { task, due: number - first, arrived, latency });
            host.mesh.handle(Event::App(Call::Close { flow: FLOW }), now);
        }
        let deadline = now + REST;
        while !self.is_at_rest()? {
            if self.clock.now() > deadline {
                return Err(VerbsLabError::Stopped(format!("hosts do not come to rest in {REST}")));
            }
            self.run_until(self.clock.now() + TICK)?;
        }
        Ok(all)
    }

    fn is_at_rest(&mut self) -> Result<bool, VerbsLabError> {
        let mut under_way = 0;
        for links in &mut *self.links {
            under_way += links.settle()?;
        }
        Ok(under_way == 0 && self.hosts.iter().all(|host| host.closed))
    }

    /// Everybody's turn, once; when there will be something to do again.
    fn work(&mut self) -> Time {
        let mut told = Vec::new();
        for (host, links) in self.hosts.iter_mut().zip(&mut *self.links) {
            let now = self.clock.now();
            host.hand_over(now);
            let Host { guid, mesh, sender, closed } = host;
            turn(mesh, links, now, usize::MAX, |output| match output {
                Output::Controller(message) => told.push((*guid, message)),
                Output::App(Notice::Sent { message, latency, .. }) => {
                    if let Some(sender) = sender {
                        sender.arrived(message, latency);
                    }
                }
                Output::App(Notice::Closed { .. }) => *closed = true,
                Output::App(Notice::Broken { peer, tree, reason }) => {
                    self.broken.push(format!("to {peer} along tree {tree}: {reason}"));
                }
                Output::App(_) | Output::Port(_) => {}
            });
        }
        self.talk(told);
        let hosts = self.hosts.iter().flat_map(|host| {
            host.mesh.next_deadline().into_iter().chain(host.sender.as_ref().map(|s| s.next))
        });
        hosts.chain([self.controller.next_deadline()]).min().unwrap_or(Time::MAX)
    }

    fn talk(&mut self, told: Vec<(Guid, FromAgent)>) {
        let now = self.clock.now();
        for (from, message) in told {
            self.controller.handle(from, message, now);
        }
        for (to, message) in self.controller.work(now) {
            if let Some(&host) = self.by_guid.get(&to) {
                self.hosts[host].mesh.handle(Event::Controller(message), now);
            }
        }
    }
}

impl Host {
    /// Gives the mesh what is due.
    fn hand_over(&mut self, now: Time) {
        let Some(sender) = &mut self.sender else { return };
        while sender.next <= now {
            let (id, due, bytes) = (sender.number, sender.next, u64::from(sender.task.bytes));
            let message = Message { id, bytes, due };
            self.mesh.handle(Event::App(Call::Send { flow: FLOW, message }), now);
            sender.waiting.push_back((id, due));
            sender.number += 1;
            sender.next = (due + sender.task.interval).max(sender.from);
        }
    }
}

impl Sender {
    fn arrived(&mut self, message: u64, latency: Time) {
        self.waiting.retain(|&(id, _)| id != message);
        if message >= self.first {
            self.arrived += 1;
            self.latency.saturating_record(latency.nanos());
        }
    }
}

/// Up to a minute, three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 60_000_000_000, 3).expect("bounds and digits that can be")
}

pub(super) fn sleep(time: Time) {
    thread::sleep(Duration::from_nanos(time.nanos()));
}
