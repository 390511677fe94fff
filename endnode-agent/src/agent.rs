//! The agent in a program of one's own: flows to peers, messages from them.
//!
//! ```no_run
//! use snin_agent::{Agent, Settings};
//! use snin_daemon::settings::load;
//!
//! let settings = load::<Settings>("/etc/snin/agent.toml".as_ref())?;
//! let agent = Agent::start(&settings)?;
//! let mut flow = agent.connect("0x0002c90300a1b2c3".parse()?)?;
//! flow.send(b"ready?")?;
//! let answer = agent.recv()?;
//! assert_eq!(&answer[..], b"ready!");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use snin_daemon::clock::Clock;
use snin_daemon::record::Recorder;
use snin_daemon::session::{Address, Credentials};
use snin_daemon::settings::Loaded;
use snin_daemon::watch::Place;
use snin_fabric::Guid;
use snin_protocol::message::LinkTested;

use crate::error::AgentError;
use crate::flow::Flow;
use crate::io::control::Control;
use crate::io::controller::ControllerSession;
use crate::io::cores::pin;
use crate::io::engine::Engine;
use crate::io::factory::{QpFactory, timing};
use crate::io::header::HEADER;
use crate::io::inbound::{InboundSessions, PAIRS_OF_PEER, REMEMBER};
use crate::io::inbox::Inbox;
use crate::io::outbound::OutboundSessions;
use crate::io::outbox::{Datagrams, Outbox};
use crate::io::port::VerbsPort;
use crate::io::rings::{AppCall, Received, Rings};
use crate::io::send_path::{Headers, Q_KEY, Sender};
use crate::message::{Held, Incoming, Outgoing, Whole};
use crate::partial::{Joined, Joining};
use crate::port_counters;
use crate::replay::CORE;
use crate::settings::{Checked, Settings, check};
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use snin_agent_core::{Admission, AdmissionLimits, FlowId, Mesh, Notice, Piece, Wanted};
use snin_verbs::{
    AsyncEvents, CompletionQueue, Depth, Domain, QueuePair, ReceiveBuffer, SharedReceives, Slot,
    Source, Timing, Ud, choose,
};

/// What comes before a datagram's bytes: its global route.
const ROUTE: usize = 40;
/// Of a device's completion queues, the longest that all have.
const MOST_COMPLETIONS: u32 = 32_767;
/// A running agent. Clones are the same agent; it ends with the last of them and of its flows.
#[derive(Clone, Debug)]
pub struct Agent {
    shared: Arc<Shared>,
}

/// The data thread's work, for a program that does it itself: between its own calls it calls
/// [`poll`](Self::poll), as often as it can.
#[derive(Debug)]
pub struct Driver(Engine);

impl Driver {
    /// Handles what has happened, without waiting: whether anything had.
    pub fn poll(&mut self) -> bool {
        self.0.poll()
    }
}

impl Agent {
    /// Starts an agent with a data thread of its own.
    ///
    /// # Errors
    /// In one line: what is wrong or missing, and how to get it.
    pub fn start(settings: &Loaded<Settings>) -> Result<Self, AgentError> {
        Self::start_recorded(settings, None)
    }

    /// As [`start`](Self::start); what its core is told goes to a file, from which [`replay`](crate::replay)
    /// makes it again. The data thread waits for the file, so an agent that is recorded is slower.
    ///
    /// # Errors
    /// As [`start`](Self::start), and when the file cannot be written.
    pub fn start_recorded(
        settings: &Loaded<Settings>,
        record: Option<&Path>,
    ) -> Result<Self, AgentError> {
        let (agent, Driver(engine)) = Self::start_threads(settings, false, record)?;
        let core = settings.value.core;
        let (pinned_sender, pinned_receiver) = std::sync::mpsc::channel();
        let run = move || {
            let pinned = core.map_or(Ok(()), pin);
            let runs = pinned.is_ok();
            // No caller waits for this if the agent is gone already.
            let _ = pinned_sender.send(pinned);
            if runs {
                engine.run();
            }
        };
        agent.spawn("snin-data", run)?;
        match pinned_receiver.recv() {
            Ok(pinned) => pinned.map(|()| agent),
            Err(_) => Err(AgentError::System {
                what: "the data thread",
                error: ErrorKind::BrokenPipe.into(),
            }),
        }
    }

    /// Starts an agent whose data thread is the caller's: nothing is sent or received but by
    /// [`Driver::poll`], and only calls that do not wait may be made from the same thread.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_driven(settings: &Loaded<Settings>) -> Result<(Self, Driver), AgentError> {
        Self::start_threads(settings, true, None)
    }

    /// All but the data thread.
    fn start_threads(
        settings: &Loaded<Settings>,
        driven: bool,
        record: Option<&Path>,
    ) -> Result<(Self, Driver), AgentError> {
        let checked = check(settings)?;
        let (engine, control, shared) = make(&settings.value, &checked, driven, record)?;
        let agent = Self { shared: Arc::new(shared) };
        agent.spawn("snin-control", move || control.run())?;
        Ok((agent, Driver(engine)))
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), AgentError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|error| AgentError::System { what: "a thread", error })?;
        self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// A flow to a peer, with as much as its link carries.
    ///
    /// # Errors
    /// When the peer is not known, or there are as many flows as may be.
    pub fn connect(&self, peer: Guid) -> io::Result<Flow> {
        self.connect_with(peer, Wanted::default())
    }

    /// A flow to a peer, with what is asked of the controller for it.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_with(&self, peer: Guid, wanted: Wanted) -> io::Result<Flow> {
        if !self.shared.peers.contains(&peer) {
            return Err(io::Error::new(ErrorKind::NotFound, AgentError::UnknownPeer(peer)));
        }
        let rings = &self.shared.rings;
        let number = rings.numbers.pop();
        let number = number.ok_or_else(|| {
            io::Error::new(ErrorKind::QuotaExceeded, "as many flows are open as `flows` allows")
        })?;
        rings.make_flow_buffers(&self.shared.config);
        let progress = &rings.flows[number as usize];
        progress.done.store(0, Ordering::Relaxed);
        progress.unsent.store(0, Ordering::Relaxed);
        let flow = FlowId(number);
        self.shared.call(AppCall::Open { flow, peer, wanted });
        Ok(Flow::new(Arc::clone(&self.shared), flow, peer))
    }

    /// Tells the controller what came of a test that it wanted ([`Notice::LinkTest`]).
    pub fn link_tested(&self, tested: LinkTested) {
        self.shared.call(AppCall::LinkTested(tested));
    }

    /// The next message that came in; waits for it.
    ///
    /// # Errors
    /// None at present; the result leaves room for them.
    pub fn recv(&self) -> io::Result<Incoming<'_>> {
        self.shared.wait(None, || self.try_recv())
    }

    /// As [`recv`](Self::recv), for so long.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`].
    pub fn recv_timeout(&self, limit: Duration) -> io::Result<Incoming<'_>> {
        self.shared.wait(Some(limit), || self.try_recv())
    }

    /// The next message that came in, if there is one.
    pub fn try_recv(&self) -> Option<Incoming<'_>> {
        let rings = &self.shared.rings;
        while let Some(slot) = rings.arrived.pop() {
            let Piece { offset, last, .. } = slot.note.arrival.piece;
            let held = Held::new(rings, slot);
            if offset == 0 && last {
                return Some(Incoming(Whole::Held(held)));
            }
            if let Some(whole) = self.join(&held) {
                return Some(Incoming(Whole::Joined(Box::new(whole))));
            }
        }
        None
    }

    /// A message in several pieces, with its last.
    fn join(&self, held: &Held<'_>) -> Option<Joined> {
        let arrival = &held.received().arrival;
        let rings = &self.shared.rings;
        match rings.partial().join(arrival, held.bytes()) {
            Joining::Waits => None,
            Joining::Whole(message) => Some(message),
            Joining::Lost => {
                Rings::count(&rings.counters.unjoined);
                None
            }
        }
    }

    /// What happened beside messages: the next notice, if there is one.
    pub fn notice(&self) -> Option<Notice> {
        self.shared.rings.notices.pop()
    }

    /// The own port, as peers and the controller know it.
    pub fn guid(&self) -> Guid {
        self.shared.config.port
    }

    /// The device's port, as the kernel shows it.
    pub(crate) fn port_folder(&self) -> &Path {
        &self.shared.port_folder
    }

    /// Where peers' agents call this one, with the port that the system chose.
    pub fn listens_at(&self) -> &Address {
        &self.shared.listen
    }

    /// The longest message: with `mode = "ud"` what one packet carries.
    pub fn longest_message(&self) -> usize {
        self.shared.longest
    }

    /// Whether messages may be so long.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], in one line.
    pub(crate) fn check_length(&self, bytes: usize) -> io::Result<()> {
        self.shared.check_length(bytes)
    }

    /// Memory for a message of so many bytes, if there is any. What is in it was written there for a message
    /// before, or nothing but zeros.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] where all memory is in use, and when messages may not be so long.
    pub fn reserve(&self, bytes: usize) -> io::Result<Outgoing<'_>> {
        self.shared.check_length(bytes)?;
        let memory = Outgoing::take(&self.shared.rings, bytes);
        memory.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    /// The agent's state at one moment; with the latencies of one flow, if asked for.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] when the data thread stands still.
    pub fn snapshot(&self, latency_of: Option<FlowId>) -> io::Result<Snapshot> {
        Snapshot::take(&self.shared, latency_of)
    }

    /// The port's certificate, if it has one.
    pub(crate) fn credentials(&self) -> Option<&Arc<Credentials>> {
        self.shared.credentials.as_ref()
    }

    /// The agent's clock, for [`Flow::send_due`].
    pub fn now(&self) -> snin_protocol::Time {
        self.shared.clock.now()
    }
}

/// Looks whether settings, and the certificate that they name, can be used.
///
/// # Errors
/// What is wrong, by file and line.
pub fn check_config(settings: &Loaded<Settings>) -> Result<(), AgentError> {
    let checked = check(settings)?;
    checked.certificates.map(Credentials::load).transpose()?;
    Ok(())
}

/// The port's certificate, if one is configured.
fn credentials(checked: &Checked, port: Guid) -> Result<Option<Arc<Credentials>>, AgentError> {
    let Some(files) = checked.certificates.clone() else { return Ok(None) };
    let credentials = Credentials::load(files)?;
    let named = credentials.identity();
    if named.port() == Some(port) {
        Ok(Some(Arc::new(credentials)))
    } else {
        Err(AgentError::OtherName { named, port })
    }
}

/// Makes everything; only the session with the controller runs yet.
fn make(
    settings: &Settings,
    checked: &Checked,
    driven: bool,
    record: Option<&Path>,
) -> Result<(Engine, Control, Shared), AgentError> {
    let (device, port) = choose(settings.device.as_deref(), settings.port)?;
    let guid = checked.guid.or_else(|| device.port_guid(port.number));
    let no_guid = || AgentError::NoGuid { device: device.name().to_owned(), port: port.number };
    let guid = guid.ok_or_else(no_guid)?;
    let credentials = credentials(checked, guid)?;
    let session = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let session = session.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    let sender = Sender { port: guid, session };
    let packet = port.mtu.bytes();
    let longest = if checked.datagrams {
        settings.message.min(packet - HEADER as u32)
    } else {
        settings.message
    };
    let config = checked.mesh(settings, (guid, session), packet, longest);
    config.check()?;

    let port_folder = port_counters::folder(device.name(), port.number);
    let domain = Domain::new(&device)?;
    let sends = settings.pairs.saturating_mul(settings.depth);
    let queue = CompletionQueue::new(&device, (sends + settings.receives).min(MOST_COMPLETIONS))?;
    let mut receives = SharedReceives::new(&domain, settings.receives)?;
    let start = if checked.datagrams { ROUTE } else { 0 };
    let room = start + HEADER + longest as usize;
    for slot in Slot::allocate(&domain, settings.receives as usize, room)? {
        receives.receive(Box::new(ReceiveBuffer::new(slot, Received::NOTHING)))?;
    }
    receives.ring()?;
    let shared_queue = receives.queue();
    let datagrams = if checked.datagrams {
        let depth = Depth { sends, receives: 0, inline: settings.inline };
        let pair = QueuePair::<Ud, _>::sharing(
            &domain,
            port.number,
            (&queue, &queue),
            &shared_queue,
            depth,
        )?;
        let pair = pair.initialise(false, Q_KEY)?.open()?.start(0, &Timing::default())?;
        Some(Datagrams::new(pair, Headers::new(&domain, sends)?, sends))
    } else {
        None
    };

    let (inbound, receives_count) = (settings.inbound_pairs as usize, settings.receives as usize);
    let polls = (checked.busy, driven);
    let rings = Rings::new(
        &config,
        inbound,
        receives_count,
        settings.buffers as usize,
        polls,
        record.is_some(),
    );
    let rings =
        Arc::new(rings.map_err(|error| AgentError::System { what: "an event descriptor", error })?);
    for slot in Slot::allocate(&domain, settings.buffers as usize, longest as usize)? {
        // There is room for all.
        let _ = rings.buffers.push(Source::new(slot));
    }

    let clock = Clock::start();
    let began = clock.now();
    let recorder = match record {
        Some(file) => Some(
            Recorder::create(file, CORE, &config, began)
                .map_err(|error| AgentError::Record { file: file.to_owned(), error })?,
        ),
        None => None,
    };
    let number = datagrams.as_ref().map(|datagrams| datagrams.pair.number());
    let inbox = Inbox::new(Arc::clone(&rings), receives, start, datagrams.is_none(), inbound + 1);
    let waiting = (settings.flows as usize, settings.waiting as usize + 1);
    let pairs = settings.pairs as usize;
    let outbox = Outbox::new(Arc::clone(&rings), sender, pairs, waiting, datagrams);
    let engine = Engine::new(
        Mesh::new(config, began)?,
        VerbsPort::new(Arc::clone(&rings), queue.clone(), inbox, outbox),
        Arc::clone(&rings),
        clock,
    );
    let controller = checked.controllers.split_first().map(|(first, others)| {
        ControllerSession::call(Arc::clone(&rings), guid, (first, others), credentials.clone())
    });
    let controller = controller
        .transpose()
        .map_err(|error| AgentError::System { what: "the session with the controller", error })?;
    let heartbeat = Duration::from_millis(settings.heartbeat_ms.max(1));
    let outbound = OutboundSessions::new(
        Arc::clone(&rings),
        sender,
        checked.peers.clone(),
        credentials.clone(),
        heartbeat,
        settings.flows,
    );
    let outbound =
        outbound.map_err(|error| AgentError::System { what: "sessions with peers", error })?;
    let admission = Admission::new(AdmissionLimits {
        peers: settings.inbound_peers,
        flows: settings.inbound_flows,
        pairs_of_peer: PAIRS_OF_PEER,
        pairs: settings.inbound_pairs,
        remember: REMEMBER,
    });
    let inbound = InboundSessions::listen(
        Arc::clone(&rings),
        clock,
        (guid, checked.listen.clone()),
        credentials.clone(),
        (admission, settings.inbound_peers),
    )?;
    let listen = inbound.address().unwrap_or(&checked.listen).clone();
    let control = Control {
        outbound,
        inbound,
        controller,
        recorder,
        events: AsyncEvents::new(&device)?,
        events_place: Place::default(),
        factory: QpFactory {
            device,
            domain,
            port,
            queue,
            receives: shared_queue,
            datagrams: number,
            depth: settings.depth,
            inline: settings.inline,
            level: settings.service_level,
            timing: timing(Duration::from_millis(settings.resend_ms)),
        },
        rings: Arc::clone(&rings),
    };
    let shared = Shared {
        rings,
        config,
        peers: checked.peers.keys().copied().collect(),
        clock,
        longest: longest as usize,
        threads: Mutex::default(),
        snapshot_lock: Mutex::default(),
        listen,
        credentials,
        port_folder,
    };
    Ok((engine, control, shared))
}
