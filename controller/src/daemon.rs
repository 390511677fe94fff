//! The loop: what comes in goes to the core, what the core wants is done.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use snin_controller_core::config::Config;
use snin_controller_core::events::{Event, Note, Output, WindowReport};
use snin_daemon::clock::Clock;
use snin_daemon::meter::{Cause, Meter};
use snin_daemon::service;
use snin_daemon::session::{Call, Credentials, Limits, Listen, Listener, Received};
use snin_daemon::signals::Signal;
use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::message::{FromAgent, ToAgent};
use snin_protocol::operator::controller::{Because, Missed};
use snin_protocol::view::Policy;
use tokio::select;
use tokio::time::{Interval, MissedTickBehavior};
use tracing::{error, warn};

use crate::config::{Checked, Settings, Source};
use crate::error::Failure;
use crate::events::DaemonEvent;
use crate::io::candidate::Terms;
use crate::io::manager::Manager;
use crate::io::outlets::Outlets;
use crate::io::state::State;
use crate::io::timer::Timer;
use crate::leading::Leading;
use crate::link_tests::LinkTests;
use crate::metrics::Counted;
use crate::punctuality::Decided;
use crate::recording::Recorded;
use crate::storing::recall;
use crate::viewing::Known;

/// How often control socket, pages and signals are looked at.
const LOOK: Duration = Duration::from_millis(10);
/// An agent whose session is over has so long to come again.
const GRACE: Time = Time::millis(200);
/// Windows that are remembered for who asks.
const WINDOWS: usize = 256;
/// What agents said is taken in so often before windows are looked at again.
const TURN: usize = 256;

/// See the module's documentation.
pub struct Daemon {
    pub(crate) clock: Clock,
    /// What this thread's time goes to after a window was due.
    pub(crate) meter: Arc<Meter>,
    pub(crate) config: Config,
    pub(crate) identity: Identity,
    pub(crate) listen: Listen,
    pub(crate) source: Source,
    /// There once the fabric is known.
    pub(crate) core: Option<Recorded>,
    /// Where the core is recorded to.
    pub(crate) record: Option<PathBuf>,
    pub(crate) agents: Option<Listener<FromAgent, ToAgent>>,
    pub(crate) manager: Option<Manager>,
    pub(crate) state: State,
    pub(crate) outlets: Outlets,
    timer: Timer,
    looks: Interval,
    /// Agents whose sessions are over, and until when they may come again.
    pub(crate) leaving: BTreeMap<Guid, Time>,
    pub(crate) windows: VecDeque<(WindowReport, Decided)>,
    pub(crate) counted: Counted,
    pub(crate) link_tests: LinkTests,
    /// Users who may do everything.
    pub(crate) operators: Vec<u32>,
    /// Those who may have requests of their own, and how the names of their slices begin.
    pub(crate) launchers: BTreeMap<String, String>,
    /// The most requests of a user of a host.
    pub(crate) requests_per_user: usize,
    /// The slices that are kept are of this version of the core's.
    pub(crate) slices_version: Option<u64>,
    /// Whether the term is in the store, and no other controller leads.
    pub(crate) begun: bool,
    /// What the fabric is, as far as that is known.
    pub(crate) known: Option<Known>,
    /// Whether this controller leads, where several share a store.
    pub(crate) leading: Option<Leading>,
    watchdog: Option<(Time, Time)>,
}

impl Daemon {
    /// Puts the parts together and begins a term; agents are let in when the fabric is known. It has to be called
    /// within a runtime.
    ///
    /// # Errors
    /// When a part of the settings cannot be used.
    pub fn new(
        settings: &Settings,
        checked: Checked,
        mut outlets: Outlets,
        record: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let credentials = checked.credentials()?.map(Arc::new);
        outlets.offer(checked.api.clone(), credentials.clone(), checked.socket_group)?;
        let identity = identity(settings, credentials.as_deref())?;
        let (clock, config) = (Clock::system(), checked.core.clone());
        let leading = match &checked.store {
            None => None,
            Some(store) => {
                let terms = Terms {
                    name: identity.to_string(),
                    least: config.term,
                    longest: config.longest_in_force(),
                };
                Some(Leading::start(store, checked.files.as_ref(), terms, clock.now())?)
            }
        };
        let state = match leading {
            None => State::open(&settings.state_dir)?,
            Some(_) => State::default(),
        };
        let limits = settings.limits();
        let listen = Listen {
            at: checked.listen,
            service: Service::Grants,
            identity: identity.clone(),
            roles: vec![Role::Agent],
            users: settings.agent_users.clone(),
            group: checked.socket_group,
            limits,
            credentials: credentials.clone(),
        };
        let meter = Arc::new(Meter::new(clock));
        let manager = match &checked.source {
            Source::File(..) | Source::Found(..) => None,
            Source::Manager(to, others) => {
                let call = Call {
                    to: to.clone(),
                    service: Service::Views,
                    role: Role::Manager,
                    peer: None,
                    identity: identity.clone(),
                    limits: if others.is_empty() {
                        Limits::default()
                    } else {
                        Limits::of_several()
                    },
                    credentials,
                };
                Some(Manager::call(call, others.clone(), meter.clone()))
            }
        };
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watchdog = service::watchdog().and_then(|every| u64::try_from(every.as_nanos()).ok());
        let mut daemon = Self {
            clock,
            meter,
            config,
            identity,
            listen,
            source: checked.source,
            core: None,
            record,
            agents: None,
            manager,
            state,
            outlets,
            timer: Timer::new().map_err(Failure::system("a timer"))?,
            looks,
            leaving: BTreeMap::new(),
            windows: VecDeque::with_capacity(WINDOWS),
            counted: Counted::default(),
            link_tests: LinkTests::default(),
            operators: settings.operators.clone(),
            launchers: checked.launchers.clone(),
            requests_per_user: settings.requests_per_user as usize,
            slices_version: None,
            begun: false,
            known: None,
            leading,
            watchdog: watchdog.map(|every| (Time(every), clock.now() + Time(every))),
        };
        if daemon.leading.is_some() {
            service::ready("stands by");
        } else if let Err(failure) = daemon.begin() {
            if !failure.may_pass() {
                return Err(failure);
            }
            service::ready("grants nothing until its state can be stored");
        }
        daemon.read_file()?;
        Ok(daemon)
    }

    /// Until a signal ends it.
    ///
    /// # Errors
    /// What it cannot go on without.
    pub async fn run(mut self) -> Result<(), Failure> {
        loop {
            self.lead()?;
            self.test_links();
            self.perform()?;
            let due = self.core.as_ref().and_then(|core| core.next_deadline());
            let of_lease = self.leading.as_ref().and_then(Leading::next_deadline);
            let due = [due, of_lease].into_iter().flatten().min();
            self.timer.set(due).map_err(Failure::system("the timer"))?;
            match self.next().await? {
                DaemonEvent::Agent(heard) => self.receive_agents(heard),
                DaemonEvent::Manager(news) => self.receive_manager(news)?,
                DaemonEvent::Leadership(answer, elected) => self.answered(answer, elected),
                DaemonEvent::Due => self.decide(),
                DaemonEvent::Look => {
                    if self.look()? {
                        if let Some(core) = &mut self.core {
                            core.finish();
                        }
                        service::stopping();
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn next(&mut self) -> Result<DaemonEvent, Failure> {
        let manager = async {
            match &mut self.manager {
                Some(manager) => manager.next().await,
                None => std::future::pending().await,
            }
        };
        let agents = async {
            match &mut self.agents {
                Some(agents) => agents.next().await,
                None => std::future::pending().await,
            }
        };
        let leading = async {
            match &mut self.leading {
                Some(leading) => leading.next().await,
                None => std::future::pending().await,
            }
        };
        Ok(select! {
            biased;
            rang = self.timer.rings() => {
                rang.map_err(Failure::system("the timer"))?;
                DaemonEvent::Due
            }
            (answer, elected) = leading => DaemonEvent::Leadership(answer, elected.map(Box::new)),
            _ = self.looks.tick() => DaemonEvent::Look,
            news = manager => DaemonEvent::Manager(news),
            heard = agents => DaemonEvent::Agent(heard),
        })
    }

    /// What agents said, as far as it has come and does not keep windows waiting.
    fn receive_agents(&mut self, heard: Received<FromAgent>) {
        let begun = self.clock.now();
        let mut next = Some(heard);
        for _ in 0..=TURN {
            let Some(heard) = next.take() else { break };
            self.receive_agent(heard);
            next = self.agents.as_mut().and_then(Listener::try_next);
        }
        self.meter.charge(Cause::Frames, begun);
    }

    fn receive_agent(&mut self, heard: Received<FromAgent>) {
        let (Some(core), now) = (&mut self.core, self.clock.now()) else { return };
        match heard {
            Received::Opened(peer) => {
                if let Some(port) = peer.port() {
                    self.leaving.remove(&port);
                }
            }
            Received::Closed(peer, _) => {
                if let Some(port) = peer.port() {
                    self.leaving.insert(port, now + GRACE);
                }
            }
            Received::Said(peer, mut message) => {
                let Some(from) = peer.port() else { return };
                recall(&self.state, from, &mut message);
                core.handle(Event::Received { from, message }, now);
            }
        }
    }

    pub(crate) const fn policy(&self) -> Policy {
        self.config.policy
    }

    /// A window is due, or something is to be said again.
    fn decide(&mut self) {
        let Some(core) = &mut self.core else { return };
        let now = self.clock.now();
        for port in self.leaving.extract_if(.., |_, by| *by <= now).map(|(port, _)| port) {
            core.handle(Event::AgentLost(port), now);
        }
        let lateness = self.meter.lateness(now);
        let (missed, windows) = (core.metrics().windows_missed, core.metrics().windows);
        core.handle_deadline(now);
        if core.metrics().windows == windows {
            return self.meter.charge(Cause::Sending, now);
        }
        // A decision that lasts until after the next window is due makes that one late.
        self.meter.expect(core.decide_at());
        self.meter.charge(Cause::Deciding, now);
        let (took, missed) = (self.clock.now() - now, core.metrics().windows_missed - missed);
        let decided = self.counted.punctuality.decided(lateness, took, missed);
        if let Some(Missed { missed, late_us, because: Because { cause, why, shares_us } }) =
            decided.missed()
        {
            let fields = json!({
                "missed": missed, "late_us": late_us, "cause": cause, "why": why, "shares_us": shares_us,
            });
            self.outlets.notify("WINDOWS_MISSED", fields);
        }
    }

    /// Does what the core wants.
    fn perform(&mut self) -> Result<(), Failure> {
        let mut decided = false;
        let begun = self.clock.now();
        while let Some(output) = self.core.as_mut().and_then(Recorded::poll_output) {
            match output {
                Output::Send { to, message } => {
                    if let Some(agents) = &mut self.agents {
                        // Leases are of bounded size; what is lost is said again.
                        let _ = agents.send(&Identity::Agent(to), &message);
                    }
                }
                Output::Clear(clear) => {
                    if let Some(manager) = &mut self.manager {
                        manager.clear(clear.version);
                    }
                }
                Output::LinkTested(port, tested) => {
                    self.link_tests.answered(port, tested, self.clock.now());
                }
                Output::Window(report) => {
                    decided = true;
                    if self.windows.len() == WINDOWS {
                        self.windows.pop_front();
                    }
                    self.windows.push_back((report, self.counted.punctuality.last()));
                }
                Output::Note(note) => self.note(&note),
            }
        }
        self.meter.charge(Cause::Sending, begun);
        if decided && let Some(core) = &self.core {
            let begun = self.clock.now();
            let pinned: BTreeMap<(Guid, Guid), TreeId> = core
                .pinned()
                .map(|grant| ((grant.source, grant.destination), grant.tree))
                .collect();
            self.state.keep_pinned(pinned);
            if let Some(manager) = &mut self.manager {
                let version = core.slices_version();
                manager.prefer(core.pinned_paths(), version, || core.slice_members());
            }
            self.keep_reserved();
            self.meter.charge(Cause::Store, begun);
        }
        Ok(())
    }

    fn note(&mut self, note: &Note) {
        let event = match note {
            Note::Superseded { .. } => "SUPERSEDED",
            Note::AgentAhead { .. } => "AGENT_AHEAD",
            Note::Imposter { .. } => "IMPOSTER",
            Note::AgentSilent(_) => "AGENT_SILENT",
            Note::Certificate(_) => "CERTIFICATE",
        };
        if let Note::Certificate(_) = note {
            error!("{note}");
        } else {
            warn!("{note}");
        }
        self.outlets.notify(event, json!({ "what": note.to_string() }));
    }

    /// Control socket, pages, signals, watchdog; whether the daemon shall end.
    fn look(&mut self) -> Result<bool, Failure> {
        while let Some(signal) = self.outlets.signals.next() {
            match signal {
                Signal::End => return Ok(true),
                Signal::Reopen => self.outlets.reopen(),
                Signal::Again => {
                    // What was read before stays in force.
                    if let Err(error) = self.read_file() {
                        error!("{error}");
                        self.outlets.notify("VIEW_REFUSED", json!({ "why": error.to_string() }));
                    }
                }
            }
        }
        let now = self.clock.now();
        if let Some((every, due)) = &mut self.watchdog
            && *due <= now
        {
            service::alive();
            *due = now + *every;
        }
        self.check_state()?;
        self.serve();
        self.meter.charge(Cause::Answering, now);
        Ok(false)
    }
}

/// The identity of this controller: its certificate says it, else its configuration, else the machine.
fn identity(settings: &Settings, credentials: Option<&Credentials>) -> Result<Identity, Failure> {
    if let Some(credentials) = credentials {
        return Ok(credentials.identity());
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(Identity::new(Role::Controller, settings.name.as_deref().unwrap_or(&host))?)
}
