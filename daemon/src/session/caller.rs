//! The calling end: calls again until the called end answers, and goes on with a new certificate without a break.
//! Where any of several will do, it calls one after the other, and first the one that answered last.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConnection, Connection};
use snin_protocol::codec::{self, CodecError, Message, VERSIONS};
use snin_protocol::greeting::{Greet, Service, SessionMessage};
use snin_protocol::identity::{Identity, Role};
use tokio::net::{TcpStream, UnixStream};
use tokio::select;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::acceptor::look;
use super::address::Address;
use super::credentials::{Credentials, owner, server_name};
use super::end::SessionEnd;
use super::limits::Limits;
use super::pipe::Pipe;
use super::socket::Socket;
use super::tally::{Count, Tally};
use super::work::{NotPut, NumberedEvent, Outbox, SessionEvent, Work, changed};
use super::{Peer, Received};

/// The pause before another call, at first and at most. Callers that lost a session together do not call
/// together.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Which address to call, and with which identity.
#[derive(Clone, Debug)]
pub struct Call {
    /// Where.
    pub to: Address,
    /// What for.
    pub service: Service,
    /// The role of the daemon that answers there.
    pub role: Role,
    /// Which of that role, where only one will do.
    pub peer: Option<Identity>,
    /// The identity of this end. With `tls://` the certificate has to say the same.
    pub identity: Identity,
    /// What the called end may cost.
    pub limits: Limits,
    /// For `tls://`.
    pub credentials: Option<Arc<Credentials>>,
}

impl Call {
    /// The DNS name that the certificate of the called end has.
    fn called(&self) -> String {
        self.peer.as_ref().map_or_else(|| self.role.dns(), Identity::dns)
    }
}

/// See the module's documentation. It hears `In` and says `Out`. Dropped, it ends its session.
pub struct Caller<In, Out> {
    events: mpsc::Receiver<NumberedEvent<In>>,
    open: Option<(u64, Peer, Outbox)>,
    tally: Arc<Tally>,
    calling: JoinHandle<()>,
    says: std::marker::PhantomData<fn(Out)>,
}

impl<In, Out> Drop for Caller<In, Out> {
    fn drop(&mut self) {
        self.calling.abort();
    }
}

impl<In: Message + Send + 'static, Out: Message> Caller<In, Out> {
    /// Begins to call, on the runtime that this is called in.
    pub fn start(call: Call) -> Self {
        Self::start_any(call, Vec::new())
    }

    /// The same, where those at `others` will do as well.
    pub fn start_any(call: Call, others: Vec<Address>) -> Self {
        let (to_us, events) = mpsc::channel(call.limits.waiting.max(1));
        let tally = Arc::new(Tally::default());
        let at = [call.to.clone()].into_iter().chain(others).collect();
        let calling =
            Calling { call, at, tally: tally.clone(), number: 0, complained: BTreeSet::new() };
        let calling = tokio::spawn(calling.run(to_us));
        Self { events, open: None, tally, calling, says: std::marker::PhantomData }
    }

    /// What happens next. Nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> Received<In> {
        loop {
            let Some((number, what)) = self.events.recv().await else {
                // The task that calls never ends by itself.
                return std::future::pending().await;
            };
            if let Some(heard) = self.receive(number, what) {
                return heard;
            }
        }
    }

    fn receive(&mut self, number: u64, what: SessionEvent<In>) -> Option<Received<In>> {
        match what {
            SessionEvent::Opened(peer, outbox) => {
                if self.open.replace((number, peer.clone(), outbox)).is_some() {
                    self.tally.add(Count::Replaced);
                }
                Some(Received::Opened(peer))
            }
            SessionEvent::Said(message) => {
                let (_, peer, _) = self.open.as_ref().filter(|open| open.0 == number)?;
                Some(Received::Said(peer.clone(), message))
            }
            SessionEvent::Closed(end) => {
                let (_, peer, _) = self.open.take_if(|open| open.0 == number)?;
                Some(Received::Closed(peer, end))
            }
        }
    }

    /// Says something; whether it will be written. While there is no session nothing is.
    ///
    /// # Errors
    /// When the message is longer than a frame may be.
    pub fn send(&mut self, message: &Out) -> Result<bool, CodecError> {
        let frame = codec::encode(message)?;
        let Some((_, peer, outbox)) = &self.open else { return Ok(false) };
        match outbox.put(frame) {
            Ok(()) => return Ok(true),
            Err(NotPut::Over) => return Ok(false),
            Err(NotPut::Full) => {}
        }
        self.tally
            .notify(Count::Unread, format!("the session with {peer}: {}", SessionEnd::Unread));
        // Its end is heard of when the session says so.
        if let Some((number, peer, _)) = self.open.take() {
            let (closed, _) = Outbox::new(usize::MAX);
            self.open = Some((number, peer, closed));
        }
        Ok(false)
    }

    /// Whether there is a session.
    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The counters.
    pub const fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }
}

/// The task that calls.
struct Calling {
    /// Its address is the one that is called now.
    call: Call,
    /// Every one that will do.
    at: Vec<Address>,
    tally: Arc<Tally>,
    number: u64,
    /// Places in `at` of which it was said that they do not answer: once, not at each call.
    complained: BTreeSet<usize>,
}

impl Calling {
    async fn run<M: Message + Send + 'static>(mut self, events: mpsc::Sender<NumberedEvent<M>>) {
        let looking =
            self.call.credentials.clone().map(|credentials| tokio::spawn(look(credentials)));
        let _looking = looking.map(Aborted);
        let (mut pause, mut place, mut silent) = (FIRST_PAUSE, 0, 0);
        loop {
            self.call.to = self.at[place].clone();
            let called = tokio::time::timeout(self.call.limits.handshake, self.establish()).await;
            match called.unwrap_or(Err(SessionEnd::Slow)) {
                Ok((peer, pipe)) => {
                    if self.complained.remove(&place) {
                        info!("{} answers at {}", peer, self.call.to);
                    }
                    (pause, silent) = (FIRST_PAUSE, 0);
                    match self.work(peer, pipe, &events).await {
                        Ok(Over::Ended) => {}
                        // It may stand still, and would be waited for again.
                        Ok(Over::Silent) => place = (place + 1) % self.at.len(),
                        Err(Gone) => return,
                    }
                }
                Err(end) => {
                    self.tally.add(end.count().unwrap_or(Count::Gone));
                    if self.complained.insert(place) {
                        warn!(
                            "the {} at {}: {end}; it is called again",
                            self.call.role, self.call.to
                        );
                    }
                    (place, silent) = ((place + 1) % self.at.len(), silent + 1);
                    // The next one at once, a pause after the last.
                    if silent < self.at.len() {
                        continue;
                    }
                    silent = 0;
                }
            }
            tokio::time::sleep(jitter(pause)).await;
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
    }

    /// A session until its end. When the certificates change another is begun first.
    async fn work<M: Message + Send + 'static>(
        &mut self,
        peer: Peer,
        pipe: Pipe,
        events: &mpsc::Sender<NumberedEvent<M>>,
    ) -> Result<Over, Gone> {
        let mut changes = self.call.credentials.as_ref().map(|credentials| credentials.changes());
        let (mut number, mut session) = self.begin(peer, pipe, events).await?;
        loop {
            select! {
                ended = &mut session.0 => {
                    let end = ended.unwrap_or(SessionEnd::Ended);
                    let is_silent = matches!(end, SessionEnd::Idle | SessionEnd::Unread);
                    events.send((number, SessionEvent::Closed(end))).await.map_err(|_| Gone)?;
                    return Ok(if is_silent { Over::Silent } else { Over::Ended });
                }
                () = changed(&mut changes) => {
                    let called = tokio::time::timeout(self.call.limits.handshake, self.establish()).await;
                    // Where that fails the old session goes on as long as it may.
                    if let Ok(Ok((peer, pipe))) = called {
                        (number, session) = self.begin(peer, pipe, events).await?;
                    }
                }
            }
        }
    }

    async fn begin<M: Message + Send + 'static>(
        &mut self,
        peer: Peer,
        pipe: Pipe,
        events: &mpsc::Sender<NumberedEvent<M>>,
    ) -> Result<(u64, Aborted<SessionEnd>), Gone> {
        self.number += 1;
        self.tally.add(Count::Opened);
        let (outbox, letters) = Outbox::new(self.call.limits.backlog);
        let work = Work {
            number: self.number,
            peer: peer.clone(),
            pipe,
            letters,
            limits: Arc::new(self.call.limits.clone()),
            tally: self.tally.clone(),
            credentials: self.call.credentials.clone(),
        };
        events.send((self.number, SessionEvent::Opened(peer, outbox))).await.map_err(|_| Gone)?;
        Ok((self.number, Aborted(tokio::spawn(work.run(events.clone())))))
    }

    /// Connects, shakes hands, greets and hears the answer.
    async fn establish(&self) -> Result<(Peer, Pipe), SessionEnd> {
        let call = &self.call;
        let (socket, tls) = match &call.to {
            Address::Unix(path) => (Socket::Unix(UnixStream::connect(path).await?), None),
            Address::Plain(address) => (Socket::Tcp(tcp(*address).await?), None),
            Address::Tls(host) => {
                let credentials = call.credentials.as_ref().ok_or(SessionEnd::NoCredentials)?;
                let socket = tcp(lookup(host).await?).await?;
                let tls = ClientConnection::new(
                    credentials.now().client.clone(),
                    server_name(&call.called()),
                )?;
                (Socket::Tcp(socket), Some(Connection::Client(tls)))
            }
        };
        let mut pipe = Pipe::new(socket, tls);
        while pipe.is_handshaking() {
            pipe.work().await?;
        }
        let (first, last) = VERSIONS.into_inner();
        let greet = Greet { identity: call.identity.clone(), service: call.service, first, last };
        pipe.send(&SessionMessage::Greet(greet))?;
        pipe.flush()?;
        let said = loop {
            if let Some(frame) = pipe.frame()? {
                let length = frame.length;
                let said: SessionMessage = frame.message()?;
                pipe.take(length);
                break said;
            }
            pipe.work().await?;
        };
        let welcome = match said {
            SessionMessage::Welcome(welcome) => welcome,
            SessionMessage::Refused(refused) => return Err(SessionEnd::Refused(refused)),
            _ => return Err(SessionEnd::OutOfTurn),
        };
        if !VERSIONS.contains(&welcome.version) {
            return Err(SessionEnd::OutOfTurn);
        }
        let certified =
            pipe.tls().map(|tls| tls.peer_certificates().and_then(|chain| owner(chain.first()?)));
        let is_certified =
            certified.is_none_or(|certified| certified.as_ref() == Some(&welcome.identity));
        let is_called = call.peer.as_ref().is_none_or(|peer| *peer == welcome.identity);
        if !is_certified || !is_called || welcome.identity.role() != call.role {
            let proof = format!("one whose certificate names {} was called", call.called());
            return Err(SessionEnd::Imposter { claimed: welcome.identity, proof });
        }
        Ok((Peer::new(welcome.identity), pipe))
    }
}

/// How a session ended.
enum Over {
    Ended,
    /// The called end said nothing, or does not read.
    Silent,
}

/// The owner of the caller is gone.
struct Gone;

/// A task that ends when this is dropped.
struct Aborted<T>(JoinHandle<T>);

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A number needs no thread.
pub(crate) async fn lookup(host: &str) -> std::io::Result<std::net::SocketAddr> {
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let host = host.to_owned();
    let found = tokio::task::spawn_blocking(move || Address::resolve(&host)).await;
    found.unwrap_or_else(|_| Err(Error::from(ErrorKind::NotFound)))
}

async fn tcp(address: std::net::SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Between half of it and all of it.
fn jitter(pause: Duration) -> Duration {
    let share = RandomState::new().hash_one(0_u8) % 1_000;
    pause / 2 + pause.mul_f64(share as f64 / 2_000.0)
}
