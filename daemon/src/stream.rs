//! Frames over a stream that nobody waits for: bounded in what waits to be read and to be written.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use snin_protocol::codec::{self, CodecError, MAX_FRAME, Message};

use crate::watch::{Place, Ready, Watch};

/// The most bytes that wait for one who does not read.
const BACKLOG: usize = 4 * MAX_FRAME;
/// The most bytes that are read at a time, so that nobody keeps the thread to himself.
const AT_ONCE: usize = 2 * MAX_FRAME;

/// Why a stream is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum StreamEnd {
    /// The other end is gone, or does not read.
    #[error("{0}")]
    Gone(#[from] io::Error),
    /// What came is no frame.
    #[error("{0}")]
    Malformed(#[from] CodecError),
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    came: Vec<u8>,
    owed: VecDeque<u8>,
    ended: bool,
    place: Place,
}

impl Stream {
    /// Calls `address`; whether anybody answers is seen by what comes.
    ///
    /// # Errors
    /// When the system has no more sockets, or knows no way there.
    pub fn call(address: SocketAddr) -> io::Result<Self> {
        Self::call_from(None, address)
    }

    /// Calls `address` from an address of this machine, by which the other end knows the caller.
    ///
    /// # Errors
    /// As [`call`](Self::call), and when `source` is no address of this machine.
    pub fn call_from(source: Option<IpAddr>, address: SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
        if let Some(source) = source {
            bind(&socket, &SocketAddr::new(source, 0))?;
        }
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Self::over(socket.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Over a stream that was accepted.
    ///
    /// # Errors
    /// When the other end is gone already.
    pub fn over(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            came: Vec::new(),
            owed: VecDeque::new(),
            ended: false,
            place: Place::default(),
        })
    }

    /// Until there is something to read, or room for what is to be written.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.place.readable(watch, self.socket.as_fd());
        if !self.owed.is_empty() {
            watch.writable(self.socket.as_fd());
        }
    }

    /// Says something, now or when the other end reads.
    pub fn send<M: Message>(&mut self, message: &M) {
        match codec::encode(message) {
            Ok(frame) if self.owed.len() + frame.len() <= BACKLOG => self.owed.extend(frame),
            _ => self.ended = true,
        }
    }

    /// Writes what can be, and reads if there is something.
    ///
    /// # Errors
    /// When the other end is gone; what it said before can still be heard.
    pub fn work(&mut self, ready: &Ready) -> Result<(), StreamEnd> {
        self.flush()?;
        let mut buffer = [0; 4096];
        let mut more = self.place.is_ready(ready);
        while more && self.came.len() < AT_ONCE {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(count) => {
                    self.came.extend_from_slice(&buffer[..count]);
                    more = count == buffer.len();
                }
                Err(error) if passes(&error) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes what can be.
    ///
    /// # Errors
    /// When the other end is gone, or does not read.
    pub fn flush(&mut self) -> Result<(), StreamEnd> {
        while !self.owed.is_empty() {
            let (front, _) = self.owed.as_slices();
            match self.socket.write(front) {
                Ok(count) => drop(self.owed.drain(..count)),
                Err(error) if passes(&error) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if self.ended { Err(io::Error::from(ErrorKind::TimedOut).into()) } else { Ok(()) }
    }

    /// The next message that came whole.
    ///
    /// # Errors
    /// When what came is none.
    pub fn receive<M: Message>(&mut self) -> Result<Option<M>, StreamEnd> {
        let Some((message, length)) = codec::decode(&self.came)? else { return Ok(None) };
        self.came.drain(..length);
        Ok(Some(message))
    }
}

/// It will be better another time, or a call is not answered yet.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::NotConnected)
}
