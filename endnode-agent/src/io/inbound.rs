//! The queue pairs that only receive: made for peers that call.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use snin_daemon::stream::{Stream, StreamEnd};
use snin_daemon::watch::{Place, Ready, Watch};
use snin_protocol::peer::{Accept, Decline, DeclineReason, Hello, PeerSays};
use tracing::warn;

use super::factory::QpFactory;
use super::rings::{ControlEvent, Rings};
use snin_verbs::{QueuePair, Rc, Receiving};

/// The most streams at a time; who comes then is turned away.
const MOST: usize = 4096;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct InboundSessions {
    rings: Arc<Rings>,
    listener: TcpListener,
    place: Place,
    sessions: Vec<InboundSession>,
    /// The most queue pairs for all of them.
    most: usize,
}

#[derive(Debug)]
struct InboundSession {
    stream: Stream,
    hello: Option<Hello>,
    /// By the caller's token.
    pairs: BTreeMap<u64, Pair>,
    gone: bool,
}

/// The queue pair that receives; `None`: the one for all datagrams. Its number is what the data thread knows
/// the peer by.
#[derive(Debug)]
struct Pair {
    number: u32,
    receives: Option<QueuePair<Rc, Receiving>>,
}

impl InboundSessions {
    pub(crate) fn new(rings: Arc<Rings>, listener: TcpListener, most: usize) -> Self {
        Self { rings, listener, place: Place::default(), sessions: Vec::new(), most }
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.place.readable(watch, self.listener.as_fd());
        self.sessions.iter().for_each(|session| session.stream.watch(watch));
    }

    /// Lets callers in, reads and writes what can be.
    pub(crate) fn work(&mut self, factory: &QpFactory, ready: &Ready) {
        while self.place.is_ready(ready)
            && let Ok((socket, _)) = self.listener.accept()
        {
            if self.sessions.len() >= MOST {
                Rings::count(&self.rings.counters.declined);
                continue;
            }
            if let Ok(stream) = Stream::over(socket) {
                self.sessions.push(InboundSession {
                    stream,
                    hello: None,
                    pairs: BTreeMap::new(),
                    gone: false,
                });
            }
        }
        for at in 0..self.sessions.len() {
            if let Err(why) = self.work_one(at, factory, ready) {
                let session = &mut self.sessions[at];
                session.gone = true;
                let over = matches!(&why, StreamEnd::Gone(error) if error.kind() == ErrorKind::UnexpectedEof);
                if !over {
                    let peer = session
                        .hello
                        .map_or_else(|| "a caller".to_owned(), |hello| hello.port.to_string());
                    warn!("{peer}: {why}");
                }
                if matches!(why, StreamEnd::Malformed(_)) {
                    Rings::count(&self.rings.counters.malformed);
                }
            }
        }
        let rings = &self.rings;
        self.sessions.retain(|session| {
            if session.gone {
                session.pairs.values().for_each(|pair| session.forget(pair, rings));
            }
            !session.gone
        });
        let pairs: usize = self.sessions.iter().map(|session| session.pairs.len()).sum();
        self.rings.counters.inbound.store(pairs as u64, Ordering::Relaxed);
    }

    fn work_one(&mut self, at: usize, factory: &QpFactory, ready: &Ready) -> Result<(), StreamEnd> {
        let worked = self.sessions[at].stream.work(ready);
        while let Some(message) = self.sessions[at].stream.hear::<PeerSays>()? {
            self.receive(at, &message, factory);
        }
        worked?;
        // What was answered goes out at once.
        self.sessions[at].stream.flush()
    }

    fn receive(&mut self, at: usize, message: &PeerSays, factory: &QpFactory) {
        let full =
            self.sessions.iter().map(|session| session.pairs.len()).sum::<usize>() >= self.most;
        let caller = &mut self.sessions[at];
        match (message, caller.hello) {
            (PeerSays::Hello(hello), None) => {
                caller.hello = Some(*hello);
                // A caller that was restarted: nothing of its earlier stream holds.
                let earlier = |other: &InboundSession| {
                    other.hello.is_some_and(|known| {
                        known.port == hello.port && known.session < hello.session
                    })
                };
                self.sessions
                    .iter_mut()
                    .filter(|other| earlier(other))
                    .for_each(|other| other.gone = true);
            }
            (PeerSays::Offer(offer), Some(Hello { port: peer, session })) => {
                let made = if full { Err(DeclineReason::Full) } else { factory.accept(offer) };
                let answer = match made {
                    Ok((receives, end)) => {
                        let number = if receives.is_some() { end.number } else { offer.end.number };
                        // The data thread hears of it before the peer can send.
                        self.rings.report(ControlEvent::Inbound { number, peer, session });
                        caller.pairs.insert(offer.token, Pair { number, receives });
                        PeerSays::Accept(Accept { token: offer.token, end })
                    }
                    Err(reason) => {
                        Rings::count(&self.rings.counters.declined);
                        PeerSays::Decline(Decline { token: offer.token, reason })
                    }
                };
                caller.stream.say(&answer);
            }
            (PeerSays::Withdraw(token), _) => {
                if let Some(pair) = caller.pairs.remove(token) {
                    caller.forget(&pair, &self.rings);
                }
            }
            (PeerSays::Ping(number), _) => caller.stream.say(&PeerSays::Pong(*number)),
            // Only a caller says these, and says Hello first.
            _ => caller.gone = true,
        }
    }

    /// A queue pair that receives is in error: its caller has to make another.
    pub(crate) fn failed(&mut self, number: u32) {
        for session in &mut self.sessions {
            let found = session
                .pairs
                .iter()
                .find(|(_, pair)| pair.number == number && pair.receives.is_some());
            if let Some(token) = found.map(|(&token, _)| token)
                && let Some(pair) = session.pairs.remove(&token)
            {
                session.forget(&pair, &self.rings);
                session.stream.say(&PeerSays::Lost(token));
            }
        }
    }
}

impl InboundSession {
    /// The data thread need not know a queue pair any more - unless another of the peer's has its number.
    fn forget(&self, pair: &Pair, rings: &Rings) {
        let others = self.pairs.values().any(|other| other.number == pair.number);
        if let Some(Hello { port: peer, session }) = self.hello.filter(|_| self.gone || !others) {
            rings.report(ControlEvent::InboundGone { number: pair.number, peer, session });
        }
    }
}
