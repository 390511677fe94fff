//! Controllers as processes: leadership, a core while one leads, sessions with agents and with a manager.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt as _;
use snin_controller_core::Core;
use snin_controller_core::config::Config;
use snin_controller_core::events::{Event, Note, Output};
use snin_controller_core::leadership::{Answer, Leadership, Question, Step};
use snin_controller_core::view_session::{ViewDone, ViewNews, ViewSession};
use snin_fabric::view::View;
use snin_protocol::Time;
use snin_protocol::message::{ControllerMessage, ViewChange};
use snin_protocol::view::Policy;

use super::net::{Heard, Process, Said, Service};
use super::site::{Happening, LEASE, Site};
use super::store::Elected;

/// An agent whose session ended may call again for so long.
const GRACE: Time = Time::secs(2);
/// How long the store is waited for.
const STORE_PATIENCE: Time = Time::secs(1);

/// The core of a leader, which is told nothing from `until` on.
struct Leader {
    core: Core,
    until: Time,
}

/// A controller; of what it was nothing is left when it is killed.
pub(super) struct Controller {
    leadership: Leadership,
    leader: Option<Leader>,
    elected: Option<Elected>,
    begun: Option<Elected>,
    /// The fabric as it was told last, and what was told since.
    known: Option<(Arc<dyn View>, Option<ViewChange>)>,
    views: ViewSession,
    manager: Option<u64>,
    /// Sessions of agents.
    agents: BTreeMap<usize, u64>,
}

impl Controller {
    fn new(now: Time) -> Self {
        Self {
            leadership: Leadership::new(LEASE, now),
            leader: None,
            elected: None,
            begun: None,
            known: None,
            views: ViewSession::default(),
            manager: None,
            agents: BTreeMap::new(),
        }
    }

    /// It is killed.
    pub(super) fn forget(&mut self) {
        *self = Self::new(Time::ZERO);
    }

    /// Whether agents may call.
    pub(super) const fn leads(&self) -> bool {
        self.leader.is_some()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let core = self
            .leader
            .as_ref()
            .and_then(|leader| leader.core.next_deadline().filter(|&due| due < leader.until));
        core.into_iter().chain(self.leadership.next_deadline()).min()
    }
}

/// What all controllers of a site are configured with.
pub(super) fn config() -> Config {
    let (clock_error, drain) = (Time::millis(1), Time::micros(100));
    Config {
        window: Time::millis(50),
        lead: Time::millis(10),
        clock_error,
        drain,
        guard: clock_error + drain,
        repeat: Time::millis(5),
        agents: 256,
        connections: 1_024,
        connections_per_agent: 16,
        policy: Policy::Strict,
        ..Config::default()
    }
}

impl Site {
    pub(super) fn add_controller(&mut self, n: usize) {
        self.controllers.push(Controller::new(Time::ZERO));
        let managers = (0..self.setup.managers).map(Process::Manager).collect();
        self.net.add_caller(Process::Controller(n), Service::Views, 0, managers);
    }

    pub(super) fn start_controller(&mut self, n: usize) {
        self.controllers[n] = Controller::new(self.now());
    }

    fn controller_life(&self, n: usize) -> u32 {
        self.life(Process::Controller(n))
    }

    pub(super) fn store_asked(&mut self, n: usize, life: u32, question: Question) {
        let answered =
            |answer, elected| Happening::Answered { controller: n, life, answer, elected };
        let failed = || Answer::Failed("no member answers".to_owned());
        if self.store.is_away {
            // What a member took and did not answer may be done all the same.
            if self.rng.random_bool(0.3) {
                let (longest, now) = (config().longest_in_force(), self.now());
                let _ = self.store.answer((n, life), question, longest, now);
            }
            return self.plan(STORE_PATIENCE, answered(failed(), None));
        }
        let (longest, now) = (config().longest_in_force(), self.now());
        let (answer, elected) = self.store.answer((n, life), question, longest, now);
        let after = Time(self.rng.random_range(200_000..3_000_000));
        self.plan(after, answered(answer, elected));
    }

    pub(super) fn store_answered(&mut self, n: usize, answer: Answer, elected: Option<Elected>) {
        let now = self.now();
        let controller = &mut self.controllers[n];
        controller.elected = elected;
        controller.leadership.handle(answer, now);
        self.after_controller(n);
    }

    /// The daemon's order: who leads comes first, then what happened.
    fn lead(&mut self, n: usize) {
        let now = self.now();
        let life = self.controller_life(n);
        self.controllers[n].leadership.handle_deadline(now);
        while let Some(step) = self.controllers[n].leadership.poll_output() {
            match step {
                Step::Ask(question) => {
                    let after = Time(self.rng.random_range(200_000..3_000_000));
                    self.plan(after, Happening::Asked { controller: n, life, question });
                }
                Step::Resign => {
                    if !self.store.is_away {
                        self.store.resign((n, life));
                    }
                }
                Step::Lead => {
                    let controller = &mut self.controllers[n];
                    controller.begun = controller.elected.take();
                    let term = controller.begun.map_or(0, |begun| begun.term.0);
                    self.summary.terms += 1;
                    self.tell(format_args!("controller{n} leads in term {term}"));
                    self.open_core(n);
                }
                Step::StandDown(why) => {
                    self.tell(format_args!("controller{n} does not lead any more: {why}"));
                    let controller = &mut self.controllers[n];
                    (controller.leader, controller.begun) = (None, None);
                    controller.agents.clear();
                    if controller.manager.is_none() {
                        controller.known = None;
                    }
                    self.close_all(Process::Controller(n), Some(Service::Grants));
                }
            }
        }
        let controller = &mut self.controllers[n];
        // One that heard of its election too late does not lead.
        controller.elected = None;
        let until = controller.leadership.until().unwrap_or(Time::ZERO);
        if let Some(leader) = &mut controller.leader {
            leader.until = until;
        }
    }

    /// An elected controller begins, where it knows the fabric.
    fn open_core(&mut self, n: usize) {
        let now = self.now();
        let controller = &mut self.controllers[n];
        let (Some(Elected { term, predecessor }), Some((view, change))) =
            (controller.begun, controller.known.clone())
        else {
            return;
        };
        let predecessor = predecessor.or(Some(Time::ZERO));
        let config = Config { term, predecessor, ..config() };
        let core = match Core::new(config, view, now) {
            Ok(core) => core,
            Err(error) => return self.violated("a controller does not begin", error),
        };
        let until = controller.leadership.until().unwrap_or(Time::ZERO);
        let mut leader = Leader { core, until };
        if let Some(change) = change {
            leader.core.handle(Event::Unusable(change), now);
        }
        controller.leader = Some(leader);
    }

    fn tell_core(&mut self, n: usize, event: Event) {
        self.lead(n);
        let now = self.now();
        if let Some(leader) =
            self.controllers[n].leader.as_mut().filter(|leader| now < leader.until)
        {
            leader.core.handle(event, now);
        }
        self.after_controller(n);
    }

    pub(super) fn controller_due(&mut self, n: usize) {
        self.lead(n);
        let now = self.now();
        if let Some(leader) =
            self.controllers[n].leader.as_mut().filter(|leader| now < leader.until)
            && leader.core.next_deadline().is_some_and(|due| due <= now)
        {
            leader.core.handle_deadline(now);
        }
        self.after_controller(n);
    }

    fn after_controller(&mut self, n: usize) {
        self.lead(n);
        while let Some(output) =
            self.controllers[n].leader.as_mut().and_then(|leader| leader.core.poll_output())
        {
            match output {
                Output::Send { to, message } => {
                    let Some(agent) = self.hosts.iter().position(|&(guid, _)| guid == to) else {
                        continue;
                    };
                    if let ControllerMessage::Lease(lease) = &message.body {
                        self.judges.granted(to, lease, self.emulator.now());
                    }
                    if let Some(&session) = self.controllers[n].agents.get(&agent) {
                        let said = Said::ToAgent(Arc::new(message));
                        self.say(session, Process::Controller(n), said);
                    }
                }
                Output::Clear(clear) => {
                    let controller = &mut self.controllers[n];
                    if let Some(said) = controller.views.clear(clear.version)
                        && let Some(session) = controller.manager
                    {
                        self.say(session, Process::Controller(n), Said::ToManager(said));
                    }
                }
                Output::Window(report) => {
                    self.summary.windows += 1;
                    self.fold(&report.granted.to_le_bytes());
                    if report.max_link_load > 1 {
                        self.violated("a link is promised twice", format_args!("{report:?}"));
                    }
                }
                Output::Note(Note::Certificate(why)) => self.violated("certificate", why),
                Output::Note(_) | Output::LinkTested(..) => {}
            }
        }
    }

    pub(super) fn controller_hears(&mut self, n: usize, heard: Heard) {
        self.lead(n);
        let life = self.controller_life(n);
        let controller = &mut self.controllers[n];
        match heard {
            Heard::Opened { session, service: Service::Views, .. } => {
                controller.views.begin();
                controller.manager = Some(session);
                self.tell_core(n, Event::Manager(true));
            }
            Heard::Closed { session, service: Service::Views, .. } => {
                if controller.manager == Some(session) {
                    controller.views.begin();
                    controller.manager = None;
                    if controller.leader.is_none() {
                        // Nothing begins by what may have changed since.
                        controller.known = None;
                    }
                    self.tell_core(n, Event::Manager(false));
                }
                self.caller_closed(Process::Controller(n), session);
            }
            Heard::Said { session, said: Said::FromManager(said), .. }
                if controller.manager == Some(session) =>
            {
                if let Some(news) = controller.views.said(said) {
                    self.take_news(n, session, news);
                }
            }
            Heard::Opened { session, peer: Process::Agent(agent), .. } => {
                match &controller.leader {
                    // It stood down meanwhile.
                    None => self.close(session),
                    Some(_) => _ = controller.agents.insert(agent, session),
                }
            }
            Heard::Closed { session, peer: Process::Agent(agent), .. }
                if controller.agents.get(&agent) == Some(&session) =>
            {
                controller.agents.remove(&agent);
                self.plan(GRACE, Happening::Leaving { controller: n, life, agent });
            }
            Heard::Said {
                session,
                peer: Process::Agent(agent),
                said: Said::FromAgent(message),
            } if controller.agents.get(&agent) == Some(&session) => {
                let from = self.hosts[agent].0;
                self.tell_core(n, Event::Received { from, message });
            }
            _ => {}
        }
    }

    /// An agent did not call again.
    pub(super) fn left(&mut self, n: usize, agent: usize) {
        if !self.controllers[n].agents.contains_key(&agent) {
            self.tell_core(n, Event::AgentLost(self.hosts[agent].0));
        }
    }

    fn take_news(&mut self, n: usize, session: u64, news: ViewNews) {
        let life = self.controller_life(n);
        match news {
            ViewNews::Compute(job) => {
                let view = Box::new(job.run());
                let after = Time(self.rng.random_range(100_000..10_000_000));
                self.plan(after, Happening::Viewed { controller: n, life, session, view });
            }
            ViewNews::View(view) => {
                self.controllers[n].known = Some((view.clone(), None));
                match self.controllers[n].leader {
                    Some(_) => self.tell_core(n, Event::View(view)),
                    None => {
                        self.open_core(n);
                        self.after_controller(n);
                    }
                }
            }
            ViewNews::Change(change) => {
                if let Some((_, known)) = &mut self.controllers[n].known {
                    *known = Some(change.clone());
                }
                self.tell_core(n, Event::Unusable(change));
            }
            ViewNews::Trouble(error) => self.violated("a view is of no use", error),
            ViewNews::Policy(_) | ViewNews::Test(_) => {}
        }
    }

    pub(super) fn viewed(&mut self, n: usize, session: u64, view: ViewDone) {
        if self.controllers[n].manager != Some(session) {
            return;
        }
        self.lead(n);
        if let Some((said, news)) = self.controllers[n].views.computed(view) {
            self.say(session, Process::Controller(n), Said::ToManager(said));
            self.take_news(n, session, news);
        }
    }
}
