//! The data thread: mesh and port, driven without waiting. After the start it allocates nothing, takes no
//! lock, and makes no system call but those of the device's own library - unless it is to sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use snin_daemon::clock::Clock;
use snin_protocol::Time;

use super::port::VerbsPort;
use super::rings::{Call, Look, Rings};
use super::untold::LATE;
use snin_agent_core::{
    Event, FlowId, Mesh, Message, Notice, Output, Port as _, PortEvent, carry_out,
};
use snin_verbs::{Signal, Source};

/// Calls of applications that are taken at a time.
const CALLS: usize = 32;
/// After so many turns the clock is asked whether something is due, and everything else looked at.
const LOOKS: u32 = 16;
/// So long nothing happens before the thread sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// It sleeps no longer, so that it notices its end.
const NAP: Time = Time::millis(100);

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
    /// Turns since everything was looked at.
    looks: u32,
    /// The last turn sent, and did not look what that led to.
    sent: bool,
}

impl Engine {
    pub(crate) const fn new(mesh: Mesh, port: VerbsPort, rings: Arc<Rings>, clock: Clock) -> Self {
        Self { mesh, port, rings, clock, declined: false, called: false, looks: 0, sent: false }
    }

    /// Until the agent ends.
    pub(crate) fn run(mut self) {
        let mut idle_since = None;
        while !self.rings.stops() {
            if self.turn() {
                idle_since = None;
            } else if self.rings.busy {
                std::hint::spin_loop();
            } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= SPIN {
                self.sleep();
                idle_since = None;
            }
        }
    }

    /// Does what there is to do: whether there was anything. Most turns find nothing, and something is
    /// noticed the sooner the less they cost. What nobody waits for is done now and then only. What most turns
    /// do not do is kept out of line, and the rest is part of the loop that it is called in, so that the processor
    /// has all of them at hand.
    #[inline(always)]
    pub(crate) fn turn(&mut self) -> bool {
        // What applications send goes out before anything else is looked at, and they have the time that it
        // takes: the next look finds what was done together with what comes.
        let sent = !self.rings.calls.is_empty() && self.take_calls();
        self.sent = sent && !self.sent;
        let came = !self.sent && self.port.look();
        // What was done meanwhile is looked at when applications have had what came.
        if came && !self.take_arrivals() {
            self.take_events();
        }
        let mut busy = sent || came;
        self.looks += 1;
        if self.looks >= LOOKS {
            self.looks = 0;
            busy |= self.do_the_rest();
        }
        if std::mem::take(&mut self.called) {
            self.rings.to_application.wake();
        }
        busy
    }

    /// Pieces that came, of which nothing depends on the time: whether there were any.
    #[inline(never)]
    fn take_arrivals(&mut self) -> bool {
        // Whoever sent them has been told of before it could send.
        self.port.hear();
        let mut any = false;
        while let Some(slot) = self.port.next_arrival() {
            any = true;
            let is_wanted = self.mesh.receive(&slot.note.arrival);
            // What was lost before it.
            self.put_out();
            if is_wanted {
                // There is room for every slot.
                let _ = self.rings.arrived.push(slot);
                self.called = true;
            } else {
                self.port.inbox.give_back(slot);
            }
        }
        if self.port.inbox.is_short() {
            self.port.inbox.refill();
        }
        any
    }

    /// What else the port has to tell.
    #[inline(never)]
    fn take_events(&mut self) {
        let now = self.clock.now();
        while let Some(event) = self.port.poll() {
            if let PortEvent::Done { pair, ticket } = event {
                while let Some((flow, ..)) = self.mesh.finish(pair, ticket, now) {
                    let buffer = self.port.outbox.unload(flow);
                    self.finish(flow, buffer, false);
                }
                self.mesh.go_on(now);
            } else {
                self.mesh.handle(Event::Port(event), now);
            }
            self.put_out();
        }
        self.port.outbox.flush();
    }

    /// Words, frames, deadlines, and memory that applications gave back: whether there was anything.
    #[inline(never)]
    fn do_the_rest(&mut self) -> bool {
        // One word tells of everything that others have put into rings.
        let rang = self.rings.to_data.rang();
        if rang {
            self.port.hear();
            self.take_events();
            self.take_frames();
        }
        let now = self.clock.now();
        let is_due = self.mesh.next_deadline().is_some_and(|deadline| deadline <= now);
        if is_due {
            self.mesh.handle_deadline(now);
            self.put_out();
        }
        self.port.outbox.flush();
        self.port.outbox.ask_if_late(now);
        self.port.inbox.refill();
        if rang && let Some(look) = self.rings.asked.pop() {
            self.show(look);
        }
        rang || is_due
    }

    /// Time has passed: the next turn asks the clock.
    pub(crate) const fn has_slept(&mut self) {
        self.looks = LOOKS;
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

    /// What applications ask, some of it at a time: whether there was anything. The first message goes out at
    /// once, those that came meanwhile together.
    #[inline(never)]
    fn take_calls(&mut self) -> bool {
        let mut taken = 0;
        while let Some(call) = self.rings.calls.pop() {
            self.call(call, taken == 0);
            if taken == 0 {
                self.port.outbox.flush();
            }
            taken += 1;
            // Where there is none, that is the shorter question.
            if taken == CALLS || self.rings.calls.is_empty() {
                break;
            }
        }
        self.port.outbox.flush();
        taken > 0
    }

    #[inline]
    fn call(&mut self, call: Call, is_first: bool) {
        let Call::Send { flow, message, buffer, bytes, due } = call else {
            return self.other_call(call);
        };
        let message = Message { id: message, bytes: bytes as u64, due };
        if is_first && self.send_at_once(flow, message, &buffer) {
            self.port.outbox.load(flow, message.id, buffer);
        } else {
            self.send(flow, message, buffer);
        }
    }

    #[cold]
    fn other_call(&mut self, call: Call) {
        match call {
            Call::Send { .. } => {}
            Call::Open { flow, peer, wanted } => {
                while let Some(room) = self.rings.rooms.pop() {
                    self.mesh.furnish(room);
                }
                self.ask(snin_agent_core::Call::Open { flow, peer, wanted });
            }
            Call::Close { flow } => self.ask(snin_agent_core::Call::Close { flow }),
            Call::Ask => self.port.outbox.ask(),
        }
    }

    /// The message leaves first, and its books are kept while it is on its way: whether it left.
    #[inline]
    fn send_at_once(&mut self, flow: FlowId, message: Message, buffer: &Source) -> bool {
        let foreseen = self.mesh.foresee(flow, &message, || self.clock.now());
        let Some(foreseen) = &foreseen else { return false };
        let Some(signal) = self.port.outbox.post_at_once(foreseen, buffer) else { return false };
        self.mesh.keep(message, foreseen, signal == Signal::Yes);
        true
    }

    fn send(&mut self, flow: FlowId, message: Message, buffer: Source) {
        self.port.outbox.load(flow, message.id, buffer);
        self.declined = false;
        self.ask(snin_agent_core::Call::Send { flow, message });
        if self.declined {
            let buffer = self.port.outbox.reject(flow);
            self.finish(flow, buffer, true);
        }
    }

    /// What is not foreseen: the mesh is told, and what it wants is done.
    #[inline(never)]
    fn ask(&mut self, call: snin_agent_core::Call) {
        self.mesh.handle(Event::App(call), self.clock.now());
        self.put_out();
    }

    #[inline]
    fn put_out(&mut self) {
        while let Some(output) = self.mesh.poll_output() {
            self.put(output);
        }
    }

    #[cold]
    fn put(&mut self, output: Output) {
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

    fn tell(&mut self, notice: Notice) {
        match notice {
            Notice::Closed { flow, .. } => {
                while let Some(buffer) = self.port.outbox.unload(flow) {
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
    fn finish(&mut self, flow: FlowId, buffer: Option<Source>, unsent: bool) {
        if let Some(buffer) = buffer {
            // It came from there.
            let _ = self.rings.buffers.push(buffer);
        }
        let word = &self.rings.flows[flow.index()];
        // Nobody else counts.
        let next = |count: &AtomicU64| count.load(Ordering::Relaxed) + 1;
        if unsent {
            word.unsent.store(next(&word.unsent), Ordering::Relaxed);
        }
        word.done.store(next(&word.done), Ordering::Release);
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
        look.controller = self.mesh.controller();
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
        self.has_slept();
        if self.turn() {
            return;
        }
        let now = self.clock.now();
        let nap = match (armed, self.port.outbox.untold.last()) {
            (true, None) => NAP,
            // What is not to be told is asked for.
            (true, Some(_)) => LATE,
            (false, _) => Time::millis(1),
        };
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
