//! The agent as a daemon: control socket, events, metrics and log around an [`Agent`].
//!
//! Requests on the control socket: `status`, `flows`, `mesh`, `histogram` (`flow`), `events` (`since`),
//! `send` (`peer`, `count`, `size`, `rate`): messages of its own, to see whether a peer is reached; `pair`,
//! `jobs` and `job_begin` (`Jobs`). Programs of any user have a socket of their own (`Programs`).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value, json};
use snin_daemon::control::{self, Control, ControlError};
use snin_daemon::generations::Limit;
use snin_daemon::http::{HttpClient, HttpError, Server, Wanted};
use snin_daemon::journal::Journal;
use snin_daemon::log::{self, Log, LogError};
use snin_daemon::metrics::Page;
use snin_daemon::service;
use snin_daemon::session::Expiry;
use snin_daemon::settings::Loaded;
use snin_daemon::signals::{Signal, Signals};
use snin_daemon::watch::Watch;
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::operator::agent::{
    Clients, Flows, Histogram, Mesh, Quantile, Request, Send, Started, Status,
};
use snin_protocol::operator::{Certificate, Events, Operation as _};
use tracing::{info, warn};

use crate::agent::Agent;
use crate::arrivals::Arrivals;
use crate::error::AgentError;
use crate::flow::Flow;
use crate::jobs::Jobs;
use crate::link_tests::LinkTests;
use crate::programs::Programs;
use crate::settings::{Settings, check};
use crate::snapshot::Snapshot;
use snin_agent_core::{ControllerState, FlowId, Notice};

/// How often notices and messages are looked for, and while it sends.
const LOOK: Duration = Duration::from_millis(20);
const LOOK_SENDING: Duration = Duration::from_millis(1);

/// Why the daemon does not run, in one line.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The agent.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The page of metrics.
    #[error(transparent)]
    Page(#[from] HttpError),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The file of events.
    #[error("{file}: {error}")]
    Events {
        /// Which.
        file: String,
        /// The system's error.
        error: io::Error,
    },
    /// The system.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A running daemon.
pub struct Daemon {
    agent: Agent,
    control: Control,
    journal: Journal,
    log: Log,
    page: Option<Server>,
    signals: Signals,
    sending: BTreeMap<Guid, Sending>,
    came: Arrivals,
    jobs: Jobs,
    link_tests: LinkTests,
    /// Where programs of any user ask.
    programs: Option<Programs>,
    /// How often systemd's watchdog wants to hear, and when it does next.
    watchdog: Option<(Duration, Instant)>,
}

/// Messages of the daemon's own to one peer.
struct Sending {
    flow: Flow,
    left: u64,
    size: usize,
    gap: Time,
    due: Time,
}

impl Daemon {
    /// Starts it, and records what its core is told if asked to. What follows is in [`run`](Self::run).
    ///
    /// # Errors
    /// What is missing or cannot be used.
    pub fn start(settings: &Loaded<Settings>, record: Option<&Path>) -> Result<Self, Failure> {
        let value = &settings.value;
        let log = log::start(
            &value.log_file.as_str().into(),
            log::level(&value.log_level)?,
            Limit::mib(value.log_max_size),
        )?;
        let journal = match &value.events_file {
            Some(file) => Journal::to_file(Path::new(file), Limit::mib(value.log_max_size))
                .map_err(|error| Failure::Events { file: file.clone(), error })?,
            None => Journal::new(),
        };
        let agent = Agent::start_recorded(settings, record)?;
        let checked = check(settings).map_err(AgentError::from)?;
        let control = Control::listen(Path::new(&value.control_socket), checked.socket_group)?;
        let page = value.metrics_listen.as_deref().map(Server::listen).transpose()?;
        let signals = Signals::new()?;
        let (sending, came) = (BTreeMap::new(), Arrivals::default());
        let jobs = Jobs::new(&value.jobs, agent.port_folder().to_owned());
        let client =
            checked.controller_api.map(|api| HttpClient::start(api, agent.credentials().cloned()));
        let client = client.transpose()?;
        let programs = value.pair_socket.as_deref().map(Path::new);
        let programs = programs.map(|path| Programs::listen(path, client)).transpose()?;
        info!("port {} listens to peers at {}", agent.guid(), agent.listens_at());
        let link_tests = LinkTests::default();
        Ok(Self {
            agent,
            control,
            journal,
            log,
            page,
            signals,
            sending,
            came,
            jobs,
            link_tests,
            programs,
            watchdog: service::watchdog().map(|every| (every, Instant::now())),
        })
    }

    /// Until a signal ends it.
    ///
    /// # Errors
    /// When the system cannot wait.
    pub fn run(mut self) -> Result<(), Failure> {
        service::ready("sends what is granted");
        loop {
            self.wait()?;
            while let Some(signal) = self.signals.next() {
                match signal {
                    Signal::End => {
                        service::stopping();
                        return Ok(());
                    }
                    Signal::Reopen => {
                        self.log.reopen()?;
                        self.journal.reopen()?;
                    }
                    Signal::Again => {}
                }
            }
            self.send();
            self.link_tests.work(&self.agent);
            while let Some(message) = self.agent.try_recv() {
                self.came.message(message.peer(), message.len());
            }
            while let Some(notice) = self.agent.notice() {
                match notice {
                    Notice::Lost { peer, pieces, .. } => self.came.lost(peer, pieces),
                    Notice::LinkTest(test) => self.link_tests.begin(&self.agent, test),
                    _ => {}
                }
                log_notice(&notice);
                let (event, fields) = event(&notice);
                self.journal.notify(Some(&mut self.control), event, fields);
            }
            for request in self.control.work() {
                self.answer(&request);
            }
            if let Some(programs) = &mut self.programs {
                programs.work(&mut self.jobs);
            }
            self.jobs.look(Instant::now());
            self.serve_page();
            if let Some((every, due)) = &mut self.watchdog
                && *due <= Instant::now()
            {
                // An agent whose data thread stands still is of no use: it is not said to be alive.
                if self.agent.snapshot(None).is_ok() {
                    service::alive();
                }
                *due = Instant::now() + *every;
            }
        }
    }

    /// The certificate that has ended, or ends within a month.
    fn certificate(&self) -> Option<Expiry> {
        self.agent.credentials()?.expiry(SystemTime::now())
    }

    /// Connections at the sockets, and those that were turned away.
    fn clients(&self) -> Clients {
        let (programs, programs_turned_away) =
            self.programs.as_ref().map_or((0, 0), Programs::clients);
        Clients {
            control: self.control.clients(),
            control_turned_away: self.control.turned_away(),
            programs,
            programs_turned_away,
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut watch = Watch::new();
        self.signals.watch(&mut watch);
        self.control.watch(&mut watch);
        if let Some(programs) = &self.programs {
            programs.watch(&mut watch);
        }
        if let Some(page) = &self.page {
            page.watch(&mut watch);
        }
        let idle =
            self.sending.values().all(|sending| sending.left == 0) && self.link_tests.is_idle();
        watch.wait(Some(if idle { LOOK } else { LOOK_SENDING })).map(|_| ())
    }

    /// Sends what is due, as far as there is room.
    fn send(&mut self) {
        let now = self.agent.now();
        for Sending { flow, left, size, gap, due } in self.sending.values_mut() {
            while *left > 0 && *due <= now && flow.send_due(&vec![0; *size], *due).is_ok() {
                *left -= 1;
                *due += *gap;
            }
        }
    }

    fn answer(&mut self, request: &control::Request) {
        let answer = match request.command.as_str() {
            "pair" => self.pair(request),
            command => {
                Request::parse(command, request.keys()).and_then(|asked| self.perform(&asked))
            }
        };
        match answer {
            Ok(value) => self.control.answer(request.client, &value),
            Err(why) => self.control.refuse(request.client, &why),
        }
    }

    fn perform(&mut self, asked: &Request) -> Result<Value, String> {
        match asked {
            Request::GetStatus(asked) => asked.said(self.status(&self.snapshot(None)?)),
            Request::GetFlows(asked) => {
                let snapshot = self.snapshot(None)?;
                asked
                    .said(Flows { flows: snapshot.flows.iter().copied().map(Into::into).collect() })
            }
            Request::GetMesh(asked) => {
                let snapshot = self.snapshot(None)?;
                asked.said(Mesh { pairs: snapshot.pairs.iter().copied().map(Into::into).collect() })
            }
            Request::GetHistogram(asked) => asked.said(self.histogram(FlowId(asked.flow))?),
            Request::GetEvents(asked) => {
                let events = self.journal.since(asked.since).map(Into::into).collect();
                asked.said(Events { events })
            }
            Request::Send(asked) => asked.said(self.start_sending(asked)?),
            Request::GetJobs(asked) => asked.said(self.jobs.list(asked)),
            Request::BeginJob(asked) => asked.said(self.jobs.begin(asked)?),
            Request::SendAll(_) | Request::GetTransfers(_) => {
                Err("only agents of software fabrics have that command".to_owned())
            }
        }
    }

    fn pair(&mut self, request: &control::Request) -> Result<Value, String> {
        let answer = self.jobs.pair(request.user, &request.body);
        answer.inspect_err(|why| warn!("{why}"))
    }

    fn snapshot(&self, latency_of: Option<FlowId>) -> Result<Snapshot, String> {
        self.agent.snapshot(latency_of).map_err(|error| format!("the data thread: {error}"))
    }

    fn status(&self, snapshot: &Snapshot) -> Status {
        let named = |(name, _, count): (&str, &str, u64)| (name.to_owned(), count);
        let certificate = self.certificate();
        Status {
            guid: Some(self.agent.guid()),
            listen: self.agent.listens_at().to_string(),
            controller: snapshot.controller.name().to_owned(),
            flows: snapshot.flows.len(),
            pairs: snapshot.pairs.len(),
            received: self.came.told(),
            clients: Some(self.clients()),
            certificate: certificate.map(|Expiry { is_over, line }| Certificate { is_over, line }),
            counters: snapshot.counters.all().map(named).collect(),
            io_counters: snapshot.io_counters.all().map(named).collect(),
            software: None,
        }
    }

    fn histogram(&self, flow: FlowId) -> Result<Histogram, String> {
        let snapshot = self.snapshot(Some(flow))?;
        if !snapshot.flows.iter().any(|open| open.flow == flow) {
            return Err(format!("flow {} is not open", flow.0));
        }
        let latency = snapshot.latency.ok_or("no latencies are kept")?;
        let at = |quantile| latency.value_at_quantile(quantile);
        let steps = latency.iter_quantiles(5).map(|step| Quantile {
            ns: step.value_iterated_to(),
            quantile: step.quantile_iterated_to(),
        });
        Ok(Histogram {
            flow: Some(flow.0),
            messages: latency.len(),
            min_ns: latency.min(),
            median_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            max_ns: latency.max(),
            mean_ns: latency.mean(),
            quantiles: steps.collect(),
        })
    }

    fn start_sending(&mut self, asked: &Send) -> Result<Started, String> {
        let Send { peer, count, .. } = *asked;
        if asked.from.is_some_and(|from| from != self.agent.guid()) {
            return Err(format!("`from`: this is the agent of {}", self.agent.guid()));
        }
        if asked.windows.is_some() {
            return Err("`windows`: only agents of software fabrics count them".to_owned());
        }
        let size = usize::try_from(asked.size).unwrap_or(usize::MAX);
        self.agent.check_length(size).map_err(|error| error.to_string())?;
        let gap = asked.rate.filter(|&rate| rate > 0.0);
        let gap = Time(gap.map_or(0, |rate| (1e9 / rate) as u64));
        let now = self.agent.now();
        if !self.sending.contains_key(&peer) {
            let flow = self.agent.connect(peer).map_err(|error| error.to_string())?;
            self.sending.insert(peer, Sending { flow, left: 0, size, gap, due: now });
        }
        let sending = self.sending.get_mut(&peer).ok_or("no flow")?;
        (sending.size, sending.gap, sending.due) = (size, gap, now);
        sending.left = sending.left.saturating_add(count);
        Ok(Started { flow: sending.flow.id().0, left: sending.left })
    }

    fn serve_page(&mut self) {
        let page = self.page.as_mut();
        for asked in page.map_or_else(Vec::new, |page| page.work()) {
            match (&asked.wanted, self.agent.snapshot(None)) {
                (Wanted::Metrics, Ok(snapshot)) => {
                    let mut metrics = metrics(&snapshot);
                    self.control.export("snin_agent_control", &mut metrics);
                    if let Some(credentials) = self.agent.credentials() {
                        credentials.export("snin_agent", &mut metrics);
                    }
                    if let Some(programs) = &self.programs {
                        programs.export(&mut metrics);
                    }
                    asked.metrics(metrics.encode());
                }
                (_, Err(error)) => asked.health(false, &format!("the data thread: {error}")),
                (_, Ok(snapshot)) => {
                    let is_lost = snapshot.controller == ControllerState::Lost;
                    let word = if is_lost { "no controller is heard" } else { "well" };
                    match self.certificate() {
                        Some(Expiry { is_over, line }) => {
                            asked.health(!is_lost && !is_over, &format!("{word}; {line}"));
                        }
                        None => asked.health(!is_lost, word),
                    }
                }
            }
        }
    }
}

fn metrics(snapshot: &Snapshot) -> Page {
    let mut page = Page::new();
    for (name, help, count) in snapshot.counters.all() {
        page.counter(&format!("snin_agent_{name}"), help, count);
    }
    for (name, help, count) in snapshot.io_counters.all() {
        page.gauge(&format!("snin_agent_{name}"), help, count as f64);
    }
    page.gauge("snin_agent_flows", "Open flows", snapshot.flows.len() as f64);
    page.gauge("snin_agent_pairs", "Queue pairs to send on", snapshot.pairs.len() as f64);
    let lost = f64::from(u8::from(snapshot.controller == ControllerState::Lost));
    page.gauge("snin_agent_controller_is_lost", "1: no controller is heard", lost);
    page
}

/// A line for what an admin should know of; everything else is an event only.
fn log_notice(notice: &Notice) {
    match notice {
        Notice::Broken { peer, tree, reason } => {
            warn!("the queue pair to {peer} along tree {} is given up: {reason}", tree.0);
        }
        Notice::StaleController { term, latest } => {
            warn!("a controller of term {} is not obeyed: term {} is in charge", term.0, latest.0);
        }
        Notice::ControllerLost => warn!("no controller is heard"),
        Notice::ControllerFound => info!("a controller is heard"),
        Notice::Lost { peer, flow, pieces } => {
            warn!("of flow {} from {peer} {pieces} pieces did not come", flow.0);
        }
        _ => {}
    }
}

/// A notice as an event: its name and fields.
fn event(notice: &Notice) -> (&'static str, Map<String, Value>) {
    let (name, fields) = match notice {
        Notice::Broken { peer, tree, reason } => (
            "PAIR_BROKEN",
            json!({ "peer": peer.to_string(), "tree": tree.0, "reason": reason.to_string() }),
        ),
        Notice::StaleController { term, latest } => {
            ("CONTROLLER_STALE", json!({ "term": term.0, "latest": latest.0 }))
        }
        Notice::ControllerLost => ("CONTROLLER_LOST", json!({})),
        Notice::ControllerFound => ("CONTROLLER_FOUND", json!({})),
        Notice::LinkTest(test) => (
            "LINK_TEST",
            json!({ "number": test.number, "peer": test.peer.to_string(), "messages": test.messages }),
        ),
        Notice::Deferred { flow, wait } => {
            ("FLOW_DEFERRED", json!({ "flow": flow.0, "why": wait.to_string() }))
        }
        Notice::Refused { flow, refusal } => {
            ("FLOW_REFUSED", json!({ "flow": flow.0, "why": refusal.to_string() }))
        }
        Notice::Declined { flow, reason } => {
            ("CALL_DECLINED", json!({ "flow": flow.0, "why": reason.to_string() }))
        }
        Notice::Closed { flow, unsent } => {
            ("FLOW_CLOSED", json!({ "flow": flow.0, "unsent": unsent }))
        }
        Notice::Lost { peer, flow, pieces } => {
            ("LOST", json!({ "peer": peer.to_string(), "flow": flow.0, "pieces": pieces }))
        }
        Notice::Sent { flow, .. } => ("SENT", json!({ "flow": flow.0 })),
        Notice::Received { peer, .. } => ("RECEIVED", json!({ "peer": peer.to_string() })),
    };
    match fields {
        Value::Object(fields) => (name, fields),
        _ => (name, Map::new()),
    }
}
