//! The queue pairs that we send on: made here, offered to peers over streams that we open.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use snin_daemon::stream::{Stream, StreamEnd};
use snin_daemon::watch::{Ready, Watch};
use snin_fabric::{Dlid, Guid};
use snin_protocol::peer::{Hello, Offer, PeerMessage};
use tracing::{debug, warn};

use super::factory::{QpFactory, Unconnected};
use super::rings::{ControlEvent, Rings};
use super::send_path::Sender;
use snin_agent_core::{BreakReason, PairId, Route};

/// A peer that does not answer so many heartbeats is gone.
const MISSED: u32 = 3;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct OutboundSessions {
    rings: Arc<Rings>,
    sender: Sender,
    /// Where calls come from: peers compare it with what `peers` says of this agent.
    source: Option<IpAddr>,
    addresses: BTreeMap<Guid, SocketAddr>,
    heartbeat: Duration,
    /// The most flows from here.
    flows: u32,
    sessions: BTreeMap<Guid, OutboundSession>,
    /// By slot.
    pairs: BTreeMap<u32, Pair>,
    tokens: u64,
    /// When what peers say was last read.
    read_at: Option<Instant>,
}

#[derive(Debug)]
struct OutboundSession {
    stream: Stream,
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
    /// Until the peer has answered; afterwards the data thread has it.
    unconnected: Option<Unconnected>,
}

impl OutboundSessions {
    pub(crate) fn new(
        rings: Arc<Rings>,
        sender: Sender,
        listen: SocketAddr,
        addresses: BTreeMap<Guid, SocketAddr>,
        heartbeat: Duration,
        flows: u32,
    ) -> Self {
        let (sessions, pairs) = (BTreeMap::new(), BTreeMap::new());
        Self {
            rings,
            sender,
            source: Some(listen.ip()).filter(|source| !source.is_unspecified()),
            addresses,
            heartbeat,
            flows,
            sessions,
            pairs,
            tokens: 0,
            read_at: None,
        }
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
        let Route { peer, dlid, .. } = *route;
        if !self.sessions.contains_key(&peer) {
            let address = self.addresses.get(&peer).ok_or("its address is not among `peers`")?;
            let mut stream =
                Stream::call_from(self.source, *address).map_err(|error| error.to_string())?;
            stream.send(&PeerMessage::Hello(Hello {
                port: self.sender.port,
                session: self.sender.session,
                flows: self.flows,
            }));
            let beat = now + self.heartbeat;
            self.sessions
                .insert(peer, OutboundSession { stream, last_message: now, beat, beats: 0 });
        }
        let (unconnected, end) = factory.unconnected().map_err(|error| error.to_string())?;
        let token = self.tokens;
        self.tokens += 1;
        if let Some(session) = self.sessions.get_mut(&peer) {
            session.stream.send(&PeerMessage::Offer(Offer { token, dlid, end }));
        }
        self.pairs.insert(id.slot, Pair { id, peer, token, dlid, unconnected: Some(unconnected) });
        Ok(())
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
            if let Some(session) = self.sessions.get_mut(&pair.peer) {
                session.stream.send(&PeerMessage::Withdraw(pair.token));
            }
            self.pairs.remove(&id.slot);
        }
        self.rings.report(ControlEvent::Closed { pair: id });
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.sessions.values().for_each(|session| session.stream.watch(watch));
    }

    /// When a heartbeat is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.sessions.values().map(|session| session.beat).min()
    }

    /// Reads and writes what can be, and gives up peers that do not answer.
    pub(crate) fn work(&mut self, factory: &QpFactory, now: Instant, ready: &Ready) {
        // A peer is not to blame for what this thread did not read while it did something else.
        let unread = now - self.read_at.replace(now).unwrap_or(now);
        self.sessions
            .values_mut()
            .for_each(|session| session.last_message += unread.saturating_sub(self.heartbeat));
        let peers: Vec<Guid> = self.sessions.keys().copied().collect();
        for peer in peers {
            if let Err(why) = self.work_one(peer, factory, (now, ready)) {
                if matches!(why, StreamEnd::Malformed(_)) {
                    Rings::count(&self.rings.counters.malformed);
                }
                warn!("peer {peer}: {why}");
                self.give_up(peer);
            }
        }
        // A peer that nothing is sent to is left alone.
        let wanted: BTreeSet<Guid> = self.pairs.values().map(|pair| pair.peer).collect();
        self.sessions.retain(|peer, _| wanted.contains(peer));
    }

    fn work_one(
        &mut self,
        peer: Guid,
        factory: &QpFactory,
        (now, ready): (Instant, &Ready),
    ) -> Result<(), StreamEnd> {
        let Some(session) = self.sessions.get_mut(&peer) else { return Ok(()) };
        let worked = session.stream.work(ready);
        let mut messages = Vec::new();
        while let Some(message) = session.stream.receive::<PeerMessage>()? {
            session.last_message = now;
            messages.push(message);
        }
        worked?;
        if now >= session.beat {
            if now > session.last_message + self.heartbeat * MISSED {
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            }
            session.beats += 1;
            session.beat = now + self.heartbeat;
            session.stream.send(&PeerMessage::Ping(session.beats));
            session.stream.flush()?;
        }
        for message in messages {
            self.receive(peer, &message, factory);
        }
        Ok(())
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
                match factory.connect(unconnected, &accept.end, pair.dlid) {
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

    /// A peer is gone, and with it all its queue pairs; the mesh sessions it again.
    fn give_up(&mut self, peer: Guid) {
        self.sessions.remove(&peer);
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
