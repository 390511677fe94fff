//! One connection of agents: frames in, frames out, bounded both ways.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use snin_daemon::watch::Watch;
use snin_protocol::codec::{self, MAX_FRAME};
use snin_protocol::software_port::messages::{FromFabric, ToFabric};

/// The most bytes that wait for one who does not read; who is slower is cut off.
const BACKLOG: usize = 64 << 20;
/// The most bytes that are read from a connection at once, so that the other connections get the thread too.
const AT_ONCE: usize = MAX_FRAME;

/// See the module's documentation.
pub(super) struct Connection {
    stream: UnixStream,
    came: Vec<u8>,
    owed: VecDeque<u8>,
    gone: bool,
}

impl Connection {
    pub(super) const fn new(stream: UnixStream) -> Self {
        Self { stream, came: Vec::new(), owed: VecDeque::new(), gone: false }
    }

    pub(super) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.stream.as_fd());
        if !self.owed.is_empty() {
            watch.writable(self.stream.as_fd());
        }
    }

    /// What came whole; false where it has ended, or what comes is no frame.
    pub(super) fn receive(&mut self, said: &mut Vec<ToFabric>) -> bool {
        let mut buffer = [0; 16 << 10];
        let mut read = 0;
        while read < AT_ONCE && !self.gone {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.gone = true,
                Ok(count) => {
                    read += count;
                    self.came.extend_from_slice(&buffer[..count]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.gone = true,
            }
        }
        let mut taken = 0;
        loop {
            match codec::decode(&self.came[taken..]) {
                Ok(Some((message, length))) => {
                    taken += length;
                    said.push(message);
                }
                Ok(None) => break,
                Err(_) => {
                    self.gone = true;
                    break;
                }
            }
        }
        self.came.drain(..taken);
        !self.gone
    }

    pub(super) fn send(&mut self, message: &FromFabric) {
        match codec::encode(message) {
            Ok(frame) if self.owed.len() + frame.len() <= BACKLOG => self.owed.extend(frame),
            _ => self.gone = true,
        }
    }

    /// Writes what can be; false where the client does not read.
    pub(super) fn flush(&mut self) -> bool {
        while !self.owed.is_empty() && !self.gone {
            let (front, _) = self.owed.as_slices();
            match self.stream.write(front) {
                Ok(count) => drop(self.owed.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.gone = true,
            }
        }
        !self.gone
    }
}
