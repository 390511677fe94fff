//! Three managers and the messages between them, which may be lost and overtake each other.

use snin_fabric::Guid;
use snin_protocol::Time;
use snin_sm_core::election::{Election, Event, Limits, Message, Output, Priority, State};

/// Messages that are on their way at once; more are lost.
const MOST_IN_FLIGHT: usize = 6;
/// Messages and timers of all managers in one calm span; more are a storm.
const MOST_EVENTS: u32 = 5000;

pub(crate) fn guid(index: usize) -> Guid {
    Guid(index as u64 + 1)
}

pub(crate) fn healthy() -> Priority {
    Priority::default().with_ports(2, 2)
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) managers: [Option<Election>; 3],
    /// Receiver and message.
    pub(crate) flying: Vec<(usize, Message)>,
    /// How often a manager became master.
    pub(crate) changes: u32,
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Deliver(usize),
    Lose(usize),
    Timer(usize),
    Crash(usize),
    Start(usize),
    Ports(usize, u8),
    Chosen(usize, bool),
}

impl Net {
    pub(crate) fn new() -> Self {
        let managers = [0, 1, 2]
            .map(|i| Some(Election::new(guid(i), healthy(), Limits::default(), Time::ZERO)));
        let mut net = Self { now: Time::ZERO, managers, flying: Vec::new(), changes: 0 };
        (0..3).for_each(|i| net.drain(i));
        net
    }

    fn drain(&mut self, from: usize) {
        let Some(manager) = &mut self.managers[from] else { return };
        while let Some(output) = manager.poll_output() {
            match output {
                Output::Became(state) => self.changes += u32::from(state == State::Master),
                Output::Send { to, message } => {
                    for other in (0..3).filter(|&other| other != from) {
                        if to.is_none_or(|to| to == guid(other))
                            && self.flying.len() < MOST_IN_FLIGHT
                        {
                            self.flying.push((other, message));
                        }
                    }
                }
            }
        }
    }

    fn tell(&mut self, to: usize, event: Event) {
        if let Some(manager) = &mut self.managers[to] {
            manager.handle(event, self.now);
        }
        self.drain(to);
    }

    pub(crate) fn step(&mut self, step: Step) {
        match step {
            Step::Lose(at) => drop(self.flying.remove(at)),
            Step::Deliver(at) => {
                let (to, message) = self.flying.remove(at);
                self.tell(to, Event::Message(message));
            }
            Step::Timer(at) => {
                if let Some(manager) = &mut self.managers[at] {
                    self.now = self.now.max(manager.next_deadline());
                    manager.handle_deadline(self.now);
                }
                self.drain(at);
            }
            Step::Crash(at) => self.managers[at] = None,
            Step::Start(at) => {
                let manager = Election::new(guid(at), healthy(), Limits::default(), self.now);
                self.managers[at] = Some(manager);
                self.drain(at);
            }
            Step::Ports(at, good) => self.tell(at, Event::Ports { good, of: 2 }),
            Step::Chosen(at, chosen) => self.tell(at, Event::Chosen(chosen)),
        }
    }

    /// All that can happen now. One manager at most is chosen.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for at in 0..self.flying.len() {
            steps.extend([Step::Deliver(at), Step::Lose(at)]);
        }
        let chosen = self.managers.iter().flatten().any(|manager| manager.priority().chosen);
        for (at, manager) in self.managers.iter().enumerate() {
            let Some(manager) = manager else {
                steps.push(Step::Start(at));
                continue;
            };
            steps.extend([
                Step::Timer(at),
                Step::Crash(at),
                Step::Ports(at, 1),
                Step::Ports(at, 2),
            ]);
            if manager.priority().chosen || !chosen {
                steps.push(Step::Chosen(at, !manager.priority().chosen));
            }
        }
        steps
    }

    /// Nothing fails any more: messages arrive at once, timers run at their time, until `span` is over.
    pub(crate) fn calm(&mut self, span: Time) {
        let end = self.now + span;
        let mut events = 0;
        loop {
            events += 1;
            assert!(events < MOST_EVENTS, "messages without end: {:?}", self.flying);
            if !self.flying.is_empty() {
                self.step(Step::Deliver(0));
                continue;
            }
            let next =
                (0..3).filter_map(|at| Some((self.managers[at].as_ref()?.next_deadline(), at)));
            let Some((_, at)) = next.min().filter(|(deadline, _)| *deadline <= end) else { break };
            self.step(Step::Timer(at));
        }
        self.now = end;
    }

    pub(crate) fn masters(&self) -> Vec<usize> {
        let is =
            |at: &usize| self.managers[*at].as_ref().is_some_and(|m| m.state() == State::Master);
        (0..3).filter(is).collect()
    }

    /// One master exactly, than which none is better, and it stays (P1, P2, P4).
    pub(crate) fn judge(&self) -> Result<(), String> {
        let mut net = self.clone();
        net.calm(Time::secs(6));
        let masters = net.masters();
        let alive = net.managers.iter().flatten().count();
        if masters.len() != usize::from(alive > 0) {
            return Err(format!("{masters:?} are masters of {alive}"));
        }
        let rank = |p: Priority| (p.chosen, p.ports_ok, p.good_ports);
        let ranks = net.managers.iter().flatten().map(|manager| rank(manager.priority()));
        let master = masters.first().and_then(|&at| net.managers[at].as_ref());
        if ranks.max() != master.map(|manager| rank(manager.priority())) {
            return Err(format!("{masters:?} is not the best"));
        }
        let changes = net.changes;
        net.calm(Time::secs(3));
        if net.changes != changes || net.masters() != masters {
            return Err("mastership moves without an event".to_owned());
        }
        Ok(())
    }
}
