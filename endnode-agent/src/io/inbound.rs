//! Sessions that peers open, and the queue pairs that receive from them.
//!
//! What a peer can repeat is bounded in number ([`Admission`], one session a peer, tokens that rise) and in
//! time (a session in which nothing comes ends).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use snin_agent_core::Admission;
use snin_daemon::clock::Clock;
use snin_daemon::session::{
    Address, Count, Credentials, Limits, Listen, ListenError, Post, Received,
};
use snin_daemon::watch::Watch;
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::peer::{Accept, Decline, DeclineReason, Hello, Offer, PeerMessage};
use snin_verbs::{QueuePair, Rc, Receiving};
use tracing::warn;

use super::factory::QpFactory;
use super::rings::{ControlEvent, Rings};
use super::tear_down::TearDown;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct InboundSessions {
    rings: Arc<Rings>,
    clock: Clock,
    post: Post<PeerMessage, PeerMessage>,
    admission: Admission,
    /// By the peer's port.
    sessions: BTreeMap<Guid, InboundSession>,
    tear_down: TearDown,
    /// What sessions had counted when it was looked at last: frames that were none, and callers turned away.
    counted: (u64, u64),
}

/// A peer that calls, while its session is open.
#[derive(Debug, Default)]
struct InboundSession {
    /// What it said first, once it is admitted.
    hello: Option<Hello>,
    /// That was said in this session, not in one whose place it took.
    has_said_hello: bool,
    /// By the caller's token.
    pairs: BTreeMap<u64, InboundPair>,
}

/// The queue pair that receives; `None`: the one for all datagrams. Its number is what the data thread knows
/// the peer by.
#[derive(Debug)]
struct InboundPair {
    number: u32,
    receives: Option<QueuePair<Rc, Receiving>>,
}

impl InboundSessions {
    /// Peers' agents may call from now on. `peers`: the most that have a session at a time.
    ///
    /// # Errors
    /// When they cannot call there.
    pub(crate) fn listen(
        rings: Arc<Rings>,
        clock: Clock,
        (port, at): (Guid, Address),
        credentials: Option<Arc<Credentials>>,
        (admission, peers): (Admission, u32),
    ) -> Result<Self, ListenError> {
        let post = Post::listen(Listen {
            at: vec![at],
            service: Service::Peers,
            identity: Identity::Agent(port),
            roles: vec![Role::Agent],
            users: Vec::new(),
            // Peers on this machine are agents of the same user.
            group: None,
            limits: Limits { sessions: peers as usize, ..Limits::default() },
            credentials,
        })?;
        let tear_down = TearDown::new(Arc::clone(&rings));
        let (sessions, counted) = (BTreeMap::new(), (0, 0));
        Ok(Self { rings, clock, post, admission, sessions, tear_down, counted })
    }

    /// Where peers' agents call.
    pub(crate) fn address(&self) -> Option<&Address> {
        self.post.addresses().first()
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.post.watch(watch);
    }

    /// When something is due without anything coming.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.tear_down.next()
    }

    /// Takes what callers sent, and ends what is over.
    pub(crate) fn work(&mut self, factory: &QpFactory, now: Instant) {
        for event in self.post.work() {
            match event {
                Received::Opened(peer) => {
                    if let Some(port) = peer.port() {
                        // A session that took another's place has to say hello again.
                        self.sessions.entry(port).or_default().has_said_hello = false;
                    }
                }
                Received::Said(peer, message) => {
                    if let Some(port) = peer.port() {
                        self.receive(port, &message, factory, now);
                    }
                }
                Received::Closed(peer, _) => {
                    if let Some(port) = peer.port() {
                        self.end_session(port, now);
                    }
                }
            }
        }
        self.count();
        self.forget_torn_down(now);
        let (_, pairs) = self.admission.counts();
        self.rings.counters.inbound.store(pairs.into(), Ordering::Relaxed);
    }

    /// Adds what was refused before there was a session.
    fn count(&mut self) {
        let tally = self.post.tally();
        let refused =
            [Count::Handshake, Count::Slow, Count::Imposter, Count::Stranger, Count::Full];
        let declined = refused.into_iter().map(|what| tally.get(what)).sum();
        let counted = (tally.get(Count::Malformed), declined);
        let counters = &self.rings.counters;
        counters.malformed.fetch_add(counted.0 - self.counted.0, Ordering::Relaxed);
        counters.declined.fetch_add(counted.1 - self.counted.1, Ordering::Relaxed);
        self.counted = counted;
    }

    fn receive(&mut self, port: Guid, message: &PeerMessage, factory: &QpFactory, now: Instant) {
        let Some(caller) = self.sessions.get_mut(&port) else { return };
        let hello = caller.hello.filter(|_| caller.has_said_hello);
        match (message, hello) {
            (PeerMessage::Hello(hello), None) => self.admit(port, hello, now),
            (PeerMessage::Offer(offer), Some(hello)) => self.offered(offer, hello, factory, now),
            (PeerMessage::Withdraw(token), Some(hello)) => {
                if let Some(pair) = caller.pairs.remove(token) {
                    let is_shared = caller.shares(&pair);
                    self.end_pair(hello, pair, is_shared, now);
                }
            }
            (PeerMessage::Ping(number), _) => self.send(port, PeerMessage::Pong(*number)),
            // Only a caller sends these, and sends Hello first.
            _ => self.hang_up(port, now),
        }
    }

    fn send(&mut self, to: Guid, message: PeerMessage) {
        self.post.send_to(&Identity::Agent(to), message);
    }

    /// A caller says how many flows it has, and whether it is the one that had a session before.
    fn admit(&mut self, port: Guid, hello: &Hello, now: Instant) {
        if hello.port != port {
            warn!("{port} says that it is {}", hello.port);
            return self.refuse(port, now);
        }
        let before = self.sessions.get_mut(&port).and_then(|caller| caller.hello.take());
        if before == Some(*hello) {
            // Its connection is new, and nothing else.
            return self.note_hello(port, *hello);
        }
        if let Some(before) = before {
            self.end_pairs(before, now);
            self.admission.leave(port, self.clock.now());
        }
        let session = (hello.port, hello.session);
        if let Err(why) = self.admission.arrive(session, hello.flows, self.clock.now()) {
            warn!("{} is not admitted: {why}", hello.port);
            return self.refuse(port, now);
        }
        self.note_hello(port, *hello);
        self.report_forgotten();
    }

    fn note_hello(&mut self, port: Guid, hello: Hello) {
        if let Some(caller) = self.sessions.get_mut(&port) {
            (caller.hello, caller.has_said_hello) = (Some(hello), true);
        }
    }

    fn refuse(&mut self, port: Guid, now: Instant) {
        Rings::count(&self.rings.counters.declined);
        self.hang_up(port, now);
    }

    /// A peer's session ends here.
    fn hang_up(&mut self, port: Guid, now: Instant) {
        self.post.close(&Identity::Agent(port));
        self.end_session(port, now);
    }

    fn offered(&mut self, offer: &Offer, hello: Hello, factory: &QpFactory, now: Instant) {
        let Some(caller) = self.sessions.get_mut(&hello.port) else { return };
        if caller.pairs.last_key_value().is_some_and(|(&last, _)| offer.token <= last) {
            // Tokens rise; one that comes again would replace a queue pair.
            return self.refuse(hello.port, now);
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
        self.send(hello.port, answer);
    }

    /// A queue pair that receives is in error: its caller has to make another.
    pub(crate) fn failed(&mut self, number: u32, now: Instant) {
        let has = |pair: &InboundPair| pair.number == number && pair.receives.is_some();
        let found = self.sessions.values_mut().find_map(|caller| {
            let token = caller.pairs.iter().find(|(_, pair)| has(pair)).map(|(&token, _)| token)?;
            Some((caller.hello?, token, caller.pairs.remove(&token)?))
        });
        if let Some((hello, token, pair)) = found {
            self.send(hello.port, PeerMessage::Lost(token));
            self.end_pair(hello, pair, false, now);
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

    /// A peer's session is over.
    fn end_session(&mut self, port: Guid, now: Instant) {
        let Some(caller) = self.sessions.get(&port) else { return };
        if let Some(hello) = caller.hello {
            self.end_pairs(hello, now);
            self.admission.leave(port, self.clock.now());
        }
        self.sessions.remove(&port);
    }

    /// All queue pairs of a peer are torn down.
    fn end_pairs(&mut self, hello: Hello, now: Instant) {
        let Some(caller) = self.sessions.get_mut(&hello.port) else { return };
        let mut all = std::mem::take(&mut caller.pairs);
        while let Some((_, pair)) = all.pop_first() {
            let is_shared = all.values().any(|other| other.number == pair.number);
            self.end_pair(hello, pair, is_shared, now);
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
    /// Whether another of the peer's queue pairs has this one's number: all that send datagrams have the same.
    fn shares(&self, pair: &InboundPair) -> bool {
        self.pairs.values().any(|other| other.number == pair.number)
    }
}

/// How long a peer that is gone is remembered.
pub(crate) const REMEMBER: Time = Time::secs(600);
/// The most queue pairs of one peer: an LMC of 7 has as many addresses.
pub(crate) const PAIRS_OF_PEER: u32 = 128;
