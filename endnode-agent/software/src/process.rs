//! The agents of many hosts in one process: one connection to the fabric, a session a host with the
//! controller, and a control socket for all.
//!
//! What is asked on the control socket: `answers`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use snin_agent_core::{Config, ConfigError, ControllerState};
use snin_daemon::clock::Clock;
use snin_daemon::control::{Control, ControlError};
use snin_daemon::group::SocketGroup;
use snin_daemon::journal::Journal;
use snin_daemon::service;
use snin_daemon::session::{
    Address, Call, Credentials, CredentialsError, Files, Limits, Post, Received,
};
use snin_daemon::signals::{Signal, Signals};
use snin_daemon::watch::Watch;
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::message::{FromAgent, ToAgent};
use snin_protocol::software_port::messages::{Attach, FromFabric, RefusedReason, ToFabric};
use tracing::info;

use crate::host::{Host, Outcome};
use crate::link::{Link, LinkError};

/// How long the fabric may take to attach all ports.
const ATTACHING: Duration = Duration::from_secs(60);
/// Jobs whose time is kept.
const TIMES: usize = 1 << 20;

/// What stands for the port's GUID in the paths of certificates.
pub const GUID: &str = "{guid}";

/// Whose agents, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The fabric's name.
    pub fabric: String,
    /// The ports.
    pub ports: Vec<Guid>,
    /// Where controllers answer, of which one leads; without any nothing is granted.
    pub controllers: Vec<Address>,
    /// With a controller at `tls://`: the certificates, where [`GUID`] stands for each port's GUID.
    pub certificates: Option<Files>,
    /// Where it is asked.
    pub control: PathBuf,
    /// Whose members may ask.
    pub group: Option<SocketGroup>,
    /// Of every mesh; ports, rates and packets are as the fabric says.
    pub mesh: Config,
}

/// Why the agents do not run, in one line.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The fabric.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// It does not attach an agent.
    #[error("port {port}: {reason}")]
    Refused {
        /// Which port.
        port: Guid,
        /// Why.
        reason: RefusedReason,
    },
    /// It does not answer.
    #[error("the fabric has not attached all agents after {} s", ATTACHING.as_secs())]
    Silent,
    /// The mesh's settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A port's certificate.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The system.
    #[error(transparent)]
    System(#[from] io::Error),
}

pub(crate) type Session = Post<ToAgent, FromAgent>;

/// See the module's documentation.
pub struct Process {
    pub(crate) fabric: String,
    pub(crate) clock: Clock,
    link: Link,
    pub(crate) hosts: BTreeMap<Guid, (Host, Option<Session>)>,
    pub(crate) control: Control,
    pub(crate) journal: Journal,
    signals: Signals,
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(crate) declined: u64,
    /// Of those that are done, the first so many.
    pub(crate) took: Vec<Time>,
    /// How each host's controller was when it was looked at last.
    heard: BTreeMap<Guid, ControllerState>,
}

impl Process {
    /// Attaches all ports; [`run`](Self::run) does the rest.
    ///
    /// # Errors
    /// What is missing or cannot be used.
    pub fn start(options: Options) -> Result<Self, Failure> {
        let clock = Clock::system();
        let mut link = Link::connect(&options.fabric)?;
        for &port in &options.ports {
            link.send(&ToFabric::Attach(Attach { port }));
        }
        let mut hosts = BTreeMap::new();
        let begin = Instant::now();
        // Greater after every restart of the agent, as the clock is.
        let config = Config { session: clock.now().nanos(), ..options.mesh };
        while hosts.len() < options.ports.len() {
            if begin.elapsed() > ATTACHING {
                return Err(Failure::Silent);
            }
            link.flush()?;
            let mut watch = Watch::new();
            link.watch(&mut watch);
            watch.wait(Some(Duration::from_secs(1)))?;
            for said in link.receive()? {
                match said {
                    FromFabric::Attached(status) => {
                        let host = Host::new(&status, &config, clock.now())?;
                        let session = call(&options, status.port)?;
                        hosts.insert(status.port, (host, session));
                    }
                    FromFabric::Refused(refused) => {
                        let (port, reason) = (refused.port, refused.reason);
                        return Err(Failure::Refused { port, reason });
                    }
                    _ => {}
                }
            }
        }
        let control = Control::listen(&options.control, options.group)?;
        let signals = Signals::new()?;
        info!("{} agents on {}", hosts.len(), options.fabric);
        let (done, refused, declined, took) = (0, 0, 0, Vec::new());
        let (fabric, journal, heard) = (options.fabric, Journal::new(), BTreeMap::new());
        Ok(Self {
            fabric,
            clock,
            link,
            hosts,
            control,
            journal,
            signals,
            done,
            refused,
            declined,
            took,
            heard,
        })
    }

    /// Until a signal ends it, or the fabric.
    ///
    /// # Errors
    /// When the fabric has ended, or the system cannot wait.
    pub fn run(mut self) -> Result<(), Failure> {
        service::ready("sends what is granted");
        loop {
            self.wait()?;
            while let Some(signal) = self.signals.next() {
                if signal == Signal::End {
                    service::stopping();
                    return Ok(());
                }
            }
            self.receive()?;
            for request in self.control.work() {
                self.answer(&request);
            }
            self.poll();
            self.link.flush()?;
        }
    }

    fn wait(&self) -> Result<(), Failure> {
        let now = self.clock.now();
        let next = self.hosts.values().filter_map(|(host, _)| host.next_deadline()).min();
        let limit = next.map(|at| Duration::from_nanos((at - now).nanos()));
        let mut watch = Watch::new();
        self.signals.watch(&mut watch);
        self.control.watch(&mut watch);
        self.link.watch(&mut watch);
        for (_, session) in self.hosts.values() {
            if let Some(session) = session {
                session.watch(&mut watch);
            }
        }
        watch.wait(limit)?;
        Ok(())
    }

    /// What fabric and controller say.
    fn receive(&mut self) -> Result<(), Failure> {
        for said in self.link.receive()? {
            let port = match &said {
                FromFabric::Attached(status) => status.port,
                FromFabric::Refused(refused) => refused.port,
                FromFabric::Completed(completed) => completed.port,
                FromFabric::Arrived(arrived) => arrived.port,
                FromFabric::Found(found) => found.port,
            };
            if let Some((host, _)) = self.hosts.get_mut(&port) {
                host.receive(said);
            }
        }
        for (host, session) in self.hosts.values_mut() {
            let Some(session) = session else { continue };
            for heard in session.work() {
                if let Received::Said(_, said) = heard {
                    host.receive_controller(said);
                }
            }
        }
        Ok(())
    }

    fn poll(&mut self) {
        let Self { clock, link, hosts, done, refused, took, journal, heard, .. } = self;
        let mut tell = |event: &str, port: Guid, peer: Option<Guid>| {
            let fields =
                json!({ "port": port.to_string(), "peer": peer.map(|peer| peer.to_string()) });
            let fields = fields.as_object().cloned().unwrap_or_default();
            journal.notify(None, event, fields);
        };
        for (&port, (host, session)) in hosts {
            host.poll(clock.now(), |said| link.send(said));
            for said in host.take_says() {
                if let Some(session) = session {
                    session.send(said);
                }
            }
            for outcome in host.take_outcomes() {
                match outcome {
                    Outcome::Done { took: one, peer } => {
                        *done += 1;
                        if took.len() < TIMES {
                            took.push(one);
                        }
                        tell("SENT", port, Some(peer));
                    }
                    Outcome::Refused { peer } => {
                        *refused += 1;
                        tell("REFUSED", port, Some(peer));
                    }
                }
            }
            let now = host.controller();
            match heard.insert(port, now) {
                before if before == Some(now) => {}
                _ if now == ControllerState::Lost => tell("CONTROLLER_LOST", port, None),
                _ if now == ControllerState::Received => tell("CONTROLLER_FOUND", port, None),
                _ => {}
            }
        }
    }
}

fn call(options: &Options, port: Guid) -> Result<Option<Session>, Failure> {
    let Some((to, others)) = options.controllers.split_first() else { return Ok(None) };
    let files = options.certificates.as_ref().map(|files| of_port(files, port));
    let call = Call {
        to: to.clone(),
        service: Service::Grants,
        role: Role::Controller,
        peer: None,
        identity: Identity::Agent(port),
        limits: if others.is_empty() { Limits::default() } else { Limits::of_several() },
        credentials: files.map(Credentials::load).transpose()?.map(Arc::new),
    };
    Ok(Some(Post::call_any(call, others.to_vec())?))
}

/// The files of one port.
fn of_port(files: &Files, port: Guid) -> Files {
    let name = |path: &Path| {
        let text = path.to_string_lossy().replace(GUID, &port.to_string());
        PathBuf::from(text)
    };
    Files {
        certificate: name(&files.certificate),
        key: name(&files.key),
        ca_certificate: files.ca_certificate.clone(),
        revoked: files.revoked.clone(),
    }
}
