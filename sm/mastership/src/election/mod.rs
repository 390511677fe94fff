//! Election: which of our own managers is to be master, by one order that they all compute alike.
//!
//! ```text
//!               no message of a master that goes before, for a time-out
//!   ELECTING ------------------------------------------------> MASTER
//!     |   ^                                                       |
//!     |   +-------------------------------------------------------+  CEDE of one that goes before
//!     |   +-------------------+  silence, TAKEOVER, or a master that goes after
//!     v                       |
//!   STANDBY ------------------+
//! ```
//!
//! This core knows no fabric, no addresses and no other managers: it keeps no table. It answers messages,
//! changes of its own priority and its timer. The daemon carries the messages.
//!
//! What the order of states leaves open is decided so:
//! - A manager becomes STANDBY when it is ELECTING and hears a MASTER that goes before it.
//! - CEDE goes to a MASTER, or to one that is ELECTING while this one is MASTER; sent to a standby it would
//!   begin an election with every message. TAKEOVER is sent by a MASTER to a
//!   STANDBY only: one that is ELECTING has its timer, and two masters would send it to and fro.
//! - A STANDBY that goes before the MASTER it hears says CEDE and is ELECTING itself.
//! - CEDE of a manager that goes after, and TAKEOVER of one that goes before, are old, and ignored.
//! - Where priorities are equal the lower GUID goes first, as with SMInfo.
//! - A port counts once it stood still for [`Limits::settle`].

mod band;

use std::collections::VecDeque;

use snin_fabric::Guid;
use snin_protocol::Time;

pub use snin_protocol::election::{Kind, Message, Priority, State};

pub use band::Band;

/// Something happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// Another manager says something.
    Message(Message),
    /// How many of the manager's own ports are good.
    Ports {
        /// Good ones.
        good: u8,
        /// All of them.
        of: u8,
    },
    /// The operator's priority is another.
    Operator(u8),
    /// Whether the cluster chose this manager as configuration manager.
    Chosen(bool),
}

/// What the driver is to do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Send to all other managers (`to` is `None`), or to one.
    Send {
        /// Its port GUID.
        to: Option<Guid>,
        /// The message.
        message: Message,
    },
    /// This manager became something else.
    Became(State),
}

/// Times and bounds. All managers of a subnet have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// A manager that is ELECTING becomes master after so long.
    pub electing: Time,
    /// A STANDBY without a message of its master is ELECTING after so long.
    pub keep_alive: Time,
    /// A MASTER says what it is every so often.
    pub update: Time,
    /// How often one election's time-out is shortened, and how often lengthened, at most.
    pub adjustments: u8,
    /// How long a port's state has to stand before it counts.
    pub settle: Time,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            electing: Time::millis(600),
            keep_alive: Time::millis(1000),
            update: Time::millis(200),
            adjustments: 3,
            settle: Time::millis(500),
        }
    }
}

/// The core. See the module's documentation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Election {
    guid: Guid,
    limits: Limits,
    state: State,
    priority: Priority,
    deadline: Time,
    shortened: u8,
    lengthened: u8,
    /// Good and all ports, as they were last seen, and when they count.
    unsettled: Option<((u8, u8), Time)>,
    outputs: VecDeque<Output>,
}

impl Election {
    /// A manager that begins, ELECTING. Its ports are as `priority` has them.
    #[must_use]
    pub fn new(guid: Guid, priority: Priority, limits: Limits, now: Time) -> Self {
        let priority = Priority { master: false, ..priority };
        let mut core = Self {
            guid,
            limits,
            state: State::Electing,
            priority,
            deadline: Time::ZERO,
            shortened: 0,
            lengthened: 0,
            unsettled: None,
            outputs: VecDeque::new(),
        };
        core.enter(State::Electing, now);
        core
    }

    /// What it is.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Its priority, as its messages say it.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// Takes an event.
    pub fn handle(&mut self, event: Event, now: Time) {
        match event {
            Event::Message(message) if message.sender == self.guid => {}
            Event::Message(message) => self.hear(message, now),
            Event::Operator(operator) => self.change(Priority { operator, ..self.priority }),
            Event::Chosen(chosen) => self.change(Priority { chosen, ..self.priority }),
            Event::Ports { good, of } => {
                let settled = self.priority.with_ports(good, of) == self.priority;
                let waits = self.unsettled.is_some_and(|(ports, _)| ports == (good, of));
                if settled {
                    self.unsettled = None;
                } else if !waits {
                    self.unsettled = Some(((good, of), now + self.limits.settle));
                }
            }
        }
    }

    /// What to do next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Self::handle_deadline`] is to be called at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Time {
        self.unsettled.map_or(self.deadline, |(_, at)| at.min(self.deadline))
    }

    /// Does what is due.
    pub fn handle_deadline(&mut self, now: Time) {
        if let Some(((good, of), _)) = self.unsettled.filter(|(_, at)| *at <= now) {
            self.unsettled = None;
            self.change(self.priority.with_ports(good, of));
        }
        if now < self.deadline {
            return;
        }
        match self.state {
            State::Electing => self.enter(State::Master, now),
            State::Standby => self.enter(State::Electing, now),
            State::Master => {
                self.deadline = now + self.limits.update;
                self.say(Kind::Status, None);
            }
        }
    }

    fn hear(&mut self, message: Message, now: Time) {
        let ahead = message.priority.goes_before(message.sender, self.priority, self.guid);
        let of_master = message.state == State::Master;
        match self.state {
            State::Electing if of_master && ahead => self.enter(State::Standby, now),
            State::Electing if message.kind == Kind::Status => self.adjust(ahead, now),
            State::Electing => {}
            State::Master => match message.kind {
                Kind::Cede if ahead => self.enter(State::Electing, now),
                Kind::Status if ahead && message.state == State::Standby => {
                    self.say(Kind::Takeover, Some(message.sender));
                }
                Kind::Status if !ahead && message.state != State::Standby => {
                    self.say(Kind::Cede, Some(message.sender));
                }
                _ => {}
            },
            State::Standby if of_master && ahead => {
                self.deadline = now + self.limits.keep_alive;
            }
            State::Standby if message.kind == Kind::Takeover => self.enter(State::Electing, now),
            State::Standby if of_master => {
                self.say(Kind::Cede, Some(message.sender));
                self.enter(State::Electing, now);
            }
            State::Standby => {}
        }
    }

    /// One that is ELECTING heard another candidate: the better one is to be master first.
    fn adjust(&mut self, ahead: bool, now: Time) {
        let most = self.limits.adjustments;
        if ahead && self.lengthened < most {
            self.lengthened += 1;
            self.deadline += Time(self.limits.electing.0 / 2);
        } else if !ahead && self.shortened < most {
            self.shortened += 1;
            self.deadline = now + Time(self.deadline.0.saturating_sub(now.0) / 2);
        }
    }

    fn enter(&mut self, state: State, now: Time) {
        let wait = match state {
            State::Electing => self.limits.electing,
            State::Master => self.limits.update,
            State::Standby => self.limits.keep_alive,
        };
        self.state = state;
        self.priority.master = state == State::Master;
        self.deadline = now + wait;
        (self.shortened, self.lengthened) = (0, 0);
        self.outputs.push_back(Output::Became(state));
        if state != State::Standby {
            self.say(Kind::Status, None);
        }
    }

    fn change(&mut self, priority: Priority) {
        if priority != self.priority {
            self.priority = priority;
            self.say(Kind::Status, None);
        }
    }

    fn say(&mut self, kind: Kind, to: Option<Guid>) {
        let (sender, state, priority) = (self.guid, self.state, self.priority);
        self.outputs
            .push_back(Output::Send { to, message: Message { kind, sender, state, priority } });
    }
}
