//! The acceptor of a listener: a thread that accepts, shakes hands and hears greetings, so that what all that
//! costs never delays those who have a session.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::{Connection, ServerConnection};
use snin_protocol::codec::VERSIONS;
use snin_protocol::greeting::{Greet, Reason, Refused, Service, SessionMessage, common};
use snin_protocol::identity::{Identity, Role};
use tokio::select;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use super::address::Address;
use super::credentials::{Credentials, owner};
use super::end::SessionEnd;
use super::limits::Limits;
use super::pipe::Pipe;
use super::socket::{DetachedSocket, Socket};
use super::tally::{Count, Tally};
use crate::group::SocketGroup;
use crate::unix;

/// After an accept that failed, as when descriptors are used up.
const BREATH: Duration = Duration::from_millis(50);
/// How often the files of certificates are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// What the acceptor lets in.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) service: Service,
    pub(super) roles: Vec<Role>,
    /// Users of a Unix socket beside root and the daemon's own.
    pub(super) users: Vec<u32>,
    pub(super) limits: Arc<Limits>,
    pub(super) tally: Arc<Tally>,
    pub(super) credentials: Option<Arc<Credentials>>,
}

/// A caller that has greeted, and whose identity is proved. It has not been answered yet.
pub(super) struct Admitted {
    pub(super) pipe: Pipe<DetachedSocket>,
    pub(super) peer: Identity,
    pub(super) version: u8,
}

/// Where callers come.
pub(super) enum Bound {
    Unix(UnixListener, PathBuf),
    Plain(TcpListener),
    Tls(TcpListener),
}

impl Bound {
    /// Binds. A socket that a daemon left behind is replaced; one at which a daemon listens is not.
    pub(super) fn bind(address: &Address, group: Option<SocketGroup>) -> io::Result<Self> {
        Ok(match address {
            Address::Unix(path) => Self::Unix(unix::bind(path, group)?, path.clone()),
            Address::Plain(address) => Self::Plain(nonblocking(TcpListener::bind(address)?)?),
            Address::Tls(host) => {
                Self::Tls(nonblocking(TcpListener::bind(Address::resolve(host)?)?)?)
            }
        })
    }

    /// Where that is, with the port that the system chose.
    pub(super) fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Self::Unix(_, path) => Address::Unix(path.clone()),
            Self::Plain(listener) => Address::Plain(listener.local_addr()?),
            Self::Tls(listener) => Address::Tls(listener.local_addr()?.to_string()),
        })
    }

    const fn needs_credentials(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

fn nonblocking(listener: TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// See the module's documentation. Dropped, it is shut.
pub(super) struct Acceptor {
    shut: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Acceptor {
    /// Opens it; who is admitted comes out of `admitted`.
    pub(super) fn open(
        bound: Vec<Bound>,
        rules: Rules,
        admitted: mpsc::Sender<Admitted>,
    ) -> io::Result<Self> {
        if rules.credentials.is_none() && bound.iter().any(Bound::needs_credentials) {
            return Err(io::Error::new(ErrorKind::InvalidInput, SessionEnd::NoCredentials));
        }
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (shut, is_shut) = oneshot::channel();
        let rules = Arc::new(rules);
        let serve = move || {
            runtime.block_on(async {
                let mut posts = JoinSet::new();
                for bound in bound {
                    posts.spawn(accept(bound, rules.clone(), admitted.clone()));
                }
                if let Some(credentials) = rules.credentials.clone() {
                    posts.spawn(look(credentials));
                }
                // The owner of the acceptor drops the other end.
                let _ = is_shut.await;
            });
        };
        let thread = thread::Builder::new().name("sessions-acceptor".to_owned()).spawn(serve)?;
        Ok(Self { shut: Some(shut), thread: Some(thread) })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        drop(self.shut.take());
        if let Some(thread) = self.thread.take() {
            // A panic of its was its own.
            let _ = thread.join();
        }
    }
}

/// Reads certificates again when their files change.
pub(crate) async fn look(credentials: Arc<Credentials>) {
    loop {
        credentials.warn();
        tokio::time::sleep(LOOK).await;
        match credentials.refresh() {
            Ok(true) => tracing::info!("certificates were read again"),
            Ok(false) => {}
            Err(error) => tracing::warn!("certificates stay as they were: {error}"),
        }
    }
}

enum Listener {
    Unix(tokio::net::UnixListener),
    Plain(tokio::net::TcpListener),
    Tls(tokio::net::TcpListener),
}

/// A caller that was accepted, before anything was said.
enum Caller {
    Unix(tokio::net::UnixStream),
    Plain(tokio::net::TcpStream),
    Tls(tokio::net::TcpStream),
}

impl Listener {
    async fn accept(&self) -> io::Result<Caller> {
        match self {
            Self::Unix(listener) => Ok(Caller::Unix(listener.accept().await?.0)),
            Self::Plain(listener) => {
                let (stream, from) = listener.accept().await?;
                if !from.ip().is_loopback() {
                    return Err(io::Error::new(
                        ErrorKind::PermissionDenied,
                        "it comes from another machine",
                    ));
                }
                stream.set_nodelay(true)?;
                Ok(Caller::Plain(stream))
            }
            Self::Tls(listener) => {
                let stream = listener.accept().await?.0;
                stream.set_nodelay(true)?;
                Ok(Caller::Tls(stream))
            }
        }
    }
}

async fn accept(bound: Bound, rules: Arc<Rules>, admitted: mpsc::Sender<Admitted>) {
    let (listener, _left) = match bound {
        Bound::Unix(listener, path) => (
            tokio::net::UnixListener::from_std(listener).map(Listener::Unix),
            Some(unix::SocketGuard(path)),
        ),
        Bound::Plain(listener) => {
            (tokio::net::TcpListener::from_std(listener).map(Listener::Plain), None)
        }
        Bound::Tls(listener) => {
            (tokio::net::TcpListener::from_std(listener).map(Listener::Tls), None)
        }
    };
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("no sessions are offered: {error}"),
    };
    let mut greeting = JoinSet::new();
    let mut waiting: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let caller = select! {
            caller = listener.accept() => caller,
            _ = greeting.join_next(), if !greeting.is_empty() => continue,
        };
        let caller = match caller {
            Ok(caller) => caller,
            Err(error) => {
                rules.tally.notify(Count::Gone, format!("a caller: {error}"));
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        rules.tally.add(Count::Callers);
        waiting.retain(|caller| !caller.is_finished());
        if waiting.len() >= rules.limits.handshakes
            && let Some(oldest) = waiting.pop_front()
        {
            oldest.abort();
            rules
                .tally
                .notify(Count::Slow, "too many callers have not greeted: the oldest is cut off");
        }
        waiting.push_back(greeting.spawn(admit(caller, rules.clone(), admitted.clone())));
    }
}

/// Brings a caller to the listener, or turns it away.
async fn admit(caller: Caller, rules: Arc<Rules>, admitted: mpsc::Sender<Admitted>) {
    let greeted = tokio::time::timeout(rules.limits.handshake, greet(caller, &rules)).await;
    match greeted.unwrap_or(Err(SessionEnd::Slow)) {
        Ok(new) => {
            // Without a listener there is no session.
            let _ = admitted.send(new).await;
        }
        Err(end) => {
            // A caller that goes away before it has named itself has failed to shake hands.
            let what = match end.count() {
                None | Some(Count::Gone) => Count::Handshake,
                Some(what) => what,
            };
            rules.tally.notify(what, format!("a caller is turned away: {end}"));
        }
    }
}

async fn greet(caller: Caller, rules: &Rules) -> Result<Admitted, SessionEnd> {
    let mut user = None;
    let (socket, tls) = match caller {
        Caller::Unix(stream) => {
            user = Some(stream.peer_cred()?.uid());
            (Socket::Unix(stream), None)
        }
        Caller::Plain(stream) => (Socket::Tcp(stream), None),
        Caller::Tls(stream) => {
            let credentials = rules.credentials.as_ref().ok_or(SessionEnd::NoCredentials)?;
            let tls = ServerConnection::new(credentials.now().server.clone())?;
            (Socket::Tcp(stream), Some(Connection::Server(tls)))
        }
    };
    let mut pipe = Pipe::new(socket, tls);
    let greet = loop {
        if let Some(frame) = pipe.frame()? {
            let length = frame.length;
            let said = frame.message()?;
            pipe.take(length);
            let SessionMessage::Greet(greet) = said else { return Err(SessionEnd::OutOfTurn) };
            break greet;
        }
        pipe.work().await?;
    };
    match judge(&greet, pipe.tls(), user, rules) {
        Ok(version) => Ok(Admitted { pipe: pipe.leave()?, peer: greet.identity, version }),
        Err((reason, end)) => {
            // What it did counts, whether it hears so or not.
            let _ = refuse(&mut pipe, reason).await;
            Err(end)
        }
    }
}

/// Whether the caller is who it says and wants what there is; the version to speak.
fn judge(
    greet: &Greet,
    tls: Option<&Connection>,
    user: Option<u32>,
    rules: &Rules,
) -> Result<u8, (Reason, SessionEnd)> {
    let imposter = |proof: String| {
        (Reason::Identity, SessionEnd::Imposter { claimed: greet.identity.clone(), proof })
    };
    let refused = |reason| {
        let (first, last) = VERSIONS.into_inner();
        (reason, SessionEnd::Refused(Refused { reason, first, last }))
    };
    if let Some(tls) = tls {
        let certified = tls.peer_certificates().and_then(|chain| owner(chain.first()?));
        if certified.as_ref() != Some(&greet.identity) {
            let proof = match certified {
                Some(certified) => format!("its certificate is that of {certified}"),
                None => "its certificate names nobody".to_owned(),
            };
            return Err(imposter(proof));
        }
    }
    if let Some(user) = user {
        let own = rustix::process::geteuid().as_raw();
        if user != 0 && user != own && !rules.users.contains(&user) {
            return Err(imposter(format!("user {user} may not speak for daemons")));
        }
    }
    if greet.service != rules.service {
        return Err(refused(Reason::Service));
    }
    if !rules.roles.contains(&greet.identity.role()) {
        return Err((
            Reason::Role,
            SessionEnd::Imposter {
                claimed: greet.identity.clone(),
                proof: format!("{} is not for its role", rules.service.name()),
            },
        ));
    }
    common(&VERSIONS, &(greet.first..=greet.last)).ok_or_else(|| refused(Reason::Version))
}

/// Tells a caller why there is no session, and waits until that is written.
pub(super) async fn refuse(pipe: &mut Pipe, reason: Reason) -> Result<(), SessionEnd> {
    let (first, last) = VERSIONS.into_inner();
    pipe.send(&SessionMessage::Refused(Refused { reason, first, last }))?;
    while !pipe.is_flushed() {
        pipe.work().await?;
    }
    Ok(())
}
