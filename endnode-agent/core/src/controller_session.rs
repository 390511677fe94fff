//! The conversation with the controller: who begins, what is said again, what follows from silence.
//!
//! ```text
//!              nothing under way            Welcome
//!   Parting --------------------> Greeting ---------> Talking
//!      ^                             |                   |
//!      +----------- Stranger --------+-------------------+
//! ```
//!
//! Without a controller it never begins: one is `Alone`.
//!
//! A Hello says that nothing of an earlier conversation holds, so it waits until that is true.

use std::sync::Arc;

use snin_protocol::clock::ClockSample;
use snin_protocol::message::{
    AgentMessage, Ask, Change, ClockQuestion, Confirm, ControllerMessage, FromAgent, Hello,
    LinkTested, MAX_CHANGES, Request, ToAgent,
};
use snin_protocol::{Session, Term, Time};

use super::config::{Config, LossPolicy};
use super::context::Context;
use super::events::{Notice, Output};
use super::flow::{Flow, RequestState};
use super::leases::Leases;
use super::sending::Sender;
use super::timers::Timer;

/// The state of the controller, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerState {
    /// There is none to be asked.
    None,
    /// It was heard not long ago.
    Received,
    /// It was not heard for too long.
    Lost,
}

impl ControllerState {
    /// In one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Received => "heard",
            Self::Lost => "lost",
        }
    }
}

/// See the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Alone,
    Parting,
    Greeting,
    Talking,
}

/// An ask is heard before the next is made, and copies are sent in order: two would do within a session. The
/// others are for copies of sessions that ended meanwhile.
const ASK_BUFFERS: usize = 4;

/// What is remembered of it.
#[derive(Debug)]
pub(super) struct ControllerSession {
    phase: Phase,
    session: Session,
    /// The greatest heard.
    term: Term,
    /// The term of the controller whose time is known.
    clock_of: Term,
    /// The last smaller one.
    stale: Option<Term>,
    /// When the Hello, or the ask under way, is said again.
    say_at: Time,
    /// When the time is asked next.
    clock_at: Time,
    /// The number of the ask that was said and is not known to be heard.
    ask: Option<u64>,
    /// The memory of asks, the last one's first. Each is lent to the driver until it is sent; the next ask is
    /// written into one that came back.
    changes: [Arc<Vec<Change>>; ASK_BUFFERS],
    /// How many were made.
    asks: u64,
    leases: Leases,
    /// When a controller was last heard, and whether that is too long ago.
    heard: Time,
    lost: bool,
}

impl ControllerSession {
    /// Its first word is due at once.
    pub(super) fn new(context: &mut Context, now: Time) -> Self {
        let config = &context.config;
        let session = Self {
            phase: if config.controller { Phase::Greeting } else { Phase::Alone },
            session: Session(config.session),
            term: Term(0),
            clock_of: Term(0),
            stale: None,
            say_at: now,
            clock_at: now,
            ask: None,
            changes: std::array::from_fn(|_| {
                Arc::new(Vec::with_capacity(MAX_CHANGES.min(config.flows as usize)))
            }),
            asks: 0,
            leases: Leases::default(),
            heard: now,
            lost: !config.controller,
        };
        context.is_best_effort = session.is_best_effort(config);
        context.timers.set(Timer::ControllerSession, now);
        session
    }

    /// A frame came.
    pub(super) fn frame(
        &mut self,
        context: &mut Context,
        sender: &mut Sender,
        frame: &ToAgent,
        now: Time,
    ) {
        if frame.term < self.term {
            context.counters.stale_term += 1;
            let (term, latest) = (frame.term, self.term);
            if self.stale.replace(term) != Some(term) {
                context.notify(Notice::StaleController { term, latest });
            }
            return;
        }
        if frame.session != self.session || self.phase == Phase::Alone {
            context.counters.stale_session += 1;
            return;
        }
        if frame.term > self.term {
            self.term = frame.term;
            match self.phase {
                // Another controller, which knows of no conversation.
                Phase::Talking => {
                    self.heard(context, now);
                    self.part(context, sender, now);
                    return self.converse(context, sender, now);
                }
                Phase::Greeting => self.turn_to(context),
                Phase::Alone | Phase::Parting => {}
            }
        }
        if let ControllerMessage::Clock(answer) = frame.body
            && let Some(sample) = ClockSample::new(answer.sent, frame.at, now)
            && !context.clock.learn(sample, now)
        {
            context.counters.wrong_clock += 1;
        }
        // One of the clocks is wrong; nothing about time means anything until they agree.
        if !context.clock.explains(frame.at, now) {
            context.counters.wrong_clock += 1;
            return;
        }
        self.heard(context, now);
        match &frame.body {
            ControllerMessage::Welcome(terms) if self.phase == Phase::Greeting => {
                self.phase = Phase::Talking;
                context.terms = *terms;
                self.clock_at = now;
            }
            ControllerMessage::Lease(lease) if self.phase == Phase::Talking => {
                if self.leases.follow(context, sender, lease, now) {
                    self.ask.take_if(|ask| *ask <= lease.heard);
                }
            }
            ControllerMessage::Stranger => self.part(context, sender, now),
            ControllerMessage::LinkTest(test) if self.phase == Phase::Talking => {
                context.notify(Notice::LinkTest(*test));
            }
            ControllerMessage::Welcome(_)
            | ControllerMessage::LinkTest(_)
            | ControllerMessage::Lease(_)
            | ControllerMessage::Clock(_) => {}
        }
        self.converse(context, sender, now);
    }

    /// What a controller of an earlier term said of the time says nothing of this one's.
    const fn turn_to(&mut self, context: &mut Context) {
        if self.clock_of.0 != self.term.0 {
            self.clock_of = self.term;
            context.clock.forget();
        }
    }

    /// Lets go of everything that this conversation gave, to begin a new one.
    fn part(&mut self, context: &mut Context, sender: &mut Sender, now: Time) {
        self.phase = Phase::Parting;
        self.session = Session(self.session.0 + 1);
        (self.ask, self.asks) = (None, 0);
        self.leases = Leases::default();
        context.time_slots.follow(None);
        for index in 0..sender.flows.limit() {
            if let Some(flow) = sender.flows.get_mut(index) {
                (flow.current, flow.next) = (None, None);
                (flow.wish, flow.ask_at) = (RequestState::None, now);
                sender.tend(context, index, now);
            }
        }
    }

    /// Says what is due.
    fn converse(&mut self, context: &mut Context, sender: &mut Sender, now: Time) {
        if self.phase == Phase::Parting && sender.all_conform(context, now) {
            self.phase = Phase::Greeting;
            self.say_at = now;
            self.turn_to(context);
        }
        match self.phase {
            Phase::Alone | Phase::Parting => {}
            Phase::Greeting => self.greet(context, now),
            Phase::Talking => {
                self.ask(context, sender, now);
                self.ask_the_time(context, now);
                self.confirm(context, sender, now);
            }
        }
        self.arm(context, sender, now);
    }

    fn greet(&mut self, context: &mut Context, now: Time) {
        if now >= self.say_at {
            self.say_at = now + context.config.ask_again;
            context.counters.conversations += 1;
            let hello = Hello { port: context.config.port, term: self.term };
            self.send(context, AgentMessage::Hello(hello));
        }
    }

    /// One ask at a time, until it is heard.
    fn ask(&mut self, context: &mut Context, sender: &mut Sender, now: Time) {
        if self.ask.is_none() && has_to_ask(context, sender) {
            self.next_ask(context, sender, now);
        }
        if let Some(number) = self.ask
            && now >= self.say_at
        {
            self.say_at = now + context.config.ask_again;
            let changes = Arc::clone(&self.changes[0]);
            self.send(context, AgentMessage::Ask(Ask { number, changes }));
        }
    }

    fn next_ask(&mut self, context: &mut Context, sender: &mut Sender, now: Time) {
        let is_back = |memory: &mut Arc<Vec<Change>>| Arc::get_mut(memory).is_some();
        let last = &mut self.changes;
        match last.iter_mut().position(is_back) {
            Some(back) => last.swap(0, back),
            // To wait for one would make what is asked depend on when the driver drops what it has sent.
            None => last[0] = Arc::new(Vec::with_capacity(last[0].capacity())),
        }
        let Some(changes) = Arc::get_mut(&mut last[0]) else { return };
        let number = self.asks + 1;
        changes.clear();
        let wishes = sender.flows.iter_mut().filter_map(|flow| wish(flow, number));
        changes.extend(wishes.take(MAX_CHANGES));
        sender.flows.has_wishes = changes.len() == MAX_CHANGES;
        if !changes.is_empty() {
            (self.ask, self.asks, self.say_at) = (Some(number), number, now);
        }
        for change in self.changes[0].iter() {
            sender.tend(context, change.connection().0, now);
        }
    }

    fn ask_the_time(&mut self, context: &mut Context, now: Time) {
        if now >= self.clock_at {
            // An answer that comes back sooner says more, so a clock of which little is known asks often.
            let unsure = context.clock.error(now) > context.terms.clock_error / 2;
            let little = unsure && !context.clock.is_kept();
            let config = &context.config;
            self.clock_at = now + if little { config.ask_again } else { config.ask_time };
            self.send(context, AgentMessage::Clock(ClockQuestion { sent: now }));
        }
    }

    fn confirm(&mut self, context: &mut Context, sender: &mut Sender, now: Time) {
        if self.leases.is_unconfirmed && sender.all_conform(context, now) {
            self.leases.is_unconfirmed = false;
            context.counters.confirms += 1;
            let sequence = self.leases.last;
            self.send(context, AgentMessage::Confirm(Confirm { sequence }));
        }
    }

    /// The link was tested, because the controller wanted it.
    pub(super) fn tested(&self, context: &mut Context, tested: LinkTested) {
        if self.phase == Phase::Talking {
            self.send(context, AgentMessage::LinkTested(tested));
        }
    }

    fn send(&self, context: &mut Context, body: AgentMessage) {
        context.put(Output::Controller(FromAgent { session: self.session, body }));
    }

    /// Something that was to be confirmed or asked may be possible now.
    pub(super) fn talk_if_due(&mut self, context: &mut Context, sender: &mut Sender, now: Time) {
        let may_speak = match self.phase {
            Phase::Parting => true,
            Phase::Alone | Phase::Greeting => false,
            Phase::Talking => {
                self.leases.is_unconfirmed || self.ask.is_none() && has_to_ask(context, sender)
            }
        };
        if may_speak {
            self.converse(context, sender, now);
        }
    }

    fn heard(&mut self, context: &mut Context, now: Time) {
        self.heard = now;
        if self.lost {
            self.lost = false;
            context.is_best_effort = false;
            context.notify(Notice::ControllerFound);
        }
    }

    /// Its timer fired.
    pub(super) fn listen(&mut self, context: &mut Context, sender: &mut Sender, now: Time) {
        if !self.lost && now >= self.heard + context.config.silence {
            self.lost = true;
            context.is_best_effort = self.is_best_effort(&context.config);
            context.counters.controller_lost += 1;
            context.notify(Notice::ControllerLost);
            sender.want_unasked(context, now);
        }
        self.converse(context, sender, now);
    }

    fn arm(&self, context: &mut Context, sender: &Sender, now: Time) {
        let asks = self.ask.is_some() || has_to_ask(context, sender);
        let speaks = self.phase == Phase::Greeting || asks && self.phase != Phase::Alone;
        let moments = [
            (!self.lost).then_some(self.heard + context.config.silence),
            speaks.then_some(self.say_at),
            (self.phase == Phase::Talking).then_some(self.clock_at),
        ];
        if let Some(at) = moments.into_iter().flatten().min() {
            context.timers.set(Timer::ControllerSession, at.max(now + Time(1)));
        }
    }

    /// The state of the controller, as far as it is known.
    pub(super) const fn state(&self, config: &Config) -> ControllerState {
        match (config.controller, self.lost) {
            (false, _) => ControllerState::None,
            (true, false) => ControllerState::Received,
            (true, true) => ControllerState::Lost,
        }
    }

    fn is_best_effort(&self, config: &Config) -> bool {
        self.lost && config.loss == LossPolicy::BestEffort
    }
}

/// Whether something is to be asked, and a grant would be of use: as long as nothing is known of the
/// controller's time, every grant would be refused as late.
fn has_to_ask(context: &Context, sender: &Sender) -> bool {
    sender.flows.has_wishes && context.clock.is_known()
}

/// What is to be told of a flow.
fn wish(flow: &mut Flow, number: u64) -> Option<Change> {
    let connection = flow.id.into();
    match flow.wish {
        RequestState::None | RequestState::Asked(_) => None,
        RequestState::Ask => {
            flow.wish = RequestState::Asked(number);
            let wanted = flow.wanted;
            Some(Change::Request(Request {
                connection,
                destination: flow.peer,
                windows: wanted.windows,
                rate: wanted.rate,
                class: wanted.class,
                pinned: wanted.pinned,
                tree: wanted.tree,
            }))
        }
        RequestState::Withdraw => {
            flow.wish = RequestState::None;
            Some(Change::Withdraw(connection))
        }
    }
}
