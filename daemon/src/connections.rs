//! Connections of one Unix socket, for a thread that polls: bounded in number, in what they ask at once,
//! in what waits for them and in the time for which nothing happens on them.
//!
//! A turn takes a few requests, of each connection one, and none of a connection that waits for an answer: so
//! a flood of them waits in its own socket, and everything else has its turn in between.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use crate::watch::Watch;

/// At most so many at once; who comes then is turned away.
const MOST: usize = 64;
/// The longest request.
const LONGEST: usize = 64 * 1024;
/// The most bytes that wait for one who does not read; who is slower than that is cut off.
const BACKLOG: usize = 16 * 1024 * 1024;
/// The same for all together.
const BACKLOG_ALL: usize = 64 * 1024 * 1024;
/// The most requests of one turn.
const PER_TURN: usize = 8;
/// A connection on which nothing happens for so long ends.
const IDLE: Duration = Duration::from_secs(60);

/// A client, as long as its connection lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Client(pub(crate) u64);

struct Connection {
    stream: UnixStream,
    asked: Vec<u8>,
    owed: VecDeque<u8>,
    /// The other end asks nothing more; it may still read.
    silent: bool,
    gone: bool,
    /// A whole request is in `asked`.
    ready: bool,
    /// A request is being answered; the next one is not taken before.
    pending: bool,
    /// It follows events: it may be quiet for ever.
    kept: bool,
    /// When it last asked or took something.
    since: Instant,
}

pub(crate) struct Connections {
    listener: UnixListener,
    open: BTreeMap<u64, Connection>,
    next: u64,
    /// Whose turn is next, if he is still there.
    turn: u64,
    pub(crate) turned_away: u64,
    pub(crate) idle: Duration,
}

impl Connections {
    pub(crate) const fn new(listener: UnixListener) -> Self {
        Self { listener, open: BTreeMap::new(), next: 0, turn: 0, turned_away: 0, idle: IDLE }
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.listener.as_fd());
        for connection in self.open.values() {
            let asks = !connection.pending;
            let over = connection.silent && connection.owed.is_empty();
            if asks && (connection.ready || over) {
                watch.until(connection.since);
            } else if asks && !connection.silent {
                watch.readable(connection.stream.as_fd());
            }
            if connection.may_idle_out() {
                watch.until(connection.since + self.idle);
            }
            if !connection.owed.is_empty() {
                watch.writable(connection.stream.as_fd());
            }
        }
    }

    /// Accepts, reads and writes as far as that goes without waiting; the requests that came in, a line each.
    pub(crate) fn work(&mut self) -> Vec<(Client, Vec<u8>)> {
        let now = Instant::now();
        self.accept(now);
        let mut requests = Vec::new();
        let later = self.open.range(self.turn..).chain(self.open.range(..self.turn));
        let order: Vec<u64> = later.map(|(&id, _)| id).collect();
        for id in order {
            let Some(connection) = self.open.get_mut(&id) else { continue };
            connection.write(now);
            connection.gone |= connection.may_idle_out() && now >= connection.since + self.idle;
            if requests.len() >= PER_TURN {
                continue;
            }
            if let Some(request) = connection.next(now) {
                requests.push((Client(id), request));
                self.turn = id + 1;
            }
        }
        self.forget();
        requests
    }

    /// It follows events from now on, and may be quiet for ever.
    pub(crate) fn keep(&mut self, client: Client) {
        if let Some(connection) = self.open.get_mut(&client.0) {
            connection.kept = true;
        }
    }

    fn accept(&mut self, now: Instant) {
        // One bad connection must not keep the others from being served.
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.open.len() >= MOST {
                self.turned_away += 1;
                continue;
            }
            let connection = Connection {
                stream,
                asked: Vec::new(),
                owed: VecDeque::new(),
                silent: false,
                gone: false,
                ready: false,
                pending: false,
                kept: false,
                since: now,
            };
            self.open.insert(self.next, connection);
            self.next += 1;
        }
    }

    /// Writes to one who asked, now or as soon as he reads; to one who is gone, nothing.
    pub(crate) fn answer(&mut self, client: Client, bytes: &[u8]) {
        let all: usize = self.open.values().map(|connection| connection.owed.len()).sum();
        if let Some(connection) = self.open.get_mut(&client.0) {
            let now = Instant::now();
            if connection.owed.is_empty() {
                connection.since = now;
            }
            connection.pending = false;
            if connection.owed.len() + bytes.len() > BACKLOG || all + bytes.len() > BACKLOG_ALL {
                connection.gone = true;
            } else {
                connection.owed.extend(bytes);
                connection.write(now);
            }
        }
        self.forget();
    }

    /// The user who asks, as the system knows it.
    pub(crate) fn user(&self, client: Client) -> Option<u32> {
        let credentials = rustix::net::sockopt::socket_peercred(&self.open.get(&client.0)?.stream);
        credentials.ok().map(|credentials| credentials.uid.as_raw())
    }

    pub(crate) fn is_open(&self, client: Client) -> bool {
        self.open.contains_key(&client.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    fn forget(&mut self) {
        self.open.retain(|_, open| !open.gone);
    }
}

impl Connection {
    /// Whether it ends if nothing happens: it neither waits for an answer nor follows events, or does not take
    /// what it is owed.
    fn may_idle_out(&self) -> bool {
        !self.owed.is_empty() || !self.pending && !self.kept
    }

    /// The next request, if it is all there and none is being answered.
    fn next(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.pending {
            return None;
        }
        self.read();
        let request = match line(&self.asked) {
            Some(length) => {
                let rest = self.asked.split_off(length);
                (self.pending, self.since) = (true, now);
                Some(std::mem::replace(&mut self.asked, rest))
            }
            None => {
                // It asks nothing more, and everything that it asked has been answered.
                self.gone |= self.silent && self.owed.is_empty();
                None
            }
        };
        self.ready = line(&self.asked).is_some();
        request
    }

    /// Reads until a whole request is there, and no further: the rest waits where it is.
    fn read(&mut self) {
        let mut buffer = [0; 4096];
        while !self.silent && !self.gone && line(&self.asked).is_none() {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.silent = true,
                Ok(_) if self.asked.len() > LONGEST => self.gone = true,
                Ok(n) => {
                    self.asked.extend_from_slice(&buffer[..n]);
                    continue;
                }
                Err(error) => self.gone = !passes(&error),
            }
            return;
        }
    }

    fn write(&mut self, now: Instant) {
        while !self.owed.is_empty() && !self.gone {
            let (front, _) = self.owed.as_slices();
            match self.stream.write(front) {
                Ok(n) => {
                    self.owed.drain(..n);
                    self.since = now;
                }
                Err(error) if passes(&error) => return,
                Err(_) => self.gone = true,
            }
        }
    }
}

/// How long the first line is, with its end.
fn line(asked: &[u8]) -> Option<usize> {
    Some(asked.iter().position(|&byte| byte == b'\n')? + 1)
}

/// It will be better another time.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
