//! The asking end: commands of a daemon's control socket, said to its API.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use serde_json::Value;
use snin_protocol::identity::Role;
use snin_protocol::operator::{Document, Operation};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

use super::accept::Stream;
use super::{ALPN, COMMAND};
use crate::control::{ControlError, NO_ROOM, understood};
use crate::session::{Address, Credentials, SessionEnd, lookup, server_name};
use crate::waker::{Joined, Waker, hand_over};
use crate::watch::Watch;

/// The longest answer, in bytes.
const LONGEST: usize = 64 << 20;
/// Commands that a client has at a time; more are not taken.
const CARRIED: usize = 16;
/// The longest that a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Says a command to the API of a controller, and waits for the answer.
///
/// # Errors
/// When it refuses, does not answer in time, or is no controller by its certificate.
pub fn ask(
    to: &Address,
    credentials: Option<&Credentials>,
    request: &Value,
    patience: Duration,
) -> Result<Value, ControlError> {
    let runtime = runtime().map_err(|error| nobody(to, error))?;
    runtime.block_on(timely(to, credentials, request, patience))
}

/// Asks the API of a controller what operators may ask.
///
/// # Errors
/// As [`ask`], and when the answer is of another kind.
pub fn request<O: Operation>(
    to: &Address,
    credentials: Option<&Credentials>,
    operation: &O,
    patience: Duration,
) -> Result<Document<O::Answer>, ControlError> {
    let answer = ask(to, credentials, &operation.request(), patience)?;
    understood::<O>(answer, Path::new(&to.to_string()))
}

/// Follows the events of a controller after number `since`: `heard` is given each as a line of JSON, until it says
/// false or the controller ends.
///
/// # Errors
/// As [`ask`].
pub fn follow(
    to: &Address,
    credentials: Option<&Credentials>,
    since: u64,
    heard: impl FnMut(&str) -> bool,
) -> Result<(), ControlError> {
    let runtime = runtime().map_err(|error| nobody(to, error))?;
    let followed = runtime.block_on(lines(to, credentials, since, heard));
    followed.map_err(|error| nobody(to, error))
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()
}

async fn lines(
    to: &Address,
    credentials: Option<&Credentials>,
    since: u64,
    mut heard: impl FnMut(&str) -> bool,
) -> io::Result<()> {
    let question = Request::get(format!("/v1/events?since={since}&follow")).body(Body::empty());
    let answer = send(to, credentials, question.map_err(io::Error::other)?).await?;
    if !answer.status().is_success() {
        return Err(io::Error::other(format!("HTTP status {}", answer.status())));
    }
    let mut body = answer.into_body();
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
        text.extend_from_slice(&data);
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            if !heard(String::from_utf8_lossy(&line).trim_end()) {
                return Ok(());
            }
        }
        if text.len() > LONGEST {
            return Err(io::Error::other("a line without an end"));
        }
    }
    Ok(())
}

fn nobody(to: &Address, error: io::Error) -> ControlError {
    ControlError::Nobody { path: to.to_string().into(), error }
}

async fn timely(
    to: &Address,
    credentials: Option<&Credentials>,
    request: &Value,
    patience: Duration,
) -> Result<Value, ControlError> {
    let asked = tokio::time::timeout(patience, say(to, credentials, request)).await;
    let (well, mut answer) = match asked {
        Ok(said) => said.map_err(|error| nobody(to, error))?,
        Err(_) => return Err(nobody(to, ErrorKind::TimedOut.into())),
    };
    if well {
        return Ok(answer);
    }
    match answer["error"].take() {
        Value::String(why) if answer["refusal"] == NO_ROOM => Err(ControlError::NoRoom(why)),
        Value::String(why) => Err(ControlError::Refused(why)),
        _ => Err(ControlError::Garbled {
            path: to.to_string().into(),
            what: "the answer is neither done nor refused".to_owned(),
        }),
    }
}

/// Whether it was done, and what was answered.
async fn say(
    to: &Address,
    credentials: Option<&Credentials>,
    request: &Value,
) -> io::Result<(bool, Value)> {
    let request = Request::post(COMMAND)
        .header("content-type", "application/json")
        .body(Body::from(request.to_string()))
        .map_err(io::Error::other)?;
    let answer = send(to, credentials, request).await?;
    let well = answer.status().is_success();
    let body = axum::body::to_bytes(Body::new(answer.into_body()), LONGEST).await;
    Ok((well, serde_json::from_slice(&body.map_err(io::Error::other)?)?))
}

/// Says it on a connection of its own, which ends with the answer: a server of ours keeps none alive.
async fn send(
    to: &Address,
    credentials: Option<&Credentials>,
    mut request: Request<Body>,
) -> io::Result<Response<Incoming>> {
    let stream = connect(to, credentials).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let host = Role::Controller.dns().parse().map_err(io::Error::other)?;
    request.headers_mut().insert("host", host);
    sender.send_request(request).await.map_err(io::Error::other)
}

async fn connect(to: &Address, credentials: Option<&Credentials>) -> io::Result<Box<dyn Stream>> {
    let host = match to {
        Address::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
        Address::Plain(address) => return Ok(Box::new(TcpStream::connect(address).await?)),
        Address::Tls(host) => host,
    };
    let missing = || io::Error::new(ErrorKind::InvalidInput, SessionEnd::NoCredentials);
    let tls = credentials.ok_or_else(missing)?.now();
    let mut config = ClientConfig::clone(&tls.client);
    config.alpn_protocols = vec![ALPN.to_vec()];
    let stream = TcpStream::connect(lookup(host).await?).await?;
    let name = server_name(&Role::Controller.dns());
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
}

/// Commands to one API, for a daemon that polls: said one after the other by a thread of their own.
pub struct HttpClient {
    orders: mpsc::Sender<(u64, Value)>,
    answers: mpsc::Receiver<(u64, Result<Value, ControlError>)>,
    waker: Arc<Waker>,
    _thread: Joined,
}

impl HttpClient {
    /// To this API.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub fn start(to: Address, credentials: Option<Arc<Credentials>>) -> io::Result<Self> {
        let waker = Waker::new()?;
        let (orders, mut ordered) = mpsc::channel::<(u64, Value)>(CARRIED);
        let (answer, answers) = mpsc::channel(CARRIED);
        let thread = waker.run("client", async move |waker: Arc<Waker>| {
            while let Some((number, request)) = ordered.recv().await {
                if let Some(Err(error)) = credentials.as_ref().map(|known| known.refresh()) {
                    tracing::warn!("certificates stay as they were: {error}");
                }
                let answered = timely(&to, credentials.as_deref(), &request, PATIENCE).await;
                if !hand_over((number, answered), &answer, &waker).await {
                    return;
                }
            }
        })?;
        Ok(Self { orders, answers, waker, _thread: thread })
    }

    /// Has a command said, whose answer will have this number; false where too many wait.
    pub fn send(&self, number: u64, request: Value) -> bool {
        self.orders.try_send((number, request)).is_ok()
    }

    /// Until there is an answer.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.waker.watch(watch);
    }

    /// The answers that came; without a system call where none has.
    pub fn work(&mut self) -> Vec<(u64, Result<Value, ControlError>)> {
        if !self.waker.was_woken() {
            return Vec::new();
        }
        std::iter::from_fn(|| self.answers.try_recv().ok()).collect()
    }
}
