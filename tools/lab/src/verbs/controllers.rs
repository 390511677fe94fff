//! Controllers that say which tree a host sends along: the core, or one that knows nothing of links.

use std::collections::{BTreeMap, VecDeque};

use snin_controller_core::Core;
use snin_controller_core::events::{Event, Output};
use snin_fabric::{Dlid, Guid, TreeId};
use snin_protocol::message::{
    AgentMessage, Ask, Change, ClockAnswer, ControllerMessage, FromAgent, Grant, Lease, Terms,
    ToAgent,
};
use snin_protocol::{ConnectionNumber, Session, Term, Time};

/// A controller.
pub(super) enum Controller {
    /// The real one, and what it noted.
    Packing(Box<Core>, Vec<String>),
    /// A controller that puts all agents on the same tree, for ever.
    Forced(Forced),
}

impl Controller {
    pub(super) fn packing(core: Core) -> Self {
        Self::Packing(Box::new(core), Vec::new())
    }

    /// From now on every agent that asks gets this tree, in the forced mode.
    pub(super) const fn force(&mut self, tree: TreeId) {
        if let Self::Forced(forced) = self {
            forced.tree = tree;
        }
    }

    /// What it noted; is given once.
    pub(super) fn notes(&mut self) -> Vec<String> {
        match self {
            Self::Packing(_, notes) => std::mem::take(notes),
            Self::Forced(_) => Vec::new(),
        }
    }

    pub(super) fn handle(&mut self, event: Event, now: Time) {
        match (self, event) {
            (Self::Packing(core, _), event) => drop(core.handle(event, now)),
            (Self::Forced(forced), Event::Received { from, message }) => {
                forced.receive(from, message, now);
            }
            (Self::Forced(_), _) => {}
        }
    }

    pub(super) fn next_deadline(&self) -> Time {
        match self {
            Self::Packing(core, _) => core.next_deadline().unwrap_or(Time::MAX),
            Self::Forced(_) => Time::MAX,
        }
    }

    /// Lets what is due happen; gives what is to be told to agents.
    pub(super) fn work(&mut self, now: Time) -> Vec<(Guid, ToAgent)> {
        let (core, notes) = match self {
            Self::Packing(core, notes) => (core, notes),
            Self::Forced(forced) => return forced.answers.drain(..).collect(),
        };
        if core.next_deadline().is_some_and(|at| at <= now) {
            core.handle_deadline(now);
        }
        let mut told = Vec::new();
        while let Some(output) = core.poll_output() {
            match output {
                Output::Send { to, message } => told.push((to, message)),
                Output::Note(note) => notes.push(format!("the controller: {note}")),
                Output::Clear(_) | Output::Window(_) | Output::LinkTested(..) => {}
            }
        }
        told
    }
}

/// Grants every connection the same tree, even one that is taken: what static routing does to hosts whose
/// addresses happen to lead along one uplink.
pub(super) struct Forced {
    tree: TreeId,
    terms: Terms,
    /// Of each port along each tree.
    addresses: BTreeMap<(Guid, TreeId), Dlid>,
    agents: BTreeMap<Guid, Holder>,
    answers: VecDeque<(Guid, ToAgent)>,
}

struct Holder {
    session: Session,
    heard: u64,
    sequence: u64,
    wanted: BTreeMap<ConnectionNumber, Guid>,
}

/// How long its grants last.
const FOR_EVER: Time = Time::secs(50);

impl Forced {
    /// It is the first.
    const TERM: Term = Term(1);

    pub(super) fn new(terms: Terms, addresses: BTreeMap<(Guid, TreeId), Dlid>) -> Self {
        let (agents, answers) = Default::default();
        Self { tree: TreeId(0), terms, addresses, agents, answers }
    }

    fn receive(&mut self, from: Guid, FromAgent { session, body }: FromAgent, now: Time) {
        if let AgentMessage::Hello(_) = body {
            let (heard, sequence, wanted) = Default::default();
            self.agents.insert(from, Holder { session, heard, sequence, wanted });
            return self.send(from, session, ControllerMessage::Welcome(self.terms), now);
        }
        if self.agents.get(&from).is_none_or(|agent| agent.session != session) {
            return self.send(from, session, ControllerMessage::Stranger, now);
        }
        match body {
            AgentMessage::Clock(question) => {
                let answer = ClockAnswer { sent: question.sent };
                self.send(from, session, ControllerMessage::Clock(answer), now);
            }
            AgentMessage::Ask(ask) => {
                if let Some(lease) = self.lease(from, &ask, now) {
                    self.send(from, session, ControllerMessage::Lease(lease), now);
                }
            }
            AgentMessage::Hello(_) | AgentMessage::Confirm(_) | AgentMessage::LinkTested(_) => {}
        }
    }

    fn lease(&mut self, to: Guid, ask: &Ask, now: Time) -> Option<Lease> {
        let Self { tree, addresses, agents, .. } = self;
        let agent = agents.get_mut(&to)?;
        for change in ask.changes.iter() {
            match change {
                Change::Request(request) => {
                    agent.wanted.insert(request.connection, request.destination);
                }
                Change::Withdraw(connection) => {
                    agent.wanted.remove(connection);
                }
            }
        }
        agent.heard = ask.number;
        agent.sequence += 1;
        let grant = |(&connection, &destination): (&ConnectionNumber, &Guid)| {
            let (tree, until) = (*tree, now + FOR_EVER);
            let dlid = *addresses.get(&(destination, tree))?;
            Some(Grant { connection, tree, dlid, from: now, until, rate: 0, pinned: false, sl: 0 })
        };
        let grants = agent.wanted.iter().filter_map(grant).collect();
        let (sequence, heard) = (agent.sequence, agent.heard);
        Some(Lease { sequence, heard, grants, answers: Vec::new(), collective: None })
    }

    fn send(&mut self, to: Guid, session: Session, body: ControllerMessage, at: Time) {
        self.answers.push_back((to, ToAgent { session, term: Self::TERM, at, body }));
    }
}
