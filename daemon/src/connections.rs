//! Connections of one listening socket, for a thread that polls: bounded in number, in what they ask at once
//! and in what waits for them.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use crate::watch::Watch;

/// At most so many at once; who comes then is turned away.
const MOST: usize = 64;
/// The longest request.
const LONGEST: usize = 64 * 1024;
/// The most bytes that wait for one who does not read; who is slower than that is cut off.
const BACKLOG: usize = 16 * 1024 * 1024;

/// One who asks, as long as the connection lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Client(pub(crate) u64);

pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(stream))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Stream {
    /// The user at the other end, as the system knows it.
    fn user(&self) -> Option<u32> {
        match self {
            Self::Unix(stream) => {
                let credentials = rustix::net::sockopt::socket_peercred(stream).ok()?;
                Some(credentials.uid.as_raw())
            }
            Self::Tcp(_) => None,
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }
}

struct Connection {
    stream: Stream,
    asked: Vec<u8>,
    owed: VecDeque<u8>,
    /// Nothing more is read; it ends when everything is written.
    ending: bool,
    /// The other end asks nothing more; it may still read.
    silent: bool,
    gone: bool,
}

/// How a protocol finds the end of a request in what came so far.
pub(crate) enum Found {
    /// A request of so many bytes.
    Request(usize),
    /// Not yet.
    More,
    /// Never.
    Nonsense,
}

pub(crate) struct Connections {
    listener: Listener,
    open: BTreeMap<u64, Connection>,
    next: u64,
    pub(crate) turned_away: u64,
}

impl Connections {
    pub(crate) const fn new(listener: Listener) -> Self {
        Self { listener, open: BTreeMap::new(), next: 0, turned_away: 0 }
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.listener.as_fd());
        for connection in self.open.values() {
            if !connection.ending && (!connection.silent || connection.owed.is_empty()) {
                watch.readable(connection.stream.as_fd());
            }
            if !connection.owed.is_empty() {
                watch.writable(connection.stream.as_fd());
            }
        }
    }

    /// Accepts, reads and writes as far as that goes without waiting; the requests that came in.
    pub(crate) fn work(&mut self, end: impl Fn(&[u8]) -> Found) -> Vec<(Client, Vec<u8>)> {
        self.accept();
        let mut requests = Vec::new();
        for (&id, connection) in &mut self.open {
            // By now everything that it asked has been answered.
            connection.gone |= connection.silent && connection.owed.is_empty();
            connection.read();
            loop {
                match end(&connection.asked) {
                    Found::Request(length) => {
                        let rest = connection.asked.split_off(length);
                        let request = std::mem::replace(&mut connection.asked, rest);
                        requests.push((Client(id), request));
                    }
                    Found::More => break,
                    Found::Nonsense => {
                        connection.gone = true;
                        break;
                    }
                }
            }
            connection.write();
        }
        self.forget();
        requests
    }

    fn accept(&mut self) {
        // Whatever is wrong with one who wants in, the others are served.
        while let Ok(stream) = self.listener.accept() {
            if self.open.len() >= MOST {
                self.turned_away += 1;
                continue;
            }
            let connection = Connection {
                stream,
                asked: Vec::new(),
                owed: VecDeque::new(),
                ending: false,
                silent: false,
                gone: false,
            };
            self.open.insert(self.next, connection);
            self.next += 1;
        }
    }

    /// Writes to one who asked, now or as soon as he reads; to one who is gone, nothing.
    pub(crate) fn answer(&mut self, client: Client, bytes: &[u8]) {
        if let Some(connection) = self.open.get_mut(&client.0) {
            if connection.owed.len() + bytes.len() > BACKLOG {
                connection.gone = true;
            } else {
                connection.owed.extend(bytes);
                connection.write();
            }
        }
        self.forget();
    }

    /// Ends the connection when all is written.
    pub(crate) fn end(&mut self, client: Client) {
        if let Some(connection) = self.open.get_mut(&client.0) {
            connection.ending = true;
        }
        self.forget();
    }

    /// The user who asks, where the socket is one of this machine.
    pub(crate) fn user(&self, client: Client) -> Option<u32> {
        self.open.get(&client.0)?.stream.user()
    }

    pub(crate) fn is_open(&self, client: Client) -> bool {
        self.open.contains_key(&client.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    fn forget(&mut self) {
        self.open.retain(|_, open| !(open.gone || open.ending && open.owed.is_empty()));
    }
}

impl Connection {
    fn read(&mut self) {
        let mut buffer = [0; 4096];
        while !self.ending && !self.silent && !self.gone {
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

    fn write(&mut self) {
        while !self.owed.is_empty() && !self.gone {
            let (front, _) = self.owed.as_slices();
            match self.stream.write(front) {
                Ok(n) => drop(self.owed.drain(..n)),
                Err(error) if passes(&error) => return,
                Err(_) => self.gone = true,
            }
        }
    }
}

/// It will be better another time.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
