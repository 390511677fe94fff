//! Messages between managers in-band: MADs of a vendor's class with RMPP, where there are no sessions.
//!
//! ```text
//!  a                                                   b
//!  |  HELLO (challenge of a) ->                        |   one MAD, again and again
//!  |  <- HELLO (challenge of b, and that of a)         |
//!  |  HELLO (that of a, and that of b, settled) ->     |   both have heard the other one just now: a session
//!  |  message 1, 2, ... ->     <- message 1, 2, ...    |   RMPP, one after the other in each direction
//! ```
//!
//! Every message has a tag by the site's key of its body, of both ports' GUIDs, of both challenges and of its
//! number. So what another site says, what was said in an earlier session, and what was said before is refused,
//! and counted by reason; a message that is missing ends the session, and a new one begins. A topic tells what a
//! message is about: the carrier looks into none. Who can send as another port's address can end sessions, and
//! no more.

mod envelope;
mod peer;

use std::collections::{BTreeMap, VecDeque};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use snin_fabric::{Guid, Lid};
use snin_mad::header::Header;
use snin_mad::rmpp::{self, Expiry, Policy, Progress, Receiver, Sender};
use snin_mad::{AttributeId, Class, Mad, Method, PKey, TransactionId};
use snin_protocol::{Time, codec};

use crate::mad_address::Origin;

pub use envelope::{Seal, TAG};

use envelope::{Head, LEAST};
use peer::Peer;

/// OpenFabrics' number, which the kernel's registration takes where none is given; the class is one that its own
/// tools do not use.
const OUI: [u8; 3] = [0x00, 0x14, 0x05];
const OUI_AT: usize = 37;
const DATA_AT: usize = rmpp::data_at(Class::Managers);
/// Other managers that are spoken to.
const MOST_PEERS: usize = 64;
/// Messages on their way in, from one address, and from all but those of known managers.
const MOST_FROM_ONE: usize = 4;
const MOST_PARTS: usize = 256;

/// One other manager is dead for the carrier after six times 100 ms without an answer: its session ends, and
/// the next one begins when it answers again.
const POLICY: Policy = Policy {
    timeout: Time::millis(100),
    retries: 5,
    unheard: 5,
    window: 64,
    total: Time::secs(10),
    longest: codec::MAX_FRAME + 2 * LEAST,
};

/// What a message is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Topic(pub u8);

impl Topic {
    const HELLO: Self = Self(0);
    /// Of the mirror, from who has a copy to who is copied.
    pub const FROM_STANDBY: Self = Self(1);
    /// Of the mirror, the other way.
    pub const FROM_MASTER: Self = Self(2);
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Carried {
    /// A session began.
    Opened(Guid),
    /// The other manager said something.
    Said(Guid, Topic, Vec<u8>),
    /// The session is over. What was not said in it is lost.
    Closed(Guid),
}

/// Why something that came was not taken, or something was not sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Refused {
    /// This manager does not know its own port yet.
    Early,
    /// No MAD, or of another vendor.
    Foreign,
    /// Too short, or of a version that is not known.
    Malformed,
    /// Without the site's key.
    Forged,
    /// For another port, or from this one.
    Misdirected,
    /// Of a session that is over, or never began.
    OtherSession,
    /// It came before.
    Replayed,
    /// A message before it is missing: the session ends.
    Gap,
    /// A part of no message that is on its way.
    Stray,
    /// Not all of it came in time, or its parts do not fit together.
    Broken,
    /// Too many messages are on their way, or too many managers known.
    Overload,
    /// The other manager takes in less than is said to it: the session ends.
    Full,
    /// The other manager did not answer: the session ends.
    Silent,
}

impl Refused {
    /// Every reason and its name.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::Early, "early"),
        (Self::Foreign, "foreign"),
        (Self::Malformed, "malformed"),
        (Self::Forged, "forged"),
        (Self::Misdirected, "misdirected"),
        (Self::OtherSession, "other session"),
        (Self::Replayed, "replayed"),
        (Self::Gap, "gap"),
        (Self::Stray, "stray"),
        (Self::Broken, "broken"),
        (Self::Overload, "overload"),
        (Self::Full, "full"),
        (Self::Silent, "silent"),
    ];
}

/// See the module's documentation. It has the verbs of every core.
pub struct Carrier {
    seal: Box<dyn Seal>,
    random: ChaCha20Rng,
    p_key: PKey,
    own: Option<Guid>,
    peers: BTreeMap<Guid, Peer>,
    /// Messages on their way in, by address and transaction. The oldest of an address goes for a new one, and
    /// each when its time is over.
    parts: BTreeMap<(Lid, u32), Receiver>,
    last_id: u32,
    events: VecDeque<Carried>,
    outputs: VecDeque<(Origin, Box<Mad>)>,
    refused: BTreeMap<Refused, u64>,
}

impl Carrier {
    /// `seed` has to be another one after each start, and known to no other: challenges come from it. Messages go
    /// in the partition of `p_key`.
    pub fn new(seal: Box<dyn Seal>, seed: [u8; 32], p_key: PKey) -> Self {
        let mut random = ChaCha20Rng::from_seed(seed);
        let last_id = random.next_u32();
        Self {
            seal,
            random,
            p_key,
            own: None,
            peers: BTreeMap::new(),
            parts: BTreeMap::new(),
            last_id,
            events: VecDeque::new(),
            outputs: VecDeque::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Which port this one is, which other managers there are, and their addresses.
    pub fn know(&mut self, own: Guid, others: &BTreeMap<Guid, Lid>, now: Time) {
        self.own = Some(own);
        for (&guid, &lid) in others.iter().filter(|&(&guid, _)| guid != own) {
            if let Some(peer) = self.peer(guid, lid, now) {
                peer.named = true;
                peer.known_at(lid, now);
            }
        }
        for (guid, peer) in &mut self.peers {
            peer.named &= others.contains_key(guid);
        }
        self.peers.retain(|_, peer| peer.named || peer.session.is_some() || peer.is_new(now));
    }

    /// The other manager with this GUID, known from now on, if there is room.
    fn peer(&mut self, guid: Guid, lid: Lid, now: Time) -> Option<&mut Peer> {
        if !self.peers.contains_key(&guid) {
            if self.peers.len() >= MOST_PEERS {
                return None;
            }
            let challenge = self.challenge();
            self.peers.insert(guid, Peer::new(lid, challenge, now));
        }
        self.peers.get_mut(&guid)
    }

    fn challenge(&mut self) -> u64 {
        self.random.next_u64().max(1)
    }

    /// Says something to another manager, after all that was said to it before. Where there is no session it is
    /// lost, and [`Carried::Closed`] has said so.
    pub fn send(&mut self, to: Guid, topic: Topic, body: Vec<u8>, now: Time) {
        let Some(peer) = self.peers.get_mut(&to).filter(|peer| peer.session.is_some()) else {
            return self.count(Refused::OtherSession);
        };
        if peer.push(topic, body) {
            self.pump(to, now);
        } else {
            self.count(Refused::Full);
            self.end(to, now);
        }
    }

    /// Takes a MAD of the class that came to queue pair 1.
    pub fn handle(&mut self, from: Origin, bytes: &[u8], now: Time) {
        if let Err(why) = self.take(from, bytes, now) {
            self.count(why);
        }
    }

    /// What has happened next.
    pub fn next_event(&mut self) -> Option<Carried> {
        self.events.pop_front()
    }

    /// The next MAD to be sent from queue pair 1.
    pub fn poll_output(&mut self) -> Option<(Origin, Box<Mad>)> {
        self.outputs.pop_front()
    }

    /// How often something was refused for a reason.
    pub fn refused(&self, why: Refused) -> u64 {
        self.refused.get(&why).copied().unwrap_or(0)
    }

    /// When [`handle_deadline`](Self::handle_deadline) has to be called, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Time> {
        let parts = self.parts.values().map(Receiver::deadline);
        parts.chain(self.peers.values().filter_map(Peer::next_deadline)).min()
    }

    /// Does what is due at `now`; too early a call does nothing.
    pub fn handle_deadline(&mut self, now: Time) {
        let over: Vec<(Lid, u32)> = self
            .parts
            .iter()
            .filter(|(_, part)| part.deadline() <= now)
            .map(|(key, _)| *key)
            .collect();
        for key in over {
            if self.parts.remove(&key).is_some_and(|part| !part.is_done()) {
                self.count(Refused::Broken);
            }
        }
        let guids: Vec<Guid> = self.peers.keys().copied().collect();
        for guid in guids {
            self.expire(guid, now);
        }
    }

    fn expire(&mut self, guid: Guid, now: Time) {
        let Some(peer) = self.peers.get_mut(&guid) else { return };
        if peer.hellos(now) {
            self.hello(guid);
            return;
        }
        match peer.sending.as_mut().map(|(_, sender)| sender.expire(now)) {
            None | Some(Expiry::Waits) => {}
            Some(Expiry::Again) => self.pump(guid, now),
            Some(Expiry::GivenUp(_)) => {
                self.count(Refused::Silent);
                self.end(guid, now);
            }
        }
    }

    fn count(&mut self, why: Refused) {
        *self.refused.entry(why).or_insert(0) += 1;
    }

    fn take(&mut self, from: Origin, bytes: &[u8], now: Time) -> Result<(), Refused> {
        let own = self.own.ok_or(Refused::Early)?;
        let mad = Mad::from_slice(bytes).map_err(|_| Refused::Foreign)?;
        if mad.0[OUI_AT..DATA_AT] != OUI {
            return Err(Refused::Foreign);
        }
        let id = mad.header().transaction_id().0 as u32;
        if !rmpp::is_active(&mad) {
            let message = &mad.0[DATA_AT..DATA_AT + LEAST];
            return self.greeted(own, from, message, now);
        }
        if mad.header().method().is_response() {
            return self.acknowledged(from.lid, id, &mad, now);
        }
        let Some(message) = self.part((from.lid, id), from, &mad, now)? else { return Ok(()) };
        self.heard(own, from.lid, &message, now)
    }

    /// A part of a message; the message, when it is whole.
    fn part(
        &mut self,
        key: (Lid, u32),
        from: Origin,
        mad: &Mad,
        now: Time,
    ) -> Result<Option<Vec<u8>>, Refused> {
        if !self.parts.contains_key(&key) {
            // What comes of a message that is over, or was never begun.
            if mad.rmpp().segment() != 1 {
                return Err(Refused::Stray);
            }
            self.make_room(key.0)?;
            self.parts.insert(key, Receiver::new(mad, POLICY, now));
        }
        let receiver = self.parts.get_mut(&key).ok_or(Refused::Stray)?;
        let was_done = receiver.is_done();
        let reception = receiver.receive(mad);
        self.outputs.extend(reception.reply.map(|reply| (from, Box::new(reply))));
        if reception.ended.is_some() {
            self.parts.remove(&key);
            return Err(Refused::Broken);
        }
        Ok(if was_done { None } else { receiver.take() })
    }

    /// Room for one more message from an address.
    fn make_room(&mut self, lid: Lid) -> Result<(), Refused> {
        let its: Vec<_> = self.parts.range((lid, 0)..=(lid, u32::MAX)).collect();
        if its.len() >= MOST_FROM_ONE {
            let oldest = its.iter().min_by_key(|(_, part)| part.deadline()).map(|(key, _)| **key);
            oldest.and_then(|key| self.parts.remove(&key));
        } else if self.parts.len() >= MOST_PARTS && !self.peers.values().any(|peer| peer.lid == lid)
        {
            return Err(Refused::Overload);
        }
        Ok(())
    }

    /// The other end says how far a message came.
    fn acknowledged(&mut self, lid: Lid, id: u32, mad: &Mad, now: Time) -> Result<(), Refused> {
        let is_its = |peer: &Peer| {
            peer.lid == lid && peer.sending.as_ref().is_some_and(|sending| sending.0 == id)
        };
        let its = self.peers.iter_mut().find(|(_, peer)| is_its(peer)).ok_or(Refused::Stray)?;
        let (&guid, Peer { sending, .. }) = its;
        let progress = sending.as_mut().map(|(_, sender)| sender.receive(mad, now));
        match progress {
            Some(Ok(Progress::Done)) => *sending = None,
            Some(Ok(Progress::Going)) | None => {}
            Some(Ok(Progress::Ended(_)) | Err(_)) => {
                self.end(guid, now);
                return Err(Refused::Broken);
            }
        }
        self.pump(guid, now);
        Ok(())
    }

    /// What a message says, if it is one of this site for this port, and the manager that says it.
    fn open<'a>(
        &mut self,
        own: Guid,
        lid: Lid,
        message: &'a [u8],
        now: Time,
    ) -> Result<(Head, &'a [u8]), Refused> {
        let (head, body) = Head::open(message, &*self.seal)?;
        if head.to != own || head.from == own {
            return Err(Refused::Misdirected);
        }
        let next = self.challenge();
        let peer = self.peer(head.from, lid, now).ok_or(Refused::Overload)?;
        if !peer.is_of_session(&head) && head.echo == peer.challenge {
            let ended = peer.session.is_some();
            if ended {
                peer.end(peer.challenge, now);
            }
            peer.lid = lid;
            peer.settle(&head, next);
            self.events.extend(ended.then_some(Carried::Closed(head.from)));
            self.events.push_back(Carried::Opened(head.from));
        }
        Ok((head, body))
    }

    fn greeted(
        &mut self,
        own: Guid,
        from: Origin,
        message: &[u8],
        now: Time,
    ) -> Result<(), Refused> {
        let (head, _) = self.open(own, from.lid, message, now)?;
        if head.topic != Topic::HELLO {
            return Err(Refused::Malformed);
        }
        // Who has settled the session waits for nothing more.
        if head.settled {
            return Ok(());
        }
        let Some(peer) = self.peers.get_mut(&head.from) else { return Ok(()) };
        let settled = peer.is_of_session(&head);
        let (challenge, echo) = match peer.session.filter(|_| settled) {
            Some(session) => (session.own, session.theirs),
            None => (peer.challenge, head.challenge),
        };
        // Where there is a session what was said in an earlier one may have come again.
        if peer.session.is_none() {
            (peer.theirs, peer.lid) = (head.challenge, from.lid);
        }
        self.greet(head.from, self.origin(from.lid), (challenge, echo, settled));
        Ok(())
    }

    /// A message that is whole.
    fn heard(&mut self, own: Guid, lid: Lid, message: &[u8], now: Time) -> Result<(), Refused> {
        let (head, body) = self.open(own, lid, message, now)?;
        let peer = self.peers.get_mut(&head.from).ok_or(Refused::OtherSession)?;
        if !peer.is_of_session(&head) || head.topic == Topic::HELLO {
            return Err(Refused::OtherSession);
        }
        let counted = peer.count(&head);
        match counted {
            Ok(()) => {
                self.events.push_back(Carried::Said(head.from, head.topic, body.to_owned()));
            }
            Err(Refused::Gap) => self.end(head.from, now),
            Err(_) => {}
        }
        counted
    }

    /// A session is over.
    fn end(&mut self, guid: Guid, now: Time) {
        let challenge = self.challenge();
        let Some(peer) = self.peers.get_mut(&guid) else { return };
        if peer.session.is_some() {
            self.events.push_back(Carried::Closed(guid));
        }
        peer.end(challenge, now);
        if !peer.named {
            self.peers.remove(&guid);
        }
    }

    fn origin(&self, lid: Lid) -> Origin {
        Origin { lid, qp: 1, sl: 0, p_key: self.p_key }
    }

    /// A MAD with nothing in it yet, in a transaction of its own.
    fn header(&mut self) -> (u32, Mad) {
        self.last_id = self.last_id.wrapping_add(1);
        let mut mad = Mad::ZERO;
        Header::edit(&mut mad.0)
            .base_version(1)
            .class(Class::Managers)
            .class_version(1)
            .method(Method::Send)
            .transaction_id(TransactionId(self.last_id.into()))
            .attribute(AttributeId(1));
        mad.0[OUI_AT..DATA_AT].copy_from_slice(&OUI);
        (self.last_id, mad)
    }

    fn hello(&mut self, guid: Guid) {
        let Some(peer) = self.peers.get(&guid) else { return };
        let (to, challenges) = (self.origin(peer.lid), peer.challenges());
        self.greet(guid, to, challenges);
    }

    fn greet(&mut self, to: Guid, at: Origin, (challenge, echo, settled): (u64, u64, bool)) {
        let Some(from) = self.own else { return };
        let topic = Topic::HELLO;
        let head = Head { topic, settled, from, to, challenge, echo, number: 0 };
        let message = head.close(&[], &*self.seal);
        let (_, mut mad) = self.header();
        mad.0[DATA_AT..DATA_AT + LEAST].copy_from_slice(&message);
        self.outputs.push_back((at, Box::new(mad)));
    }

    /// Sends what may be sent to a manager now.
    fn pump(&mut self, guid: Guid, now: Time) {
        let (id, header) = self.header();
        let (Some(peer), Some(from)) = (self.peers.get_mut(&guid), self.own) else { return };
        if let Some((session, number, topic, body)) = peer.next() {
            let (challenge, echo, settled) = (session.own, session.theirs, true);
            let head = Head { topic, settled, from, to: guid, challenge, echo, number };
            let message = head.close(&body, &*self.seal);
            peer.sending = Some((id, Sender::new(&header, message, POLICY, now)));
        }
        let Some((_, sender)) = &mut peer.sending else { return };
        let to = Origin { lid: peer.lid, qp: 1, sl: 0, p_key: self.p_key };
        self.outputs.extend(std::iter::from_fn(|| sender.poll(now)).map(|mad| (to, Box::new(mad))));
    }
}
