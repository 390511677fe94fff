//! The queue pairs that we send on: made here, offered to peers over streams that we open.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snin_daemon::stream::{Stream, StreamEnd};
use snin_daemon::watch::{Ready, Watch};
use snin_fabric::{Dlid, Guid};
use snin_protocol::peer::{Hello, Offer, PeerSays};
use tracing::{debug, warn};

use super::links::Sender;
use super::maker::{Loose, Maker};
use super::rings::{Rings, Word};
use snin_agent_core::{BreakReason, PairId, Route};

/// A peer that does not answer so many heartbeats is gone.
const MISSED: u32 = 3;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Callers {
    rings: Arc<Rings>,
    sender: Sender,
    addresses: BTreeMap<Guid, SocketAddr>,
    heartbeat: Duration,
    calls: BTreeMap<Guid, Call>,
    /// By slot.
    pairs: BTreeMap<u32, Pair>,
    tokens: u64,
    /// When peers were last listened to.
    listened: Option<Instant>,
}

#[derive(Debug)]
struct Call {
    stream: Stream,
    /// When something was last heard, and when the next heartbeat is due.
    heard: Instant,
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
    loose: Option<Loose>,
}

impl Callers {
    pub(crate) fn new(
        rings: Arc<Rings>,
        sender: Sender,
        addresses: BTreeMap<Guid, SocketAddr>,
        heartbeat: Duration,
    ) -> Self {
        let (calls, pairs) = (BTreeMap::new(), BTreeMap::new());
        Self { rings, sender, addresses, heartbeat, calls, pairs, tokens: 0, listened: None }
    }

    /// Makes a queue pair and offers it to its peer.
    pub(crate) fn connect(&mut self, id: PairId, route: &Route, maker: &Maker, now: Instant) {
        if let Err(why) = self.offer(id, route, maker, now) {
            debug!("no queue pair to {} along tree {}: {why}", route.peer, route.tree.0);
            self.rings.tell(Word::Broken { pair: id, reason: BreakReason::Unconnected });
        }
    }

    fn offer(
        &mut self,
        id: PairId,
        route: &Route,
        maker: &Maker,
        now: Instant,
    ) -> Result<(), String> {
        let Route { peer, dlid, .. } = *route;
        if !self.calls.contains_key(&peer) {
            let address = self.addresses.get(&peer).ok_or("its address is not among `peers`")?;
            let mut stream = Stream::call(*address).map_err(|error| error.to_string())?;
            stream.say(&PeerSays::Hello(Hello {
                port: self.sender.port,
                session: self.sender.session,
            }));
            let beat = now + self.heartbeat;
            self.calls.insert(peer, Call { stream, heard: now, beat, beats: 0 });
        }
        let (loose, end) = maker.loose().map_err(|error| error.to_string())?;
        let token = self.tokens;
        self.tokens += 1;
        if let Some(call) = self.calls.get_mut(&peer) {
            call.stream.say(&PeerSays::Offer(Offer { token, dlid, end }));
        }
        self.pairs.insert(id.slot, Pair { id, peer, token, dlid, loose: Some(loose) });
        Ok(())
    }

    /// A queue pair is not wanted any more. One that the data thread has, or is about to get, comes back from
    /// it; any other is gone now.
    pub(crate) fn cancel(&mut self, id: PairId) {
        let made = |pair: &Pair| pair.id == id && pair.loose.is_none();
        if !self.pairs.get(&id.slot).is_some_and(made) {
            self.retired(id);
        }
    }

    /// A queue pair is destroyed: its peer's is of no more use.
    pub(crate) fn retired(&mut self, id: PairId) {
        if let Some(pair) = self.pairs.get(&id.slot).filter(|pair| pair.id == id) {
            if let Some(call) = self.calls.get_mut(&pair.peer) {
                call.stream.say(&PeerSays::Withdraw(pair.token));
            }
            self.pairs.remove(&id.slot);
        }
        self.rings.tell(Word::Closed { pair: id });
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.calls.values().for_each(|call| call.stream.watch(watch));
    }

    /// When a heartbeat is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.calls.values().map(|call| call.beat).min()
    }

    /// Reads and writes what can be, and gives up peers that do not answer.
    pub(crate) fn work(&mut self, maker: &Maker, now: Instant, ready: &Ready) {
        // Nobody is blamed for what could not be heard while this thread did something else.
        let deaf = now - self.listened.replace(now).unwrap_or(now);
        self.calls.values_mut().for_each(|call| call.heard += deaf.saturating_sub(self.heartbeat));
        let peers: Vec<Guid> = self.calls.keys().copied().collect();
        for peer in peers {
            if let Err(why) = self.work_one(peer, maker, (now, ready)) {
                if matches!(why, StreamEnd::Malformed(_)) {
                    Rings::count(&self.rings.tally.malformed);
                }
                warn!("peer {peer}: {why}");
                self.give_up(peer);
            }
        }
        // A peer that nothing is sent to is left alone.
        let wanted: BTreeSet<Guid> = self.pairs.values().map(|pair| pair.peer).collect();
        self.calls.retain(|peer, _| wanted.contains(peer));
    }

    fn work_one(
        &mut self,
        peer: Guid,
        maker: &Maker,
        (now, ready): (Instant, &Ready),
    ) -> Result<(), StreamEnd> {
        let Some(call) = self.calls.get_mut(&peer) else { return Ok(()) };
        let worked = call.stream.work(ready);
        let mut said = Vec::new();
        while let Some(message) = call.stream.hear::<PeerSays>()? {
            call.heard = now;
            said.push(message);
        }
        worked?;
        if now >= call.beat {
            if now > call.heard + self.heartbeat * MISSED {
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            }
            call.beats += 1;
            call.beat = now + self.heartbeat;
            call.stream.say(&PeerSays::Ping(call.beats));
            call.stream.flush()?;
        }
        for message in said {
            self.hear(peer, &message, maker);
        }
        Ok(())
    }

    fn hear(&mut self, peer: Guid, message: &PeerSays, maker: &Maker) {
        let token = match message {
            PeerSays::Accept(accept) => accept.token,
            PeerSays::Decline(decline) => decline.token,
            PeerSays::Lost(token) => *token,
            // The called one has nothing else to say.
            _ => return,
        };
        let Some(pair) =
            self.pairs.values_mut().find(|pair| pair.token == token && pair.peer == peer)
        else {
            return;
        };
        let id = pair.id;
        match (message, pair.loose.take()) {
            (PeerSays::Accept(accept), Some(loose)) => {
                match maker.link(loose, &accept.end, pair.dlid) {
                    Ok(link) => {
                        self.rings.tell(Word::Linked { pair: id, link: Box::new(link) });
                    }
                    Err(error) => self.unconnected(id, &error),
                }
            }
            (PeerSays::Decline(decline), _) => self.unconnected(id, &decline.reason),
            _ => {
                self.rings.tell(Word::Broken { pair: id, reason: BreakReason::Failed });
            }
        }
    }

    fn unconnected(&mut self, id: PairId, why: &dyn std::fmt::Display) {
        warn!("a queue pair could not be connected: {why}");
        self.pairs.remove(&id.slot);
        self.rings.tell(Word::Broken { pair: id, reason: BreakReason::Unconnected });
    }

    /// A peer is gone, and with it all its queue pairs; the mesh calls it again.
    fn give_up(&mut self, peer: Guid) {
        self.calls.remove(&peer);
        Rings::count(&self.rings.tally.gone);
        let rings = &self.rings;
        self.pairs.retain(|_, pair| {
            if pair.peer != peer {
                return true;
            }
            rings.tell(Word::Broken { pair: pair.id, reason: BreakReason::PeerGone });
            pair.loose.is_none()
        });
    }
}
