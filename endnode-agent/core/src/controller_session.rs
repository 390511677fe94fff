//! The conversation with the controller: who begins, what is said again, what follows from silence.
//!
//! ```text
//!              nothing under way            Welcome
//!   Parting ────────────────────▶ Greeting ─────────▶ Talking
//!      ▲                             │                   │
//!      └─────────── Stranger ────────┴───────────────────┘
//! ```
//!
//! Without a controller it never begins: one is `Alone`.
//!
//! A Hello says that nothing of an earlier conversation holds, so it waits until that is true.

use std::sync::Arc;

use snin_fabric::TreeId;
use snin_protocol::clock::ClockSample;
use snin_protocol::message::{
    AgentMessage, Ask, Change, ClockQuestion, Confirm, ControllerMessage, FromAgent, Hello,
    MAX_CHANGES, Request, Terms, ToAgent,
};
use snin_protocol::{Session, Term, Time};

use super::config::{Config, LossPolicy};
use super::events::{Notice, Output};
use super::flow::{Flow, RequestState};
use super::mesh::Mesh;
use super::timers::Timer;

/// The tree that carries everything that asks nobody.
pub(super) const UNASKED: TreeId = TreeId(0);

/// What is known of the controller.
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
pub(super) enum Phase {
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
    pub(super) phase: Phase,
    session: Session,
    /// The greatest heard.
    term: Term,
    /// The last smaller one.
    stale: Option<Term>,
    pub(super) terms: Terms,
    /// When the Hello, or the ask under way, is said again.
    say_at: Time,
    /// When the time is asked next.
    clock_at: Time,
    /// The number of the ask that was said and is not known to be heard.
    pub(super) ask: Option<u64>,
    /// The memory of asks, the last one's first. Each is lent to the driver until it is sent; the next ask is
    /// written into one that came back.
    changes: [Arc<Vec<Change>>; ASK_BUFFERS],
    /// How many were made.
    asks: u64,
    /// Some flow's wish is not told yet.
    pub(super) wishes: bool,
    /// The last lease that was followed, and whether that has still to be confirmed.
    pub(super) lease: u64,
    pub(super) unconfirmed: bool,
    /// When a controller was last heard, and whether that is too long ago.
    heard: Time,
    lost: bool,
}

impl ControllerSession {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        Self {
            phase: if config.controller { Phase::Greeting } else { Phase::Alone },
            session: Session(config.session),
            term: Term(0),
            stale: None,
            terms: Terms { window: Time::ZERO, guard: Time::ZERO, clock_error: Time::ZERO },
            say_at: now,
            clock_at: now,
            ask: None,
            changes: std::array::from_fn(|_| {
                Arc::new(Vec::with_capacity(MAX_CHANGES.min(config.flows as usize)))
            }),
            asks: 0,
            wishes: false,
            lease: 0,
            unconfirmed: false,
            heard: now,
            lost: !config.controller,
        }
    }
}

impl Mesh {
    pub(super) fn frame(&mut self, frame: &ToAgent, now: Time) {
        if frame.term < self.controller.term {
            self.counters.stale_term += 1;
            let (term, latest) = (frame.term, self.controller.term);
            if self.controller.stale.replace(term) != Some(term) {
                self.notify(Notice::StaleController { term, latest });
            }
            return;
        }
        if frame.session != self.controller.session || self.controller.phase == Phase::Alone {
            self.counters.stale_session += 1;
            return;
        }
        if let ControllerMessage::Clock(answer) = frame.body
            && let Some(sample) = ClockSample::new(answer.sent, frame.at, now)
            && !self.clock.learn(sample, now)
        {
            self.counters.wrong_clock += 1;
        }
        // One of the clocks is wrong; nothing about time means anything until they agree.
        if !self.clock.explains(frame.at, now) {
            self.counters.wrong_clock += 1;
            return;
        }
        self.controller.term = frame.term;
        self.heard_from_controller(now);
        match &frame.body {
            ControllerMessage::Welcome(terms) if self.controller.phase == Phase::Greeting => {
                self.controller.phase = Phase::Talking;
                self.controller.terms = *terms;
                self.controller.clock_at = now;
            }
            ControllerMessage::Lease(lease) if self.controller.phase == Phase::Talking => {
                self.lease(lease, now);
            }
            ControllerMessage::Stranger => self.part(now),
            ControllerMessage::Welcome(_)
            | ControllerMessage::Lease(_)
            | ControllerMessage::Clock(_) => {}
        }
        self.converse(now);
    }

    /// Lets go of everything that this conversation gave, to begin a new one.
    fn part(&mut self, now: Time) {
        let session_state = &mut self.controller;
        session_state.phase = Phase::Parting;
        session_state.session = Session(session_state.session.0 + 1);
        (session_state.ask, session_state.asks) = (None, 0);
        (session_state.lease, session_state.unconfirmed) = (0, false);
        for index in 0..self.flows.len() as u32 {
            if let Some(flow) = &mut self.flows[index as usize] {
                (flow.current, flow.next) = (None, None);
                (flow.wish, flow.ask_at) = (RequestState::None, now);
                self.tend(index, now);
            }
        }
    }

    /// Says what is due.
    pub(super) fn converse(&mut self, now: Time) {
        if self.controller.phase == Phase::Parting && self.all_conform(now) {
            self.controller.phase = Phase::Greeting;
            self.controller.say_at = now;
        }
        match self.controller.phase {
            Phase::Alone | Phase::Parting => {}
            Phase::Greeting => self.greet(now),
            Phase::Talking => {
                self.ask(now);
                self.ask_the_time(now);
                self.confirm(now);
            }
        }
        self.arm_conversation(now);
    }

    fn greet(&mut self, now: Time) {
        if now >= self.controller.say_at {
            self.controller.say_at = now + self.config.ask_again;
            self.counters.conversations += 1;
            let hello = Hello { port: self.config.port, term: self.controller.term };
            self.send_to_controller(AgentMessage::Hello(hello));
        }
    }

    /// One ask at a time, until it is heard.
    fn ask(&mut self, now: Time) {
        if self.controller.ask.is_none() && self.has_to_ask() {
            self.next_ask(now);
        }
        if let Some(number) = self.controller.ask
            && now >= self.controller.say_at
        {
            self.controller.say_at = now + self.config.ask_again;
            let changes = Arc::clone(&self.controller.changes[0]);
            self.send_to_controller(AgentMessage::Ask(Ask { number, changes }));
        }
    }

    /// Whether something is to be asked, and a grant would be of use: as long as nothing is known of the
    /// controller's time, every grant would be refused as late.
    fn has_to_ask(&self) -> bool {
        self.controller.wishes && self.clock.is_known()
    }

    fn next_ask(&mut self, now: Time) {
        let Self { controller: session_state, flows, .. } = self;
        let is_back = |memory: &mut Arc<Vec<Change>>| Arc::get_mut(memory).is_some();
        let last = &mut session_state.changes;
        match last.iter_mut().position(is_back) {
            Some(back) => last.swap(0, back),
            // To wait for one would make what is asked depend on when the driver drops what it has sent.
            None => last[0] = Arc::new(Vec::with_capacity(last[0].capacity())),
        }
        let Some(changes) = Arc::get_mut(&mut last[0]) else { return };
        let number = session_state.asks + 1;
        changes.clear();
        let wishes = flows.iter_mut().flatten().filter_map(|flow| wish(flow, number));
        changes.extend(wishes.take(MAX_CHANGES));
        session_state.wishes = changes.len() == MAX_CHANGES;
        if !changes.is_empty() {
            (session_state.ask, session_state.asks, session_state.say_at) =
                (Some(number), number, now);
        }
        for at in 0..self.controller.changes[0].len() {
            self.tend(self.controller.changes[0][at].connection().0, now);
        }
    }

    fn ask_the_time(&mut self, now: Time) {
        if now >= self.controller.clock_at {
            // An answer that comes back sooner says more, so a clock of which little is known asks often.
            let unsure = self.clock.error(now) > self.controller.terms.clock_error / 2;
            let little = unsure && !self.clock.is_kept();
            let pause = if little { self.config.ask_again } else { self.config.ask_time };
            self.controller.clock_at = now + pause;
            self.send_to_controller(AgentMessage::Clock(ClockQuestion { sent: now }));
        }
    }

    fn confirm(&mut self, now: Time) {
        if self.controller.unconfirmed && self.all_conform(now) {
            self.controller.unconfirmed = false;
            self.counters.confirms += 1;
            self.send_to_controller(AgentMessage::Confirm(Confirm {
                sequence: self.controller.lease,
            }));
        }
    }

    fn send_to_controller(&mut self, body: AgentMessage) {
        let session = self.controller.session;
        self.put(Output::Controller(FromAgent { session, body }));
    }

    /// Something that was to be confirmed or asked may be possible now.
    pub(super) fn talk_if_due(&mut self, now: Time) {
        let session_state = &self.controller;
        let may_speak = match session_state.phase {
            Phase::Parting => true,
            Phase::Alone | Phase::Greeting => false,
            Phase::Talking => {
                session_state.unconfirmed || session_state.ask.is_none() && self.has_to_ask()
            }
        };
        if may_speak {
            self.converse(now);
        }
    }

    fn heard_from_controller(&mut self, now: Time) {
        self.controller.heard = now;
        if self.controller.lost {
            self.controller.lost = false;
            self.notify(Notice::ControllerFound);
        }
    }

    /// The conversation's timer fired.
    pub(super) fn listen(&mut self, now: Time) {
        if !self.controller.lost && now >= self.controller.heard + self.config.silence {
            self.controller.lost = true;
            self.counters.controller_lost += 1;
            self.notify(Notice::ControllerLost);
            self.want_unasked(now);
        }
        self.converse(now);
    }

    fn arm_conversation(&mut self, now: Time) {
        let session_state = &self.controller;
        let asks = session_state.ask.is_some() || self.has_to_ask();
        let speaks =
            session_state.phase == Phase::Greeting || asks && session_state.phase != Phase::Alone;
        let moments = [
            (!session_state.lost).then_some(session_state.heard + self.config.silence),
            speaks.then_some(session_state.say_at),
            (session_state.phase == Phase::Talking).then_some(session_state.clock_at),
        ];
        if let Some(at) = moments.into_iter().flatten().min() {
            self.timers.set(Timer::ControllerSession, at.max(now + Time(1)));
        }
    }

    /// What is known of the controller.
    pub const fn controller(&self) -> ControllerState {
        match (self.config.controller, self.controller.lost) {
            (false, _) => ControllerState::None,
            (true, false) => ControllerState::Received,
            (true, true) => ControllerState::Lost,
        }
    }

    /// Whether flows may send without a grant, for want of anybody who could give one.
    pub(super) fn is_best_effort(&self) -> bool {
        self.controller.lost && self.config.loss == LossPolicy::BestEffort
    }
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
