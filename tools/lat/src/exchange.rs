//! What the two sides tell each other beside the queue pairs: a JSON document a line over TCP.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use snin_fabric::Lid;
use snin_verbs::{Gid, PeerAddress, RemoteMemory};

use super::LatError;
use super::plan::Plan;

/// Longer lines are not read.
const LONGEST: u64 = 1 << 20;

/// What the client says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Measure this, and here are my ends.
    Measure(Box<Plan>, Ends),
    /// It is measured.
    Done,
}

/// What the server says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// These are mine, connected to yours, with receives posted.
    Ready(Ends),
    /// It came to its end here too: so many messages came in.
    Done(u64),
    /// It cannot be.
    Refused(String),
}

/// One side's queue pairs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ends {
    /// The port's address.
    pub address: Address,
    /// Bytes of a packet.
    pub mtu: u32,
    /// Of each flow; the congestor's is the last.
    pub flows: Vec<End>,
}

/// A port's base address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Address {
    /// InfiniBand.
    Lid(u16),
    /// RoCE.
    Gid([u8; 16]),
}

impl From<PeerAddress> for Address {
    fn from(address: PeerAddress) -> Self {
        match address {
            PeerAddress::Lid(lid) => Self::Lid(lid.0),
            PeerAddress::Gid(gid) => Self::Gid(gid.0),
        }
    }
}

impl From<Address> for PeerAddress {
    fn from(address: Address) -> Self {
        match address {
            Address::Lid(lid) => Self::Lid(Lid(lid)),
            Address::Gid(gid) => Self::Gid(Gid(gid)),
        }
    }
}

/// One queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct End {
    /// Its number.
    pub number: u32,
    /// Its first packet's.
    pub first_packet: u32,
    /// Memory that the other side may write and read.
    pub memory: Memory,
}

/// See [`RemoteMemory`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Memory {
    address: u64,
    key: u32,
    length: u64,
}

impl From<RemoteMemory> for Memory {
    fn from(RemoteMemory { address, key, length }: RemoteMemory) -> Self {
        Self { address, key, length }
    }
}

impl From<Memory> for RemoteMemory {
    fn from(Memory { address, key, length }: Memory) -> Self {
        Self { address, key, length }
    }
}

/// The connection to the other side.
#[derive(Debug)]
pub struct Talk {
    stream: BufReader<TcpStream>,
    peer: String,
}

impl Talk {
    /// Over a connected stream; `peer` is what the other side is called in messages.
    pub fn new(stream: TcpStream, peer: String) -> Self {
        // Without these it is only slower to notice.
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
        let _ = stream.set_write_timeout(Some(Duration::from_secs(30)));
        Self { stream: BufReader::new(stream), peer }
    }

    /// Says one thing.
    ///
    /// # Errors
    /// When the other side is gone.
    pub fn send(&mut self, what: &impl Serialize) -> Result<(), LatError> {
        let line =
            serde_json::to_string(what).map_err(|error| LatError::Plan(error.to_string()))?;
        let said = self.stream.get_mut().write_all(format!("{line}\n").as_bytes());
        said.map_err(|error| self.gone(error))
    }

    /// Hears one thing, or that the other side has no more to say.
    ///
    /// # Errors
    /// When the other side is gone or says something else.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LatError> {
        let mut line = String::new();
        let read = self.stream.by_ref().take(LONGEST).read_line(&mut line);
        let read = read.map_err(|error| self.gone(error))?;
        if read == 0 {
            return Ok(None);
        }
        let confused = |error: serde_json::Error| LatError::Confused {
            peer: self.peer.clone(),
            what: error.to_string(),
        };
        serde_json::from_str(&line).map(Some).map_err(confused)
    }

    /// Whether the other side is still there: asked while nothing comes.
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&mut self) -> Result<(), LatError> {
        self.check_for_word().map(|_| ())
    }

    /// Whether the other side has said something.
    ///
    /// # Errors
    /// When it is not there any more.
    pub fn check_for_word(&mut self) -> Result<bool, LatError> {
        let stream = self.stream.get_ref();
        let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        stream.set_nonblocking(false).map_err(|error| self.gone(error))?;
        match peeked {
            Ok(0) => Err(self.gone(ErrorKind::ConnectionAborted.into())),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(self.gone(error)),
        }
    }

    /// The other side ended where it should not have.
    pub fn ended(&self) -> LatError {
        self.gone(ErrorKind::UnexpectedEof.into())
    }

    /// What the other side could not do.
    pub fn refused(&self, what: String) -> LatError {
        LatError::Refused { peer: self.peer.clone(), what }
    }

    fn gone(&self, error: std::io::Error) -> LatError {
        LatError::Gone { peer: self.peer.clone(), error }
    }
}
