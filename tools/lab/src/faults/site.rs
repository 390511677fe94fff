//! Everything of a run: the clock, what is to happen, the processes.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use snin_agent_core::PortEvent;
use snin_controller_core::leadership::{Answer, Question};
use snin_controller_core::view_session::ViewDone;
use snin_emulator::{Config as Hardware, Emulator};
use snin_fabric::hosts::Hosts;
use snin_fabric::{Guid, PortIndex, Topology};
use snin_protocol::Time;
use snin_sweep::Computed;

use super::agents::Agent;
use super::controllers::Controller;
use super::judges::Judges;
use super::managers::ManagerProcess;
use super::net::{Heard, Net, Process, Running, Service};
use super::store::{Elected, Store};
use super::storm::Storms;
use super::{Setup, SetupError, Summary, Violation};

/// The leader's lease in the store.
pub(super) const LEASE: Time = Time::secs(3);
/// How often ports are looked at for what their adapters would tell.
const LOOK: Time = Time::millis(50);

/// What will happen.
pub(super) enum Happening {
    Call {
        key: (Process, Service, usize),
        life: u32,
    },
    Hear {
        to: Process,
        life: u32,
        heard: Box<Heard>,
    },
    Silent {
        session: u64,
        since: Time,
    },
    /// A manager's tables are computed.
    Computed {
        manager: usize,
        life: u32,
        computed: Box<Computed>,
    },
    /// A controller's tables are computed.
    Viewed {
        controller: usize,
        life: u32,
        session: u64,
        view: Box<ViewDone>,
    },
    /// The store is asked, and answers.
    Asked {
        controller: usize,
        life: u32,
        question: Question,
    },
    Answered {
        controller: usize,
        life: u32,
        answer: Answer,
        elected: Option<Elected>,
    },
    /// A controller's agent is gone for good, if it has not called again.
    Leaving {
        controller: usize,
        life: u32,
        agent: usize,
    },
    Port {
        agent: usize,
        life: u32,
        event: PortEvent,
    },
    /// A port may begin with the next piece.
    Start {
        agent: usize,
        life: u32,
    },
    Wake {
        agent: usize,
        life: u32,
    },
    /// An agent's application does something.
    Act {
        agent: usize,
        life: u32,
    },
    Look,
}

/// A process's life; the next one has another number.
#[derive(Clone, Copy, Debug)]
struct Life {
    number: u32,
    running: Running,
    since: Time,
}

/// See the module's documentation.
pub struct Site {
    pub(super) setup: Setup,
    pub(super) topology: Topology,
    pub(super) emulator: Emulator,
    pub(super) rng: ChaCha8Rng,
    pub(super) net: Net,
    pub(super) managers: Vec<ManagerProcess>,
    pub(super) controllers: Vec<Controller>,
    pub(super) agents: Vec<Agent>,
    pub(super) hosts: Vec<(Guid, PortIndex)>,
    pub(super) store: Store,
    pub(super) judges: Judges,
    pub(super) storms: Storms,
    pub(super) summary: Summary,
    /// Of managers, controllers and agents.
    lives: [Vec<Life>; 3],
    /// What came while a process stood still.
    waiting: BTreeMap<Process, VecDeque<Happening>>,
    queue: BTreeMap<(Time, u64), Happening>,
    planned: u64,
    log: Vec<String>,
    /// FNV-1a of all that happened.
    hash: u64,
}

impl Site {
    /// A fabric that was just switched on, and processes that have not begun.
    ///
    /// # Errors
    /// What cannot be simulated.
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        let in_range = |count: usize, what| match count {
            1..=5 => Ok(()),
            _ => Err(SetupError::Count(count, what)),
        };
        in_range(setup.managers, "managers")?;
        in_range(setup.controllers, "controllers")?;
        let topology = setup.topology.clone();
        let all = Hosts::of(&topology);
        let hosts: Vec<(Guid, PortIndex)> =
            all.iter().map(|(_, host)| (topology.port(host.port).guid, host.port)).collect();
        if hosts.len() < setup.managers.max(2) {
            return Err(SetupError::Hosts { hosts: hosts.len(), managers: setup.managers });
        }
        let rng = ChaCha8Rng::seed_from_u64(setup.seed);
        let emulator = Emulator::new(&topology, Hardware::default());
        let mut site = Self {
            judges: Judges::default(),
            storms: Storms::new(&topology),
            store: Store::new(LEASE),
            net: Net::default(),
            managers: Vec::new(),
            controllers: Vec::new(),
            agents: Vec::new(),
            summary: Summary::default(),
            lives: Default::default(),
            waiting: BTreeMap::new(),
            queue: BTreeMap::new(),
            planned: 0,
            log: Vec::new(),
            hash: 0xCBF2_9CE4_8422_2325,
            setup,
            topology,
            emulator,
            rng,
            hosts,
        };
        let dead = Life { number: 0, running: Running::Dead, since: Time::ZERO };
        let counts = [site.setup.managers, site.setup.controllers, site.hosts.len()];
        site.lives = counts.map(|count| vec![dead; count]);
        site.watch_writes();
        for n in 0..site.setup.managers {
            site.add_manager(n)?;
        }
        for n in 0..site.setup.controllers {
            site.add_controller(n);
        }
        for n in 0..site.hosts.len() {
            site.add_agent(n)?;
        }
        Ok(site)
    }

    /// Every process starts, one after the other.
    pub fn begin(&mut self) {
        let managers = (0..self.managers.len()).map(Process::Manager);
        let controllers = (0..self.controllers.len()).map(Process::Controller);
        let agents = (0..self.agents.len()).map(Process::Agent);
        let all: Vec<Process> = managers.chain(controllers).chain(agents).collect();
        for process in all {
            self.start(process);
            let pause = Time::millis(self.rng.random_range(0..300));
            self.run_until(self.now() + pause);
        }
        self.plan(LOOK, Happening::Look);
        self.calm();
    }

    /// Whether all faults are done, or something was seen that must not be.
    pub fn is_over(&self) -> bool {
        self.faults() >= self.setup.faults || self.summary.violation.is_some()
    }

    /// Faults so far.
    pub fn faults(&self) -> u32 {
        self.summary.faults.values().sum()
    }

    /// What came of it, and the lines of what happened.
    pub fn end(mut self) -> (Summary, Vec<String>) {
        self.summary.simulated = self.now();
        self.summary.hash = self.hash;
        (self.summary, self.log)
    }

    pub(super) fn now(&self) -> Time {
        self.emulator.now()
    }

    pub(super) fn plan(&mut self, after: Time, happening: Happening) {
        self.planned += 1;
        let at = self.now() + after;
        self.queue.insert((at, self.planned), happening);
    }

    /// Something of note happened.
    pub(super) fn tell(&mut self, line: impl Display) {
        let line = format!("{} {line}", self.now());
        self.fold(line.as_bytes());
        if self.setup.keeps_log {
            self.log.push(line);
        }
    }

    /// Something happened: the hash says so.
    pub(super) fn fold(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    /// Something that must never be.
    pub(super) fn violated(&mut self, rule: &'static str, what: impl Display) {
        let (at, faults) = (self.now(), self.faults());
        self.tell(format_args!("{rule}: {what}"));
        let violation = Violation { at, faults, rule, what: what.to_string() };
        self.summary.violation.get_or_insert(violation);
    }

    fn of(&self, process: Process) -> &Life {
        let (kind, n) = process.place();
        &self.lives[kind][n]
    }

    pub(super) fn life(&self, of: Process) -> u32 {
        self.of(of).number
    }

    pub(super) fn running(&self, of: Process) -> Running {
        self.of(of).running
    }

    pub(super) fn runs(&self, of: Process) -> bool {
        self.running(of) == Running::Runs
    }

    pub(super) fn stopped_since(&self, of: Process) -> Option<Time> {
        let life = self.of(of);
        (life.running == Running::Stopped).then_some(life.since)
    }

    fn set(&mut self, of: Process, running: Running) {
        let (since, (kind, n)) = (self.now(), of.place());
        let life = &mut self.lives[kind][n];
        (life.running, life.since) = (running, since);
    }

    /// A process that is dead begins another life.
    pub(super) fn start(&mut self, process: Process) {
        let (kind, n) = process.place();
        self.lives[kind][n].number += 1;
        self.set(process, Running::Runs);
        match process {
            Process::Manager(n) => self.start_manager(n),
            Process::Controller(n) => self.start_controller(n),
            Process::Agent(n) => self.start_agent(n),
        }
        self.begin_calling(process);
        self.work();
    }

    pub(super) fn kill(&mut self, process: Process) {
        self.set(process, Running::Dead);
        self.waiting.remove(&process);
        self.close_all(process, None);
        match process {
            Process::Manager(_) => {}
            Process::Controller(n) => self.controllers[n].forget(),
            Process::Agent(n) => self.end_agent(n),
        }
    }

    /// As by SIGSTOP.
    pub(super) fn stop(&mut self, process: Process) {
        self.set(process, Running::Stopped);
        self.watch_silence(process);
    }

    /// It goes on, and finds what came meanwhile.
    pub(super) fn go_on(&mut self, process: Process) {
        self.set(process, Running::Runs);
        for happening in self.waiting.remove(&process).unwrap_or_default() {
            self.happen(happening);
        }
        self.work();
    }

    /// Whether a process takes something now: one that stands still finds it later, one of an earlier life never.
    fn takes(&mut self, process: Process, life: u32, happening: Happening) -> Option<Happening> {
        if self.life(process) != life {
            return None;
        }
        match self.running(process) {
            Running::Runs => Some(happening),
            Running::Dead => None,
            Running::Stopped => {
                self.waiting.entry(process).or_default().push_back(happening);
                None
            }
        }
    }

    fn owner(happening: &Happening) -> Option<(Process, u32)> {
        Some(match *happening {
            Happening::Hear { to, life, .. } => (to, life),
            Happening::Computed { manager, life, .. } => (Process::Manager(manager), life),
            Happening::Viewed { controller, life, .. }
            | Happening::Answered { controller, life, .. }
            | Happening::Leaving { controller, life, .. } => {
                (Process::Controller(controller), life)
            }
            Happening::Port { agent, life, .. }
            | Happening::Wake { agent, life }
            | Happening::Act { agent, life } => (Process::Agent(agent), life),
            Happening::Call { .. }
            | Happening::Silent { .. }
            | Happening::Asked { .. }
            | Happening::Start { .. }
            | Happening::Look => return None,
        })
    }

    fn happen(&mut self, happening: Happening) {
        let taken = match Self::owner(&happening) {
            Some((process, life)) => self.takes(process, life, happening),
            None => Some(happening),
        };
        match taken {
            None => {}
            Some(Happening::Call { key, life }) => self.call(key, life),
            Some(Happening::Hear { to, heard, .. }) => match to {
                Process::Manager(n) => self.manager_hears(n, *heard),
                Process::Controller(n) => self.controller_hears(n, *heard),
                Process::Agent(n) => self.agent_hears(n, *heard),
            },
            Some(Happening::Silent { session, since }) => self.silent(session, since),
            Some(Happening::Computed { manager, computed, .. }) => self.computed(manager, computed),
            Some(Happening::Viewed { controller, session, view, .. }) => {
                self.viewed(controller, session, *view);
            }
            Some(Happening::Asked { controller, life, question }) => {
                self.store_asked(controller, life, question);
            }
            Some(Happening::Answered { controller, answer, elected, .. }) => {
                self.store_answered(controller, answer, elected);
            }
            Some(Happening::Leaving { controller, agent, .. }) => self.left(controller, agent),
            Some(Happening::Port { agent, event, .. }) => self.port_event(agent, event),
            Some(Happening::Start { agent, life }) => self.start_piece(agent, life),
            Some(Happening::Wake { agent, .. }) => self.wake_agent(agent),
            Some(Happening::Act { agent, .. }) => self.act(agent),
            Some(Happening::Look) => {
                self.look_at_ports();
                self.plan(LOOK, Happening::Look);
            }
        }
    }

    /// Lets time pass until then, or until something was seen that must not be.
    pub(super) fn run_until(&mut self, until: Time) {
        while self.summary.violation.is_none() {
            self.work();
            let first = self.queue.first_key_value().map(|(&(at, _), _)| at);
            let due = [first, self.emulator.next_event_time(), self.next_deadline()];
            let Some(next) = due.into_iter().flatten().min().filter(|&next| next <= until) else {
                return self.emulator.advance(until);
            };
            self.emulator.advance(next.max(self.now()));
            self.judge_writes();
            self.work();
            self.handle_deadlines();
            while let Some(entry) = self.queue.first_entry().filter(|e| e.key().0 <= next) {
                let happening = entry.remove();
                self.happen(happening);
            }
        }
    }

    /// The first deadline of a core that runs.
    fn next_deadline(&self) -> Option<Time> {
        let managers = self.managers.iter().enumerate();
        let managers = managers.filter(|(n, _)| self.runs(Process::Manager(*n)));
        let managers = managers.filter_map(|(_, process)| process.manager.next_deadline());
        let controllers = self.controllers.iter().enumerate();
        let controllers = controllers.filter(|(n, _)| self.runs(Process::Controller(*n)));
        let controllers = controllers.filter_map(|(_, controller)| controller.next_deadline());
        managers.chain(controllers).min()
    }

    fn handle_deadlines(&mut self) {
        let now = self.now();
        for n in 0..self.managers.len() {
            let due = self.managers[n].manager.next_deadline().is_some_and(|due| due <= now);
            if due && self.runs(Process::Manager(n)) {
                self.managers[n].manager.handle_deadline(now);
            }
        }
        for n in 0..self.controllers.len() {
            let due = self.controllers[n].next_deadline().is_some_and(|due| due <= now);
            if due && self.runs(Process::Controller(n)) {
                self.controller_due(n);
            }
        }
        self.work();
    }

    /// Does what cores want done, until none wants anything.
    pub(super) fn work(&mut self) {
        let mut some = true;
        while std::mem::take(&mut some) {
            for n in 0..self.managers.len() {
                some |= self.work_manager(n);
            }
        }
    }
}
