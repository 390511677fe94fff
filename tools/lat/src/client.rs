//! The side that measures. Each pattern's loop is a function of its own with its round inlined: a return, or a
//! jump to another page of code, costs an emulated processor as much as 50 instructions (ARCHITECTURE.md).

use std::collections::VecDeque;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use hdrhistogram::Histogram;
use snin_daemon::clock::Clock;
use snin_protocol::Time;

use super::LatError;
use super::bench::Bench;
use super::exchange::{Answer, Request, Talk};
use super::flows::{Connected, Done, LOST, mark_of};
use super::plan::{Operation, Pattern, Plan};

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Latencies in nanoseconds; empty of bandwidth.
    pub latency: Histogram<u64>,
    /// From the first message to the last completion.
    pub elapsed: Duration,
    /// Messages that count.
    pub messages: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The most bytes a second of any stretch, the whole included.
    pub peak: f64,
    /// Messages that never came back.
    pub lost: u64,
}

impl Measured {
    /// Of what was streamed, only what came counts.
    fn arrived(&mut self, came: u64, plan: &Plan) {
        self.lost = self.messages.saturating_sub(came);
        self.messages -= self.lost;
        self.bytes = self.messages * plan.size as u64;
    }
}

/// A conversation with a server.
#[derive(Debug)]
pub struct Client {
    talk: Talk,
    bench: Bench,
}

/// How long a server may take to be reached.
const REACH: Duration = Duration::from_secs(5);
/// Latencies longer than this are this.
const LONGEST: u64 = 60_000_000_000;

impl Client {
    /// Calls the server at `peer` (`host:port`).
    ///
    /// # Errors
    /// When no server answers.
    pub fn new(peer: &str, bench: Bench) -> Result<Self, LatError> {
        let unreachable = |error| LatError::Unreachable { peer: peer.to_owned(), error };
        let mut last = std::io::ErrorKind::NotFound.into();
        for address in peer.to_socket_addrs().map_err(unreachable)? {
            match TcpStream::connect_timeout(&address, REACH) {
                Ok(stream) => {
                    return Ok(Self { talk: Talk::new(stream, peer.to_owned()), bench });
                }
                Err(error) => last = error,
            }
        }
        Err(unreachable(last))
    }

    /// Measures.
    ///
    /// # Errors
    /// When the server cannot, goes away, or something posted fails.
    pub fn measure(&mut self, plan: &Plan) -> Result<Measured, LatError> {
        let prepared = self.bench.prepare(plan)?;
        self.talk.send(&Request::Measure(Box::new(plan.clone()), prepared.ends()))?;
        let theirs = match self.talk.receive()? {
            Some(Answer::Ready(ends)) => ends,
            Some(Answer::Refused(what)) => return Err(self.talk.refused(what)),
            _ => return Err(self.talk.ended()),
        };
        let connected = prepared.connect(plan, &theirs)?;
        let mut measured = Run::new(connected, plan, &mut self.talk)?.run()?;
        self.talk.send(&Request::Done)?;
        match self.talk.receive()? {
            Some(Answer::Done(came)) => {
                if plan.pattern == Pattern::Bandwidth && plan.operation == Operation::Send {
                    measured.arrived(came, plan);
                }
                Ok(measured)
            }
            Some(Answer::Refused(what)) => Err(self.talk.refused(what)),
            _ => Err(self.talk.ended()),
        }
    }
}

struct Run<'a> {
    connected: Connected,
    plan: &'a Plan,
    talk: &'a mut Talk,
    latency: Histogram<u64>,
    /// Of each flow: messages sent, and when the last one was.
    sent: Vec<(u64, Time)>,
    clock: Clock,
    /// Flows that something came for.
    came: Vec<usize>,
    lost: u64,
}

impl<'a> Run<'a> {
    fn new(connected: Connected, plan: &'a Plan, talk: &'a mut Talk) -> Result<Self, LatError> {
        let latency = Histogram::new_with_bounds(1, LONGEST, 3)
            .map_err(|error| LatError::Plan(error.to_string()))?;
        let sent = vec![(0, Time::ZERO); connected.flows.len()];
        let (clock, came) = (Clock::start(), Vec::with_capacity(64));
        Ok(Self { connected, plan, talk, latency, sent, clock, came, lost: 0 })
    }

    fn run(mut self) -> Result<Measured, LatError> {
        let begin = self.clock.now();
        let mut peak = 0.0;
        match self.plan.pattern {
            Pattern::PingPong if self.plan.operation == Operation::Write => self.marks()?,
            Pattern::PingPong => self.round_trips()?,
            Pattern::Open { rate } => self.open_loop(rate)?,
            Pattern::Bandwidth => peak = self.stream()?,
        }
        let elapsed = Duration::from_nanos((self.clock.now() - begin).nanos());
        let messages = self.plan.iterations * self.connected.flows.len() as u64 - self.lost;
        let bytes = messages * self.plan.size as u64;
        let peak = f64::max(peak, bytes as f64 / elapsed.as_secs_f64());
        let (latency, lost) = (self.latency, self.lost);
        Ok(Measured { latency, elapsed, messages, bytes, peak, lost })
    }

    /// Posts a flow's next message, `signalled` or like most.
    fn post(&mut self, at: usize, signalled: bool) -> Result<bool, LatError> {
        self.connected.flows[at].post(self.plan.operation, self.plan.size, signalled)
    }

    /// Nothing came: checks now and then that something still can.
    fn wait(&mut self) -> Result<(), LatError> {
        if self.connected.watch.idle()? {
            self.talk.check()?;
        }
        Ok(())
    }

    /// Ends a round trip and begins the next: whether there is one. As perftest does it, the time between two
    /// messages counts, everything in it included; it is written down once the next is under way. `now` was asked
    /// before the look that found the answer, since between that and the next message even a clock takes its time.
    fn turn(&mut self, at: usize, now: Time) -> Result<bool, LatError> {
        let goes_on = self.sent[at].0 < self.plan.messages();
        if goes_on {
            self.post(at, self.is_signalled())?;
        }
        let share = if self.plan.operation == Operation::Read { 1 } else { 2 };
        let (sent, since) = &mut self.sent[at];
        if *sent > self.plan.warm_up {
            self.latency.saturating_record((now - *since).nanos() / share);
        }
        *since = now;
        *sent += 1;
        Ok(goes_on)
    }

    /// Whether a message that is answered is signalled: the completion of a read is the answer.
    fn is_signalled(&self) -> bool {
        self.plan.operation == Operation::Read
    }

    /// While a flow's message is under way: has the next one, if there is one, wait for nothing but its turn.
    fn get_ready(&mut self, at: usize) -> Result<(), LatError> {
        let Plan { operation, size, depth, .. } = *self.plan;
        let sent = self.sent[at].0;
        if sent >= self.plan.messages() {
            return Ok(());
        }
        self.connected.make_room(at, depth)?;
        if operation == Operation::Write {
            self.connected.mark(at, size, mark_of(sent + 1))?;
        }
        Ok(())
    }

    /// Sends that are answered, and reads.
    fn round_trips(&mut self) -> Result<(), LatError> {
        let reads = self.plan.operation == Operation::Read;
        let done = if reads { Done::Sends } else { Done::Receives };
        let mut left = self.sent.len();
        for at in 0..left {
            self.turn(at, self.clock.now())?;
            self.get_ready(at)?;
        }
        while left > 0 {
            let now = self.clock.now();
            let count = self.connected.poll(done)?;
            if count == 0 {
                left -= self.give_up_lost()?;
                continue;
            }
            for nth in 0..count {
                let at = self.connected.whose(done, nth)?;
                // What was given up may come after all.
                if self.sent[at].0 <= self.plan.messages() {
                    left -= usize::from(!self.turn(at, now)?);
                    self.came.push(at);
                }
            }
            self.connected.watch.fed();
            self.connected.settle(done, |_| {})?;
            while let Some(at) = self.came.pop() {
                self.get_ready(at)?;
            }
        }
        Ok(())
    }

    /// Nothing came. What may be lost is, after a while: the next one is sent, and the time of the lost one
    /// does not count. How many flows ended by that.
    fn give_up_lost(&mut self) -> Result<usize, LatError> {
        if self.connected.watch.idle()? { self.give_up() } else { Ok(0) }
    }

    fn give_up(&mut self) -> Result<usize, LatError> {
        self.talk.check()?;
        let mut ended = 0;
        let reliable = self.plan.carrier == super::plan::Carrier::Rc;
        for at in 0..self.sent.len() {
            let (sent, since) = self.sent[at];
            let waited = Duration::from_nanos((self.clock.now() - since).nanos());
            if reliable || waited < LOST || sent > self.plan.messages() {
                continue;
            }
            self.lost += 1;
            self.sent[at] = (sent + 1, self.clock.now());
            if sent < self.plan.messages() {
                self.post(at, self.is_signalled())?;
            } else {
                ended += 1;
            }
        }
        Ok(ended)
    }

    /// Writes that are written back.
    fn marks(&mut self) -> Result<(), LatError> {
        let (size, messages) = (self.plan.size, self.plan.messages());
        let mut left = self.sent.len();
        for at in 0..left {
            self.get_ready(at)?;
            self.turn(at, self.clock.now())?;
            self.get_ready(at)?;
        }
        while left > 0 {
            let mut idle = true;
            let now = self.clock.now();
            for at in 0..self.sent.len() {
                let sent = self.sent[at].0;
                if sent > messages || self.connected.flows[at].mark(size) != mark_of(sent) {
                    continue;
                }
                idle = false;
                if self.turn(at, now)? {
                    self.get_ready(at)?;
                } else {
                    left -= 1;
                }
            }
            if idle {
                self.wait()?;
            } else {
                self.connected.watch.fed();
            }
        }
        Ok(())
    }

    /// At fixed times, no matter how long the message before takes.
    fn open_loop(&mut self, rate: f64) -> Result<(), LatError> {
        let (flows, messages) = (self.sent.len(), self.plan.messages());
        let window = self.plan.window() as usize;
        let gap = 1e9 / rate;
        let (clock, begin) = (self.clock, self.clock.now());
        // Flows take turns within a gap.
        let due = |at: usize, number: u64| {
            begin + Time((gap * (number as f64 + at as f64 / flows as f64)) as u64)
        };
        let mut under_way: Vec<VecDeque<(u64, Time)>> =
            vec![VecDeque::with_capacity(window); flows];
        let mut left = messages * flows as u64;
        while left > 0 {
            let now = self.clock.now();
            for (at, under_way) in under_way.iter_mut().enumerate() {
                let number = self.sent[at].0;
                let when = due(at, number);
                let room = number < messages && now >= when && under_way.len() < window;
                if room && self.post(at, true)? {
                    under_way.push_back((number, when));
                    self.sent[at].0 += 1;
                }
            }
            let (latency, warm_up) = (&mut self.latency, self.plan.warm_up);
            let mut done = 0;
            let count = self.connected.take_sent(|at| {
                done += 1;
                if let Some((number, when)) = under_way[at].pop_front()
                    && number >= warm_up
                {
                    latency.saturating_record((clock.now() - when).nanos());
                }
            })?;
            left -= done;
            if count > 0 {
                self.connected.watch.fed();
            } else if under_way.iter().any(|flow| !flow.is_empty()) {
                self.wait()?;
            }
        }
        Ok(())
    }

    /// As many as go: the peak rate in bytes a second.
    fn stream(&mut self) -> Result<f64, LatError> {
        let (flows, window) = (self.sent.len(), self.plan.window() as usize);
        let messages = self.plan.messages();
        let mut left = messages * flows as u64;
        let (mut peak, mut last) = (0.0_f64, self.clock.now());
        let mut since = 0_u64;
        while left > 0 {
            for at in 0..flows {
                while self.sent[at].0 < messages
                    && self.connected.flows[at].link.outstanding() < window
                {
                    let sent = self.sent[at].0 + 1;
                    let signalled =
                        sent == messages || sent.is_multiple_of((window as u64 / 4).max(1));
                    if !self.post(at, signalled)? {
                        break;
                    }
                    self.sent[at].0 = sent;
                }
            }
            let mut done = 0;
            self.connected.take_sent(|_| done += 1)?;
            if done == 0 {
                self.wait()?;
                continue;
            }
            self.connected.watch.fed();
            left -= done;
            since += done;
            if since >= window as u64 / 2 {
                let now = self.clock.now();
                let rate = (since * self.plan.size as u64) as f64 / (now - last).as_secs();
                (peak, last, since) = (peak.max(rate), now, 0);
            }
        }
        Ok(peak)
    }
}
