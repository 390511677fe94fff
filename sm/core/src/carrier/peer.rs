//! Another manager: the session with it, and what waits to be said to it.

use std::collections::VecDeque;

use snin_fabric::Lid;
use snin_mad::rmpp::Sender;
use snin_protocol::Time;

use super::envelope::Head;
use super::{Refused, Topic};

/// Messages that may wait for one manager, and their bytes: twice as much as a mirror has on its way.
const MOST_WAITING: usize = 64;
const MOST_BYTES: usize = 2 << 20;
/// How long after one hello comes the next, at first and at most; each wait is twice the last. Subnets that are
/// joined wait for the first hello that finds tables by which it is answered.
const SOON: Time = Time::millis(250);
const LATE: Time = Time::secs(1);
/// How long a manager that spoke by itself is greeted.
const PATIENCE: Time = Time::secs(8);

/// A session: both managers have echoed each other's challenge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Session {
    pub(super) own: u64,
    pub(super) theirs: u64,
    /// The numbers of the last messages in both directions.
    sent: u64,
    heard: u64,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) lid: Lid,
    /// Its address as the manager last knew it.
    known: Option<Lid>,
    /// The manager knows of it; else it spoke by itself, and is forgotten when it has no session.
    pub(super) named: bool,
    /// What it has to echo for the next session to begin. Each begins one session only.
    pub(super) challenge: u64,
    /// What it last wanted to be echoed; 0: nothing.
    pub(super) theirs: u64,
    pub(super) session: Option<Session>,
    hello: (Time, Time),
    /// When it is greeted no more, unless the manager knows of it.
    patience: Time,
    waiting: VecDeque<(Topic, Vec<u8>)>,
    bytes: usize,
    /// The message on its way, and its transaction.
    pub(super) sending: Option<(u32, Sender)>,
}

impl Peer {
    pub(super) fn new(lid: Lid, challenge: u64, now: Time) -> Self {
        Self {
            lid,
            known: None,
            named: false,
            challenge,
            theirs: 0,
            session: None,
            hello: (now, SOON),
            patience: now + PATIENCE,
            waiting: VecDeque::new(),
            bytes: 0,
            sending: None,
        }
    }

    /// Both challenges, as a hello says them now, and whether the session is settled.
    pub(super) fn challenges(&self) -> (u64, u64, bool) {
        let offered = (self.challenge, self.theirs, false);
        self.session.map_or(offered, |session| (session.own, session.theirs, true))
    }

    /// Whether a message is of the session.
    pub(super) fn is_of_session(&self, head: &Head) -> bool {
        self.session.is_some_and(|its| (its.theirs, its.own) == (head.challenge, head.echo))
    }

    /// A session begins where a message echoes what was asked for; `next` is for the one after it.
    pub(super) const fn settle(&mut self, head: &Head, next: u64) {
        let (own, theirs) = (self.challenge, head.challenge);
        self.session = Some(Session { own, theirs, sent: 0, heard: 0 });
        (self.challenge, self.theirs) = (next, 0);
    }

    /// The session is over, and what waited is gone.
    pub(super) fn end(&mut self, challenge: u64, now: Time) {
        self.waiting.clear();
        (self.bytes, self.sending, self.session) = (0, None, None);
        (self.challenge, self.theirs, self.hello) = (challenge, 0, (now + SOON, SOON));
        self.patience = now + PATIENCE;
    }

    /// Each message comes once, and none is left out.
    pub(super) fn count(&mut self, head: &Head) -> Result<(), Refused> {
        let session = self.session.as_mut().ok_or(Refused::OtherSession)?;
        if head.number <= session.heard {
            return Err(Refused::Replayed);
        }
        if head.number > session.heard + 1 {
            return Err(Refused::Gap);
        }
        session.heard += 1;
        Ok(())
    }

    /// A message waits; `false` where too much does.
    pub(super) fn push(&mut self, topic: Topic, body: Vec<u8>) -> bool {
        if self.waiting.len() >= MOST_WAITING || self.bytes + body.len() > MOST_BYTES {
            return false;
        }
        self.bytes += body.len();
        self.waiting.push_back((topic, body));
        true
    }

    /// The next message, where none is on its way: its session, number, topic and body.
    pub(super) fn next(&mut self) -> Option<(Session, u64, Topic, Vec<u8>)> {
        let session = self.session.as_mut().filter(|_| self.sending.is_none())?;
        let (topic, body) = self.waiting.pop_front()?;
        self.bytes -= body.len();
        session.sent += 1;
        Some((*session, session.sent, topic, body))
    }

    /// Whether it was not said hello to for long.
    pub(super) fn is_new(&self, now: Time) -> bool {
        now < self.patience
    }

    /// When the next hello is due.
    fn hello_due(&self) -> Option<Time> {
        (self.session.is_none() && self.lid != Lid::NONE).then_some(self.hello.0)
    }

    /// The manager knows its address. At another one it is greeted at once.
    pub(super) fn known_at(&mut self, lid: Lid, now: Time) {
        if lid != Lid::NONE {
            self.lid = lid;
            if self.known.replace(lid).is_some_and(|known| known != lid) {
                self.hello = (now, SOON);
            }
        }
    }

    /// Whether a hello is due now: the next one is later.
    pub(super) fn hellos(&mut self, now: Time) -> bool {
        let due = self.hello_due().is_some_and(|due| due <= now);
        if due {
            let wait = self.hello.1;
            self.hello = (now + wait, LATE.min(wait * 2));
        }
        due
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let sending = self.sending.as_ref().map(|(_, sender)| sender.deadline());
        sending.into_iter().chain(self.hello_due()).min()
    }
}
