//! The control thread: everything that takes system calls or time. It makes queue pairs, talks to peers and
//! to the controller, and hears what the device says of its port.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snin_daemon::record::Recorder;
use snin_daemon::watch::{Place, Ready, Watch};
use tracing::{info, warn};

use super::controller::ControllerSession;
use super::factory::QpFactory;
use super::inbound::InboundSessions;
use super::outbound::OutboundSessions;
use super::rings::{Command, ControlEvent, Recorded, Rings};
use snin_verbs::{AsyncEvent, AsyncEvents};

/// How often the control thread looks for orders where a data thread that never sleeps does not wake it.
const LOOK: Duration = Duration::from_millis(1);
/// The longest wait.
const NAP: Duration = Duration::from_secs(1);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) rings: Arc<Rings>,
    pub(crate) factory: QpFactory,
    pub(crate) outbound: OutboundSessions,
    pub(crate) inbound: InboundSessions,
    pub(crate) controller: Option<ControllerSession>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) events: AsyncEvents,
    pub(crate) events_place: Place,
}

impl Control {
    /// Until the agent ends.
    pub(crate) fn run(mut self) {
        let mut ready = Ready::default();
        while !self.rings.stops() {
            self.poll(Instant::now(), &ready);
            ready = self.wait();
        }
        self.end_record();
    }

    fn poll(&mut self, now: Instant, ready: &Ready) {
        while self.events_place.is_ready(ready)
            && let Some(event) = self.events.take()
        {
            self.device_event(event, now);
        }
        while let Some(command) = self.rings.commands.pop() {
            match command {
                Command::Connect { pair, route } => {
                    self.outbound.connect(pair, &route, &self.factory, now);
                }
                Command::Cancel { pair } => self.outbound.cancel(pair),
                Command::Retire { pair, path } => {
                    drop(path);
                    self.outbound.retired(pair);
                }
                Command::InboundFailed { number } => self.inbound.failed(number, now),
                Command::InboundDrained { number } => self.inbound.tear_down().drained(number),
            }
        }
        self.write_record();
        self.inbound.work(&self.factory, now);
        self.outbound.work(&self.factory, now);
        if let Some(controller) = &mut self.controller {
            controller.work();
        }
    }

    /// Writes what the mesh was told.
    fn write_record(&mut self) {
        let (Some(recorder), Some(recording)) = (&mut self.recorder, &self.rings.recording) else {
            return;
        };
        let mut written = Ok(());
        while let Some(entry) = recording.pop() {
            match entry {
                Recorded::Told(at, event) => {
                    written = written.and_then(|()| recorder.write(at, event.as_ref()));
                }
                Recorded::End(at, outcome) => {
                    let ended = self.recorder.take().map(|recorder| recorder.end_with(at, outcome));
                    if let Some(Err(error)) = ended {
                        warn!("the recording has no end: {error}");
                    }
                    return;
                }
            }
        }
        if let Err(error) = written.and_then(|()| recorder.flush()) {
            warn!("recording ends: {error}");
            recording.end();
            self.recorder = None;
        }
    }

    /// Waits for the end that the data thread gives the recording.
    fn end_record(&mut self) {
        let until = Instant::now() + NAP;
        while self.recorder.is_some() && Instant::now() < until {
            self.write_record();
            std::thread::sleep(LOOK);
        }
        if let Some(recording) = &self.rings.recording {
            recording.end();
        }
    }

    fn device_event(&mut self, event: AsyncEvent, now: Instant) {
        let number = self.factory.port.number;
        match event {
            AsyncEvent::PortActive(port) | AsyncEvent::PortChanged(port) if port == number => {
                match self.factory.device.port(number) {
                    Ok(port) => {
                        info!("port {number} is active");
                        self.factory.port = port;
                        self.rings.report(ControlEvent::Up);
                    }
                    // It says so again when it is.
                    Err(error) => warn!("{error}"),
                }
            }
            AsyncEvent::PortDown(port) if port == number => {
                warn!("port {number} is down");
                self.rings.report(ControlEvent::Down);
            }
            AsyncEvent::LastReceive(number) => self.inbound.tear_down().last_receive(number, now),
            AsyncEvent::DeviceFailed => {
                warn!("the device failed");
                self.rings.report(ControlEvent::Down);
            }
            // Completions say which queue pairs failed.
            _ => {}
        }
    }

    /// Until there is something to do; what there is to read.
    fn wait(&self) -> Ready {
        let asleep = self.rings.to_control.sleep();
        let rings = &self.rings;
        let idle = rings.commands.is_empty() && rings.to_controller.is_empty() && !rings.stops();
        let longest = if self.rings.busy { LOOK } else { NAP };
        let now = Instant::now();
        let due = [self.outbound.next(), self.inbound.next()];
        let due = due.into_iter().flatten().min().map(|at| at.saturating_duration_since(now));
        let limit = due.map_or(longest, |due| due.min(longest));
        let mut watch = Watch::new();
        watch.readable(self.rings.to_control.as_fd());
        self.events_place.readable(&mut watch, self.events.as_fd());
        self.inbound.watch(&mut watch);
        self.outbound.watch(&mut watch);
        if let Some(controller) = &self.controller {
            controller.watch(&mut watch);
        }
        // An error is a short wait.
        let _ = watch.wait(Some(if idle { limit } else { Duration::ZERO }));
        drop(asleep);
        watch.into_ready()
    }
}
