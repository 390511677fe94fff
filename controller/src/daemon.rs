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
use snin_fabric::view::View;
use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::message::{FromAgent, ToAgent};
use snin_protocol::operator::controller::{Because, Missed};
use snin_protocol::view::Policy;
use tokio::select;
use tokio::time::{Interval, MissedTickBehavior};
use tracing::{error, info, warn};

use crate::config::{Checked, Settings, Source};
use crate::error::Failure;
use crate::events::DaemonEvent;
use crate::io::manager::{Manager, News};
use crate::io::outlets::Outlets;
use crate::io::state::State;
use crate::io::timer::Timer;
use crate::io::topology;
use crate::link_tests::LinkTests;
use crate::metrics::Counted;
use crate::punctuality::Decided;
use crate::recording::Recorded;
use crate::storing::recall;

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
    meter: Arc<Meter>,
    pub(crate) config: Config,
    pub(crate) identity: Identity,
    pub(crate) listen: Listen,
    pub(crate) source: Source,
    /// There once the fabric is known.
    pub(crate) core: Option<Recorded>,
    /// Where the core is recorded to.
    record: Option<PathBuf>,
    pub(crate) agents: Option<Listener<FromAgent, ToAgent>>,
    pub(crate) manager: Option<Manager>,
    pub(crate) state: State,
    pub(crate) outlets: Outlets,
    timer: Timer,
    looks: Interval,
    /// Agents whose sessions are over, and until when they may come again.
    leaving: BTreeMap<Guid, Time>,
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
    /// Whether the term is on the disk.
    pub(crate) begun: bool,
    /// What the fabric is, while there is no term to grant in.
    pub(crate) view: Option<Arc<dyn View>>,
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
        let state = State::open(&settings.state_dir)?;
        let config = checked.core.clone();
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
        let clock = Clock::system();
        let meter = Arc::new(Meter::new(clock));
        let manager = match &checked.source {
            Source::File(..) => None,
            Source::Manager(to) => {
                let call = Call {
                    to: to.clone(),
                    service: Service::Views,
                    role: Role::Manager,
                    peer: None,
                    identity: identity.clone(),
                    limits: Limits::default(),
                    credentials,
                };
                Some(Manager::call(call, meter.clone()))
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
            view: None,
            watchdog: watchdog.map(|every| (Time(every), clock.now() + Time(every))),
        };
        if let Err(failure) = daemon.begin() {
            if !failure.is_of_disk() {
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
            self.test_links();
            self.perform()?;
            let due = self.core.as_ref().and_then(|core| core.next_deadline());
            self.timer.set(due).map_err(Failure::system("the timer"))?;
            match self.next().await? {
                DaemonEvent::Agent(heard) => self.receive_agents(heard),
                DaemonEvent::Manager(news) => self.receive_manager(news)?,
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
        Ok(select! {
            biased;
            rang = self.timer.rings() => {
                rang.map_err(Failure::system("the timer"))?;
                DaemonEvent::Due
            }
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

    fn receive_manager(&mut self, news: News) -> Result<(), Failure> {
        let now = self.clock.now();
        match (news, &mut self.core) {
            (News::View(view), _) => return self.take_view(view),
            (News::Change(change), Some(core)) => {
                self.outlets.notify("UNUSABLE", json!({ "pairs": change.unusable.len() }));
                core.handle(Event::Unusable(change), now);
            }
            (News::Change(_), None) => {}
            (News::Policy(policy), _) => self.take_policy(policy),
            (News::Test(test), core) => {
                self.link_tests.begin(
                    test.port,
                    test.messages,
                    Some(test.number),
                    core.as_ref(),
                    now,
                );
            }
            (News::Found(who), core) => {
                if let Some(core) = core {
                    core.handle(Event::Manager(true), now);
                }
                info!("{who} says what the fabric is");
                self.outlets.notify("MANAGER_FOUND", json!({ "manager": who }));
            }
            (News::Lost(why), core) => {
                if let Some(core) = core {
                    core.handle(Event::Manager(false), now);
                }
                warn!("{why}; the fabric is taken to be as it was");
                self.outlets.notify("MANAGER_LOST", json!({ "why": why }));
            }
            (News::Trouble(why), _) => {
                error!("the manager's view is of no use: {why}");
                self.outlets.notify("VIEW_REFUSED", json!({ "why": why.to_string() }));
            }
        }
        Ok(())
    }

    pub(crate) fn take_policy(&mut self, policy: Policy) {
        if policy != self.policy() {
            info!("the policy is {}", policy.name());
            self.outlets.notify("POLICY", json!({ "policy": policy.name() }));
        }
        let strict = |policy| policy == Policy::Strict;
        let other_trees = strict(policy) != strict(self.config.policy);
        self.config.policy = policy;
        // Which trees base addresses lead along depends on it.
        if other_trees && let Err(error) = self.read_file() {
            warn!("the fabric is as it was: {error}");
        }
        let now = self.clock.now();
        if let Some(core) = &mut self.core {
            core.handle(Event::Policy(policy), now);
        }
    }

    pub(crate) const fn policy(&self) -> Policy {
        self.config.policy
    }

    /// The fabric is another. With the first one agents are let in.
    pub(crate) fn take_view(&mut self, view: Arc<dyn View>) -> Result<(), Failure> {
        let (topology, routing) = (view.topology(), view.routing());
        let (hosts, trees) = (routing.hosts.len(), routing.forest.len());
        let fields = json!({
            "version": view.version(), "switches": topology.switch_count(), "hosts": hosts, "trees": trees,
            "unusable": view.unusable().len(), "not_clos": not_clos(&*view),
        });
        self.outlets.notify("VIEW", fields);
        info!(
            "view {}: {} switches, {hosts} hosts, {trees} trees",
            view.version(),
            topology.switch_count()
        );
        if let Some(why) = not_clos(&*view) {
            warn!("no Clos, so nothing is granted between leaves: {why}");
        }
        let now = self.clock.now();
        if let Some(core) = &mut self.core {
            core.handle(Event::View(view), now);
            self.meter.charge(Cause::View, now);
            return Ok(());
        }
        if !self.begun {
            self.view = Some(view);
            return Ok(());
        }
        let core = Recorded::new(self.config.clone(), view, now, self.record.as_deref())?;
        self.meter.expect(core.decide_at());
        self.core = Some(core);
        self.recall_reserved();
        let agents = Listener::start(self.listen.clone())?.metered(self.meter.clone());
        for address in agents.addresses() {
            info!("agents call at {address}");
        }
        self.agents = Some(agents);
        service::ready("grants connections");
        self.outlets.notify("READY", json!({ "term": self.config.term.0 }));
        Ok(())
    }

    /// Reads the topology file, if that is where the fabric comes from.
    fn read_file(&mut self) -> Result<(), Failure> {
        let Source::File(path, lmc) = &self.source else { return Ok(()) };
        let version = self.core.as_ref().map_or(0, |core| core.view().version()) + 1;
        let view = topology::read(path, *lmc, self.config.policy, version)?;
        self.take_view(view)
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

/// Why the fabric has no trees to grant.
pub(crate) fn not_clos(view: &dyn View) -> Option<String> {
    view.routing().shape.as_ref().err().map(ToString::to_string)
}
