//! The called end: one session for each identity, the latest.

use std::collections::BTreeMap;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use snin_protocol::codec::{self, CodecError, Message};
use snin_protocol::greeting::{Reason, Service, SessionMessage, Welcome};
use snin_protocol::identity::{Identity, Role};
use tokio::select;
use tokio::sync::mpsc;

use super::acceptor::{Acceptor, Admitted, Bound, Rules, refuse};
use super::address::Address;
use super::credentials::Credentials;
use super::end::SessionEnd;
use super::limits::Limits;
use super::pipe::Pipe;
use super::tally::{Count, Tally};
use super::work::{NotPut, NumberedEvent, Outbox, SessionEvent, Work};
use super::{Peer, Received};
use crate::group::SocketGroup;
use crate::meter::Meter;

/// What is offered, where, and to whom.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Where callers come.
    pub at: Vec<Address>,
    /// What for.
    pub service: Service,
    /// The identity of this end.
    pub identity: Identity,
    /// The roles that are served.
    pub roles: Vec<Role>,
    /// Users whose processes may call over Unix sockets, beside root and the daemon's own.
    pub users: Vec<u32>,
    /// Whose members may open Unix sockets: `users` have to be among them.
    pub group: Option<SocketGroup>,
    /// What they may cost.
    pub limits: Limits,
    /// For `tls://`.
    pub credentials: Option<Arc<Credentials>>,
}

/// An address at which nothing can be offered.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {error}")]
pub struct ListenError {
    /// Which.
    pub address: String,
    /// The system's error.
    pub error: io::Error,
}

/// See the module's documentation. It hears `In` and says `Out`. Its sessions run on the runtime in which
/// [`next`](Self::next) is awaited.
pub struct Listener<In, Out> {
    identity: Identity,
    addresses: Vec<Address>,
    sessions: BTreeMap<Peer, Session>,
    next: u64,
    /// Peers whose sessions ended here, to be heard of.
    ended: Vec<(Peer, SessionEnd)>,
    limits: Arc<Limits>,
    tally: Arc<Tally>,
    credentials: Option<Arc<Credentials>>,
    meter: Option<Arc<Meter>>,
    admitted: mpsc::Receiver<Admitted>,
    events: mpsc::Receiver<NumberedEvent<In>>,
    to_us: mpsc::Sender<NumberedEvent<In>>,
    /// By number: whose it is.
    peers: BTreeMap<u64, Peer>,
    says: PhantomData<fn(Out)>,
    _door: Acceptor,
}

struct Session {
    number: u64,
    outbox: Outbox,
}

impl<In: Message + Send + 'static, Out: Message> Listener<In, Out> {
    /// Listens.
    ///
    /// # Errors
    /// The first address at which that is not possible.
    pub fn start(listen: Listen) -> Result<Self, ListenError> {
        let limits = Arc::new(listen.limits);
        let tally = Arc::new(Tally::default());
        let mut bound = Vec::new();
        let mut addresses = Vec::new();
        for address in &listen.at {
            let failed = |error| ListenError { address: address.to_string(), error };
            let one = Bound::bind(address, listen.group).map_err(failed)?;
            addresses.push(one.address().map_err(failed)?);
            bound.push(one);
        }
        let rules = Rules {
            service: listen.service,
            roles: listen.roles,
            users: listen.users,
            limits: limits.clone(),
            tally: tally.clone(),
            credentials: listen.credentials.clone(),
        };
        let (lets_in, admitted) = mpsc::channel(limits.handshakes.max(1));
        let (to_us, events) = mpsc::channel(limits.waiting.max(1));
        let all = listen.at.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let acceptor = Acceptor::open(bound, rules, lets_in);
        let acceptor = acceptor.map_err(|error| ListenError { address: all, error })?;
        Ok(Self {
            identity: listen.identity,
            addresses,
            sessions: BTreeMap::new(),
            next: 0,
            ended: Vec::new(),
            limits,
            tally,
            credentials: listen.credentials,
            meter: None,
            admitted,
            events,
            to_us,
            peers: BTreeMap::new(),
            says: PhantomData,
            _door: acceptor,
        })
    }

    /// Charges what its sessions cost: they run on the daemon's own thread.
    #[must_use]
    pub fn metered(self, meter: Arc<Meter>) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// What happens next. Nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> Received<In> {
        loop {
            if let Some((peer, end)) = self.ended.pop() {
                return Received::Closed(peer, end);
            }
            let heard = select! {
                biased;
                Some(new) = self.admitted.recv() => self.begin(new),
                Some((number, what)) = self.events.recv() => self.receive(number, what),
            };
            if let Some(heard) = heard {
                return heard;
            }
        }
    }

    /// What has happened already, if anything.
    pub fn try_next(&mut self) -> Option<Received<In>> {
        loop {
            if let Some((peer, end)) = self.ended.pop() {
                return Some(Received::Closed(peer, end));
            }
            let (number, what) = self.events.try_recv().ok()?;
            if let Some(heard) = self.receive(number, what) {
                return Some(heard);
            }
        }
    }

    fn begin(&mut self, new: Admitted) -> Option<Received<In>> {
        let Admitted { pipe, peer, version } = new;
        let pipe = pipe.arrive().ok()?;
        let mut pipe = match &self.meter {
            Some(meter) => pipe.metered(meter.clone()),
            None => pipe,
        };
        let is_full = self.sessions.len() >= self.limits.sessions;
        if is_full && !self.sessions.contains_key(&peer) {
            self.tally.notify(
                Count::Full,
                format!("{peer} is turned away: there are {} sessions", self.limits.sessions),
            );
            let limit = self.limits.handshake;
            tokio::spawn(async move {
                // A caller that does not even read the refusal is not waited for.
                let _ = tokio::time::timeout(limit, refuse(&mut pipe, Reason::Full)).await;
            });
            return None;
        }
        let peer = Peer::new(peer);
        self.next += 1;
        let number = self.next;
        pipe.send(&SessionMessage::Welcome(Welcome { identity: self.identity.clone(), version }))
            .ok()?;
        let outbox = self.run(number, peer.clone(), pipe);
        if let Some(before) = self.sessions.insert(peer.clone(), Session { number, outbox }) {
            self.tally.add(Count::Replaced);
            self.peers.remove(&before.number);
        }
        self.peers.insert(number, peer.clone());
        self.tally.add(Count::Opened);
        Some(Received::Opened(peer))
    }

    fn run(&self, number: u64, peer: Peer, pipe: Pipe) -> Outbox {
        let (outbox, letters) = Outbox::new(self.limits.backlog);
        let work = Work {
            number,
            peer,
            pipe,
            letters,
            limits: self.limits.clone(),
            tally: self.tally.clone(),
            credentials: self.credentials.clone(),
        };
        let events = self.to_us.clone();
        tokio::spawn(async move {
            let end = work.run(events.clone()).await;
            // Without a listener the event is dropped.
            let _ = events.send((number, SessionEvent::Closed(end))).await;
        });
        outbox
    }

    fn receive(&mut self, number: u64, what: SessionEvent<In>) -> Option<Received<In>> {
        // What a session that was replaced or ended had said still.
        let peer = self.peers.get(&number)?.clone();
        match what {
            SessionEvent::Said(message) => Some(Received::Said(peer, message)),
            SessionEvent::Closed(end) => {
                self.forget(number, &peer);
                Some(Received::Closed(peer, end))
            }
            SessionEvent::Opened(..) => None,
        }
    }

    fn forget(&mut self, number: u64, peer: &Peer) {
        self.peers.remove(&number);
        if self.sessions.get(peer).is_some_and(|session| session.number == number) {
            self.sessions.remove(peer);
        }
    }

    /// Says something; whether it will be written. A peer that does not read is cut off.
    ///
    /// # Errors
    /// When the message is longer than a frame may be.
    pub fn send(&mut self, to: &Identity, message: &Out) -> Result<bool, CodecError> {
        let frame = codec::encode(message)?;
        let Some(session) = self.sessions.get(to) else { return Ok(false) };
        match session.outbox.put(frame) {
            Ok(()) => return Ok(true),
            Err(NotPut::Over) => {}
            Err(NotPut::Full) => self.end(to, SessionEnd::Unread),
        }
        Ok(false)
    }

    /// Ends a session.
    pub fn close(&mut self, peer: &Identity) {
        self.end(peer, SessionEnd::Ended);
    }

    fn end(&mut self, peer: &Identity, end: SessionEnd) {
        let Some((peer, session)) = self.sessions.remove_entry(peer) else { return };
        self.peers.remove(&session.number);
        if let Some(what) = end.count() {
            self.tally.notify(what, format!("the session with {peer}: {end}"));
        }
        self.ended.push((peer, end));
    }

    /// All peers that have a session.
    pub fn peers(&self) -> impl Iterator<Item = &Identity> {
        self.sessions.keys().map(AsRef::as_ref)
    }

    /// Where callers come, with the ports that the system chose.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The counters.
    pub const fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }
}
