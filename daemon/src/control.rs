//! JSON lines over a Unix socket: a request is one line, an answer one or more.
//!
//! A request is an object with the key `command`; the answer `{"ok": ...}` or `{"error": "..."}`. What a
//! request means is the daemon's business. A process that may open the socket may ask: its mode is 0660.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde_json::{Value, json};
use snin_protocol::operator::{Document, Operation};

use crate::connections::Connections;
use crate::group::SocketGroup;
use crate::metrics::Page;
use crate::unix;
use crate::watch::Watch;

pub use crate::connections::Client;

/// Why there is no socket, or no answer. One line each.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket cannot be made.
    #[error("{}: {error}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another daemon listens there.
    #[error("{}: another daemon listens there", .0.display())]
    Taken(PathBuf),
    /// No daemon listens.
    #[error("{}: {error}: does the daemon run?", path.display())]
    Nobody {
        /// Where.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The daemon refuses.
    #[error("{0}")]
    Refused(String),
    /// The daemon refuses because there is no room for it.
    #[error("{0}")]
    NoRoom(String),
    /// What came is no answer.
    #[error("{}: {what}", path.display())]
    Garbled {
        /// Where.
        path: PathBuf,
        /// The error, in words.
        what: String,
    },
}

/// What a refusal says besides where there is no room.
pub(crate) const NO_ROOM: &str = "no room";

/// The daemon's end.
pub struct Control {
    connections: Connections,
    _left: unix::SocketGuard,
}

/// A request that came in.
#[derive(Clone, Debug)]
pub struct Request {
    /// The client that asks.
    pub client: Client,
    /// The user whose process asks; `None` where the connection is over already.
    pub user: Option<u32>,
    /// What: the value of `command`.
    pub command: String,
    /// The whole request.
    pub body: Value,
}

impl Request {
    /// What is said besides `command`.
    pub fn keys(&self) -> Value {
        let mut keys = self.body.clone();
        keys.as_object_mut().and_then(|keys| keys.remove("command"));
        keys
    }
}

impl Control {
    /// Listens; `group`'s members may ask, beside root and the daemon's own user. A socket that a daemon left
    /// behind is replaced; one at which a daemon listens is not.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen(path: &Path, group: Option<SocketGroup>) -> Result<Self, ControlError> {
        let listener = unix::bind(path, group).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => ControlError::Taken(path.to_owned()),
            _ => ControlError::Socket { path: path.to_owned(), error },
        })?;
        Ok(Self {
            connections: Connections::new(listener),
            _left: unix::SocketGuard(path.to_owned()),
        })
    }

    /// Waits for requests too.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.connections.watch(watch);
    }

    /// Reads and writes what can be; the requests that came in. What is none is answered here.
    pub fn work(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        for (client, line) in self.connections.work() {
            let body: Result<Value, _> = serde_json::from_slice(&line);
            let command = body.as_ref().ok().and_then(|body| body.get("command")?.as_str());
            match (command.map(str::to_owned), body) {
                (Some(command), Ok(body)) => {
                    if body["follow"] == true {
                        self.connections.keep(client);
                    }
                    let user = self.connections.user(client);
                    requests.push(Request { client, user, command, body });
                }
                _ => self.refuse(client, "a request is a JSON object with the key command"),
            }
        }
        requests
    }

    /// Connections on which nothing happens end after this time, unless they wait for an answer or follow
    /// events; a minute where nothing is said.
    pub const fn set_idle(&mut self, idle: Duration) {
        self.connections.idle = idle;
    }

    /// Answers a request.
    pub fn answer(&mut self, client: Client, value: &Value) {
        self.line(client, &json!({ "ok": value }));
    }

    /// Answers a request by a text of JSON.
    pub fn answer_text(&mut self, client: Client, text: &str) {
        self.say(client, &format!("{{\"ok\":{text}}}\n"));
    }

    /// Answers that there is no room for it, and why.
    pub fn no_room(&mut self, client: Client, why: &str) {
        self.line(client, &json!({ "error": why, "refusal": NO_ROOM }));
    }

    /// Answers that it is not done, and why.
    pub fn refuse(&mut self, client: Client, why: &str) {
        self.line(client, &json!({ "error": why }));
    }

    /// Sends a line that is no answer, as to one who follows events. Whether anybody is still there.
    pub fn line(&mut self, client: Client, value: &Value) -> bool {
        self.say(client, &format!("{value}\n"))
    }

    fn say(&mut self, client: Client, line: &str) -> bool {
        self.connections.answer(client, line.as_bytes());
        self.connections.is_open(client)
    }

    /// Connections, as metrics whose names begin so.
    pub fn export(&self, prefix: &str, page: &mut Page) {
        let help = "Connections of a Unix socket";
        page.gauge(&format!("{prefix}_clients"), help, self.clients() as f64);
        let help = "Connections refused since there were too many, and idle ones that made room";
        page.counter(&format!("{prefix}_clients_turned_away"), help, self.turned_away());
    }

    /// How many are connected.
    pub fn clients(&self) -> usize {
        self.connections.len()
    }

    /// How many were turned away: there were as many as may be, or they asked nothing and others came.
    pub const fn turned_away(&self) -> u64 {
        self.connections.turned_away
    }
}

/// Connects: also that takes no longer than an answer may, where too many wait for a daemon that stands still.
fn connect(path: &Path, patience: Option<Duration>) -> io::Result<UnixStream> {
    let ours = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    for what in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&ours, what, patience)?;
    }
    rustix::net::connect(&ours, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(ours))
}

/// An answer to an operation, from a daemon at this address.
pub(crate) fn understood<O: Operation>(
    answer: Value,
    path: &Path,
) -> Result<Document<O::Answer>, ControlError> {
    serde_json::from_value(answer).map_err(|error| ControlError::Garbled {
        path: path.to_owned(),
        what: format!("the answer to `{}` is of another version: {error}", O::COMMAND),
    })
}

/// The command's end: waits for every answer.
pub struct Connection {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl Connection {
    /// Connects; `patience` is the longest that an answer is waited for.
    ///
    /// # Errors
    /// When no daemon listens there.
    pub fn open(path: &Path, patience: Option<Duration>) -> Result<Self, ControlError> {
        let stream = connect(path, patience);
        let nobody = |error| ControlError::Nobody { path: path.to_owned(), error };
        Ok(Self { stream: BufReader::new(stream.map_err(nobody)?), path: path.to_owned() })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// When the daemon refuses, or does not answer.
    pub fn ask(&mut self, request: &Value) -> Result<Value, ControlError> {
        let mut line = request.to_string();
        line.push('\n');
        let sent = self.stream.get_mut().write_all(line.as_bytes());
        let mut answer = match sent {
            Ok(()) => self.line()?.ok_or_else(|| self.garbled("ended without an answer"))?,
            // A daemon that does not hear it has said why, if it could.
            Err(error) => {
                let said = self.line().ok().flatten();
                said.ok_or_else(|| ControlError::Nobody { path: self.path.clone(), error })?
            }
        };
        if let Some(error) = answer.get("error") {
            let text = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
            return Err(match answer["refusal"] == NO_ROOM {
                true => ControlError::NoRoom(text),
                false => ControlError::Refused(text),
            });
        }
        match answer.get_mut("ok") {
            Some(value) => Ok(value.take()),
            None => Err(self.garbled("the answer is neither ok nor error")),
        }
    }

    /// Asks what operators may ask.
    ///
    /// # Errors
    /// As [`ask`](Self::ask), and when the answer is of another kind.
    pub fn request<O: Operation>(
        &mut self,
        operation: &O,
    ) -> Result<Document<O::Answer>, ControlError> {
        let answer = self.ask(&operation.request())?;
        understood::<O>(answer, &self.path)
    }

    /// The next line, for one who follows events; `None` when the daemon has ended.
    ///
    /// # Errors
    /// When nothing came in time, or no JSON.
    pub fn line(&mut self) -> Result<Option<Value>, ControlError> {
        let mut text = String::new();
        let read = self.stream.read_line(&mut text);
        let read = read.map_err(|error| self.garbled(&error.to_string()))?;
        if read == 0 {
            return Ok(None);
        }
        serde_json::from_str(&text).map(Some).map_err(|error| self.garbled(&error.to_string()))
    }

    fn garbled(&self, what: &str) -> ControlError {
        ControlError::Garbled { path: self.path.clone(), what: what.to_owned() }
    }
}
