//! The connection to a fabric in software: frames in, frames out, for a thread that polls.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};

use snin_daemon::watch::Watch;
use snin_protocol::codec::{self, CodecError, MAX_FRAME};
use snin_protocol::software_port::messages::{FromFabric, ToFabric};
use snin_protocol::software_port::socket;

/// The most bytes that wait for a fabric that does not read.
const BACKLOG: usize = 64 << 20;
/// The most bytes that are read at a time.
const AT_ONCE: usize = 16 * MAX_FRAME;

/// Why there is no fabric, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No server listens at the name.
    #[error(
        "no fabric in software is called {name}: {error}: `snin emulate ... --socket {name}` serves one"
    )]
    Absent {
        /// Its name.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// It has ended, or does not read.
    #[error("the fabric {0} has ended")]
    Ended(String),
    /// What came is no frame.
    #[error("the fabric {name}: {error}")]
    Malformed {
        /// Its name.
        name: String,
        /// The error.
        error: CodecError,
    },
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Link {
    name: String,
    stream: UnixStream,
    came: Vec<u8>,
    owed: VecDeque<u8>,
    ended: bool,
}

impl Link {
    /// Connects to the fabric of that name.
    ///
    /// # Errors
    /// When no server listens at the name.
    pub fn connect(name: &str) -> Result<Self, LinkError> {
        let connected = SocketAddr::from_abstract_name(socket(name, "messages"))
            .and_then(|address| UnixStream::connect_addr(&address))
            .and_then(|stream| stream.set_nonblocking(true).map(|()| stream));
        let stream =
            connected.map_err(|error| LinkError::Absent { name: name.to_owned(), error })?;
        let (came, owed) = (Vec::new(), VecDeque::new());
        Ok(Self { name: name.to_owned(), stream, came, owed, ended: false })
    }

    /// Until there is something to read, or room for what is to be written.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.stream.as_fd());
        if !self.owed.is_empty() {
            watch.writable(self.stream.as_fd());
        }
    }

    /// Says something, with the next [`flush`](Self::flush).
    pub fn send(&mut self, said: &ToFabric) {
        match codec::encode(said) {
            Ok(frame) if self.owed.len() + frame.len() <= BACKLOG => self.owed.extend(frame),
            _ => self.ended = true,
        }
    }

    /// What has come whole.
    ///
    /// # Errors
    /// When the fabric has ended.
    pub fn receive(&mut self) -> Result<Vec<FromFabric>, LinkError> {
        let mut buffer = [0; 16 << 10];
        let mut read = 0;
        while read < AT_ONCE {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(LinkError::Ended(self.name.clone())),
                Ok(count) => {
                    read += count;
                    self.came.extend_from_slice(&buffer[..count]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(LinkError::Ended(self.name.clone())),
            }
        }
        let (mut heard, mut taken) = (Vec::new(), 0);
        let malformed = |error| LinkError::Malformed { name: self.name.clone(), error };
        while let Some((said, length)) = codec::decode(&self.came[taken..]).map_err(malformed)? {
            taken += length;
            heard.push(said);
        }
        self.came.drain(..taken);
        Ok(heard)
    }

    /// Writes what can be.
    ///
    /// # Errors
    /// When the fabric has ended, or does not read.
    pub fn flush(&mut self) -> Result<(), LinkError> {
        while !self.owed.is_empty() {
            let (front, _) = self.owed.as_slices();
            match self.stream.write(front) {
                Ok(count) => drop(self.owed.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.ended = true,
            }
            if self.ended {
                break;
            }
        }
        if self.ended { Err(LinkError::Ended(self.name.clone())) } else { Ok(()) }
    }
}
