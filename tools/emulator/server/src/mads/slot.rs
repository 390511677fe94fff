//! One client's socket.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use snin_daemon::watch::Watch;
use snin_fabric::PortIndex;
use snin_protocol::software_port::management::{FRAME, MadFrame};

/// Frames that are taken from a client at once, so that the other clients get the thread too.
const AT_ONCE: usize = 64;
/// Frames that wait for a client that does not read, of each of its two queue pairs.
const BACKLOG: usize = 4096;

/// A client.
pub(super) struct Slot {
    socket: UnixDatagram,
    /// Where it receives.
    peer: SocketAddr,
    /// Its own number for itself.
    pub(super) id: u32,
    pub(super) port: PortIndex,
    pub(super) manager: bool,
    /// It asked to be told of changes.
    pub(super) reports: bool,
    /// Requests that may be answered yet.
    pub(super) waits: usize,
    /// MADs that it sent, and those of them that write.
    pub(super) sent: u64,
    pub(super) sets: u64,
    /// By queue pair, as adapters have it: what comes for the second takes no room of the first's, and is later.
    owed: [VecDeque<[u8; FRAME]>; 2],
    gone: bool,
}

impl Slot {
    pub(super) const fn new(
        socket: UnixDatagram,
        peer: SocketAddr,
        id: u32,
        port: PortIndex,
        manager: bool,
    ) -> Self {
        let owed = [VecDeque::new(), VecDeque::new()];
        Self {
            socket,
            peer,
            id,
            port,
            manager,
            reports: false,
            waits: 0,
            sent: 0,
            sets: 0,
            owed,
            gone: false,
        }
    }

    pub(super) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.socket.as_fd());
        if self.owed.iter().any(|owed| !owed.is_empty()) {
            watch.writable(self.socket.as_fd());
        }
    }

    /// What it sent, some of it; how many datagrams were no frames.
    pub(super) fn receive(&mut self, frames: &mut Vec<MadFrame>) -> u64 {
        let mut malformed = 0;
        for _ in 0..AT_ONCE {
            // A datagram that is longer does not fit, and is none either.
            let mut bytes = [0; FRAME + 1];
            match self.socket.recv(&mut bytes) {
                Ok(size) => match MadFrame::parse(&bytes[..size]) {
                    Some(frame) => frames.push(frame),
                    None => malformed += 1,
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.gone |= error.kind() != ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        malformed
    }

    /// Sends it a frame, now or when it reads; how many were dropped.
    pub(super) fn send(&mut self, frame: &MadFrame) -> u64 {
        let owed = &mut self.owed[usize::from(frame.to_qp > 0)];
        if owed.len() >= BACKLOG {
            return 1;
        }
        owed.push_back(frame.bytes());
        self.flush();
        0
    }

    pub(super) fn flush(&mut self) {
        while let Some(owed) = self.owed.iter_mut().find(|owed| !owed.is_empty())
            && let Some(frame) = owed.front()
        {
            match self.socket.send(frame) {
                Ok(_) => drop(owed.pop_front()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.gone |= error.kind() != ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }

    /// Whether the client's process has ended: its socket is closed.
    pub(super) fn is_gone(&self) -> bool {
        let answers = UnixDatagram::unbound().and_then(|probe| probe.connect_addr(&self.peer));
        self.gone || answers.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }
}
