//! The loop: what comes in goes to the core, what the core wants is done.

use std::time::{Duration, Instant};

use snin_daemon::signals::{Signal, Signals};
use snin_daemon::watch::Watch;
use snin_protocol::Time;

use super::failure::Failure;
use super::summary::{Summary, Told};
use super::wire::Wire;
use super::worker::Worker;
use crate::core::Sweep;
use crate::events::{Event, LocalPort, Output, Report};
use crate::port::Port;

/// MADs taken in before everything else has its turn.
const TURN: usize = 1_024;

/// Time since the start of the program.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at zero.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Now.
    pub fn now(&self) -> Time {
        Time(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A core, its port, and all that the two need of a machine.
pub struct Daemon {
    clock: Clock,
    sweep: Sweep,
    wire: Wire,
    worker: Worker,
    signals: Signals,
    told: Told,
}

impl Daemon {
    /// Puts the parts together; nothing is sent yet.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub fn new(clock: Clock, sweep: Sweep, port: Box<dyn Port>) -> Result<Self, Failure> {
        Ok(Self {
            clock,
            sweep,
            wire: Wire::new(port),
            worker: Worker::start().map_err(Failure::system("a thread"))?,
            signals: Signals::new().map_err(Failure::system("signals"))?,
            told: Told::default(),
        })
    }

    /// Brings the subnet up, until nothing more is to be done or a signal comes.
    ///
    /// # Errors
    /// When the port is of no use any more.
    pub fn once(&mut self) -> Result<Summary, Failure> {
        self.begin()?;
        while !self.turn()? {
            if self.sweep.is_idle() && self.wire.is_flushed() {
                break;
            }
            self.wait()?;
        }
        Ok(self.summary())
    }

    /// Manages the subnet until a signal ends it.
    ///
    /// # Errors
    /// When the port is of no use any more.
    pub fn run(&mut self) -> Result<(), Failure> {
        self.begin()?;
        while !self.turn()? {
            self.wait()?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.wire.announce(true)?;
        self.sweep.handle(Event::Start, self.clock.now());
        self.perform()
    }

    /// Deals with all that has happened; whether the daemon shall end.
    fn turn(&mut self) -> Result<bool, Failure> {
        self.take_in()?;
        self.wire.flush()?;
        while let Some(computed) = self.worker.next().map_err(Failure::system("a thread"))? {
            self.sweep.handle(Event::Computed(Box::new(computed)), self.clock.now());
            self.perform()?;
        }
        let now = self.clock.now();
        if self.sweep.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.sweep.handle_deadline(now);
            self.perform()?;
        }
        let mut end = false;
        while let Some(signal) = self.signals.next() {
            match signal {
                Signal::End => end = true,
                Signal::Again => {
                    self.sweep.handle(Event::Resweep, self.clock.now());
                    self.perform()?;
                }
                Signal::Reopen => {}
            }
        }
        Ok(end)
    }

    /// Hands what came in to the core, each with what it leads to.
    fn take_in(&mut self) -> Result<(), Failure> {
        // What is left after a turn keeps the port readable.
        for _ in 0..TURN {
            let Some(received) = self.wire.receive()? else { break };
            let (port, source) = (LocalPort(0), received.from.lid);
            let event = Event::Mad { port, source, bytes: &received.mad.0 };
            self.sweep.handle(event, self.clock.now());
            self.perform()?;
        }
        Ok(())
    }

    fn wait(&self) -> Result<(), Failure> {
        let mut watch = Watch::new();
        let again = self.wire.watch(&mut watch);
        watch.readable(self.worker.readable());
        self.signals.watch(&mut watch);
        let now = self.clock.now();
        let due = self.sweep.next_deadline().map(|due| due.nanos().saturating_sub(now.nanos()));
        let due = due.map(Duration::from_nanos);
        let limit = due.into_iter().chain(again).min();
        watch.wait(limit).map_err(Failure::system("poll")).map(drop)
    }

    /// Does what the core wants.
    fn perform(&mut self) -> Result<(), Failure> {
        while let Some(output) = self.sweep.poll_output() {
            match output {
                Output::Send { mad, to, .. } => self.wire.send(mad, to)?,
                Output::Compute(job) => {
                    self.worker.run(*job).map_err(Failure::system("a thread"))?;
                }
                Output::View(_) | Output::Save(_) => {}
                Output::Report(report) => self.report(report),
            }
        }
        Ok(())
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Ready { missing, .. } => {
                let now = self.clock.now().nanos() as f64 / 1e9;
                self.told.up_after_seconds.get_or_insert(now);
                self.told.missing = missing.iter().map(ToString::to_string).collect();
                self.told.trouble = None;
            }
            Report::NoRouting(error) => self.told.trouble = Some(error.to_string()),
            Report::Contradiction(what) => self.told.trouble = Some(what),
            Report::OtherManager { at, info } => {
                let state = info.state.name().unwrap_or("unknown").to_lowercase();
                self.told.managers.insert(at, format!("{state}, priority {}", info.priority));
            }
            Report::State(_) | Report::Trap { .. } => {}
        }
    }

    /// What there is to say of the subnet now.
    pub fn summary(&self) -> Summary {
        let port = self.wire.port();
        Summary::of(&self.sweep, port.info(), port.counters(), &self.told)
    }
}
