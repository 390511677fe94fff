//! Three managers and the messages between them, which may be lost and overtake each other.

use snin_fabric::Guid;
use snin_mastership::election::{
    Band, Election, Event, Kind, Limits, Message, Output, Priority, State,
};
use snin_protocol::Time;

/// Messages that are on their way at once; more are lost.
const MOST_IN_FLIGHT: usize = 6;
/// So long it takes at most until there is one master: a keep-alive, and two elections with all that lengthens
/// them.
const CONVERGED: Time = Time::millis(1000 + 2 * 600 * 5 / 2 + 500);
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
    /// A manager that hears no other, and is heard by none.
    pub(crate) island: Option<usize>,
    pub(crate) planted: Planted,
}

/// A bug on the way of messages, which the judge has to find.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Planted {
    Nothing,
    /// CEDE is never obeyed.
    NoCede,
    /// Masters do not say that they are.
    HiddenMaster,
    /// Managers disagree on whose GUID goes first.
    OtherOrder,
    /// What a master is worth is not told.
    NoPriority,
}

impl Planted {
    fn pass(self, message: Message) -> Option<Message> {
        let Message { kind, sender, state, priority } = message;
        Some(match self {
            Self::NoCede if kind == Kind::Cede => return None,
            Self::HiddenMaster if state == State::Master && kind == Kind::Status => return None,
            Self::OtherOrder => Message { sender: Guid(4 - sender.0), ..message },
            Self::NoPriority => {
                let priority =
                    Priority { chosen: false, good_ports: 2, ports_ok: true, ..priority };
                Message { priority, ..message }
            }
            _ => message,
        })
    }
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
    Cut(usize),
    Join,
}

impl Net {
    pub(crate) fn new() -> Self {
        let managers = [0, 1, 2]
            .map(|i| Some(Election::new(guid(i), healthy(), Limits::default(), Time::ZERO)));
        let (flying, planted) = (Vec::new(), Planted::Nothing);
        let mut net = Self { now: Time::ZERO, managers, flying, changes: 0, island: None, planted };
        (0..3).for_each(|i| net.drain(i));
        net
    }

    fn drain(&mut self, from: usize) {
        let Some(manager) = &mut self.managers[from] else { return };
        while let Some(output) = manager.poll_output() {
            match output {
                Output::Became(state) => self.changes += u32::from(state == State::Master),
                Output::Send { to, message } => {
                    let cut = |other: &usize| self.island.is_some_and(|i| i == from || i == *other);
                    for other in (0..3).filter(|other| *other != from && !cut(other)) {
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
                if let Some(message) = self.planted.pass(message) {
                    self.tell(to, Event::Message(message));
                }
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
            Step::Cut(at) => {
                self.island = Some(at);
                let crosses = |to: usize, from: Guid| to == at || from == guid(at);
                self.flying.retain(|(to, message)| !crosses(*to, message.sender));
            }
            Step::Join => self.island = None,
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
            if self.island.is_none() {
                steps.push(Step::Cut(at));
            }
            if manager.priority().chosen || !chosen {
                steps.push(Step::Chosen(at, !manager.priority().chosen));
            }
        }
        steps.extend(self.island.map(|_| Step::Join));
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

    /// The managers that hear each other.
    fn parts(&self) -> Vec<Vec<usize>> {
        let lives = |at: &usize| self.managers[*at].is_some();
        let alone = |at: &usize| self.island == Some(*at);
        let (islands, others) = (0..3).filter(lives).partition::<Vec<usize>, _>(alone);
        [islands, others].into_iter().filter(|part| !part.is_empty()).collect()
    }

    /// When nothing fails any more, each part has one master within a bounded time (P1, P3, P6), than which none
    /// is better (P2), which stays (P4), and which SMInfo shows as the greatest (P7).
    pub(crate) fn judge(&self) -> Result<(), String> {
        let mut net = self.clone();
        net.calm(CONVERGED);
        net.judge_parts()?;
        let (changes, masters) = (net.changes, net.masters());
        net.calm(Time::secs(3));
        if net.changes != changes || net.masters() != masters {
            return Err("mastership moves without an event".to_owned());
        }
        if net.island.take().is_some() {
            net.calm(CONVERGED);
            return net.judge_parts();
        }
        Ok(())
    }

    fn judge_parts(&self) -> Result<(), String> {
        for part in self.parts() {
            let of = |at: usize| self.managers[at].as_ref().map(|it| (it.state(), it.priority()));
            let all: Vec<(State, Priority)> = part.iter().filter_map(|&at| of(at)).collect();
            let masters: Vec<_> = all.iter().filter(|(state, _)| *state == State::Master).collect();
            let [(_, master)] = masters[..] else {
                return Err(format!("{} masters of {part:?}", masters.len()));
            };
            let rank = |p: &Priority| (p.chosen, p.ports_ok, p.good_ports);
            if all.iter().any(|(_, other)| rank(other) > rank(master)) {
                return Err(format!("of {part:?} the master is not the best"));
            }
            let shown = |(state, priority): &(State, Priority)| Band(8).shown(*state, *priority);
            let greatest = all.iter().filter(|it| it.0 != State::Master).map(shown).max();
            if greatest >= Some(Band(8).shown(State::Master, *master)) {
                return Err(format!(
                    "of {part:?} SMInfo shows another than the master as the greatest"
                ));
            }
        }
        Ok(())
    }
}
