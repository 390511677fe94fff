//! A session at work: frames in, frames out, and what ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use snin_protocol::codec::{Message, SESSION_VERSION};
use snin_protocol::greeting::SessionMessage;
use tokio::select;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::Peer;
use super::credentials::{Credentials, Tls};
use super::end::SessionEnd;
use super::limits::{Limits, Pace};
use super::pipe::Pipe;
use super::tally::{Count, Tally};
use crate::meter::Cause;

/// A certificate that was good is looked at again after so long: it may have run out.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// What a session reports to its owner, with the session's number.
#[derive(Debug)]
pub(super) enum SessionEvent<M> {
    /// It began. Only callers say so: a listener begins sessions itself.
    Opened(Peer, Outbox),
    Said(M),
    Closed(SessionEnd),
}

pub(super) type NumberedEvent<M> = (u64, SessionEvent<M>);

/// Where frames for a session are put. Dropped, it ends the session once they are written.
#[derive(Debug)]
pub(super) struct Outbox {
    frames: mpsc::UnboundedSender<Vec<u8>>,
    owed: Arc<AtomicUsize>,
    most: usize,
}

/// The session's end of it.
#[derive(Debug)]
pub(super) struct OutboundReceiver {
    frames: mpsc::UnboundedReceiver<Vec<u8>>,
    owed: Arc<AtomicUsize>,
}

impl Outbox {
    pub(super) fn new(most: usize) -> (Self, OutboundReceiver) {
        let (to, from) = mpsc::unbounded_channel();
        let owed = Arc::new(AtomicUsize::new(0));
        (Self { frames: to, owed: owed.clone(), most }, OutboundReceiver { frames: from, owed })
    }

    /// Puts a frame there.
    pub(super) fn put(&self, frame: Vec<u8>) -> Result<(), NotPut> {
        let length = frame.len();
        if self.owed.fetch_add(length, Ordering::Relaxed) + length > self.most {
            self.owed.fetch_sub(length, Ordering::Relaxed);
            return Err(NotPut::Full);
        }
        self.frames.send(frame).map_err(|_| NotPut::Over)
    }
}

/// Why a frame was not put there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotPut {
    /// Too much waits already: the peer does not read.
    Full,
    /// The session is over. Why, it says itself.
    Over,
}

/// Everything that a session needs.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) number: u64,
    pub(super) peer: Peer,
    pub(super) pipe: Pipe,
    pub(super) letters: OutboundReceiver,
    pub(super) limits: Arc<Limits>,
    pub(super) tally: Arc<Tally>,
    pub(super) credentials: Option<Arc<Credentials>>,
}

impl Work {
    /// Until the session ends; why, and that was counted.
    pub(super) async fn run<M: Message>(
        mut self,
        events: mpsc::Sender<NumberedEvent<M>>,
    ) -> SessionEnd {
        let Err(end) = self.carry(&events).await;
        let line = format!("the session with {}: {end}", self.peer);
        match end.count() {
            Some(what @ Count::Gone) => self.tally.add(what),
            Some(what) => self.tally.notify(what, line),
            None => {}
        }
        end
    }

    async fn carry<M: Message>(
        &mut self,
        events: &mpsc::Sender<NumberedEvent<M>>,
    ) -> Result<std::convert::Infallible, SessionEnd> {
        let mut pace = Pace::new(&self.limits, std::time::Instant::now());
        let mut heard = Instant::now();
        let mut ticks = ticks(self.limits.idle / 3);
        let mut looks = ticks_after(LOOK_AGAIN, self.number);
        let mut changes = self.credentials.as_ref().map(|credentials| credentials.changes());
        loop {
            while let Some(frame) = self.pipe.frame()? {
                heard = Instant::now();
                let length = frame.length;
                if frame.version == SESSION_VERSION {
                    let said: SessionMessage = frame.message()?;
                    self.pipe.take(length);
                    match said {
                        SessionMessage::Ping => self.pipe.send(&SessionMessage::Pong)?,
                        SessionMessage::Pong => {}
                        _ => return Err(SessionEnd::OutOfTurn),
                    }
                } else {
                    let begun = self.pipe.begin();
                    let message: M = frame.message()?;
                    self.pipe.take(length);
                    self.pipe.charge(Cause::Frames, begun);
                    self.tally.add(Count::FramesIn);
                    // The session ends with its owner.
                    let sent = events.send((self.number, SessionEvent::Said(message))).await;
                    sent.map_err(|_| SessionEnd::Ended)?;
                }
                if let Some(pause) = pace.spend(std::time::Instant::now()) {
                    let line = format!(
                        "{} sends more than {} frames a second: it is slowed down",
                        self.peer, self.limits.rate
                    );
                    self.tally.notify(Count::Paced, line);
                    self.pipe.flush()?;
                    tokio::time::sleep(pause).await;
                }
            }
            self.pipe.flush()?;
            let has_room = self.pipe.has_room();
            select! {
                worked = self.pipe.work() => worked?,
                letter = self.letters.frames.recv(), if has_room => {
                    let mut next = Some(letter.ok_or(SessionEnd::Ended)?);
                    while let Some(letter) = next.take() {
                        self.letters.owed.fetch_sub(letter.len(), Ordering::Relaxed);
                        self.tally.add(Count::FramesOut);
                        self.pipe.put(&letter)?;
                        if self.pipe.has_room() {
                            next = self.letters.frames.try_recv().ok();
                        }
                    }
                }
                _ = ticks.tick() => {
                    let silence = heard.elapsed();
                    if silence >= self.limits.idle {
                        let unread = !self.pipe.is_flushed();
                        return Err(if unread { SessionEnd::Unread } else { SessionEnd::Idle });
                    }
                    if silence >= self.limits.idle / 3 && self.pipe.has_room() {
                        self.pipe.send(&SessionMessage::Ping)?;
                    }
                }
                // Not all sessions in one moment.
                () = changed(&mut changes) => looks.reset_after(Duration::from_millis(self.number % 1_000)),
                _ = looks.tick() => self.verify()?,
            }
        }
    }

    /// Whether the other end's certificate is still good.
    fn verify(&self) -> Result<(), SessionEnd> {
        match (&self.credentials, self.pipe.tls()) {
            (Some(credentials), Some(tls)) => credentials.now().verify(tls, &self.peer),
            _ => Ok(()),
        }
    }
}

/// Never, where there are no certificates.
pub(super) async fn changed(changes: &mut Option<watch::Receiver<Arc<Tls>>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

fn ticks(every: Duration) -> Interval {
    let every = every.max(Duration::from_millis(1));
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Sessions that began together are not all looked at together.
fn ticks_after(every: Duration, number: u64) -> Interval {
    let mut ticks =
        interval_at(Instant::now() + every + Duration::from_millis(number % 60_000), every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
