//! The daemon's end: requests come out of a queue, answers go back.

use std::collections::BTreeMap;
use std::io;
use std::net::{TcpListener, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, RawPathParams, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, on};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use super::accept::{Bound, LONGEST, Rules, serve};
use super::{Asked, Client, HttpError, Route, Wanted, refused};
use crate::group::SocketGroup;
use crate::session::{Address, Credentials, Tally};
use crate::waker::{Joined, Waker, hand_over};
use crate::watch::Watch;

/// Requests that wait for the daemon; more wait in their connections.
const WAITING: usize = 8;
/// The longest that a connection lives.
const LIFE: Duration = Duration::from_secs(60);

/// An API, and where it is.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Where clients come.
    pub at: Vec<Address>,
    /// What there is beside metrics and health.
    pub routes: &'static [Route],
    /// For `tls://`.
    pub credentials: Option<Arc<Credentials>>,
    /// Whose members may open Unix sockets, beside root and the daemon's own user.
    pub group: Option<SocketGroup>,
    /// The longest that a connection lives.
    pub life: Duration,
}

impl Offer {
    /// One with the usual limits.
    pub const fn new(at: Vec<Address>, routes: &'static [Route]) -> Self {
        Self { at, routes, credentials: None, group: None, life: LIFE }
    }
}

/// See the module's documentation. Dropped, it ends.
pub struct Server {
    asked: mpsc::Receiver<Asked>,
    waker: Arc<Waker>,
    addresses: Vec<String>,
    tally: Arc<Tally>,
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
        Self::on(vec![Bound::Tcp(listener)], Offer::new(Vec::new(), &[])).map_err(failed)
    }

    /// An API, beside metrics and health.
    ///
    /// # Errors
    /// When an address is taken, or TLS has no certificates.
    pub fn offer(offer: Offer) -> Result<Self, HttpError> {
        let mut bound = Vec::new();
        for address in &offer.at {
            let one = Bound::bind(address, offer.credentials.as_ref(), offer.group);
            bound.push(one.map_err(|error| HttpError { address: address.to_string(), error })?);
        }
        let all = offer.at.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Self::on(bound, offer).map_err(|error| HttpError { address: all, error })
    }

    fn on(bound: Vec<Bound>, offer: Offer) -> io::Result<Self> {
        let addresses = bound.iter().map(Bound::address).collect::<io::Result<Vec<_>>>()?;
        let (waker, tally) = (Waker::new()?, Arc::new(Tally::default()));
        let (to_daemon, asked) = mpsc::channel(WAITING);
        let rules =
            Rules { life: offer.life, credentials: offer.credentials, tally: tally.clone() };
        let router = router(offer.routes);
        let work = async move |waker| {
            let follows = Arc::default();
            let state = AppState { to_daemon, waker, client: Client::Unknown, follows };
            serve(bound, router, state, rules).await;
        };
        let thread = waker.run("http", work)?;
        Ok(Self { asked, waker, addresses, tally, _thread: thread })
    }

    /// Where it listens: paths, and addresses with their ports, also if port 0 was asked for.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Clients that came, and those that were turned away.
    pub const fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Waits for requests too.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.waker.watch(watch);
    }

    /// The requests that came in; without a system call where none has.
    pub fn work(&mut self) -> Vec<Asked> {
        if !self.waker.was_woken() {
            return Vec::new();
        }
        std::iter::from_fn(|| self.asked.try_recv().ok()).collect()
    }
}

/// What a handler has of the daemon, and the client that it serves.
#[derive(Clone)]
pub(super) struct AppState {
    pub(super) to_daemon: mpsc::Sender<Asked>,
    pub(super) waker: Arc<Waker>,
    pub(super) client: Client,
    /// Whether that client follows what happens.
    pub(super) follows: Arc<AtomicBool>,
}

impl AppState {
    async fn ask(self, wanted: Wanted) -> Response {
        let (answer, answered) = oneshot::channel();
        let asked = Asked { wanted, client: self.client, answer, follows: self.follows };
        let ends = || refused(StatusCode::SERVICE_UNAVAILABLE, "the daemon ends");
        if !hand_over(asked, &self.to_daemon, &self.waker).await {
            return ends();
        }
        answered.await.unwrap_or_else(|_| ends())
    }
}

fn router(routes: &'static [Route]) -> Router<AppState> {
    let mut router = Router::new()
        .route("/metrics", get(|State(state): State<AppState>| state.ask(Wanted::Metrics)))
        .route("/healthz", get(|State(state): State<AppState>| state.ask(Wanted::Health)));
    for route in routes {
        let handler = move |state: State<AppState>,
                            path: RawPathParams,
                            query: Keys,
                            body: Bytes| async move {
            command(route, &path, query, &body, state.0).await
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
    state: AppState,
) -> Response {
    let wrong = |why| refused(StatusCode::BAD_REQUEST, why);
    let value = |key: &str, text: &str| match text.parse::<u64>() {
        Ok(number) if route.numbers.contains(&key) => number.into(),
        _ if route.flags.contains(&key) => Value::from(!matches!(text, "0" | "false")),
        _ => Value::from(text),
    };
    let mut keys: Map<String, Value> =
        query.iter().map(|(key, text)| (key.clone(), value(key, text))).collect();
    if !body.is_empty() {
        match serde_json::from_slice(body) {
            Ok(Value::Object(said)) => keys.extend(said),
            _ => return wrong("the body is no JSON object"),
        }
    }
    keys.extend(path.iter().map(|(key, text)| (key.to_owned(), value(key, text))));
    let command = match (route.command, keys.get("command").and_then(Value::as_str)) {
        ("", None) => return wrong("a request is a JSON object with the key command"),
        ("", Some(said)) => said.to_owned(),
        (command, _) => command.to_owned(),
    };
    state.ask(Wanted::Command(command, keys.into())).await
}
