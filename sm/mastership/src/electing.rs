//! The election among the others: what managers said to it, in sessions and by SMInfo, and who hears what it says.

use std::collections::BTreeMap;

use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::election::Ballot;

use crate::election::{Election, Event, Limits, Output, Priority, State};
use crate::mastership::Mastership;
use crate::mirror::Mirror;

/// Managers whose last ballot is remembered.
const MOST: usize = 64;

/// The election's core, and who speaks to it in sessions.
#[derive(Debug)]
pub struct Electing {
    own: Guid,
    core: Election,
    limits: Limits,
    /// When the manager at a port last spoke in a session: SMInfo tells less, and is not listened to for some
    /// time.
    spoke: BTreeMap<Guid, Time>,
}

impl Electing {
    /// A manager whose first port is `own` begins to take part. `operator`: the priority that it was given.
    pub fn begin(own: Guid, operator: u8, now: Time) -> Self {
        let limits = Limits::default();
        let priority = Priority { operator, ..Priority::default().with_ports(1, 1) };
        Self {
            own,
            core: Election::new(own, priority, limits, now),
            limits,
            spoke: BTreeMap::new(),
        }
    }

    /// When it has to have its turn.
    pub fn next_deadline(&self) -> Time {
        self.core.next_deadline()
    }

    /// What happened since is told to the election, and what it decides to mastership and to other managers.
    /// `chosen`: the cluster wants this manager to be master. What this manager became, if anything.
    pub fn turn(
        &mut self,
        chosen: bool,
        mastership: &mut Mastership,
        mirror: &mut Mirror,
        now: Time,
    ) -> Vec<State> {
        while let Some(Ballot { to, at, message }) = mirror.next_ballot() {
            if to.is_some_and(|to| to != self.own) {
                continue;
            }
            if self.spoke.len() < MOST || self.spoke.contains_key(&at) {
                self.spoke.insert(at, now);
            }
            self.core.handle(Event::Message(message), now);
        }
        let keep_alive = self.limits.keep_alive;
        self.spoke.retain(|_, at| now < *at + keep_alive);
        while let Some(vote) = mastership.next_vote() {
            if !self.spoke.contains_key(&vote.sender) {
                self.core.handle(Event::Message(vote), now);
            }
        }
        let (good, of) = mastership.own_ports();
        self.core.handle(Event::Operator(mastership.operators_priority()), now);
        self.core.handle(Event::Chosen(chosen), now);
        self.core.handle(Event::Ports { good, of }, now);
        self.core.handle_deadline(now);
        let at = mastership.info().map_or(self.own, |info| info.guid);
        let mut became = Vec::new();
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Send { to, message } => mirror.say(Ballot { to, at, message }),
                Output::Became(state) => became.push(state),
            }
        }
        let (state, priority) = (self.core.state(), self.core.priority());
        mastership.set_elected(state, priority, now);
        became
    }
}
