//! Where clients come: sockets, handshakes, and what a connection may cost.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::select;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::server::AppState;
use super::{ALPN, Client};
use crate::group::SocketGroup;
use crate::session::{Address, Count, Credentials, SessionEnd, Tally, look, owner};
use crate::unix;

/// At most so many connections at one address.
const MOST: usize = 64;
/// The longest head of a request, and the longest body, in bytes.
pub(super) const LONGEST: usize = 64 * 1024;
/// The most headers.
const HEADERS: usize = 64;
/// The longest that TLS may take to begin.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// After an accept that failed, as when descriptors are used up.
const BREATH: Duration = Duration::from_millis(50);

/// What a client may cost, and how it is known.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) life: Duration,
    pub(super) credentials: Option<Arc<Credentials>>,
    pub(super) tally: Arc<Tally>,
}

/// A socket, bound.
pub(super) enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
    Tls(TcpListener),
}

impl Bound {
    pub(super) fn bind(
        address: &Address,
        credentials: Option<&Arc<Credentials>>,
        group: Option<SocketGroup>,
    ) -> io::Result<Self> {
        Ok(match address {
            Address::Unix(path) => Self::Unix(unix::bind(path, group)?, path.clone()),
            Address::Plain(address) => Self::Tcp(TcpListener::bind(address)?),
            Address::Tls(_) if credentials.is_none() => {
                return Err(io::Error::new(ErrorKind::InvalidInput, SessionEnd::NoCredentials));
            }
            Address::Tls(host) => Self::Tls(TcpListener::bind(Address::resolve(host)?)?),
        })
    }

    /// As a client would write it, without its scheme.
    pub(super) fn address(&self) -> io::Result<String> {
        Ok(match self {
            Self::Tcp(listener) | Self::Tls(listener) => listener.local_addr()?.to_string(),
            Self::Unix(_, path) => path.display().to_string(),
        })
    }
}

/// The same, in a runtime.
enum Listener {
    Tcp(tokio::net::TcpListener),
    /// The socket's file goes with it.
    Unix(tokio::net::UnixListener, #[expect(dead_code)] unix::SocketGuard),
    Tls(tokio::net::TcpListener),
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A client that was accepted, before anything was said.
enum Accepted {
    Known(Box<dyn Stream>, Client),
    Tls(tokio::net::TcpStream),
}

impl Listener {
    fn of(bound: Bound) -> io::Result<Self> {
        let tcp = |listener: TcpListener| {
            listener.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(listener)
        };
        Ok(match bound {
            Bound::Tcp(listener) => Self::Tcp(tcp(listener)?),
            Bound::Tls(listener) => Self::Tls(tcp(listener)?),
            Bound::Unix(listener, path) => {
                Self::Unix(tokio::net::UnixListener::from_std(listener)?, unix::SocketGuard(path))
            }
        })
    }

    async fn accept(&self) -> io::Result<Accepted> {
        Ok(match self {
            Self::Tcp(listener) => {
                Accepted::Known(Box::new(listener.accept().await?.0), Client::Unknown)
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred()?.uid();
                Accepted::Known(Box::new(stream), Client::User(user))
            }
            Self::Tls(listener) => Accepted::Tls(listener.accept().await?.0),
        })
    }
}

/// Serves until the daemon's end of the queue is gone.
pub(super) async fn serve(
    bound: Vec<Bound>,
    router: Router<AppState>,
    state: AppState,
    rules: Rules,
) {
    let mut listeners = JoinSet::new();
    if let Some(credentials) = rules.credentials.clone() {
        listeners.spawn(look(credentials));
    }
    for bound in bound {
        match Listener::of(bound) {
            Ok(listener) => {
                listeners.spawn(accept(listener, router.clone(), state.clone(), rules.clone()));
            }
            Err(error) => tracing::error!("no HTTP is offered: {error}"),
        }
    }
    state.to_daemon.closed().await;
}

async fn accept(listener: Listener, router: Router<AppState>, state: AppState, rules: Rules) {
    let mut serving = JoinSet::new();
    let mut open: VecDeque<Open> = VecDeque::new();
    loop {
        let client = select! {
            client = listener.accept() => client,
            _ = serving.join_next(), if !serving.is_empty() => continue,
        };
        let Ok(client) = client else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        rules.tally.add(Count::Callers);
        open.retain(|client| !client.work.is_finished());
        if open.len() >= MOST
            && let Some(oldest) = open.iter().position(Open::may_end)
            && let Some(oldest) = open.remove(oldest)
        {
            oldest.work.abort();
            rules.tally.notify(Count::Slow, "too many clients of HTTP: the oldest is cut off");
        }
        let follows = Arc::new(AtomicBool::new(false));
        let state = AppState { follows: follows.clone(), ..state.clone() };
        let work = serving.spawn(serve_connection(client, router.clone(), state, rules.clone()));
        open.push_back(Open { work, follows });
    }
}

/// A connection that is served.
struct Open {
    work: AbortHandle,
    follows: Arc<AtomicBool>,
}

impl Open {
    /// Those that follow what happens are fewer than there may be connections: the daemon sees to that.
    fn may_end(&self) -> bool {
        !self.follows.load(Ordering::Relaxed)
    }
}

/// Serves a client for as long as one may live, or follows what happens.
async fn serve_connection(
    client: Accepted,
    router: Router<AppState>,
    state: AppState,
    rules: Rules,
) {
    let (follows, tally, life) = (state.follows.clone(), rules.tally.clone(), rules.life);
    let mut served = std::pin::pin!(serve_http(client, router, state, rules));
    while tokio::time::timeout(life, &mut served).await.is_err() {
        if !follows.load(Ordering::Relaxed) {
            return tally.notify(Count::Slow, "a client of HTTP took too long, and is cut off");
        }
    }
}

async fn serve_http(client: Accepted, router: Router<AppState>, state: AppState, rules: Rules) {
    let (stream, client) = match authenticate(client, &rules).await {
        Ok(authenticated) => authenticated,
        Err(why) => {
            let line = format!("a client of HTTP is turned away: {why}");
            return rules.tally.notify(Count::Handshake, line);
        }
    };
    let router = router.with_state(AppState { client, ..state });
    let served = http1::Builder::new()
        .keep_alive(false)
        .max_headers(HEADERS)
        .max_buf_size(LONGEST)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that breaks off is not told of it.
    let _ = served.await;
}

/// Shakes hands with a client whose certificate has to say who it is.
async fn authenticate(client: Accepted, rules: &Rules) -> io::Result<(Box<dyn Stream>, Client)> {
    let stream = match client {
        Accepted::Known(stream, client) => return Ok((stream, client)),
        Accepted::Tls(stream) => stream,
    };
    let refused = |why: SessionEnd| io::Error::new(ErrorKind::PermissionDenied, why);
    let credentials = rules.credentials.as_ref().ok_or_else(|| refused(SessionEnd::NoCredentials));
    let mut config = ServerConfig::clone(&credentials?.now().server);
    config.alpn_protocols = vec![ALPN.to_vec()];
    let shaking = TlsAcceptor::from(Arc::new(config)).accept(stream);
    let stream = tokio::time::timeout(HANDSHAKE, shaking).await??;
    let (_, tls) = stream.get_ref();
    let certified = tls.peer_certificates().and_then(|chain| owner(chain.first()?));
    let nameless = || io::Error::new(ErrorKind::PermissionDenied, "its certificate names nobody");
    let client = Client::Certified(certified.ok_or_else(nameless)?);
    Ok((Box::new(stream), client))
}
