//! A controller as agents see it: it grants all that agents ask for, along the tree that the test says. It speaks
//! the sessions' protocol by itself, so that it can talk nonsense.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use snin_daemon::watch::Watch;
use snin_fabric::{Dlid, Lid, TreeId};
use snin_protocol::codec::{Frame, Message, SESSION_VERSION, VERSION, encode};
use snin_protocol::greeting::{Service, SessionMessage, Welcome};
use snin_protocol::identity::{Identity, Role};
use snin_protocol::message::{
    AgentMessage, Change, ClockAnswer, ControllerMessage, FromAgent, Grant, Lease, Terms, ToAgent,
};
use snin_protocol::{ConnectionNumber, Session, Term, Time};

/// The base address of every host here.
pub(crate) const BASE: u16 = 32;
/// Leases are renewed as often.
const RENEW: Duration = Duration::from_millis(100);
/// Grants last so long.
const LAST: Time = Time::secs(5);

#[derive(Default)]
struct Shared {
    tree: AtomicU16,
    term: AtomicU64,
    /// Rises with each change of tree.
    version: AtomicU64,
    confirmed: AtomicU64,
    stop: AtomicBool,
    /// Bytes that are no frame, to be sent once.
    nonsense: AtomicBool,
}

pub(crate) struct Controller {
    shared: Arc<Shared>,
    pub(crate) address: SocketAddr,
    /// Wakes the thread.
    waker: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Controller {
    pub(crate) fn start(term: u64) -> Self {
        Self::start_at(term, ([127, 0, 0, 1], 0).into())
    }

    pub(crate) fn start_at(term: u64, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        shared.term.store(term, Ordering::Relaxed);
        let (waker, wakes) = UnixStream::pair().unwrap();
        let inside = Arc::clone(&shared);
        let thread = thread::spawn(move || serve(&inside, &listener, &wakes));
        Self { shared, address, waker, thread: Some(thread) }
    }

    fn wake(&self) {
        (&self.waker).write_all(&[0]).unwrap();
    }

    /// Moves every connection to another tree.
    pub(crate) fn use_tree(&self, tree: u16) {
        self.shared.tree.store(tree, Ordering::Relaxed);
        self.shared.version.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// Says the next leases in this term.
    pub(crate) fn speak_in(&self, term: u64) {
        self.shared.term.store(term, Ordering::Relaxed);
    }

    pub(crate) fn talk_nonsense(&self) {
        self.shared.nonsense.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// How many leases were confirmed.
    pub(crate) fn confirmed(&self) -> u64 {
        self.shared.confirmed.load(Ordering::Relaxed)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // It may have seen that already, and ended.
        let _ = (&self.waker).write_all(&[0]);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// One thread for all agents, which sleeps while nothing happens.
fn serve(shared: &Arc<Shared>, listener: &TcpListener, mut wakes: &UnixStream) {
    let began = Instant::now();
    let mut lines: Vec<Line> = Vec::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let mut watch = Watch::new();
        let (woken, called) = (watch.readable(wakes.as_fd()), watch.readable(listener.as_fd()));
        let places: Vec<usize> =
            lines.iter().map(|line| watch.readable(line.socket.as_fd())).collect();
        let due = lines.iter().map(|line| RENEW.saturating_sub(line.renewed.elapsed())).min();
        watch.wait(due).unwrap();
        let (woken, called) = (watch.is_ready(woken), watch.is_ready(called));
        let mut ready = places.into_iter().map(|place| watch.is_ready(place)).collect::<Vec<_>>();
        if woken {
            assert_ne!(wakes.read(&mut [0; 64]).unwrap(), 0);
        }
        if called {
            let (socket, _) = listener.accept().unwrap();
            lines.push(Line::new(socket, Arc::clone(shared), began));
            ready.push(false);
        }
        let mut ready = ready.into_iter();
        lines.retain_mut(|line| line.work(ready.next().unwrap()));
    }
}

/// The conversation with one agent.
struct Line {
    socket: TcpStream,
    shared: Arc<Shared>,
    began: Instant,
    session: Session,
    wanting: BTreeSet<ConnectionNumber>,
    heard: u64,
    sequence: u64,
    version: u64,
    renewed: Instant,
    came: Vec<u8>,
    /// The agent has greeted.
    is_open: bool,
}

impl Line {
    fn new(socket: TcpStream, shared: Arc<Shared>, began: Instant) -> Self {
        socket.set_nodelay(true).unwrap();
        Self {
            socket,
            shared,
            began,
            session: Session(0),
            wanting: BTreeSet::new(),
            heard: 0,
            sequence: 0,
            version: 0,
            renewed: Instant::now(),
            came: Vec::new(),
            is_open: false,
        }
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    /// Hears what came, if anything did, and says what is due; whether the agent is still there.
    fn work(&mut self, ready: bool) -> bool {
        let heard = self.heard;
        if ready {
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer) {
                Ok(0) | Err(_) => return false,
                Ok(count) => self.came.extend_from_slice(&buffer[..count]),
            }
            self.receive_all();
        }
        if !self.is_open {
            self.renewed = Instant::now();
            return true;
        }
        if self.shared.nonsense.swap(false, Ordering::Relaxed) {
            let _ = self.socket.write_all(&[0xff; 64]);
        }
        let version = self.shared.version.load(Ordering::Acquire);
        if heard != self.heard || version != self.version || self.renewed.elapsed() >= RENEW {
            (self.version, self.renewed) = (version, Instant::now());
            self.lease();
        }
        true
    }

    fn receive_all(&mut self) {
        let came = std::mem::take(&mut self.came);
        let mut rest = &came[..];
        while let Some(frame) = Frame::first(rest).expect("frames") {
            rest = &rest[frame.length..];
            if frame.version == SESSION_VERSION {
                self.greet(&frame.message().expect("a message of the session"));
            } else {
                self.receive(frame.message().expect("an agent's message"));
            }
        }
        self.came = rest.to_vec();
    }

    fn greet(&mut self, message: &SessionMessage) {
        match message {
            SessionMessage::Greet(greet) => {
                assert_eq!(greet.service, Service::Grants);
                assert_eq!(greet.identity.role(), Role::Agent);
                let identity = Identity::new(Role::Controller, "test").unwrap();
                self.write(&SessionMessage::Welcome(Welcome { identity, version: VERSION }));
                self.is_open = true;
            }
            SessionMessage::Ping => self.write(&SessionMessage::Pong),
            other => assert_eq!(*other, SessionMessage::Pong),
        }
    }

    fn write<M: Message>(&mut self, message: &M) {
        // An agent that is gone reads nothing.
        let _ = self.socket.write_all(&encode(message).unwrap());
    }

    fn receive(&mut self, message: FromAgent) {
        let greets = matches!(message.body, AgentMessage::Hello(_));
        if !greets && message.session != self.session {
            // The conversation was with a controller that is gone.
            self.send_in(message.session, ControllerMessage::Stranger);
            return;
        }
        match message.body {
            AgentMessage::Hello(_) => {
                (self.session, self.heard, self.sequence) = (message.session, 0, 0);
                self.wanting.clear();
                let terms = Terms {
                    window: Time::millis(100),
                    guard: Time::millis(100),
                    clock_error: Time::millis(500),
                };
                self.send(ControllerMessage::Welcome(terms));
            }
            AgentMessage::Ask(ask) if ask.number == self.heard + 1 => {
                self.heard = ask.number;
                for &change in ask.changes.iter() {
                    match change {
                        Change::Request(request) => self.wanting.insert(request.connection),
                        Change::Withdraw(connection) => self.wanting.remove(&connection),
                    };
                }
            }
            AgentMessage::Ask(_) | AgentMessage::LinkTested(_) => {}
            AgentMessage::Clock(question) => {
                self.send(ControllerMessage::Clock(ClockAnswer { sent: question.sent }));
            }
            AgentMessage::Confirm(_) => {
                self.shared.confirmed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn lease(&mut self) {
        let (tree, from) = (self.shared.tree.load(Ordering::Relaxed), self.now());
        let grant = |&connection| Grant {
            connection,
            tree: TreeId(tree),
            dlid: Dlid(Lid(BASE + tree)),
            from,
            until: from + LAST,
            rate: 0,
            pinned: false,
            sl: 0,
        };
        self.sequence += 1;
        let grants = self.wanting.iter().map(grant).collect();
        let lease = Lease {
            sequence: self.sequence,
            heard: self.heard,
            grants,
            answers: Vec::new(),
            collective: None,
        };
        self.send(ControllerMessage::Lease(lease));
    }

    fn send(&mut self, body: ControllerMessage) {
        self.send_in(self.session, body);
    }

    fn send_in(&mut self, session: Session, body: ControllerMessage) {
        let term = Term(self.shared.term.load(Ordering::Relaxed));
        let frame = ToAgent { session, term, at: self.now(), body };
        self.write(&frame);
    }
}
