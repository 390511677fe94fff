//! Questions in flight: numbered, timed, asked again, and matched with what comes in.

use std::collections::{BTreeMap, BTreeSet};

use snin_mad::header::{Directed, Header};
use snin_mad::{Class, DrPath, Mad, Method, Octets, Route, Smp, TransactionId};
use snin_protocol::Time;

use super::agent_queues::AgentQueues;
use super::window::Window;
use crate::query::{NodeId, Query};
use snin_sm_database::config::Config;
use snin_sm_database::directed_route::DirectedRoute;
use snin_sm_database::error::Dropped;
use snin_sm_database::mad_address::LocalPort;

/// One question in flight.
struct Sent {
    query: Query,
    /// Whose answer it is, where that is known.
    agent: Option<NodeId>,
    mad: Box<Mad>,
    /// By which port it left, and its answer comes.
    port: LocalPort,
    /// Times that it is still asked again.
    again: u8,
    at: Time,
    deadline: Time,
    /// When it was last sent without an answer in time.
    lost: Option<Time>,
    /// It takes none of the window: it was left without an answer once, or is a probe.
    late: bool,
    /// Its answer is not waited for any more.
    aside: bool,
    /// How often it was sent again.
    repeats: u8,
}

/// Questions that were left without an answer once and are asked again, at one time. Beyond them nothing new
/// is asked.
const MOST_LATE: usize = 512;

/// The least time before an agent counts as slow.
const LEAST_PATIENCE: Time = Time::millis(1);
/// An agent is slow when it takes this many times as long as the slowest recent answer.
const SLOW: u64 = 4;

/// Every question in flight.
pub(crate) struct Transactions {
    window: Window,
    agent_queues: AgentQueues,
    timeout: Time,
    attempts: u8,
    first: u32,
    issued: u32,
    in_flight: BTreeMap<u32, Sent>,
    deadlines: BTreeSet<(Time, u32)>,
    /// Those that take none of the window.
    late: usize,
    /// The time that the slowest recent answer took; it fades by a 16th with every answer.
    slowest: Time,
}

/// A question that was left without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    pub(crate) query: Query,
    /// When it was last sent.
    pub(crate) at: Time,
    /// It was set aside: its answer is not waited for.
    pub(crate) aside: bool,
    /// How often it was sent again, this time included.
    pub(crate) repeats: u8,
}

impl Sent {
    const fn told(&self) -> Late {
        Late { query: self.query, at: self.at, aside: self.aside, repeats: self.repeats }
    }
}

/// What became of a question whose time ran out.
pub(crate) enum Expired {
    /// It is asked again; by this number it can be set aside.
    Again(u32, Late, LocalPort, Box<Mad>),
    /// It was asked often enough.
    GivenUp(Late),
}

impl Transactions {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            window: Window::new(config.window, config.window_max),
            agent_queues: AgentQueues::new(config.window_agent),
            timeout: config.timeout(),
            attempts: config.attempts,
            // Where a kernel shares the port it owns the upper half of the id, so ours is the lower.
            first: config.seed as u32,
            issued: 0,
            in_flight: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            late: 0,
            slowest: Time::ZERO,
        }
    }

    /// Whether one more may be sent. Who was silent once takes no room from those who answer.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight.len() - self.late < self.window.size() && self.late < MOST_LATE
    }

    /// Questions in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Agents and their turns.
    pub(crate) const fn agent_queues(&mut self) -> &mut AgentQueues {
        &mut self.agent_queues
    }

    /// Numbers the question and starts its clock.
    pub(crate) fn send(
        &mut self,
        query: Query,
        agent: Option<NodeId>,
        mad: (LocalPort, Mad),
        now: Time,
    ) -> (LocalPort, Box<Mad>) {
        self.agent_queues.sent(agent);
        self.begin(query, agent, mad, self.attempts.saturating_sub(1), false, now)
    }

    /// The same for a question that is asked beside all others: it takes none of the window, and is asked so
    /// often again.
    pub(crate) fn send_beside(
        &mut self,
        query: Query,
        mad: (LocalPort, Mad),
        again: u8,
        now: Time,
    ) -> (LocalPort, Box<Mad>) {
        self.begin(query, None, mad, again, true, now)
    }

    /// Ends all transactions but some.
    pub(crate) fn abandon(&mut self, but: impl Fn(Query) -> bool) {
        self.in_flight.retain(|_, sent| but(sent.query));
        let in_flight = &self.in_flight;
        self.deadlines.retain(|(_, id)| in_flight.contains_key(id));
        self.late = in_flight.values().filter(|sent| sent.late).count();
        self.agent_queues.forget();
    }

    fn begin(
        &mut self,
        query: Query,
        agent: Option<NodeId>,
        (port, mut mad): (LocalPort, Mad),
        again: u8,
        late: bool,
        now: Time,
    ) -> (LocalPort, Box<Mad>) {
        let id = self.first.wrapping_add(self.issued);
        self.issued = self.issued.wrapping_add(1);
        Header::edit(&mut mad.0).transaction_id(TransactionId(id.into()));
        let deadline = now + self.timeout;
        self.deadlines.insert((deadline, id));
        let mad = Box::new(mad);
        self.late += usize::from(late);
        let mad_kept = mad.clone();
        let sent = Sent {
            query,
            agent,
            mad: mad_kept,
            port,
            again,
            at: now,
            deadline,
            lost: None,
            late,
            aside: false,
            repeats: 0,
        };
        self.in_flight.insert(id, sent);
        (port, mad)
    }

    /// When the first question in flight runs out of time.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// The next question whose time has run out: asked again along the path that leads there now, or given
    /// up where none does.
    pub(crate) fn expire(
        &mut self,
        now: Time,
        path: impl FnOnce(Query) -> Option<DirectedRoute>,
    ) -> Option<Expired> {
        let &(deadline, id) = self.deadlines.first().filter(|&&(deadline, _)| deadline <= now)?;
        self.deadlines.remove(&(deadline, id));
        let sent = self.in_flight.get_mut(&id)?;
        let route = path(sent.query).filter(|_| sent.again > 0);
        let Some(DirectedRoute { path, from }) = route else {
            let (agent, late) = (sent.agent, sent.told());
            self.late -= usize::from(sent.late);
            self.in_flight.remove(&id);
            self.agent_queues.finished(agent);
            return Some(Expired::GivenUp(late));
        };
        Directed::edit(&mut sent.mad.0)
            .hop_count(path.hops() as u8)
            .initial_path(Octets(*path.bytes()));
        sent.repeats = sent.repeats.saturating_add(1);
        let late = sent.told();
        self.late += usize::from(!sent.late);
        (sent.again, sent.late, sent.lost) = (sent.again - 1, true, Some(sent.at));
        sent.port = from;
        sent.at = now;
        sent.deadline = now + self.timeout;
        self.deadlines.insert((sent.deadline, id));
        Some(Expired::Again(id, late, from, sent.mad.clone()))
    }

    /// Every question in flight for which `way`, given the path that it was asked along, knows another is asked
    /// along that. It was not lost for want of room, so the window stays.
    pub(crate) fn reroute(
        &mut self,
        now: Time,
        way: impl Fn(Query, &DirectedRoute) -> Option<DirectedRoute>,
    ) -> Vec<(LocalPort, Box<Mad>)> {
        let mut again = Vec::new();
        for (&id, sent) in &mut self.in_flight {
            let asked = sent.mad.directed();
            let asked = DrPath::from_bytes(&asked.initial_path().0, asked.hop_count());
            let asked = asked.map(|path| DirectedRoute { path, from: sent.port });
            let Some(DirectedRoute { path, from }) =
                asked.and_then(|asked| way(sent.query, &asked))
            else {
                continue;
            };
            sent.port = from;
            Directed::edit(&mut sent.mad.0)
                .hop_count(path.hops() as u8)
                .initial_path(Octets(*path.bytes()));
            self.deadlines.remove(&(sent.deadline, id));
            (sent.at, sent.deadline) = (now, now + self.timeout);
            self.deadlines.insert((sent.deadline, id));
            again.push((from, sent.mad.clone()));
        }
        again
    }

    /// How long an agent may take before it counts as slow. It is a guess, made long before the time-out: it
    /// decides only which answers a survey waits for.
    pub(crate) fn patience(&self) -> Time {
        (self.slowest * SLOW).max(LEAST_PATIENCE).min(self.timeout)
    }

    /// The questions whose answers are waited for and that were asked once, by number.
    pub(crate) fn waited_for(&self) -> impl Iterator<Item = (u32, Late)> {
        let waited_for = self.in_flight.iter().filter(|(_, sent)| !sent.late && !sent.aside);
        waited_for.map(|(&id, sent)| (id, sent.told()))
    }

    /// The answer is not waited for any more; the question is asked on.
    pub(crate) fn set_aside(&mut self, id: u32) {
        if let Some(sent) = self.in_flight.get_mut(&id) {
            sent.aside = true;
        }
    }

    /// Takes the answer to one of the questions, and whether it was set aside; what is none is dropped with
    /// its reason and changes nothing.
    pub(crate) fn receive(
        &mut self,
        port: LocalPort,
        mad: &Mad,
        smp: &Smp,
        now: Time,
    ) -> Result<(Query, bool), Dropped> {
        let id = smp.transaction_id.0 as u32;
        let Some(sent) = self.in_flight.get(&id) else {
            let ours = id.wrapping_sub(self.first) < self.issued;
            return Err(if ours { Dropped::Replayed } else { Dropped::Unsolicited });
        };
        if port != sent.port {
            return Err(Dropped::WrongPort);
        }
        if !answers(&sent.mad, mad, smp) {
            return Err(Dropped::Foreign);
        }
        if smp.status.is_busy() {
            return Err(Dropped::Busy);
        }
        let (query, agent, deadline, aside) = (sent.query, sent.agent, sent.deadline, sent.aside);
        if sent.lost.is_none() {
            self.slowest = (now - sent.at).max(self.slowest - self.slowest / 16);
        }
        // Now it is known that the SMP was lost, and not that there is no node.
        if let Some(lost) = sent.lost {
            self.window.lost(lost, now);
        }
        self.late -= usize::from(sent.late);
        self.agent_queues.finished(agent);
        self.in_flight.remove(&id);
        self.deadlines.remove(&(deadline, id));
        self.window.answered();
        Ok((query, aside))
    }
}

/// Whether `mad` is the answer to `question`: the same attribute and modifier, back along the same path.
fn answers(question: &Mad, mad: &Mad, smp: &Smp) -> bool {
    let asked = question.header();
    let same = asked.attribute() == smp.attribute && asked.modifier().0 == smp.modifier;
    let path = |mad: &Mad| (mad.directed().hop_count(), mad.directed().initial_path());
    smp.returning && same && path(question) == path(mad)
}

/// What came in, taken apart, and why it is none of this manager's business.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Mad, Smp), Dropped> {
    let mad = Mad::from_slice(bytes).map_err(|_| Dropped::Truncated)?;
    if !matches!(mad.header().class(), Class::Subnet | Class::DirectedSubnet) {
        return Err(Dropped::OtherClass);
    }
    let smp = Smp::parse(&mad.0).map_err(|_| Dropped::Malformed)?;
    match (smp.method, smp.route) {
        (Method::GetResp, Route::Directed { .. }) | (Method::Trap, _) => Ok((mad, smp)),
        (Method::GetResp, Route::Lid) => Err(Dropped::Unsolicited),
        _ => Err(Dropped::Request),
    }
}
