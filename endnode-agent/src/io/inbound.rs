//! Sessions that peers open, and the queue pairs that receive from them.
//!
//! What a peer can repeat is bounded in number ([`Admission`], one session a peer, tokens that rise) and in
//! time (a session on which nothing comes ends).

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use snin_agent_core::Admission;
use snin_daemon::clock::Clock;
use snin_daemon::stream::{Stream, StreamEnd};
use snin_daemon::watch::{Place, Ready, Watch};
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::peer::{Accept, Decline, DeclineReason, Hello, Offer, PeerMessage};
use snin_verbs::{QueuePair, Rc, Receiving};
use tracing::warn;

use super::factory::QpFactory;
use super::rings::{ControlEvent, Rings};
use super::tear_down::TearDown;

/// The most streams at a time; a caller that comes then is turned away.
const MOST_STREAMS: usize = 4096;
/// A stream on which nothing comes for so long ends: callers send heartbeats.
const IDLE: Duration = Duration::from_secs(30);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct InboundSessions {
    rings: Arc<Rings>,
    clock: Clock,
    listener: TcpListener,
    place: Place,
    /// Where known peers call from.
    addresses: BTreeMap<Guid, SocketAddr>,
    admission: Admission,
    sessions: Vec<InboundSession>,
    tear_down: TearDown,
}

#[derive(Debug)]
struct InboundSession {
    stream: Stream,
    from: IpAddr,
    /// When something came last.
    last_message: Instant,
    /// The caller, once it is admitted.
    hello: Option<Hello>,
    /// By the caller's token.
    pairs: BTreeMap<u64, InboundPair>,
    gone: bool,
}

/// The queue pair that receives; `None`: the one for all datagrams. Its number is what the data thread knows
/// the peer by.
#[derive(Debug)]
struct InboundPair {
    number: u32,
    receives: Option<QueuePair<Rc, Receiving>>,
}

impl InboundSessions {
    pub(crate) fn new(
        rings: Arc<Rings>,
        clock: Clock,
        listener: TcpListener,
        addresses: BTreeMap<Guid, SocketAddr>,
        admission: Admission,
    ) -> Self {
        let tear_down = TearDown::new(Arc::clone(&rings));
        let (place, sessions) = (Place::default(), Vec::new());
        Self { rings, clock, listener, place, addresses, admission, sessions, tear_down }
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.place.readable(watch, self.listener.as_fd());
        self.sessions.iter().for_each(|session| session.stream.watch(watch));
    }

    /// When something is due without anything coming.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.tear_down.next()
    }

    /// Lets callers in, reads and writes what can be, and ends what is over.
    pub(crate) fn work(&mut self, factory: &QpFactory, now: Instant, ready: &Ready) {
        while self.place.is_ready(ready)
            && let Ok((socket, from)) = self.listener.accept()
        {
            if self.sessions.len() >= MOST_STREAMS {
                Rings::count(&self.rings.counters.declined);
            } else if let Ok(stream) = Stream::over(socket) {
                self.sessions.push(InboundSession::new(stream, from.ip().to_canonical(), now));
            }
        }
        for at in 0..self.sessions.len() {
            if let Err(why) = self.work_one(at, factory, (now, ready)) {
                let session = &mut self.sessions[at];
                session.gone = true;
                let is_over = matches!(&why, StreamEnd::Gone(error) if error.kind() == ErrorKind::UnexpectedEof);
                if !is_over {
                    let peer = session.hello.map(|hello| hello.port.to_string());
                    warn!("{}: {why}", peer.as_deref().unwrap_or("a caller"));
                }
                if matches!(why, StreamEnd::Malformed(_)) {
                    Rings::count(&self.rings.counters.malformed);
                }
            }
        }
        self.end_sessions(now);
        self.forget_torn_down(now);
        let (_, pairs) = self.admission.counts();
        self.rings.counters.inbound.store(pairs.into(), Ordering::Relaxed);
    }

    fn work_one(
        &mut self,
        at: usize,
        factory: &QpFactory,
        (now, ready): (Instant, &Ready),
    ) -> Result<(), StreamEnd> {
        let worked = self.sessions[at].stream.work(ready);
        while let Some(message) = self.sessions[at].stream.receive::<PeerMessage>()? {
            self.sessions[at].last_message = now;
            self.receive(at, &message, factory, now);
        }
        worked?;
        if now > self.sessions[at].last_message + IDLE {
            return Err(std::io::Error::from(ErrorKind::TimedOut).into());
        }
        // The answers go out at once.
        self.sessions[at].stream.flush()
    }

    fn receive(&mut self, at: usize, message: &PeerMessage, factory: &QpFactory, now: Instant) {
        let caller = &mut self.sessions[at];
        match (message, caller.hello) {
            (PeerMessage::Hello(hello), None) => self.admit(at, hello),
            (PeerMessage::Offer(offer), Some(hello)) => self.offered(at, offer, hello, factory),
            (PeerMessage::Withdraw(token), Some(hello)) => {
                if let Some(pair) = caller.pairs.remove(token) {
                    let is_shared = caller.shares(&pair);
                    self.end_pair(hello, pair, is_shared, now);
                }
            }
            (PeerMessage::Ping(number), _) => caller.stream.send(&PeerMessage::Pong(*number)),
            // Only a caller sends these, and sends Hello first.
            _ => caller.gone = true,
        }
    }

    /// A caller says who it is.
    fn admit(&mut self, at: usize, hello: &Hello) {
        let from = self.sessions[at].from;
        let known = self.addresses.get(&hello.port).map(|address| address.ip().to_canonical());
        if known.is_some_and(|known| known != from) {
            warn!(
                "a caller from {from} says that it is {}, which `peers` has elsewhere",
                hello.port
            );
            return self.refuse(at);
        }
        let session = (hello.port, hello.session);
        if let Err(why) = self.admission.arrive(session, hello.flows, self.clock.now()) {
            warn!("{} is not admitted: {why}", hello.port);
            return self.refuse(at);
        }
        self.report_forgotten();
        // The peer has one session: an earlier one was cut, or is of before its restart.
        let earlier =
            |other: &&mut InboundSession| other.hello.is_some_and(|known| known.port == hello.port);
        self.sessions.iter_mut().filter(earlier).for_each(|other| other.gone = true);
        self.sessions[at].hello = Some(*hello);
    }

    fn refuse(&mut self, at: usize) {
        Rings::count(&self.rings.counters.declined);
        self.sessions[at].gone = true;
    }

    fn offered(&mut self, at: usize, offer: &Offer, hello: Hello, factory: &QpFactory) {
        let caller = &mut self.sessions[at];
        if caller.pairs.last_key_value().is_some_and(|(&last, _)| offer.token <= last) {
            // Tokens rise; one that comes again would replace a queue pair.
            return self.refuse(at);
        }
        let made = match self.admission.add_pair(hello.port) {
            Ok(()) => factory.accept(offer).inspect_err(|_| {
                self.admission.remove_pair(hello.port, self.clock.now());
            }),
            Err(_) => Err(DeclineReason::Full),
        };
        let answer = match made {
            Ok((receives, end)) => {
                let number = if receives.is_some() { end.number } else { offer.end.number };
                let Hello { port: peer, session, .. } = hello;
                // The data thread knows the sender before it can send.
                self.rings.report(ControlEvent::Inbound { number, peer, session });
                caller.pairs.insert(offer.token, InboundPair { number, receives });
                PeerMessage::Accept(Accept { token: offer.token, end })
            }
            Err(reason) => {
                Rings::count(&self.rings.counters.declined);
                PeerMessage::Decline(Decline { token: offer.token, reason })
            }
        };
        caller.stream.send(&answer);
    }

    /// A queue pair that receives is in error: its caller has to make another.
    pub(crate) fn failed(&mut self, number: u32, now: Instant) {
        for at in 0..self.sessions.len() {
            let caller = &mut self.sessions[at];
            let has = |pair: &InboundPair| pair.number == number && pair.receives.is_some();
            let found = caller.pairs.iter().find(|(_, pair)| has(pair)).map(|(&token, _)| token);
            if let Some(token) = found
                && let (Some(pair), Some(hello)) = (caller.pairs.remove(&token), caller.hello)
            {
                caller.stream.send(&PeerMessage::Lost(token));
                self.end_pair(hello, pair, false, now);
            }
        }
    }

    /// What the device or the data thread says of a queue pair that is torn down.
    pub(crate) const fn tear_down(&mut self) -> &mut TearDown {
        &mut self.tear_down
    }

    fn end_pair(&mut self, hello: Hello, pair: InboundPair, is_shared: bool, now: Instant) {
        let Hello { port: peer, session, .. } = hello;
        self.tear_down.begin((peer, session), pair.number, pair.receives, is_shared, now);
    }

    fn end_sessions(&mut self, now: Instant) {
        let mut at = 0;
        while at < self.sessions.len() {
            if !self.sessions[at].gone {
                at += 1;
                continue;
            }
            let mut session = self.sessions.swap_remove(at);
            let Some(hello) = session.hello else { continue };
            while let Some((_, pair)) = session.pairs.pop_first() {
                let is_shared = session.shares(&pair);
                self.end_pair(hello, pair, is_shared, now);
            }
            self.admission.leave(hello.port, self.clock.now());
        }
    }

    fn forget_torn_down(&mut self, now: Instant) {
        self.tear_down.work(now);
        let time = self.clock.now();
        while let Some(peer) = self.tear_down.take_done() {
            self.admission.remove_pair(peer, time);
        }
        if self.admission.next_deadline().is_some_and(|at| at <= time) {
            self.admission.expire(time);
            self.report_forgotten();
        }
    }

    fn report_forgotten(&mut self) {
        while let Some((peer, session)) = self.admission.take_forgotten() {
            self.rings.partial().forget(peer);
            self.rings.report(ControlEvent::PeerGone { peer, session });
        }
    }
}

impl InboundSession {
    fn new(stream: Stream, from: IpAddr, now: Instant) -> Self {
        let (hello, pairs, gone) = (None, BTreeMap::new(), false);
        Self { stream, from, last_message: now, hello, pairs, gone }
    }

    /// Whether another of the peer's queue pairs has this one's number: all that send datagrams have the same.
    fn shares(&self, pair: &InboundPair) -> bool {
        self.pairs.values().any(|other| other.number == pair.number)
    }
}

/// How long a peer that is gone is remembered.
pub(crate) const REMEMBER: Time = Time::secs(600);
/// The most queue pairs of one peer: an LMC of 7 has as many addresses.
pub(crate) const PAIRS_OF_PEER: u32 = 128;
