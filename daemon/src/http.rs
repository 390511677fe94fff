//! HTTP for every daemon: `/metrics`, `/healthz`, and the API of a daemon that has one.
//!
//! axum runs on a thread of its own, so what a client costs delays neither a window nor a sweep. What is asked
//! comes to the daemon as [`Asked`], which a poll waits for; only the daemon answers. A connection carries one
//! request and lives for a minute at most; of too many the oldest is cut off. So a client that says its head
//! byte by byte, says nothing, or does not read what it asked for keeps no other from being served.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{TcpListener, ToSocketAddrs as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, RawPathParams, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, get, on};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::select;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use crate::bell::{Bell, Joined, hand_over};
use crate::session::Address;
use crate::watch::Watch;
use crate::{metrics, unix};

/// At most so many connections at once.
const MOST: usize = 64;
/// The longest head of a request, and the longest body, in bytes.
const LONGEST: usize = 64 * 1024;
/// The most headers.
const HEADERS: usize = 64;
/// Requests that wait for the daemon; more wait in their connections.
const WAITING: usize = 8;
/// The longest that a connection lives.
const LIFE: Duration = Duration::from_secs(60);
/// After an accept that failed, as when descriptors are used up.
const BREATH: Duration = Duration::from_millis(50);

/// Why nothing listens there. One line.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {error}")]
pub struct HttpError {
    /// Where.
    pub address: String,
    /// The system's error.
    pub error: io::Error,
}

/// What is done with what a path names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// It is shown.
    Get,
    /// Another one is made.
    Post,
    /// It is made to be so.
    Put,
    /// It is taken away.
    Delete,
}

impl Verb {
    const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        })
    }
}

/// A command of the control socket, as the API has it. Its keys are those of the query, of the body, which is a
/// JSON object, and of the path; the later of these counts.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// How.
    pub verb: Verb,
    /// Its path; parameters are in braces: `/v1/slices/{*owner}`.
    pub path: &'static str,
    /// The command's name.
    pub command: &'static str,
    /// The keys of query and path whose values are numbers. All others are texts.
    pub numbers: &'static [&'static str],
    /// What it does, for people.
    pub about: &'static str,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.path.replace("{*", "{"))
    }
}

/// Why a command is not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It says something that it cannot mean: 400.
    Wrong,
    /// The one who asks may not: 403.
    NotPermitted,
    /// What it is about is not there: 404.
    Absent,
    /// As things are it cannot be: 409.
    Conflict,
    /// The daemon cannot say yet: 503.
    NotReady,
}

impl Refusal {
    const fn status(self) -> StatusCode {
        match self {
            Self::Wrong => StatusCode::BAD_REQUEST,
            Self::NotPermitted => StatusCode::FORBIDDEN,
            Self::Absent => StatusCode::NOT_FOUND,
            Self::Conflict => StatusCode::CONFLICT,
            Self::NotReady => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// What a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// `/metrics`
    Metrics,
    /// `/healthz`
    Health,
    /// A command of the API: its name, and its keys as an object.
    Command(&'static str, Value),
}

/// A request that the daemon has to answer. Dropped without an answer, it is answered with 503.
#[derive(Debug)]
pub struct Asked {
    /// What is asked.
    pub wanted: Wanted,
    /// The user whose process asks; `None` over TCP.
    pub user: Option<u32>,
    answer: oneshot::Sender<Response>,
}

impl Asked {
    /// Answers with the text of metrics.
    pub fn metrics(self, text: String) {
        self.respond(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response());
    }

    /// Answers whether all is well, with a word on it.
    pub fn health(self, well: bool, text: &str) {
        let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        self.respond((status, format!("{text}\n")).into_response());
    }

    /// Answers a command.
    pub fn answer(self, value: Value) {
        self.respond(axum::Json(value).into_response());
    }

    /// Answers that it is not done, and why.
    pub fn refuse(self, refusal: Refusal, why: &str) {
        self.respond(refused(refusal.status(), why));
    }

    fn respond(self, response: Response) {
        // A client that has gone is not told.
        let _ = self.answer.send(response);
    }
}

fn refused(status: StatusCode, why: &str) -> Response {
    (status, axum::Json(json!({ "error": why }))).into_response()
}

/// See the module's documentation. Dropped, it ends.
pub struct Server {
    asked: mpsc::Receiver<Asked>,
    bell: Arc<Bell>,
    address: String,
    cut_off: Arc<AtomicU64>,
    _thread: Joined,
}

impl Server {
    /// Metrics and health at `host:port`.
    ///
    /// # Errors
    /// When that address is none, or taken.
    pub fn listen(address: &str) -> Result<Self, HttpError> {
        let failed = |error| HttpError { address: address.to_owned(), error };
        // The standard library sets SO_REUSEADDR.
        let found = address.to_socket_addrs().map_err(failed)?.collect::<Vec<_>>();
        let listener = TcpListener::bind(&found[..]).map_err(failed)?;
        Self::on(Bound::Tcp(listener), &[], LIFE).map_err(failed)
    }

    /// An API, beside metrics and health, for programs of this machine: at `unix:///PATH` or
    /// `plain://127.0.0.1:PORT`.
    ///
    /// # Errors
    /// When that address is taken, or one for other machines.
    pub fn listen_api(address: &Address, routes: &'static [Route]) -> Result<Self, HttpError> {
        Self::with_life(address, routes, LIFE)
    }

    /// The same, with the longest that a connection lives.
    ///
    /// # Errors
    /// As [`listen_api`](Self::listen_api).
    pub fn with_life(
        address: &Address,
        routes: &'static [Route],
        life: Duration,
    ) -> Result<Self, HttpError> {
        let bound = match address {
            Address::Unix(path) => unix::bind(path).map(|socket| Bound::Unix(socket, path.clone())),
            Address::Plain(address) => TcpListener::bind(address).map(Bound::Tcp),
            Address::Tls(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "HTTP is for this machine only: unix:///PATH or plain://127.0.0.1:PORT",
            )),
        };
        let server = bound.and_then(|bound| Self::on(bound, routes, life));
        server.map_err(|error| HttpError { address: address.to_string(), error })
    }

    fn on(bound: Bound, routes: &'static [Route], life: Duration) -> io::Result<Self> {
        let address = match &bound {
            Bound::Tcp(listener) => listener.local_addr()?.to_string(),
            Bound::Unix(_, path) => path.display().to_string(),
        };
        bound.set_nonblocking()?;
        let bell = Bell::new()?;
        let cut_off = Arc::new(AtomicU64::new(0));
        let (to_daemon, asked) = mpsc::channel(WAITING);
        let counted = cut_off.clone();
        let work = async move |bell| {
            let desk = Desk { to_daemon, bell, user: None };
            attend(bound, router(routes), desk, (life, counted)).await;
        };
        let thread = bell.run("http", work)?;
        Ok(Self { asked, bell, address, cut_off, _thread: thread })
    }

    /// Where it listens: a path, or an address with its port, also if port 0 was asked for.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connections cut off since too many were there.
    pub fn cut_off(&self) -> u64 {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// Waits for requests too.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.bell.watch(watch);
    }

    /// The requests that came in; without a system call where none has.
    pub fn work(&mut self) -> Vec<Asked> {
        if !self.bell.has_rung() {
            return Vec::new();
        }
        std::iter::from_fn(|| self.asked.try_recv().ok()).collect()
    }
}

/// Where clients come.
enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Bound {
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.set_nonblocking(true),
            Self::Unix(listener, _) => listener.set_nonblocking(true),
        }
    }
}

/// The same, in a runtime.
enum Entrance {
    Tcp(tokio::net::TcpListener),
    /// The socket's file goes with it.
    Unix(tokio::net::UnixListener, #[expect(dead_code)] unix::Left),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Entrance {
    fn of(bound: Bound) -> io::Result<Self> {
        Ok(match bound {
            Bound::Tcp(listener) => Self::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Bound::Unix(listener, path) => {
                Self::Unix(tokio::net::UnixListener::from_std(listener)?, unix::Left(path))
            }
        })
    }

    /// The next client, and the user whose process it is.
    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Option<u32>)> {
        Ok(match self {
            Self::Tcp(listener) => (Box::new(listener.accept().await?.0), None),
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred()?.uid();
                (Box::new(stream), Some(user))
            }
        })
    }
}

/// Serves until the daemon's end of the queue is gone.
async fn attend(
    bound: Bound,
    router: Router<Desk>,
    desk: Desk,
    (life, cut_off): (Duration, Arc<AtomicU64>),
) {
    let entrance = match Entrance::of(bound) {
        Ok(entrance) => entrance,
        Err(error) => return tracing::error!("no HTTP is offered: {error}"),
    };
    let mut serving = JoinSet::new();
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let client = select! {
            client = entrance.accept() => client,
            _ = serving.join_next(), if !serving.is_empty() => continue,
            () = desk.to_daemon.closed() => return,
        };
        let Ok((stream, user)) = client else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        open.retain(|client| !client.is_finished());
        if open.len() >= MOST
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
            cut_off.fetch_add(1, Ordering::Relaxed);
        }
        let router = router.clone().with_state(Desk { user, ..desk.clone() });
        open.push_back(serving.spawn(async move {
            let served = http1::Builder::new()
                .keep_alive(false)
                .max_headers(HEADERS)
                .max_buf_size(LONGEST)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            // A client that breaks off, or takes too long, is not told of it.
            let _ = tokio::time::timeout(life, served).await;
        }));
    }
}

/// What a handler has of the daemon, and who asks.
#[derive(Clone)]
struct Desk {
    to_daemon: mpsc::Sender<Asked>,
    bell: Arc<Bell>,
    user: Option<u32>,
}

impl Desk {
    async fn ask(self, wanted: Wanted) -> Response {
        let (answer, answered) = oneshot::channel();
        let asked = Asked { wanted, user: self.user, answer };
        let ends = || refused(StatusCode::SERVICE_UNAVAILABLE, "the daemon ends");
        if !hand_over(asked, &self.to_daemon, &self.bell).await {
            return ends();
        }
        answered.await.unwrap_or_else(|_| ends())
    }
}

fn router(routes: &'static [Route]) -> Router<Desk> {
    let mut router = Router::new()
        .route("/metrics", get(|State(desk): State<Desk>| desk.ask(Wanted::Metrics)))
        .route("/healthz", get(|State(desk): State<Desk>| desk.ask(Wanted::Health)));
    for route in routes {
        let handler = move |desk: State<Desk>, path: RawPathParams, query: Keys, body: Bytes| async move {
            command(route, &path, query, &body, desk.0).await
        };
        router = router.route(route.path, on(route.verb.filter(), handler));
    }
    let all = routes.iter().map(ToString::to_string);
    let all: Vec<String> =
        ["GET /metrics", "GET /healthz"].map(str::to_owned).into_iter().chain(all).collect();
    let missing = format!("there is {}\n", all.join(", "));
    router
        .fallback(|| std::future::ready((StatusCode::NOT_FOUND, missing)))
        .layer(DefaultBodyLimit::max(LONGEST))
}

type Keys = Query<BTreeMap<String, String>>;

async fn command(
    route: &'static Route,
    path: &RawPathParams,
    Query(query): Keys,
    body: &[u8],
    desk: Desk,
) -> Response {
    let value = |key: &str, text: &str| match text.parse::<u64>() {
        Ok(number) if route.numbers.contains(&key) => number.into(),
        _ => Value::from(text),
    };
    let mut keys: Map<String, Value> =
        query.iter().map(|(key, text)| (key.clone(), value(key, text))).collect();
    if !body.is_empty() {
        match serde_json::from_slice(body) {
            Ok(Value::Object(said)) => keys.extend(said),
            _ => return refused(StatusCode::BAD_REQUEST, "the body is no JSON object"),
        }
    }
    keys.extend(path.iter().map(|(key, text)| (key.to_owned(), value(key, text))));
    desk.ask(Wanted::Command(route.command, keys.into())).await
}
