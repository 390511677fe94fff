//! HTTP for every daemon: `/metrics`, `/healthz`, and the API of a daemon that has one.
//!
//! axum runs on a thread of its own, so what a client costs delays neither a window nor a sweep. What is asked
//! comes to the daemon as [`Asked`], which a poll waits for; only the daemon answers. A connection carries one
//! request and lives for a minute at most, unless the daemon lets its client [follow](Asked::follow) what happens;
//! of too many the oldest is cut off. So a client that says its head byte by byte, says nothing, or does not read
//! what it asked for keeps no other from being served.
//!
//! An API is offered at Unix sockets, whose users the system names, at loopback, where no client has a name, and
//! by TLS, where the certificate names the client. [`ask`], [`follow`](fn@follow) and [`HttpClient`] are the other
//! end.

mod accept;
mod client;
mod follow;
mod server;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodFilter;
use serde_json::{Value, json};
use snin_protocol::identity::Identity;
use tokio::sync::oneshot;

use crate::control::NO_ROOM;
use crate::metrics;

pub use client::{HttpClient, ask, follow, request};
pub use follow::Follower;
pub use server::{Offer, Server};

/// The path at which a command is said as at the control socket.
const COMMAND: &str = "/v1/command";
/// TLS carries HTTP and no session.
const ALPN: &[u8] = b"http/1.1";

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
    /// The command's name; [`Route::ANY`] has it in the body.
    pub command: &'static str,
    /// The keys of query and path whose values are numbers. All others are texts.
    pub numbers: &'static [&'static str],
    /// Those that are true where they stand without a value.
    pub flags: &'static [&'static str],
    /// What it does, for people.
    pub about: &'static str,
}

impl Route {
    /// Any command, as the control socket has it.
    pub const ANY: Self = Self {
        verb: Verb::Post,
        path: COMMAND,
        command: "",
        numbers: &[],
        flags: &[],
        about: "Any command of the control socket, as it has it: {\"command\": ...}.",
    };
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
    /// There is no room for it: 409, and `"refusal": "no room"`.
    NoRoom,
    /// The daemon cannot say yet: 503.
    NotReady,
}

impl Refusal {
    const fn status(self) -> StatusCode {
        match self {
            Self::Wrong => StatusCode::BAD_REQUEST,
            Self::NotPermitted => StatusCode::FORBIDDEN,
            Self::Absent => StatusCode::NOT_FOUND,
            Self::Conflict | Self::NoRoom => StatusCode::CONFLICT,
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
    Command(String, Value),
}

/// The end that asks, as far as it is proved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Client {
    /// A process of this user, by the system's word.
    User(u32),
    /// The owner of a certificate.
    Certified(Identity),
    /// A program that may reach the address.
    Unknown,
}

/// A request that the daemon has to answer. Dropped without an answer, it is answered with 503.
#[derive(Debug)]
pub struct Asked {
    /// What is asked.
    pub wanted: Wanted,
    /// The end that asks.
    pub client: Client,
    answer: oneshot::Sender<Response>,
    /// Whether the connection goes on as long as its client follows.
    follows: Arc<AtomicBool>,
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

    /// Answers with lines of JSON, without an end: those that the follower is told.
    pub fn follow(self) -> Follower {
        let (follower, lines) = Follower::new(self.follows.clone());
        self.respond(([(CONTENT_TYPE, "application/x-ndjson")], Body::new(lines)).into_response());
        follower
    }

    /// Answers that it is not done, and why.
    pub fn refuse(self, refusal: Refusal, why: &str) {
        if refusal == Refusal::NoRoom {
            let said = json!({ "error": why, "refusal": NO_ROOM });
            return self.respond((refusal.status(), axum::Json(said)).into_response());
        }
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
