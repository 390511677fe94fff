//! Messages of agents.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use snin_fabric::Guid;
use snin_fabric::hosts::HostId;
use snin_protocol::message::{
    AgentMessage, Answer, Ask, Change, ClockAnswer, Confirm, ControllerMessage, FromAgent, Hello,
    LinkTest, Refusal, Request, Terms, ToAgent, Verdict,
};
use snin_protocol::{ConnectionNumber, Session, Term, Time};

use super::Core;
use super::agents::Agent;
use super::connections::Connection;
use super::ledger::{Holder, OwnerId};
use crate::admission;
use crate::events::{Note, Output};
use crate::packing::ConnectionId;

impl Core {
    pub(super) fn receive(&mut self, from: Guid, message: FromAgent, now: Time) {
        let FromAgent { session, body } = message;
        if let AgentMessage::Hello(hello) = body {
            return self.greet(from, session, hello, now);
        }
        let known = self.agents.get_mut(&from).filter(|agent| agent.session == session);
        let Some(agent) = known else {
            self.metrics.strangers += 1;
            return self.send(from, session, ControllerMessage::Stranger, now);
        };
        agent.heard_at = now;
        match body {
            AgentMessage::Hello(_) => {}
            AgentMessage::Ask(ask) => self.ask(from, ask),
            AgentMessage::Confirm(confirm) => self.confirm(from, confirm),
            AgentMessage::Clock(question) => {
                let answer = ClockAnswer { sent: question.sent };
                self.send(from, session, ControllerMessage::Clock(answer), now);
            }
            AgentMessage::LinkTested(tested) => {
                self.outputs.push_back(Output::LinkTested(from, tested));
            }
        }
    }

    pub(super) fn send(&mut self, to: Guid, session: Session, body: ControllerMessage, at: Time) {
        let message = ToAgent { session, term: self.config.term, at, body };
        self.outputs.push_back(Output::Send { to, message });
    }

    /// Where no agent is, nothing is said.
    pub(super) fn test_link(&mut self, port: Guid, test: LinkTest, now: Time) {
        if let Some(session) = self.agents.get(&port).map(|agent| agent.session) {
            self.send(port, session, ControllerMessage::LinkTest(test), now);
        }
    }

    /// Whether an agent is heard at this port.
    pub fn has_agent(&self, port: Guid) -> bool {
        self.agents.contains_key(&port)
    }

    /// Other hosts with agents, those at the same leaf first.
    pub fn agents_beside(&self, port: Guid) -> impl Iterator<Item = Guid> {
        let leaf = |port: Guid| Some(self.fabric.host(self.fabric.host_of(port)?)?.switch);
        let own = leaf(port);
        let others = || self.agents.keys().copied().filter(move |&other| other != port);
        let near = others().filter(move |&other| leaf(other).is_some() && leaf(other) == own);
        near.chain(others().filter(move |&other| leaf(other).is_some() && leaf(other) != own))
    }

    fn greet(&mut self, port: Guid, session: Session, hello: Hello, now: Time) {
        if hello.port != port {
            self.metrics.imposters += 1;
            return self.note(Note::Imposter { port, named: hello.port });
        }
        if hello.term > self.config.term && !self.agents.contains_key(&port) {
            self.metrics.agents_ahead += 1;
            self.note(Note::AgentAhead { port, term: hello.term });
        }
        match self.agents.get(&port).map(|agent| agent.session) {
            // Said again, or overtaken by what came after it.
            Some(known) if known > session => return,
            Some(known) if known == session => {}
            Some(_) => {
                self.metrics.agents_restarted += 1;
                self.lose(port);
                self.agents.insert(port, Agent::new(session, now));
            }
            None if self.agents.len() >= self.config.agents as usize => {
                self.metrics.agents_refused += 1;
                return;
            }
            None => {
                self.agents.insert(port, Agent::new(session, now));
            }
        }
        if let Some(agent) = self.agents.get_mut(&port) {
            agent.term = hello.term;
        }
        let terms = Terms {
            window: self.config.window,
            guard: self.config.guard,
            clock_error: self.config.clock_error,
        };
        self.send(port, session, ControllerMessage::Welcome(terms), now);
    }

    /// The term that this controller would need, where most agents have heard of a later one than its own and
    /// follow none of its grants: it, or its state, is older than theirs. A few that say so may be wrong, or lie.
    pub fn least_term(&self) -> Option<Term> {
        let mut heard: BTreeMap<Term, usize> = BTreeMap::new();
        for agent in self.agents.values().filter(|agent| agent.term > self.config.term) {
            *heard.entry(agent.term).or_insert(0) += 1;
        }
        if heard.values().sum::<usize>() * 2 <= self.agents.len() {
            return None;
        }
        let (term, _) = heard.into_iter().max_by_key(|&(term, count)| (count, term))?;
        Some(Term(term.0.saturating_add(1)))
    }

    /// Forgets an agent and what it wants. What it holds stands until it has run out: no agent is left to
    /// confirm anything.
    pub(super) fn lose(&mut self, port: Guid) {
        let Some(agent) = self.agents.remove(&port) else {
            return;
        };
        self.dirty.remove(&port);
        self.unconfirmed.remove(&port);
        agent.connections.into_values().for_each(|slot| self.forget(slot));
    }

    /// A connection is over; what it holds is not touched.
    pub(super) fn forget(&mut self, slot: u32) {
        let Some(connection) = self.connections.take(slot) else {
            return;
        };
        self.admission.remove(ConnectionId(slot));
        self.pending.remove(&slot);
        if connection.packed {
            self.departed.push((slot, connection.domain));
        } else {
            self.connections.give_back(slot);
        }
    }

    fn confirm(&mut self, port: Guid, confirm: Confirm) {
        let Some(agent) = self.agents.get_mut(&port) else {
            return;
        };
        agent.confirm(confirm.sequence);
        if agent.is_confirmed() {
            self.unconfirmed.remove(&port);
            if agent.has_news() {
                self.dirty.insert(port);
            }
        }
        let (holder, sequence) = (Holder { port, session: agent.session }, agent.confirmed);
        for id in self.ledger.confirmed(holder, sequence) {
            self.release(id);
        }
    }

    fn ask(&mut self, port: Guid, ask: Ask) {
        let Some(agent) = self.agents.get_mut(&port) else {
            return;
        };
        if ask.number != agent.asked + 1 {
            self.metrics.asks_out_of_turn += 1;
            return;
        }
        agent.asked = ask.number;
        self.dirty.insert(port);
        for &change in ask.changes.iter() {
            match change {
                Change::Request(request) => self.request(port, request),
                Change::Withdraw(number) => self.withdraw(port, number),
            }
        }
    }

    /// The agent says that nothing of the connection is under way.
    fn withdraw(&mut self, port: Guid, number: ConnectionNumber) {
        let Some(agent) = self.agents.get_mut(&port) else {
            return;
        };
        let holder = Holder { port, session: agent.session };
        if let Some(slot) = agent.connections.remove(&number) {
            self.forget(slot);
        }
        let held = self
            .ledger
            .of(holder)
            .filter(|(_, claim)| claim.way.as_ref().is_some_and(|way| way.number == number));
        let held: Vec<_> = held.map(|(id, _)| id).collect();
        held.into_iter().for_each(|id| self.release(id));
    }

    fn request(&mut self, port: Guid, request: Request) {
        let number = request.connection;
        let known = self.agents.get(&port).and_then(|agent| agent.connections.get(&number));
        let known = known.copied().and_then(|slot| Some((slot, self.connections.get(slot)?)));
        match known {
            Some((slot, old)) if old.request.destination == request.destination => {
                self.change(slot, request);
            }
            _ => {
                // Another connection under an old number: the agent is done with the old one.
                let holder = self.agents.get(&port).map(|a| Holder { port, session: a.session });
                let stale = holder.is_some_and(|holder| {
                    self.ledger.of(holder).any(|(_, claim)| {
                        claim.way.as_ref().is_some_and(|way| {
                            way.number == number && way.destination != request.destination
                        })
                    })
                });
                if known.is_some() || stale {
                    self.withdraw(port, number);
                }
                self.open(port, request);
            }
        }
    }

    fn change(&mut self, slot: u32, request: Request) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.left = request.windows.max(1);
            connection.request = request;
            connection.told = None;
        }
        self.place(slot);
    }

    fn open(&mut self, port: Guid, request: Request) {
        let number = request.connection;
        let full = self.connections.len() >= self.config.connections as usize;
        let Some(agent) = self.agents.get_mut(&port) else {
            return;
        };
        let many = agent.connections.len() >= self.config.connections_per_agent as usize;
        let Entry::Vacant(place) = agent.connections.entry(number) else {
            return;
        };
        if full || many {
            let verdict = Verdict::Refused(Refusal::TooMany);
            self.metrics.refused += 1;
            // Where even answers are too many, the agent asks again.
            agent.answer(Answer { connection: number, verdict });
            return;
        }
        self.next_owner += 1;
        let slot = self.connections.insert(Connection {
            port,
            request,
            owner: OwnerId(self.next_owner),
            ends: Err(Refusal::UnknownSource),
            domain: None,
            left: request.windows.max(1),
            packed: false,
            route: None,
            claim: None,
            last_tree: None,
            served: None,
            urgent: false,
            shares_ports: false,
            turns: 0,
            waits: 0,
            verdict: None,
            told: None,
        });
        place.insert(slot);
        self.place(slot);
    }

    /// Finds a connection's place in the present view, and gives it to admission.
    pub(super) fn place(&mut self, slot: u32) {
        self.admission.remove(ConnectionId(slot));
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let ends = self.ends(connection.port, &connection.request);
        // Admission may know other hosts than the view until the next window, which asks this of all again.
        if let Ok(ends) = ends
            && !self.stale
        {
            self.admit(slot, ends);
        }
        let domain = ends.ok().and_then(|ends| self.slicing.of(ends));
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.ends = ends;
            // What a packer holds is its own until packers are made anew.
            if !connection.packed {
                connection.domain = domain;
            }
        }
    }

    /// Has admission choose the connection for as many windows as it still wants.
    pub(super) fn admit(&mut self, slot: u32, ends: (HostId, HostId)) {
        // It would take the turn of one that can be granted.
        if self.collectives.occupy(ends) {
            self.admission.remove(ConnectionId(slot));
            return;
        }
        let windows = self.connections.get(slot).map_or(0, |connection| connection.left);
        let (source, destination) = ends;
        let arrival = self.next.0;
        let ask = admission::Ask { source, destination, arrival, windows, rate: None };
        // Everything that can be refused was looked at before; what is spent is not pending any more.
        let taken = self.admission.add(ConnectionId(slot), &ask);
        debug_assert!(taken.is_ok() || windows == 0, "{taken:?}");
    }

    fn ends(&self, port: Guid, request: &Request) -> Result<(HostId, HostId), Refusal> {
        let source = self.fabric.host_of(port).ok_or(Refusal::UnknownSource)?;
        let destination = self.fabric.host_of(request.destination);
        let destination = destination.ok_or(Refusal::UnknownDestination)?;
        if let Some(closed) = self.fabric.closed {
            return Err(closed);
        }
        if source == destination {
            return Err(Refusal::Itself);
        }
        let carries = [source, destination].into_iter().filter_map(|host| self.fabric.rate(host));
        if carries.min().is_some_and(|carries| request.rate > carries) {
            return Err(Refusal::TooFast);
        }
        let ends = (source, destination);
        if self.fabric.shape().is_none() && !self.fabric.on_one_leaf(ends) {
            return Err(Refusal::NoRoute);
        }
        Ok(ends)
    }
}
