//! The lines to agents: a listening socket and a stream of frames for each agent that calls. Whoever drives the
//! [core](snin_controller_core::Core) gives it what is heard here, and says here what it puts out.
//!
//! Whose a line is its first frame says. An agent that calls again, having lost a line or found one lost, has one
//! line: the latest. One that goes on with a conversation before it has said who it is was talking to somebody
//! else: it is told that it is a stranger, and greets.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd as _;

use snin_daemon::stream::{Stream, StreamEnd};
use snin_daemon::watch::{Place, Ready, Watch};
use snin_fabric::Guid;
use snin_protocol::message::{AgentMessage, ControllerMessage, FromAgent, ToAgent};
use snin_protocol::{Term, Time};

use snin_controller_core::events::Event;

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Callers that were turned away, as there were as many lines as may be.
    pub turned_away: u64,
    /// Lines that ended because what came was no frame.
    pub malformed: u64,
    /// Lines that ended in another way.
    pub ended: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Lines {
    listener: TcpListener,
    place: Place,
    address: SocketAddr,
    lines: Vec<Line>,
    /// The most of them.
    most: usize,
    /// Where each agent's is among them.
    by_port: BTreeMap<Guid, usize>,
    tally: Tally,
}

#[derive(Debug)]
struct Line {
    stream: Stream,
    /// Whose it is, once that was said.
    port: Option<Guid>,
    end: Option<StreamEnd>,
}

impl Lines {
    /// Listens at an address; at most so many lines at a time.
    ///
    /// # Errors
    /// When the address is taken, or not the machine's.
    pub fn listen(address: SocketAddr, most: usize) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            place: Place::default(),
            address,
            lines: Vec::new(),
            most,
            by_port: BTreeMap::new(),
            tally: Tally::default(),
        })
    }

    /// Where agents call.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was counted.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// What is waited for.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.place.readable(watch, self.listener.as_fd());
        self.lines.iter().for_each(|line| line.stream.watch(watch));
    }

    /// Lets callers in, reads and writes what can be: what agents said, and who of them is gone. Strangers are
    /// answered at `now` in the controller's term.
    pub fn work(&mut self, ready: &Ready, term: Term, now: Time) -> Vec<Event> {
        self.accept(ready);
        let mut heard = Vec::new();
        for at in 0..self.lines.len() {
            // It may have been overtaken just now.
            if self.lines[at].end.is_some() {
                continue;
            }
            let worked = self.lines[at].stream.work(ready);
            loop {
                match self.lines[at].stream.receive::<FromAgent>() {
                    Ok(Some(message)) => heard.extend(self.receive(at, message, term, now)),
                    Ok(None) => break,
                    Err(malformed) => {
                        self.lines[at].end = Some(malformed);
                        break;
                    }
                }
            }
            if let Err(gone) = worked {
                self.lines[at].end.get_or_insert(gone);
            }
        }
        self.forget(&mut heard);
        heard
    }

    /// Says something to an agent, as far as it is there and reads.
    pub fn send(&mut self, to: Guid, message: &ToAgent) {
        if let Some(&at) = self.by_port.get(&to) {
            self.lines[at].stream.send(message);
        }
    }

    /// Writes what was said, as far as that goes without waiting; the rest goes out as agents read.
    pub fn flush(&mut self) {
        for line in &mut self.lines {
            if let Err(gone) = line.stream.flush() {
                line.end.get_or_insert(gone);
            }
        }
    }

    fn accept(&mut self, ready: &Ready) {
        while self.place.is_ready(ready)
            && let Ok((socket, _)) = self.listener.accept()
        {
            if self.lines.len() >= self.most {
                self.tally.turned_away += 1;
            } else if let Ok(stream) = Stream::over(socket) {
                self.lines.push(Line { stream, port: None, end: None });
            }
        }
    }

    fn receive(&mut self, at: usize, message: FromAgent, term: Term, now: Time) -> Option<Event> {
        if let (None, AgentMessage::Hello(hello)) = (self.lines[at].port, &message.body) {
            self.lines[at].port = Some(hello.port);
            if let Some(before) = self.by_port.insert(hello.port, at) {
                // Its end is no news of the agent.
                self.lines[before].port = None;
                self.lines[before].end = Some(io::Error::from(io::ErrorKind::AddrInUse).into());
            }
        }
        if let Some(from) = self.lines[at].port {
            return Some(Event::Received { from, message });
        }
        let body = ControllerMessage::Stranger;
        self.lines[at].stream.send(&ToAgent { session: message.session, term, at: now, body });
        None
    }

    /// Ends lines that are of no more use.
    fn forget(&mut self, heard: &mut Vec<Event>) {
        if self.lines.iter().all(|line| line.end.is_none()) {
            return;
        }
        let tally = &mut self.tally;
        self.lines.retain(|line| {
            match &line.end {
                None => return true,
                Some(StreamEnd::Malformed(_)) => tally.malformed += 1,
                Some(StreamEnd::Gone(_)) => tally.ended += 1,
            }
            heard.extend(line.port.map(Event::AgentLost));
            false
        });
        let known = |(at, line): (usize, &Line)| Some((line.port?, at));
        self.by_port = self.lines.iter().enumerate().filter_map(known).collect();
    }
}
