//! The loop: what comes in goes to the core, what the core wants is done.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use snin_daemon::control::Client;
use snin_daemon::metrics::Histogram;
use snin_daemon::service;
use snin_daemon::signals::{Signal, Signals};
use snin_daemon::watch::Watch;
use snin_daemon::worker::Worker;
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::operator::manager::Status;
use snin_protocol::view::{PortTest, PortTested};

use super::applying::Versions;
use super::consenting::Consenting;
use super::demultiplexer::{self, Demultiplexer, Sorted};
use super::failure::Failure;
use super::faults::Faults;
use super::outlets::Outlets;
use super::reading::Reading;
use super::recording::EventRecorder;
use super::storage::Storage;
use super::summary::{self, Beside, Told};
use super::views::Views;
use super::wire::Wire;
use crate::port::Port;
use snin_mastership::control::Control;
use snin_sm_core::Core;
use snin_sm_core::intake::{Hearing, Intake, IntakeLimits, Waiting};
use snin_sm_core::{Event, Output};
use snin_sweep::Metrics;
use snin_sweep::{Computed, Job};

/// Bounds of the histogram of busy times, in seconds.
const SECONDS: [f64; 12] =
    [0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];
/// MADs taken in before everything else has its turn.
const TURN: usize = 4_096;
/// Computations that wait, each with a fabric of its own; the core begins one a change of the fabric.
const COMPUTATIONS: usize = 1_024;

/// Time since the start of the program.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at zero.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// What has to be added to [`now`](Self::now) to have the time of the epoch.
    pub fn epoch(&self) -> Time {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        Time(nanos.saturating_sub(self.now().nanos()))
    }

    /// Now.
    pub fn now(&self) -> Time {
        Time(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A core, its ports, and all that the two need of a machine.
pub struct Daemon {
    pub(super) clock: Clock,
    pub(super) core: Core,
    pub(super) demultiplexer: Demultiplexer,
    pub(super) storage: Storage,
    pub(super) wire: Wire,
    pub(super) outlets: Outlets,
    pub(super) versions: Versions,
    pub(super) told: Told,
    /// Since when something is under way, and what was counted before.
    pub(super) busy_since: Option<Time>,
    pub(super) counted: Metrics,
    pub(super) durations: Histogram,
    /// Whether systemd was told that all is in order.
    pub(super) ready: bool,
    /// The clients that asked for a sweep and are to be told of its end.
    pub(super) waiting: Vec<Client>,
    /// The clients that have another manager told something, and are to hear what became of it.
    pub(super) instructions: Vec<(Guid, Control, Client)>,
    /// Tests of links of which no controller could be told.
    untested: Vec<u32>,
    /// The file of partitions, and that of levels of service.
    pub(super) partition_file: Option<PathBuf>,
    pub(super) qos_policy_file: Option<PathBuf>,
    recorder: EventRecorder,
    /// What computes.
    worker: Worker<Job, Computed>,
    /// The files that operators name.
    pub(super) reading: Reading,
    signals: Signals,
    watchdog: Option<Time>,
    alive_due: Option<Time>,
    /// What hosts ask waits here, and whether one is told that there is no room.
    pub(super) intake: Intake,
    busy_is_told: bool,
    /// Until when all that came was taken in.
    hearing: Hearing,
    pub(super) faults: Faults,
}

impl Daemon {
    /// Puts the parts together; nothing is sent yet.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub fn new(
        clock: Clock,
        core: Core,
        storage: Storage,
        ports: Vec<Box<dyn Port>>,
        outlets: Outlets,
    ) -> Result<Self, Failure> {
        let watchdog = service::watchdog().and_then(|every| u64::try_from(every.as_nanos()).ok());
        let watchdog = watchdog.map(Time);
        let busy_is_told = core.manager().tells_busy();
        Ok(Self {
            clock,
            demultiplexer: Demultiplexer::default(),
            core,
            storage,
            wire: Wire::new(ports),
            outlets,
            versions: Versions::default(),
            told: Told::default(),
            busy_since: None,
            counted: Metrics::default(),
            durations: Histogram::new(SECONDS),
            ready: false,
            waiting: Vec::new(),
            instructions: Vec::new(),
            untested: Vec::new(),
            partition_file: None,
            qos_policy_file: None,
            recorder: EventRecorder::none(),
            worker: Worker::start("compute", COMPUTATIONS, |job: Job| Some(job.run()))
                .map_err(Failure::system("a thread"))?,
            reading: Reading::start().map_err(Failure::system("a thread"))?,
            signals: Signals::new().map_err(Failure::system("signals"))?,
            watchdog,
            alive_due: watchdog.map(|every| clock.now() + every),
            intake: Intake::new(IntakeLimits::default()),
            busy_is_told,
            hearing: Hearing::default(),
            faults: Faults::default(),
        })
    }

    /// Records what the core is told from now on, which is from its beginning: nothing was sent yet.
    #[must_use]
    pub fn recorded(self, recorder: EventRecorder) -> Self {
        Self { recorder, ..self }
    }

    /// Where partitions and levels of service are read again from.
    pub fn read_again(&mut self, partitions: Option<PathBuf>, qos_policy: Option<PathBuf>) {
        (self.partition_file, self.qos_policy_file) = (partitions, qos_policy);
    }

    /// Brings the subnet up, until nothing more is to be done or a signal comes.
    ///
    /// # Errors
    /// When the port is of no use any more, or the system refuses a thread.
    pub fn once(&mut self) -> Result<Status, Failure> {
        self.begin()?;
        while !self.turn()? {
            if self.core.is_idle() && self.wire.is_flushed() {
                break;
            }
            self.wait()?;
        }
        self.recorder.end(self.clock.now());
        Ok(self.status())
    }

    /// Manages the subnet until a signal ends it.
    ///
    /// # Errors
    /// As [`once`](Self::once).
    pub fn run(&mut self) -> Result<(), Failure> {
        self.begin()?;
        while !self.turn()? {
            self.wait()?;
        }
        self.recorder.end(self.clock.now());
        service::stopping();
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Failure> {
        // IsSM would have the manager that stays ask what this one is.
        if !self.core.is_read_only() {
            self.wire.sit(self.core.manager().seat())?;
        }
        self.feed(Event::Start)
    }

    /// Deals with all that has happened; whether the daemon shall end.
    fn turn(&mut self) -> Result<bool, Failure> {
        self.take_in()?;
        self.end_waits()?;
        if self.wire.has_changed() {
            self.feed(Event::PortChanged)?;
        }
        self.wire.flush()?;
        // There may be room for answers again.
        let now = self.clock.now();
        self.crowd(self.wire.is_crowded(), now);
        self.perform(now)?;
        while let Some(computed) = self.worker.next().map_err(Failure::system("a thread"))? {
            self.feed(Event::Computed(Box::new(computed)))?;
        }
        self.serve_hosts()?;
        let now = self.clock.now();
        if let (Some(every), Some(due)) = (self.watchdog, self.alive_due)
            && due <= now
        {
            service::alive();
            self.alive_due = Some(now + every);
        }
        self.tell_of_storage(now);
        let end = self.heed_signals()?;
        while let Some(version) = self.outlets.views.as_mut().and_then(Views::next_clear) {
            self.feed(Event::Clear { version })?;
        }
        for number in std::mem::take(&mut self.untested) {
            self.feed(Event::LinkTested { number, arrived: None })?;
        }
        while let Some(tested) = self.outlets.views.as_mut().and_then(Views::next_tested) {
            let PortTested { number, arrived } = tested;
            self.feed(Event::LinkTested { number, arrived })?;
        }
        self.outlets.journal.settle(self.outlets.control.as_mut());
        while let Some(event) = self.outlets.mirrors.next_event() {
            self.feed(Event::Mirror(Box::new(event)))?;
        }
        while let Some(event) = self.outlets.cluster.as_ref().and_then(Consenting::next_event) {
            self.feed(Event::Cluster(Box::new(event)))?;
        }
        self.heed_versions()?;
        self.answer_read_files()?;
        if let Some(set) = self.outlets.views.as_mut().and_then(Views::take_preferences) {
            self.feed(Event::Prefer(set))?;
        }
        self.serve()?;
        self.keep_marks();
        self.note_quiet();
        self.tell_of_faults();
        self.recorder.flush();
        self.hearing.listen(self.clock.now());
        Ok(end)
    }

    fn heed_signals(&mut self) -> Result<bool, Failure> {
        let mut end = false;
        while let Some(signal) = self.signals.next() {
            match signal {
                Signal::End => end = true,
                Signal::Again => self.look_again()?,
                Signal::Reopen => self.outlets.reopen(),
            }
        }
        Ok(end)
    }

    /// Tells the core of an event, and does what that leads to.
    pub(super) fn feed(&mut self, event: Event<'_>) -> Result<(), Failure> {
        let now = self.clock.now();
        self.recorder.event(now, Some(&event));
        self.core.handle(event, now);
        self.follow_up(now)
    }

    fn follow_up(&mut self, now: Time) -> Result<(), Failure> {
        self.perform(now)?;
        if self.busy_since.is_none() && !self.core.is_idle() {
            self.busy_since = Some(now);
        }
        Ok(())
    }

    /// Hands what came in to the core, each with what it leads to; what hosts ask waits for its turn.
    fn take_in(&mut self) -> Result<(), Failure> {
        // What is left after a turn keeps the port readable.
        for _ in 0..TURN {
            let now = self.clock.now();
            let Some((port, received)) = self.wire.receive()? else {
                self.hearing.all_read(now);
                break;
            };
            match self.demultiplexer.sort(port, &received, self.core.manager().own_keys()) {
                Some(Sorted::Asked(from)) => {
                    let request = Waiting { port, from, mad: received.mad };
                    if let Err(request) = self.intake.put(request) {
                        self.refuse(request)?;
                    }
                }
                Some(Sorted::Core(event)) => {
                    self.recorder.event(now, Some(&event));
                    self.core.handle(event, now);
                }
                None => {}
            }
        }
        self.follow_up(self.clock.now())
    }

    /// What is due by the time until which everything was heard: who answered, and waits here to be read, was not
    /// silent.
    fn end_waits(&mut self) -> Result<(), Failure> {
        let now = self.hearing.until();
        if self.core.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.recorder.event(now, None);
            self.core.handle_deadline(now);
            self.follow_up(now)?;
        }
        Ok(())
    }

    /// Serves some of what hosts ask.
    fn serve_hosts(&mut self) -> Result<(), Failure> {
        let begin = self.clock.now();
        let busy = !self.core.is_idle();
        let Some((until, most)) = self.intake.slice(busy, begin) else { return Ok(()) };
        // All are in before the first is answered, so that one write to the disk is for all.
        self.crowd(true, begin);
        let mut now = begin;
        for _ in 0..most {
            if now >= until {
                break;
            }
            let Some(Waiting { port, from, mad }) = self.intake.pop() else { break };
            let event = Event::General { port, from, bytes: &mad.0 };
            self.recorder.event(now, Some(&event));
            self.core.handle(event, now);
            now = self.clock.now();
        }
        self.crowd(self.wire.is_crowded(), now);
        self.follow_up(now)?;
        self.intake.served(begin, self.clock.now());
        Ok(())
    }

    /// Says that there is too much to do just now, where that is wanted and somebody takes it.
    fn refuse(&mut self, request: Waiting) -> Result<(), Failure> {
        let Waiting { port, from, mad } = request;
        if self.busy_is_told
            && !self.wire.is_crowded()
            && let Some(answer) = snin_administration::busy(&mad)
        {
            let index = demultiplexer::place(from.p_key, self.core.manager().own_keys());
            self.wire.answer(port, answer, from, index)?;
        }
        Ok(())
    }

    /// Answers wait, or do so no more. The core is told, so that a recording has when.
    fn crowd(&mut self, crowded: bool, now: Time) {
        if self.core.manager().is_crowded() != crowded {
            let event = Event::Crowded(crowded);
            self.recorder.event(now, Some(&event));
            self.core.handle(event, now);
        }
    }

    fn wait(&self) -> Result<(), Failure> {
        let mut watch = Watch::new();
        let again = self.wire.watch(&mut watch);
        watch.readable(self.worker.readable());
        watch.readable(self.reading.readable());
        self.signals.watch(&mut watch);
        self.outlets.watch(&mut watch);
        let now = self.clock.now();
        let own = self.alive_due.into_iter().chain(self.storage.next_retry());
        let own = own.chain(self.versions.trouble.next_retry());
        let own = own.chain([self.faults.next_look()]);
        let own = own.chain(self.intake.next_deadline(!self.core.is_idle()));
        let due = self.core.next_deadline().map(|due| self.hearing.when(due));
        let due = due.into_iter().chain(own).min();
        let due = due.map(|due| Duration::from_nanos(due.nanos().saturating_sub(now.nanos())));
        let at_once = (!self.untested.is_empty()).then_some(Duration::ZERO);
        let limit = due.into_iter().chain(again).chain(at_once).min();
        watch.wait(limit).map_err(Failure::system("poll")).map(drop)
    }

    /// Does what the core wants.
    fn perform(&mut self, now: Time) -> Result<(), Failure> {
        let mut outputs = Vec::new();
        // What hosts said is on the disk before any of them is answered.
        while let Some(output) = self.core.poll_output() {
            self.recorder.output(&output);
            match output {
                Output::Keep(changes) => self.storage.append(&changes, now),
                // Before the first write goes out: addresses that were given are not forgotten after any end of
                // the process.
                Output::Save(saved) => self.storage.save(saved, now),
                output => outputs.push(output),
            }
        }
        self.storage.settle(self.core.manager().database(), now);
        self.tell_of_storage(now);
        for output in outputs {
            match output {
                Output::Send { port, mad, to } => self.wire.send(port, mad, to)?,
                Output::Answer { port, mad, to } => {
                    let index = demultiplexer::place(to.p_key, self.core.manager().own_keys());
                    self.wire.answer(port, mad, to, index)?;
                }
                Output::Keep(_) | Output::Save(_) => {}
                Output::Compute(job) => {
                    let taken = self.worker.give(*job);
                    taken.map_err(|_| Failure::system("a thread")(self.worker.ended()))?;
                }
                Output::View(view) => {
                    if let Some(views) = &mut self.outlets.views {
                        views.publish(&view);
                    }
                    self.outlets.loads.put(view.clone());
                    if let Some(dumps) = &self.outlets.dumps {
                        dumps.put(view);
                    }
                }
                Output::Mirror(said) => self.outlets.mirrors.say(said),
                Output::Cluster(ask) => {
                    if let Some(cluster) = &self.outlets.cluster {
                        cluster.ask(ask);
                    }
                }
                Output::Sit(port) => self.wire.sit(port)?,
                Output::Served(_) => {}
                Output::TestLink { number, port, messages } => {
                    let test = PortTest { number, port, messages };
                    let views = self.outlets.views.as_mut();
                    if !views.is_some_and(|views| views.test(test)) {
                        self.untested.push(number);
                    }
                }
                Output::Report(report) => self.report(report),
            }
        }
        // That there is room again is seen when something was sent, before the next time.
        if self.wire.is_crowded() {
            self.crowd(true, now);
        }
        Ok(())
    }

    /// What there is to say of the subnet now.
    pub fn status(&self) -> Status {
        let (port, control) = (self.wire.port(), self.outlets.control.as_ref());
        let versions = &self.versions.trouble;
        let credentials = self.outlets.credentials.as_ref();
        let beside = Beside {
            info: port.info(),
            counters: port.counters(),
            told: &self.told,
            stores: [
                (self.storage.trouble(), self.storage.failures()),
                (versions.why(), versions.failures()),
            ],
            requests: summary::host_requests(self.core.manager(), &self.intake),
            loads: self.outlets.loads.counted(),
            certificate: credentials.and_then(|known| known.expiry(SystemTime::now())),
            turned_away: control.map_or(0, |control| control.turned_away()),
        };
        summary::status(&self.core, beside)
    }
}
