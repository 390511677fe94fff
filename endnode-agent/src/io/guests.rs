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

use super::maker::Maker;
use super::rings::{Rings, Word};
use snin_verbs::{QueuePair, Rc, Receiving};

/// The most streams at a time; who comes then is turned away.
const MOST: usize = 4096;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Guests {
    rings: Arc<Rings>,
    listener: TcpListener,
    place: Place,
    guests: Vec<Guest>,
    /// The most queue pairs for all of them.
    most: usize,
}

#[derive(Debug)]
struct Guest {
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

impl Guests {
    pub(crate) fn new(rings: Arc<Rings>, listener: TcpListener, most: usize) -> Self {
        Self { rings, listener, place: Place::default(), guests: Vec::new(), most }
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.place.readable(watch, self.listener.as_fd());
        self.guests.iter().for_each(|guest| guest.stream.watch(watch));
    }

    /// Lets callers in, reads and writes what can be.
    pub(crate) fn work(&mut self, maker: &Maker, ready: &Ready) {
        while self.place.is_ready(ready)
            && let Ok((socket, _)) = self.listener.accept()
        {
            if self.guests.len() >= MOST {
                Rings::count(&self.rings.tally.declined);
                continue;
            }
            if let Ok(stream) = Stream::over(socket) {
                self.guests.push(Guest {
                    stream,
                    hello: None,
                    pairs: BTreeMap::new(),
                    gone: false,
                });
            }
        }
        for at in 0..self.guests.len() {
            if let Err(why) = self.work_one(at, maker, ready) {
                let guest = &mut self.guests[at];
                guest.gone = true;
                let over = matches!(&why, StreamEnd::Gone(error) if error.kind() == ErrorKind::UnexpectedEof);
                if !over {
                    let peer = guest
                        .hello
                        .map_or_else(|| "a caller".to_owned(), |hello| hello.port.to_string());
                    warn!("{peer}: {why}");
                }
                if matches!(why, StreamEnd::Malformed(_)) {
                    Rings::count(&self.rings.tally.malformed);
                }
            }
        }
        let rings = &self.rings;
        self.guests.retain(|guest| {
            if guest.gone {
                guest.pairs.values().for_each(|pair| guest.forget(pair, rings));
            }
            !guest.gone
        });
        let pairs: usize = self.guests.iter().map(|guest| guest.pairs.len()).sum();
        self.rings.tally.inbound.store(pairs as u64, Ordering::Relaxed);
    }

    fn work_one(&mut self, at: usize, maker: &Maker, ready: &Ready) -> Result<(), StreamEnd> {
        let worked = self.guests[at].stream.work(ready);
        while let Some(message) = self.guests[at].stream.hear::<PeerSays>()? {
            self.hear(at, &message, maker);
        }
        worked?;
        // What was answered goes out at once.
        self.guests[at].stream.flush()
    }

    fn hear(&mut self, at: usize, message: &PeerSays, maker: &Maker) {
        let full = self.guests.iter().map(|guest| guest.pairs.len()).sum::<usize>() >= self.most;
        let guest = &mut self.guests[at];
        match (message, guest.hello) {
            (PeerSays::Hello(hello), None) => {
                guest.hello = Some(*hello);
                // A caller that was restarted: nothing of its earlier stream holds.
                let earlier = |other: &Guest| {
                    other.hello.is_some_and(|known| {
                        known.port == hello.port && known.session < hello.session
                    })
                };
                self.guests
                    .iter_mut()
                    .filter(|other| earlier(other))
                    .for_each(|other| other.gone = true);
            }
            (PeerSays::Offer(offer), Some(Hello { port: peer, session })) => {
                let made = if full { Err(DeclineReason::Full) } else { maker.accept(offer) };
                let answer = match made {
                    Ok((receives, end)) => {
                        let number = if receives.is_some() { end.number } else { offer.end.number };
                        // The data thread hears of it before the peer can send.
                        self.rings.tell(Word::Inbound { number, peer, session });
                        guest.pairs.insert(offer.token, Pair { number, receives });
                        PeerSays::Accept(Accept { token: offer.token, end })
                    }
                    Err(reason) => {
                        Rings::count(&self.rings.tally.declined);
                        PeerSays::Decline(Decline { token: offer.token, reason })
                    }
                };
                guest.stream.say(&answer);
            }
            (PeerSays::Withdraw(token), _) => {
                if let Some(pair) = guest.pairs.remove(token) {
                    guest.forget(&pair, &self.rings);
                }
            }
            (PeerSays::Ping(number), _) => guest.stream.say(&PeerSays::Pong(*number)),
            // Only a caller says these, and says Hello first.
            _ => guest.gone = true,
        }
    }

    /// A queue pair that receives is in error: its caller has to make another.
    pub(crate) fn failed(&mut self, number: u32) {
        for guest in &mut self.guests {
            let found = guest
                .pairs
                .iter()
                .find(|(_, pair)| pair.number == number && pair.receives.is_some());
            if let Some(token) = found.map(|(&token, _)| token)
                && let Some(pair) = guest.pairs.remove(&token)
            {
                guest.forget(&pair, &self.rings);
                guest.stream.say(&PeerSays::Lost(token));
            }
        }
    }
}

impl Guest {
    /// The data thread need not know a queue pair any more - unless another of the peer's has its number.
    fn forget(&self, pair: &Pair, rings: &Rings) {
        let others = self.pairs.values().any(|other| other.number == pair.number);
        if let Some(Hello { port: peer, session }) = self.hello.filter(|_| self.gone || !others) {
            rings.tell(Word::InboundGone { number: pair.number, peer, session });
        }
    }
}
