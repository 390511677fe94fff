//! The data thread: mesh and port, driven without waiting. After the start it allocates nothing, takes no
//! lock, and makes no system call but those of the device's own library - unless it is to sleep.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snin_protocol::Time;

use super::port::VerbsPort;
use super::rings::{Call, Look, Received, Rings};
use crate::core::{Event, FlowId, Mesh, Message, Notice, Output, carry_out};

/// Calls of applications that are taken at a time.
const CALLS: usize = 32;
/// So many turns with nothing to do, and the clock is asked whether something is due.
const LOOKS: u32 = 16;
/// So long nothing happens before the thread sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// It sleeps no longer, so that it notices its end.
const NAP: Time = Time::millis(100);

/// The own clock: nanoseconds since the agent's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Time {
        Time(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Engine {
    mesh: Mesh,
    port: VerbsPort,
    rings: Arc<Rings>,
    clock: Clock,
    /// The call under way was declined.
    declined: bool,
    /// Something for applications was put into their rings.
    called: bool,
    /// Calls may be left over.
    more: bool,
    /// Turns with nothing to do since the clock was asked.
    looks: u32,
}

impl Engine {
    pub(crate) const fn new(mesh: Mesh, port: VerbsPort, rings: Arc<Rings>, clock: Clock) -> Self {
        Self { mesh, port, rings, clock, declined: false, called: false, more: false, looks: 0 }
    }

    /// Until the agent ends.
    pub(crate) fn run(mut self) {
        let mut idle = None;
        while !self.rings.stops() {
            if self.turn() {
                idle = None;
            } else if self.rings.busy {
                std::hint::spin_loop();
            } else if idle.get_or_insert_with(Instant::now).elapsed() >= SPIN {
                self.sleep();
                idle = None;
            }
        }
    }

    /// Does what there is to do: whether there was anything. Most turns find nothing, and something is
    /// noticed the sooner the less they cost.
    pub(crate) fn turn(&mut self) -> bool {
        let mut rang = self.rings.to_data.rang() || std::mem::take(&mut self.more);
        if rang {
            // What applications send goes out before anything else is looked at.
            self.take_calls();
            self.port.flush();
        }
        let came = self.port.look();
        // Whoever sent what came has been told of before it could send.
        self.more |= self.rings.to_data.rang();
        rang |= self.more;
        if !came && !rang {
            self.looks += 1;
            if self.looks < LOOKS {
                return false;
            }
        }
        self.looks = 0;
        let now = self.clock.now();
        if rang {
            self.port.hear();
        }
        while let Some(event) = crate::core::Port::poll(&mut self.port) {
            self.mesh.handle(Event::Port(event), now);
            self.put_out();
        }
        if rang {
            self.take_frames();
        }
        let is_due = self.mesh.next_deadline().is_some_and(|deadline| deadline <= now);
        if is_due {
            self.mesh.handle_deadline(now);
            self.put_out();
        }
        self.port.flush();
        // What nobody waits for comes last.
        if rang {
            self.port.refill();
            if let Some(look) = self.rings.asked.pop() {
                self.show(look);
            }
        }
        if std::mem::take(&mut self.called) {
            self.rings.to_application.ring();
        }
        came || rang || is_due
    }

    fn take_frames(&mut self) {
        while let Some(frame) = self.rings.frames.pop() {
            // It may have been sent after the turn began, and one from the future would show a wrong clock.
            let now = self.clock.now();
            match frame {
                Some(frame) => {
                    self.mesh.handle_frame(&frame, now);
                    // There is room for all that there are at a time.
                    let _ = self.rings.heard.push(frame);
                }
                None => self.mesh.handle(Event::Malformed, now),
            }
            self.put_out();
        }
    }

    fn take_calls(&mut self) {
        let now = self.clock.now();
        for _ in 0..CALLS {
            let Some(call) = self.rings.calls.pop() else { return };
            self.call(call, now);
        }
        self.more = true;
    }

    fn call(&mut self, call: Call, now: Time) {
        self.declined = false;
        let asked = match call {
            Call::Open { flow, peer, wanted } => {
                while let Some(room) = self.rings.rooms.pop() {
                    self.mesh.furnish(room);
                }
                crate::core::Call::Open { flow, peer, wanted }
            }
            Call::Send { flow, message: id, buffer, bytes, due } => {
                self.port.load(flow, id, buffer);
                let message = Message { id, bytes: bytes as u64, due };
                crate::core::Call::Send { flow, message }
            }
            Call::Close { flow } => crate::core::Call::Close { flow },
        };
        self.mesh.handle(Event::App(asked), now);
        self.put_out();
        if let crate::core::Call::Send { flow, .. } = asked
            && self.declined
        {
            let buffer = self.port.reject(flow);
            self.finish(flow, buffer, true);
        }
    }

    fn put_out(&mut self) {
        while let Some(output) = self.mesh.poll_output() {
            match output {
                Output::Port(call) => carry_out(call, &mut self.port),
                Output::Controller(says) => {
                    // What does not fit is said again.
                    let _ = self.rings.says.push(says);
                    self.rings.call_control();
                }
                Output::App(notice) => self.tell(notice),
            }
        }
    }

    fn tell(&mut self, notice: Notice) {
        match notice {
            Notice::Sent { flow, .. } => {
                let buffer = self.port.unload(flow);
                self.finish(flow, buffer, false);
            }
            Notice::Received { peer, piece } => {
                if let Some((slot, start)) = self.port.take_arrived() {
                    // There is room for every slot.
                    let _ = self.rings.arrived.push(Received { peer, piece, slot, start });
                    self.called = true;
                }
            }
            Notice::Closed { flow, .. } => {
                while let Some(buffer) = self.port.unload(flow) {
                    self.finish(flow, Some(buffer), true);
                }
                let _ = self.rings.numbers.push(flow.0);
                self.note(notice);
            }
            Notice::Declined { .. } => {
                self.declined = true;
                self.note(notice);
            }
            _ => self.note(notice),
        }
    }

    /// A message is complete, or never will be.
    fn finish(&mut self, flow: FlowId, buffer: Option<Arc<crate::verbs::Slot>>, unsent: bool) {
        if let Some(buffer) = buffer {
            // It came from there.
            let _ = self.rings.buffers.push(buffer);
        }
        let word = &self.rings.flows[flow.index()];
        if unsent {
            word.unsent.fetch_add(1, Ordering::Relaxed);
        }
        word.done.fetch_add(1, Ordering::Release);
        self.called = true;
    }

    fn note(&mut self, notice: Notice) {
        if self.rings.notices.push(notice).is_err() {
            Rings::count(&self.rings.tally.unread);
        }
        self.called = true;
    }

    /// Shows what there is, as far as there is room.
    fn show(&mut self, mut look: Box<Look>) {
        look.flows.clear();
        let room = look.flows.capacity();
        look.flows.extend(self.mesh.flows().take(room));
        look.pairs.clear();
        let room = look.pairs.capacity();
        look.pairs.extend(self.mesh.pairs().take(room));
        look.counters = *self.mesh.counters();
        look.lost = self.mesh.controller_is_lost();
        if let Some((flow, latency)) = &mut look.latency {
            latency.reset();
            if let Some(known) = self.mesh.latency(*flow) {
                // Both have the same bounds.
                let _ = latency.add(known);
            }
        }
        let _ = self.rings.shown.push(look);
        self.called = true;
    }

    /// Until a completion, a call, a word or a deadline.
    fn sleep(&mut self) {
        let rings = Arc::clone(&self.rings);
        let asleep = rings.to_data.sleep();
        // What came before this is found by the turn; without the device's word naps are short.
        let armed = self.port.queue().arm().is_ok();
        self.looks = LOOKS;
        if self.turn() {
            return;
        }
        let now = self.clock.now();
        let nap = if armed { NAP } else { Time::millis(1) };
        let deadline = self.mesh.next_deadline().map_or(nap, |deadline| nap.min(deadline - now));
        let limit = Timespec {
            tv_sec: (deadline.nanos() / 1_000_000_000) as i64,
            tv_nsec: (deadline.nanos() % 1_000_000_000) as i64,
        };
        let mut waited = [
            PollFd::new(&rings.to_data, PollFlags::IN),
            PollFd::new(self.port.queue(), PollFlags::IN),
        ];
        // An error is a short nap.
        let _ = poll(&mut waited, Some(&limit));
        let rang = !waited[1].revents().is_empty();
        if rang {
            self.port.queue().take_wake();
        }
        drop(asleep);
    }
}
