//! Who says which tree a host sends along: the controller's core, or one that knows nothing of links.

use std::collections::{BTreeMap, VecDeque};

use snin_controller::core::Core;
use snin_controller::events::{Event, Output, WindowReport};
use snin_fabric::{Dlid, Guid, TreeId};
use snin_protocol::message::{
    AgentSays, Change, ClockAnswer, ControllerSays, FromAgent, Grant, Lease, Terms, ToAgent,
};
use snin_protocol::{ConnectionNumber, Term, Time};

/// A controller.
pub(super) enum Controller {
    /// The real one.
    Packing(Box<Packing>),
    /// One that puts everybody on the same tree, for ever.
    Forced(Forced),
}

impl Controller {
    pub(super) fn handle(&mut self, from: Guid, message: FromAgent, now: Time) {
        match self {
            Self::Packing(packing) => {
                packing.core.handle(Event::Received { from, message }, now);
            }
            Self::Forced(forced) => forced.hear(from, &message, now),
        }
    }

    pub(super) fn next_deadline(&self) -> Time {
        match self {
            Self::Packing(packing) => packing.core.next_deadline().unwrap_or(Time::MAX),
            Self::Forced(_) => Time::MAX,
        }
    }

    /// Lets what is due happen; gives what is to be told to agents.
    pub(super) fn work(&mut self, now: Time) -> Vec<(Guid, ToAgent)> {
        match self {
            Self::Packing(packing) => packing.work(now),
            Self::Forced(forced) => forced.answers.drain(..).collect(),
        }
    }
}

/// The controller's core, and what it decided.
pub(super) struct Packing {
    pub(super) core: Core,
    pub(super) windows: Vec<WindowReport>,
}

impl Packing {
    pub(super) fn new(core: Core) -> Self {
        Self { core, windows: Vec::new() }
    }

    fn work(&mut self, now: Time) -> Vec<(Guid, ToAgent)> {
        if self.core.next_deadline().is_some_and(|at| at <= now) {
            self.core.handle_deadline(now);
        }
        let mut told = Vec::new();
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Send { to, message } => told.push((to, message)),
                Output::Window(report) => self.windows.push(report),
                Output::Clear(_) | Output::Note(_) => {}
            }
        }
        told
    }
}

/// Grants every connection the same tree, whoever has it already: what static routing does to hosts whose
/// addresses happen to lead along one uplink.
pub(super) struct Forced {
    tree: TreeId,
    terms: Terms,
    /// The address of each port along that tree.
    addresses: BTreeMap<Guid, Dlid>,
    agents: BTreeMap<Guid, Holder>,
    answers: VecDeque<(Guid, ToAgent)>,
}

#[derive(Default)]
struct Holder {
    heard: u64,
    sequence: u64,
    wanted: BTreeMap<ConnectionNumber, Guid>,
}

/// How long its grants last.
const FOR_EVER: Time = Time::secs(50);

impl Forced {
    pub(super) fn new(tree: TreeId, terms: Terms, addresses: BTreeMap<Guid, Dlid>) -> Self {
        let (agents, answers) = Default::default();
        Self { tree, terms, addresses, agents, answers }
    }

    fn hear(&mut self, from: Guid, message: &FromAgent, now: Time) {
        let agent = self.agents.entry(from).or_default();
        let body = match &message.body {
            AgentSays::Hello(_) => ControllerSays::Welcome(self.terms),
            AgentSays::Clock(question) => {
                ControllerSays::Clock(ClockAnswer { sent: question.sent })
            }
            AgentSays::Confirm(_) => return,
            AgentSays::Ask(ask) => {
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
                let grant = |(&connection, destination)| {
                    let dlid = *self.addresses.get(destination)?;
                    let (tree, until) = (self.tree, now + FOR_EVER);
                    Some(Grant { connection, tree, dlid, from: now, until, pinned: true })
                };
                let grants = agent.wanted.iter().filter_map(grant).collect();
                let (sequence, heard) = (agent.sequence, agent.heard);
                ControllerSays::Lease(Lease { sequence, heard, grants, answers: Vec::new() })
            }
        };
        let frame = ToAgent { session: message.session, term: Term(1), at: now, body };
        self.answers.push_back((from, frame));
    }
}
