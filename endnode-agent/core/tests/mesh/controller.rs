//! A controller that gives trees to flows as chance has it, keeps its promise that no tree has two owners,
//! and moves flows far more often than a good one would.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use snin_agent_core::FlowId;
use snin_fabric::{Dlid, Lid, TreeId};
use snin_protocol::message::{
    AgentMessage, Change, ClockAnswer, ControllerMessage, FromAgent, Grant, Lease, Terms, ToAgent,
};
use snin_protocol::{ConnectionNumber, Session, Term, Time};

use crate::checker::Checker;

/// The flow that may be on a tree.
#[derive(Clone, Copy, Debug)]
struct Owner {
    host: usize,
    connection: ConnectionNumber,
    until: Time,
    /// The lease without it; once that is confirmed the tree is clear.
    left: Option<u64>,
}

#[derive(Default)]
struct Agent {
    session: Option<Session>,
    heard: u64,
    sequence: u64,
    wanting: BTreeMap<ConnectionNumber, Option<Grant>>,
}

pub(crate) struct Controller {
    pub(crate) terms: Terms,
    /// A stranger to every agent until it has heard their Hello.
    pub(crate) term: Term,
    trees: BTreeMap<TreeId, Option<Owner>>,
    agents: Vec<Agent>,
    rng: ChaCha8Rng,
}

impl Controller {
    pub(crate) fn new(hosts: usize, trees: u16, terms: Terms, rng: ChaCha8Rng) -> Self {
        let trees = (0..trees).map(|tree| (TreeId(tree), None)).collect();
        let agents = (0..hosts).map(|_| Agent::default()).collect();
        Self { terms, term: Term(1), trees, agents, rng }
    }

    /// Another controller takes over. It knows no agent, and only until when grants may last.
    pub(crate) fn take_over(&mut self) {
        self.term.0 += 1;
        self.agents.iter_mut().for_each(|agent| *agent = Agent::default());
        for owner in self.trees.values_mut().flatten() {
            owner.left = Some(u64::MAX);
        }
    }

    fn frame(&self, session: Session, at: Time, body: ControllerMessage) -> ToAgent {
        ToAgent { session, term: self.term, at, body }
    }

    /// What it answers at once.
    pub(crate) fn receive(
        &mut self,
        host: usize,
        message: FromAgent,
        now: Time,
    ) -> Option<ToAgent> {
        let session = message.session;
        let agent = &mut self.agents[host];
        if let AgentMessage::Hello(_) = message.body {
            if agent.session.is_none_or(|known| known < session) {
                // Nothing of an earlier conversation holds.
                *agent = Agent { session: Some(session), ..Agent::default() };
                for owner in self.trees.values_mut() {
                    owner.take_if(|owner| owner.host == host && owner.left != Some(u64::MAX));
                }
            }
            return Some(self.frame(session, now, ControllerMessage::Welcome(self.terms)));
        }
        if agent.session != Some(session) {
            let older = agent.session.is_some_and(|known| known > session);
            return (!older).then(|| self.frame(session, now, ControllerMessage::Stranger));
        }
        match message.body {
            AgentMessage::Ask(ask) if ask.number == agent.heard + 1 => {
                agent.heard = ask.number;
                ask.changes.iter().for_each(|&change| self.change(host, change));
            }
            AgentMessage::Confirm(confirm) => {
                let clear = |o: &mut Owner| {
                    o.host == host && o.left.is_some_and(|left| left <= confirm.sequence)
                };
                self.trees.values_mut().for_each(|owner| _ = owner.take_if(clear));
            }
            AgentMessage::Clock(question) => {
                let answer = ControllerMessage::Clock(ClockAnswer { sent: question.sent });
                return Some(self.frame(session, now, answer));
            }
            AgentMessage::Ask(_) | AgentMessage::Hello(_) | AgentMessage::LinkTested(_) => {}
        }
        None
    }

    fn change(&mut self, host: usize, change: Change) {
        let agent = &mut self.agents[host];
        match change {
            Change::Request(request) => {
                agent.wanting.entry(request.connection).or_default();
            }
            Change::Withdraw(connection) => {
                agent.wanting.remove(&connection);
                let clear = |o: &mut Owner| (o.host, o.connection) == (host, connection);
                self.trees.values_mut().for_each(|owner| _ = owner.take_if(clear));
            }
        }
    }

    /// The leases of the window that begins now.
    pub(crate) fn window(&mut self, now: Time, checker: &mut Checker) -> Vec<(usize, ToAgent)> {
        for owner in self.trees.values_mut() {
            owner.take_if(|owner| owner.until <= now);
        }
        let mut frames = Vec::new();
        for host in 0..self.agents.len() {
            let Some(session) = self.agents[host].session else { continue };
            self.agents[host].sequence += 1;
            let connections: Vec<_> = self.agents[host].wanting.keys().copied().collect();
            for connection in connections {
                self.choose(host, connection, now);
            }
            let agent = &self.agents[host];
            let grants: Vec<Grant> = agent.wanting.values().flatten().copied().collect();
            for grant in &grants {
                checker.granted(host, FlowId(grant.connection.0), *grant);
            }
            let lease = Lease {
                sequence: agent.sequence,
                heard: agent.heard,
                grants,
                answers: vec![],
                collective: None,
            };
            frames.push((host, self.frame(session, now, ControllerMessage::Lease(lease))));
        }
        frames
    }

    /// Renews a connection's grant, takes it away, moves it, or lets it be.
    fn choose(&mut self, host: usize, connection: ConnectionNumber, now: Time) {
        let window = self.terms.window;
        let held = self.agents[host].wanting[&connection].filter(|grant| {
            let owner = self.trees[&grant.tree].filter(|owner| owner.left.is_none());
            owner.is_some_and(|owner| (owner.host, owner.connection) == (host, connection))
        });
        let grant = match (held, self.rng.random_range(0..100)) {
            (Some(grant), 0..10) => Some(grant),
            (Some(grant), 10..20) => {
                self.leave(host, grant.tree);
                None
            }
            (Some(grant), 20..60) => {
                let until = grant.until.max(now + window * self.rng.random_range(1..4));
                Some(self.give(host, Grant { until, ..grant }))
            }
            (held, _) => match self.any_free() {
                None => held,
                Some(tree) => {
                    if let Some(held) = held {
                        self.leave(host, held.tree);
                    }
                    let from = now + window * self.rng.random_range(0..2);
                    let until = from + window * self.rng.random_range(1..4);
                    let dlid = Dlid(Lid(64 + tree.0));
                    Some(self.give(
                        host,
                        Grant {
                            connection,
                            tree,
                            dlid,
                            from,
                            until,
                            rate: 0,
                            pinned: false,
                            sl: 0,
                        },
                    ))
                }
            },
        };
        self.agents[host].wanting.insert(connection, grant);
    }

    fn give(&mut self, host: usize, grant: Grant) -> Grant {
        let Grant { connection, until, .. } = grant;
        self.trees.insert(grant.tree, Some(Owner { host, connection, until, left: None }));
        grant
    }

    fn leave(&mut self, host: usize, tree: TreeId) {
        let sequence = self.agents[host].sequence;
        if let Some(Some(owner)) = self.trees.get_mut(&tree) {
            owner.left = Some(sequence);
        }
    }

    fn any_free(&mut self) -> Option<TreeId> {
        let free = self.trees.iter().filter(|(_, owner)| owner.is_none()).map(|(tree, _)| *tree);
        let free: Vec<TreeId> = free.collect();
        (!free.is_empty()).then(|| free[self.rng.random_range(0..free.len())])
    }
}
