//! A host: its agent's mesh, its adapter, its clock, and the application that sends.

use std::collections::VecDeque;

use snin_agent_core::{
    Call, Config, ConfigError, Event, FlowId, Io, Mesh, Message, Notice, Output, Port as _, Wanted,
    poll,
};
use snin_emulator::data::Transport;
use snin_fabric::{Guid, PortIndex};
use snin_protocol::Time;
use snin_protocol::message::FromAgent;

use super::port::{Adapter, EmulatedPort};
use super::wire::Wire;

/// Most that an adapter tells in one turn.
const EVENTS: usize = 64;

/// What an application sends to one other.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// The connection's number in the lab.
    connection: u32,
    /// Bytes of a message.
    bytes: u64,
    /// Messages that are still to be handed over, one a window.
    left: u32,
    /// Messages that wait or are under way.
    waiting: u32,
    messages: u64,
    closing: bool,
}

/// What became of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It sent for the first time.
    Began,
    /// It sent all that it had.
    Done,
    /// The controller refused it.
    Refused,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Host {
    /// The port's GUID.
    pub guid: Guid,
    mesh: Mesh,
    adapter: Adapter,
    /// Own clock less the controller's, in nanoseconds.
    ahead: i64,
    jobs: Vec<Option<Job>>,
    /// The connection of each flow.
    connections: Vec<u32>,
    /// Bit/s that each flow asks for, where that is less than the links carry.
    rates: Vec<Option<u64>>,
    free: Vec<u32>,
    /// When it is to be woken; [`Time::MAX`] where it need not be.
    wake_at: Time,
    outcomes: Vec<(u32, Outcome)>,
    said: Vec<FromAgent>,
    /// What the mesh is to be told.
    events: VecDeque<Event>,
}

impl Host {
    /// A host at a port of the fabric, with a clock that is `ahead` nanoseconds of the controller's.
    ///
    /// # Errors
    /// When `config` contradicts itself.
    pub fn new(
        place: u32,
        port: PortIndex,
        config: Config,
        transport: Transport,
        ahead: i64,
        now: Time,
    ) -> Result<Self, ConfigError> {
        let flows = config.flows;
        Ok(Self {
            guid: config.port,
            mesh: Mesh::new(config, local(now, ahead))?,
            adapter: Adapter::new(place, port, transport),
            ahead,
            jobs: vec![None; flows as usize],
            connections: vec![u32::MAX; flows as usize],
            rates: vec![None; flows as usize],
            free: (0..flows).rev().collect(),
            wake_at: Time::MAX,
            outcomes: Vec::new(),
            said: Vec::new(),
            events: VecDeque::new(),
        })
    }

    /// The application wants to send, for so many windows, a message of `bytes` in each, at `rate` bit/s where
    /// that is less than the links carry. False where it has as many flows as it may.
    pub fn open(
        &mut self,
        connection: u32,
        peer: Guid,
        (bytes, windows): (u64, u32),
        rate: Option<u64>,
        now: Time,
    ) -> bool {
        let Some(number) = self.free.pop() else { return false };
        let flow = FlowId(number);
        let (left, waiting, messages, closing) = (windows, 0, 0, false);
        let job = Job { connection, bytes, left, waiting, messages, closing };
        self.jobs[number as usize] = Some(job);
        self.connections[number as usize] = connection;
        self.rates[number as usize] = rate;
        let wanted = Wanted { windows, rate: rate.unwrap_or(0), ..Wanted::default() };
        self.notify(Event::App(Call::Open { flow, peer, wanted }));
        self.offer_one(number, now);
        true
    }

    /// A window begins, by the own clock: every flow that has more to send hands over one message.
    pub fn offer(&mut self, now: Time) {
        for number in 0..self.jobs.len() as u32 {
            self.offer_one(number, now);
        }
    }

    fn offer_one(&mut self, number: u32, now: Time) {
        let due = self.local(now);
        let Some(job) = &mut self.jobs[number as usize] else { return };
        if job.left == 0 || job.waiting > 0 {
            return;
        }
        let message = Message { id: job.messages, bytes: job.bytes, due };
        (job.left, job.waiting, job.messages) = (job.left - 1, 1, job.messages + 1);
        self.notify(Event::App(Call::Send { flow: FlowId(number), message }));
    }

    /// Gives the mesh an event when the host [runs](Self::run), which it does at the same time.
    pub fn notify(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// The adapter, which has news.
    pub const fn adapter(&mut self) -> &mut Adapter {
        &mut self.adapter
    }

    /// Gives mesh and adapter their turns until neither has anything to say.
    pub fn run(&mut self, wire: &mut Wire, now: Time) {
        let own = self.local(now);
        let mut notices = Vec::new();
        loop {
            let Self { mesh, adapter, connections, rates, said, events, .. } = self;
            let (flows, wanted) = (&**connections, &**rates);
            let port = EmulatedPort { adapter, wire, flows, wanted, now };
            let mut io = HostIo { port, events, said, notices: &mut notices, own };
            let events = poll(mesh, &mut io, EVENTS);
            if events == 0 && notices.is_empty() {
                return;
            }
            for notice in notices.drain(..) {
                self.heed(&notice);
            }
        }
    }

    fn heed(&mut self, notice: &Notice) {
        match *notice {
            Notice::Sent { flow, .. } => {
                let Some(job) = &mut self.jobs[flow.index()] else { return };
                job.waiting -= 1;
                if job.messages == 1 {
                    self.outcomes.push((job.connection, Outcome::Began));
                }
                if job.left == 0 && job.waiting == 0 {
                    self.outcomes.push((job.connection, Outcome::Done));
                    self.close(flow);
                }
            }
            Notice::Refused { flow, .. } => {
                let Some(job) = self.jobs[flow.index()].filter(|job| !job.closing) else { return };
                self.outcomes.push((job.connection, Outcome::Refused));
                self.close(flow);
            }
            Notice::Closed { flow, .. } => {
                self.jobs[flow.index()] = None;
                self.free.push(flow.0);
            }
            _ => {}
        }
    }

    fn close(&mut self, flow: FlowId) {
        if let Some(job) = &mut self.jobs[flow.index()] {
            (job.closing, job.left) = (true, 0);
        }
        self.notify(Event::App(Call::Close { flow }));
    }

    /// What the agent says to the controller.
    pub fn take_said(&mut self) -> Vec<FromAgent> {
        std::mem::take(&mut self.said)
    }

    /// What became of connections.
    pub fn take_outcomes(&mut self) -> Vec<(u32, Outcome)> {
        std::mem::take(&mut self.outcomes)
    }

    /// When it has to be woken, if that is earlier than it was last told to be.
    pub fn new_wake(&mut self) -> Option<Time> {
        let at = self.common(self.mesh.next_deadline()?);
        (at < self.wake_at).then(|| {
            self.wake_at = at;
            at
        })
    }

    /// Whether it is time to wake the host; false where an earlier call did it already.
    pub fn is_due(&mut self, now: Time) -> bool {
        let due = self.wake_at <= now;
        if due {
            self.wake_at = Time::MAX;
        }
        due
    }

    fn local(&self, now: Time) -> Time {
        local(now, self.ahead)
    }

    /// When the own clock shows `own`.
    pub fn common(&self, own: Time) -> Time {
        Time(own.0.saturating_sub_signed(self.ahead))
    }
}

/// What the mesh works with at one moment.
struct HostIo<'a> {
    port: EmulatedPort<'a>,
    events: &'a mut VecDeque<Event>,
    said: &'a mut Vec<FromAgent>,
    notices: &'a mut Vec<Notice>,
    /// The own time.
    own: Time,
}

impl Io for HostIo<'_> {
    fn next_event(&mut self) -> Option<Event> {
        let told = self.events.pop_front();
        told.or_else(|| self.port.poll().map(Event::Port))
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Port(call) => self.port.carry_out(call),
            Output::Controller(message) => self.said.push(message),
            Output::App(notice) => self.notices.push(notice),
        }
    }

    fn now(&self) -> Time {
        self.own
    }
}

fn local(now: Time, ahead: i64) -> Time {
    Time(now.0.saturating_add_signed(ahead))
}
