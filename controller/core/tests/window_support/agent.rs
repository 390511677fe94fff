//! An agent as the protocol wants it, but as greedy as it may be: it sends from the first to the last
//! nanosecond of its grants by its own clock, which may be off by all that is allowed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_fabric::{Dlid, Guid};
use snin_protocol::collective::Collective;
use snin_protocol::message::{
    AgentMessage, Ask, Change, ClockQuestion, Confirm, ControllerMessage, FromAgent, Grant, Hello,
    Lease, LinkTested, Request, Terms, ToAgent, Verdict,
};
use snin_protocol::{ConnectionNumber, Session, Term, Time};

/// What a connection may do.
#[derive(Clone, Default, Debug)]
struct Held {
    /// Followed now, and to be followed from its `from` on.
    now: Option<Grant>,
    next: Option<Grant>,
}

/// A connection begins or ends to send.
#[derive(Clone, Copy, Debug)]
pub enum Turn {
    Start(ConnectionNumber, Dlid),
    Stop(ConnectionNumber, Dlid),
}

#[derive(Clone, Debug)]
pub struct Agent {
    pub port: Guid,
    /// Nanoseconds that its clock is ahead of the controller's.
    pub ahead: i64,
    pub drain: Time,
    /// A planted bug: it confirms what has not drained.
    pub hasty: bool,
    pub alive: bool,
    pub session: u64,
    term: Term,
    terms: Option<Terms>,
    sequence: u64,
    confirmed: bool,
    /// Connections wanted, and the ask that said so.
    pub wanted: BTreeMap<ConnectionNumber, (Request, u64)>,
    closing: BTreeSet<ConnectionNumber>,
    held: BTreeMap<ConnectionNumber, Held>,
    pub collective: Option<Collective>,
    /// Sent by the last look, and what of it is not certain to be drained.
    sending: BTreeMap<ConnectionNumber, Dlid>,
    draining: BTreeMap<(ConnectionNumber, Dlid), Time>,
    unheard: VecDeque<Ask>,
    asked: u64,
    speak_at: Time,
    pub served: Vec<ConnectionNumber>,
    pub verdicts: BTreeMap<ConnectionNumber, Verdict>,
    pub outbox: Vec<FromAgent>,
    pub turns: Vec<Turn>,
}

/// What an agent sends in its time slots of a collective.
pub const COLLECTIVE: ConnectionNumber = ConnectionNumber(u32::MAX);

const EVERY: Time = Time::micros(700);

impl Agent {
    pub fn new(port: Guid, drain: Time) -> Self {
        Self {
            port,
            ahead: 0,
            drain,
            hasty: false,
            alive: true,
            session: 1,
            term: Term(0),
            terms: None,
            sequence: 0,
            confirmed: true,
            wanted: BTreeMap::new(),
            closing: BTreeSet::new(),
            held: BTreeMap::new(),
            collective: None,
            sending: BTreeMap::new(),
            draining: BTreeMap::new(),
            unheard: VecDeque::new(),
            asked: 0,
            speak_at: Time::ZERO,
            served: Vec::new(),
            verdicts: BTreeMap::new(),
            outbox: Vec::new(),
            turns: Vec::new(),
        }
    }

    fn clock(&self, now: Time) -> Time {
        Time(now.0.saturating_add_signed(self.ahead))
    }

    fn send(&mut self, body: AgentMessage) {
        self.outbox.push(FromAgent { session: Session(self.session), body });
    }

    /// A new conversation: nothing of the old one holds, what is wanted is asked for again.
    fn begin(&mut self, now: Time) {
        self.session += 1;
        self.terms = None;
        (self.sequence, self.confirmed, self.asked) = (0, true, 0);
        self.held.clear();
        self.collective = None;
        self.unheard.clear();
        self.look(now);
        let wanted: Vec<Request> = self.wanted.values().map(|(request, _)| *request).collect();
        for number in std::mem::take(&mut self.closing) {
            self.wanted.remove(&number);
        }
        for request in wanted {
            if self.wanted.contains_key(&request.connection) {
                self.request(request);
            }
        }
        self.speak_at = now;
    }

    pub fn crash(&mut self, now: Time) {
        self.alive = false;
        self.held.clear();
        self.collective = None;
        self.look(now);
        self.wanted.clear();
        self.closing.clear();
        self.unheard.clear();
        self.outbox.clear();
    }

    pub fn restart(&mut self, now: Time) {
        self.alive = true;
        self.term = Term(0);
        self.begin(now);
    }

    pub fn request(&mut self, request: Request) {
        self.change(Change::Request(request));
        self.wanted.insert(request.connection, (request, self.asked));
    }

    /// Stops at once; withdrawn when it has drained.
    pub fn close(&mut self, number: ConnectionNumber, now: Time) {
        if self.wanted.contains_key(&number) {
            self.held.remove(&number);
            self.closing.insert(number);
            self.look(now);
        }
    }

    fn change(&mut self, change: Change) {
        self.asked += 1;
        let ask = Ask { number: self.asked, changes: vec![change].into() };
        if self.terms.is_some() {
            self.send(AgentMessage::Ask(ask.clone()));
        }
        self.unheard.push_back(ask);
    }

    pub fn receive(&mut self, frame: &ToAgent, now: Time) {
        if frame.session != Session(self.session) || frame.term < self.term {
            return;
        }
        if frame.term > self.term {
            let first = self.term == Term(0);
            self.term = frame.term;
            if !first {
                return self.begin(now);
            }
        }
        match &frame.body {
            ControllerMessage::Welcome(terms) => {
                if self.terms.replace(*terms).is_none() {
                    for ask in self.unheard.clone() {
                        self.send(AgentMessage::Ask(ask));
                    }
                }
            }
            ControllerMessage::Stranger => self.begin(now),
            ControllerMessage::Clock(_) => {}
            ControllerMessage::LinkTest(test) => {
                let tested = LinkTested { number: test.number, arrived: test.messages };
                self.send(AgentMessage::LinkTested(tested));
            }
            ControllerMessage::Lease(lease) => self.follow(lease, now),
        }
        self.look(now);
    }

    fn follow(&mut self, lease: &Lease, now: Time) {
        if self.terms.is_none() || lease.sequence < self.sequence {
            return;
        }
        if lease.sequence == self.sequence {
            if self.confirmed {
                self.send(AgentMessage::Confirm(Confirm { sequence: self.sequence }));
            }
            return;
        }
        (self.sequence, self.confirmed) = (lease.sequence, false);
        while self.unheard.front().is_some_and(|ask| ask.number <= lease.heard) {
            self.unheard.pop_front();
        }
        let mut grants: BTreeMap<ConnectionNumber, Grant> = BTreeMap::new();
        for grant in &lease.grants {
            let known =
                self.wanted.get(&grant.connection).is_some_and(|&(_, ask)| ask <= lease.heard);
            if known && !self.closing.contains(&grant.connection) {
                grants.insert(grant.connection, *grant);
            }
        }
        self.collective = lease.collective.clone();
        self.held.retain(|number, _| grants.contains_key(number));
        for (number, grant) in grants {
            let held = self.held.entry(number).or_default();
            match held.now {
                Some(now) if now.dlid == grant.dlid && now.from == grant.from => {
                    (held.now, held.next) = (Some(grant), None);
                }
                _ => held.next = Some(grant),
            }
        }
        for answer in &lease.answers {
            self.verdicts.insert(answer.connection, answer.verdict);
            if answer.verdict == Verdict::Served && self.wanted.contains_key(&answer.connection) {
                // Kept until its last grant has run out: see `look`.
                self.served.push(answer.connection);
            }
        }
        self.look(now);
    }

    /// What may be sent now, and what can be said now that it was not before.
    pub fn look(&mut self, now: Time) {
        let clock = self.clock(now);
        let guard = self.terms.map_or(Time::ZERO, |terms| terms.guard);
        let mut sending = BTreeMap::new();
        for (&number, held) in &mut self.held {
            held.next.take_if(|next| clock >= next.from).into_iter().for_each(|next| {
                held.now = Some(next);
            });
            held.now.take_if(|grant| clock >= grant.until - guard);
            if let Some(grant) = held.now.filter(|grant| clock >= grant.from) {
                sending.insert(number, grant.dlid);
            }
        }
        let slot = self.collective.as_ref().and_then(|it| it.time_slot_at(clock));
        if let Some(slot) = slot.filter(|slot| slot.from <= clock && clock < slot.until - guard)
            && let Some(to) = slot.to
        {
            sending.insert(COLLECTIVE, to.dlid);
        }
        let before = std::mem::replace(&mut self.sending, sending);
        for (&number, &dlid) in &before {
            if self.sending.get(&number) != Some(&dlid) {
                self.turns.push(Turn::Stop(number, dlid));
                self.draining.insert((number, dlid), now + self.drain);
            }
        }
        for (&number, &dlid) in &self.sending {
            if before.get(&number) != Some(&dlid) {
                self.turns.push(Turn::Start(number, dlid));
                self.draining.remove(&(number, dlid));
            }
        }
        self.draining.retain(|_, &mut done| done > now);
        self.settle();
        self.speak(now);
    }

    fn settle(&mut self) {
        for number in self.closing.clone() {
            if self.draining.keys().all(|(draining, _)| *draining != number) {
                self.closing.remove(&number);
                self.wanted.remove(&number);
                self.held.remove(&number);
                self.change(Change::Withdraw(number));
            }
        }
        for number in std::mem::take(&mut self.served) {
            let holds = self.held.get(&number).is_some_and(|h| h.now.is_some() || h.next.is_some());
            if holds || self.draining.keys().any(|(draining, _)| *draining == number) {
                self.served.push(number);
            } else if !self.closing.contains(&number) {
                self.wanted.remove(&number);
            }
        }
        // All that is followed must be what the lease says, and all else must have drained.
        let moving = self.held.values().any(|held| held.now.is_some() && held.next.is_some());
        if !self.confirmed && !moving && (self.draining.is_empty() || self.hasty) {
            self.confirmed = true;
            self.send(AgentMessage::Confirm(Confirm { sequence: self.sequence }));
        }
    }

    /// Says again what was not heard; asks for the time now and then.
    fn speak(&mut self, now: Time) {
        if !self.alive || now < self.speak_at {
            return;
        }
        self.speak_at = now + EVERY;
        if self.terms.is_none() {
            return self.send(AgentMessage::Hello(Hello { port: self.port, term: self.term }));
        }
        for ask in self.unheard.clone().into_iter().take(8) {
            self.send(AgentMessage::Ask(ask));
        }
        self.send(AgentMessage::Clock(ClockQuestion { sent: self.clock(now) }));
    }

    /// When it has to look again.
    pub fn wake_at(&self, now: Time) -> Time {
        let guard = self.terms.map_or(Time::ZERO, |terms| terms.guard);
        let real = |clock: Time| Time(clock.0.saturating_add_signed(-self.ahead));
        let grants = self.held.values().flat_map(|held| {
            let now = held.now.iter().flat_map(|g| [g.from, g.until - guard]);
            now.chain(held.next.iter().map(|grant| grant.from))
        });
        let slot = self.collective.as_ref().and_then(|it| it.time_slot_at(self.clock(now)));
        let slots = slot.into_iter().flat_map(|slot| [slot.from, slot.until - guard, slot.next]);
        let drained = self.draining.values().copied();
        let due = grants
            .chain(slots)
            .map(real)
            .chain(drained)
            .filter(|&at| at > now)
            .min()
            .unwrap_or(Time::MAX);
        if self.alive { due.min(self.speak_at.max(now + Time(1))) } else { due }
    }
}
