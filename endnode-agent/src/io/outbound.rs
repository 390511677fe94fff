//! The queue pairs that we send on: made here, offered to peers in sessions that we open.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snin_daemon::session::{Address, Call, Callers, Credentials, Limits, Received, SessionEnd};
use snin_daemon::watch::Watch;
use snin_fabric::{Dlid, Guid};
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::peer::{End, Hello, Offer, PeerMessage};
use tracing::{debug, warn};

use super::factory::{QpFactory, Unconnected};
use super::rings::{ControlEvent, Rings};
use super::send_path::Sender;
use snin_agent_core::{BreakReason, PairId, Route};

/// A peer that does not answer so many heartbeats is gone.
const MISSED: u32 = 3;
/// The most messages of peers that wait for this thread.
const WAITING: usize = 1024;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct OutboundSessions {
    rings: Arc<Rings>,
    sender: Sender,
    callers: Callers<Guid, PeerMessage, PeerMessage>,
    addresses: BTreeMap<Guid, Address>,
    credentials: Option<Arc<Credentials>>,
    heartbeat: Duration,
    /// The most flows from here.
    flows: u32,
    sessions: BTreeMap<Guid, OutboundSession>,
    /// By slot.
    pairs: BTreeMap<u32, Pair>,
    tokens: u64,
    calls: u64,
    /// When what peers say was last read.
    read_at: Option<Instant>,
}

#[derive(Debug)]
struct OutboundSession {
    /// Its number.
    call: u64,
    /// The peer has answered.
    is_open: bool,
    /// When the peer last said something, and when the next heartbeat is due.
    last_message: Instant,
    beat: Instant,
    beats: u64,
}

#[derive(Debug)]
struct Pair {
    id: PairId,
    peer: Guid,
    token: u64,
    dlid: Option<Dlid>,
    sl: u8,
    end: End,
    /// Until the peer has answered; afterwards the data thread has it.
    unconnected: Option<Unconnected>,
}

impl Pair {
    fn offer(&self) -> Offer {
        Offer { token: self.token, dlid: self.dlid, sl: self.sl, end: self.end }
    }
}

impl OutboundSessions {
    pub(crate) fn new(
        rings: Arc<Rings>,
        sender: Sender,
        addresses: BTreeMap<Guid, Address>,
        credentials: Option<Arc<Credentials>>,
        heartbeat: Duration,
        flows: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            rings,
            sender,
            callers: Callers::start(WAITING)?,
            addresses,
            credentials,
            heartbeat,
            flows,
            sessions: BTreeMap::new(),
            pairs: BTreeMap::new(),
            tokens: 0,
            calls: 0,
            read_at: None,
        })
    }

    /// Makes a queue pair and offers it to its peer.
    pub(crate) fn connect(&mut self, id: PairId, route: &Route, factory: &QpFactory, now: Instant) {
        if let Err(why) = self.offer(id, route, factory, now) {
            debug!("no queue pair to {} along tree {}: {why}", route.peer, route.tree.0);
            self.rings.report(ControlEvent::Broken { pair: id, reason: BreakReason::Unconnected });
        }
    }

    fn offer(
        &mut self,
        id: PairId,
        route: &Route,
        factory: &QpFactory,
        now: Instant,
    ) -> Result<(), String> {
        let Route { peer, dlid, sl, .. } = *route;
        if !self.sessions.contains_key(&peer) {
            let address = self.addresses.get(&peer).ok_or("its address is not among `peers`")?;
            self.call(peer, address.clone(), now);
        }
        let (unconnected, end) = factory.unconnected().map_err(|error| error.to_string())?;
        let token = self.tokens;
        self.tokens += 1;
        // Where the session is not open yet it is offered when it is.
        if self.sessions.get(&peer).is_some_and(|session| session.is_open) {
            self.callers.send(&peer, PeerMessage::Offer(Offer { token, dlid, sl, end }));
        }
        let unconnected = Some(unconnected);
        self.pairs.insert(id.slot, Pair { id, peer, token, dlid, sl, end, unconnected });
        Ok(())
    }

    fn call(&mut self, peer: Guid, to: Address, now: Instant) {
        let call = Call {
            to,
            service: Service::Peers,
            role: Role::Agent,
            peer: Some(Identity::Agent(peer)),
            identity: Identity::Agent(self.sender.port),
            limits: Limits::default(),
            credentials: self.credentials.clone(),
        };
        self.callers.call(peer, call);
        self.calls += 1;
        let (call, beat) = (self.calls, now + self.heartbeat);
        let session = OutboundSession { call, is_open: false, last_message: now, beat, beats: 0 };
        self.sessions.insert(peer, session);
    }

    /// A queue pair is not wanted any more. One that the data thread has, or is about to get, comes back from
    /// it; any other is gone now.
    pub(crate) fn cancel(&mut self, id: PairId) {
        let made = |pair: &Pair| pair.id == id && pair.unconnected.is_none();
        if !self.pairs.get(&id.slot).is_some_and(made) {
            self.retired(id);
        }
    }

    /// A queue pair is destroyed: its peer's is of no more use.
    pub(crate) fn retired(&mut self, id: PairId) {
        if let Some(pair) = self.pairs.get(&id.slot).filter(|pair| pair.id == id) {
            if self.sessions.contains_key(&pair.peer) {
                self.callers.send(&pair.peer, PeerMessage::Withdraw(pair.token));
            }
            self.pairs.remove(&id.slot);
        }
        self.rings.report(ControlEvent::Closed { pair: id });
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.callers.watch(watch);
    }

    /// When a heartbeat is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.sessions.values().filter(|session| session.is_open).map(|session| session.beat).min()
    }

    /// Takes what peers sent, and gives up peers that do not answer.
    pub(crate) fn work(&mut self, factory: &QpFactory, now: Instant) {
        // A peer is not to blame for what this thread did not read while it did something else.
        let unread = now - self.read_at.replace(now).unwrap_or(now);
        self.sessions
            .values_mut()
            .for_each(|session| session.last_message += unread.saturating_sub(self.heartbeat));
        for (peer, event) in self.callers.work() {
            match event {
                Received::Opened(_) => self.opened(peer, now),
                Received::Said(_, message) => {
                    if let Some(session) = self.sessions.get_mut(&peer) {
                        session.last_message = now;
                    }
                    self.receive(peer, &message, factory);
                }
                Received::Closed(_, end) => {
                    if matches!(end, SessionEnd::Malformed(_)) {
                        Rings::count(&self.rings.counters.malformed);
                    }
                    self.give_up(peer, &end);
                }
            }
        }
        self.beat(now);
        // A peer that nothing is sent to is left alone.
        let wanted: BTreeSet<Guid> = self.pairs.values().map(|pair| pair.peer).collect();
        self.sessions.retain(|peer, _| {
            let is_wanted = wanted.contains(peer);
            if !is_wanted {
                self.callers.close(peer);
            }
            is_wanted
        });
    }

    /// A session has begun, or another goes on in its place.
    fn opened(&mut self, peer: Guid, now: Instant) {
        let Some(session) = self.sessions.get_mut(&peer) else { return };
        let Sender { port, session: number } = self.sender;
        let hello = Hello { port, session: number, call: session.call, flows: self.flows };
        self.callers.send(&peer, PeerMessage::Hello(hello));
        session.last_message = now;
        if std::mem::replace(&mut session.is_open, true) {
            return;
        }
        session.beat = now + self.heartbeat;
        let offered = |pair: &&Pair| pair.peer == peer && pair.unconnected.is_some();
        let mut offers: Vec<Offer> = self.pairs.values().filter(offered).map(Pair::offer).collect();
        offers.sort_unstable_by_key(|offer| offer.token);
        for offer in offers {
            self.callers.send(&peer, PeerMessage::Offer(offer));
        }
    }

    /// Sends the heartbeats that are due.
    fn beat(&mut self, now: Instant) {
        let mut silent = Vec::new();
        for (&peer, session) in &mut self.sessions {
            if !session.is_open || now < session.beat {
                continue;
            }
            if now > session.last_message + self.heartbeat * MISSED {
                silent.push(peer);
                continue;
            }
            session.beats += 1;
            session.beat = now + self.heartbeat;
            self.callers.send(&peer, PeerMessage::Ping(session.beats));
        }
        for peer in silent {
            self.give_up(peer, &SessionEnd::Idle);
        }
    }

    fn receive(&mut self, peer: Guid, message: &PeerMessage, factory: &QpFactory) {
        let token = match message {
            PeerMessage::Accept(accept) => accept.token,
            PeerMessage::Decline(decline) => decline.token,
            PeerMessage::Lost(token) => *token,
            // The called one has nothing else to say.
            _ => return,
        };
        let Some(pair) =
            self.pairs.values_mut().find(|pair| pair.token == token && pair.peer == peer)
        else {
            return;
        };
        let id = pair.id;
        match (message, pair.unconnected.take()) {
            (PeerMessage::Accept(accept), Some(unconnected)) => {
                match factory.connect(unconnected, &accept.end, (pair.dlid, pair.sl)) {
                    Ok(path) => {
                        self.rings
                            .report(ControlEvent::Connected { pair: id, path: Box::new(path) });
                    }
                    Err(error) => self.not_connected(id, &error),
                }
            }
            (PeerMessage::Decline(decline), _) => self.not_connected(id, &decline.reason),
            _ => {
                self.rings.report(ControlEvent::Broken { pair: id, reason: BreakReason::Failed });
            }
        }
    }

    fn not_connected(&mut self, id: PairId, why: &dyn std::fmt::Display) {
        warn!("a queue pair could not be connected: {why}");
        self.pairs.remove(&id.slot);
        self.rings.report(ControlEvent::Broken { pair: id, reason: BreakReason::Unconnected });
    }

    /// A peer is gone, and with it all its queue pairs; the mesh has it called again.
    fn give_up(&mut self, peer: Guid, why: &SessionEnd) {
        warn!("peer {peer}: {why}");
        self.sessions.remove(&peer);
        self.callers.close(&peer);
        Rings::count(&self.rings.counters.gone);
        let rings = &self.rings;
        self.pairs.retain(|_, pair| {
            if pair.peer != peer {
                return true;
            }
            rings.report(ControlEvent::Broken { pair: pair.id, reason: BreakReason::PeerGone });
            pair.unconnected.is_none()
        });
    }
}
