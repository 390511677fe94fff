//! The data thread: drives the mesh without waiting. After the start it allocates nothing, takes no lock, and
//! makes no system call but those of the device's own library, unless it goes to sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use snin_agent_core::{Call, Event, FlowId, Io, Mesh, Message, Notice, Output, Port as _};
use snin_daemon::clock::Clock;
use snin_daemon::record::OutputDigest;
use snin_protocol::Time;
use snin_verbs::Source;

use super::port::VerbsPort;
use super::rings::{AppCall, Recorded, Rings, SnapshotBuffer};
use crate::replay::compared;

/// The most events that one poll handles.
const EVENTS: usize = 64;
/// The thread sleeps when nothing has happened for so long.
const SPIN: Duration = Duration::from_micros(20);
/// The longest sleep, after which the thread notices that the agent ends.
const NAP: Time = Time::millis(100);
/// The longest sleep where the device cannot wake it.
const SHORT_NAP: Time = Time::millis(1);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Engine {
    mesh: Mesh,
    io: DataIo,
}

/// What the mesh works with on this thread.
#[derive(Debug)]
struct DataIo {
    port: VerbsPort,
    rings: Arc<Rings>,
    clock: Clock,
    /// The flow of the message that the mesh was given with the last event, if it was given one.
    offered: Option<FlowId>,
    /// Something was put into a ring of the applications.
    wakes_application: bool,
    /// What came out of the mesh, if that is recorded.
    outcome: OutputDigest,
}

impl Engine {
    pub(crate) fn new(mesh: Mesh, port: VerbsPort, rings: Arc<Rings>, clock: Clock) -> Self {
        let io = DataIo {
            port,
            rings,
            clock,
            offered: None,
            wakes_application: false,
            outcome: OutputDigest::default(),
        };
        Self { mesh, io }
    }

    /// Polls until the agent ends.
    pub(crate) fn run(mut self) {
        let mut idle_since = None;
        while !self.io.rings.stops() {
            if self.poll() {
                idle_since = None;
            } else if self.io.rings.busy {
                std::hint::spin_loop();
            } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= SPIN {
                self.sleep();
                idle_since = None;
            }
        }
    }

    /// Handles what has happened, without waiting: whether anything had.
    pub(crate) fn poll(&mut self) -> bool {
        while let Some(buffers) = self.io.rings.flow_buffers.pop() {
            self.mesh.add_flow_buffers(buffers);
        }
        self.io.port.take_completions();
        let events = snin_agent_core::poll(&mut self.mesh, &mut self.io, EVENTS);
        self.io.port.outbox.flush();
        self.io.port.inbox.refill();
        if let Some(buffer) = self.io.rings.snapshots_wanted.pop() {
            self.take_snapshot(buffer);
        }
        if std::mem::take(&mut self.io.wakes_application) {
            self.io.rings.to_application.ring();
        }
        events > 0
    }

    /// Copies the mesh's state into a buffer, as far as it has room.
    fn take_snapshot(&mut self, mut buffer: Box<SnapshotBuffer>) {
        buffer.flows.clear();
        let room = buffer.flows.capacity();
        buffer.flows.extend(self.mesh.flows().take(room));
        buffer.pairs.clear();
        let room = buffer.pairs.capacity();
        buffer.pairs.extend(self.mesh.pairs().take(room));
        buffer.counters = *self.mesh.counters();
        buffer.controller = self.mesh.controller();
        if let Some((flow, latency)) = &mut buffer.latency {
            latency.reset();
            if let Some(known) = self.mesh.latency(*flow) {
                // Both have the same bounds.
                let _ = latency.add(known);
            }
        }
        let _ = self.io.rings.snapshots.push(buffer);
        self.io.wakes_application = true;
    }

    /// Sleeps until a completion, something in a ring, or a deadline.
    fn sleep(&mut self) {
        let rings = Arc::clone(&self.io.rings);
        let asleep = rings.to_data.sleep();
        let armed = self.io.port.queue().arm().is_ok();
        // The device wakes it only by what comes after it was armed.
        if self.poll() {
            return;
        }
        let nap = if armed { NAP } else { SHORT_NAP };
        let now = self.io.now();
        let nap = self.mesh.next_deadline().map_or(nap, |deadline| nap.min(deadline - now));
        let limit = Timespec {
            tv_sec: (nap.nanos() / 1_000_000_000) as i64,
            tv_nsec: (nap.nanos() % 1_000_000_000) as i64,
        };
        let mut waited = [
            PollFd::new(&rings.to_data, PollFlags::IN),
            PollFd::new(self.io.port.queue(), PollFlags::IN),
        ];
        // An error is a short nap.
        let _ = poll(&mut waited, Some(&limit));
        let is_woken_by_device = !waited[1].revents().is_empty();
        if is_woken_by_device {
            self.io.port.queue().take_wake();
        }
        drop(asleep);
    }
}

impl Drop for Engine {
    /// The control thread ends the recording with what came out of the mesh.
    fn drop(&mut self) {
        let io = &self.io;
        if let Some(recording) = &io.rings.recording {
            recording.push(Recorded::End(io.now(), io.outcome));
            io.rings.wake_control();
        }
    }
}

impl Io for DataIo {
    /// The port's events come first: what applications send waits behind what the device has done.
    fn next_event(&mut self) -> Option<Event> {
        self.offered = None;
        if let Some(event) = self.port.poll() {
            return Some(Event::Port(event));
        }
        if let Some(call) = self.rings.calls.pop() {
            return Some(Event::App(self.take_call(call)));
        }
        self.rings.frames.pop().map(|frame| frame.map_or(Event::Malformed, Event::Controller))
    }

    fn record(&mut self, now: Time, event: Option<&Event>) {
        if let Some(recording) = &self.rings.recording {
            recording.push(Recorded::Told(now, event.cloned()));
            self.rings.wake_control();
        }
    }

    fn carry_out(&mut self, output: Output) {
        if self.rings.recording.is_some() {
            self.outcome.add(&compared(&output));
        }
        match output {
            Output::Port(call) => self.port.carry_out(call),
            Output::Controller(message) => {
                // A message that does not fit is repeated by the mesh.
                let _ = self.rings.to_controller.push(message);
                self.rings.wake_control();
            }
            Output::App(notice) => self.notify(notice),
        }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }
}

impl DataIo {
    /// The call as the mesh takes it; the buffer of a message stays here.
    fn take_call(&mut self, call: AppCall) -> Call {
        match call {
            AppCall::Open { flow, peer, wanted } => Call::Open { flow, peer, wanted },
            AppCall::Close { flow } => Call::Close { flow },
            AppCall::LinkTested(tested) => Call::LinkTested(tested),
            AppCall::Send { flow, message, buffer, bytes, due } => {
                self.port.outbox.load(flow, message, buffer);
                self.offered = Some(flow);
                Call::Send { flow, message: Message { id: message, bytes: bytes as u64, due } }
            }
        }
    }

    fn notify(&mut self, notice: Notice) {
        match notice {
            Notice::Sent { flow, .. } => {
                let buffer = self.port.outbox.unload(flow);
                return self.finish(flow, buffer, false);
            }
            Notice::Received { .. } => return self.deliver(),
            Notice::Closed { flow, .. } => {
                while let Some(buffer) = self.port.outbox.unload(flow) {
                    self.finish(flow, Some(buffer), true);
                }
                let _ = self.rings.numbers.push(flow.0);
            }
            Notice::Declined { flow, .. } if self.offered == Some(flow) => {
                let buffer = self.port.outbox.reject(flow);
                self.finish(flow, buffer, true);
            }
            _ => {}
        }
        if self.rings.notices.push(notice).is_err() {
            Rings::count(&self.rings.counters.unread);
        }
        self.wakes_application = true;
    }

    /// Gives applications the piece that came in last.
    fn deliver(&mut self) {
        if let Some(buffer) = self.port.inbox.take_last() {
            // The ring has room for every buffer.
            let _ = self.rings.arrived.push(buffer);
            self.wakes_application = true;
        }
    }

    /// A message is complete, or never will be.
    fn finish(&mut self, flow: FlowId, buffer: Option<Source>, unsent: bool) {
        if let Some(buffer) = buffer {
            // The buffer came from this ring.
            let _ = self.rings.buffers.push(buffer);
        }
        let progress = &self.rings.flows[flow.index()];
        // No other thread counts.
        let next = |count: &AtomicU64| count.load(Ordering::Relaxed) + 1;
        if unsent {
            progress.unsent.store(next(&progress.unsent), Ordering::Relaxed);
        }
        progress.done.store(next(&progress.done), Ordering::Release);
        self.wakes_application = true;
    }
}
