//! The election's turn: what managers said to each other, by sessions and by SMInfo, and what it decides.

use std::collections::BTreeMap;

use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::election::Ballot;

use super::Manager;
use crate::events::Output;
use crate::report::Report;
use snin_mastership::cluster::Mandate;
use snin_mastership::election::{Election, Event, Limits, Output as Decided, Priority};

/// Managers whose last ballot is remembered.
const MOST: usize = 64;

/// The election's core, and who speaks to it in sessions.
#[derive(Debug)]
pub(super) struct Electing {
    core: Election,
    /// When the manager at a port last spoke in a session: SMInfo tells less, and is not listened to for some
    /// time.
    spoke: BTreeMap<Guid, Time>,
}

impl Electing {
    pub(super) fn next_deadline(&self) -> Time {
        self.core.next_deadline()
    }
}

impl Manager {
    /// Where managers elect the master: what happened since is told, and what follows is done.
    pub(super) fn heed_election(&mut self, now: Time) {
        let (Some(_), Some(own)) = (self.config.election, self.sweep.name()) else { return };
        let limits = Limits::default();
        let operator = self.mastership.operators_priority();
        let begin = || {
            let priority = Priority { operator, ..Priority::default().with_ports(1, 1) };
            Electing { core: Election::new(own, priority, limits, now), spoke: BTreeMap::new() }
        };
        let electing = self.electing.get_or_insert_with(begin);
        while let Some(Ballot { to, at, message }) = self.mirror.next_ballot() {
            if to.is_some_and(|to| to != own) {
                continue;
            }
            if electing.spoke.len() < MOST || electing.spoke.contains_key(&at) {
                electing.spoke.insert(at, now);
            }
            electing.core.handle(Event::Message(message), now);
        }
        electing.spoke.retain(|_, at| now < *at + limits.keep_alive);
        while let Some(vote) = self.mastership.next_vote() {
            if !electing.spoke.contains_key(&vote.sender) {
                electing.core.handle(Event::Message(vote), now);
            }
        }
        let chosen = self.cluster.as_ref().is_some_and(|it| it.mandate(now) == Mandate::Held);
        let (good, of) = self.mastership.own_ports();
        electing.core.handle(Event::Operator(operator), now);
        electing.core.handle(Event::Chosen(chosen), now);
        electing.core.handle(Event::Ports { good, of }, now);
        electing.core.handle_deadline(now);
        let at = self.mastership.info().map_or(own, |info| info.guid);
        while let Some(output) = electing.core.poll_output() {
            match output {
                Decided::Send { to, message } => self.mirror.say(Ballot { to, at, message }),
                Decided::Became(state) => {
                    self.outputs.push_back(Output::Report(Report::Elected(state)));
                }
            }
        }
        let (state, priority) = (electing.core.state(), electing.core.priority());
        self.mastership.set_elected(state, priority, now);
    }
}
