//! The interface to a port that a mesh works with, and the one function that drives the mesh.

use snin_protocol::Time;

use super::events::{Event, Output, PairId, PortCall, PortEvent, Post, Route};
use super::mesh::Mesh;

/// Everything outside of a mesh: where its events come from, where its outputs go, and its clock.
pub trait Io {
    /// The next event, if there is one.
    fn next_event(&mut self) -> Option<Event>;

    /// Carries an output out.
    fn carry_out(&mut self, output: Output);

    /// Notes what the mesh is about to be told: an event, or `None` for a deadline. For those who record it.
    fn record(&mut self, _now: Time, _event: Option<&Event>) {}

    /// The time by the own clock, not before the event that [`next_event`](Self::next_event) gave last.
    fn now(&self) -> Time;
}

/// Drives a mesh: gives it at most `most` events and its deadline if that has come, and carries out what it
/// wants done after each. Returns how many events and deadlines there were.
pub fn poll<I: Io>(mesh: &mut Mesh, io: &mut I, most: usize) -> usize {
    let mut handled = 0;
    while handled < most
        && let Some(event) = io.next_event()
    {
        let now = io.now();
        io.record(now, Some(&event));
        mesh.handle(event, now);
        carry_out_all(mesh, io);
        handled += 1;
    }
    let now = io.now();
    if mesh.next_deadline().is_some_and(|deadline| deadline <= now) {
        io.record(now, None);
        mesh.handle_deadline(now);
        handled += 1;
    }
    // Also what the mesh was told directly.
    carry_out_all(mesh, io);
    handled
}

fn carry_out_all<I: Io>(mesh: &mut Mesh, io: &mut I) {
    while let Some(output) = mesh.poll_output() {
        io.carry_out(output);
    }
}

/// An adapter's port.
///
/// Calls do not fail: what cannot be done is answered by [`PortEvent::Broken`]. After that, and after
/// [`close`](Self::close), the port answers [`PortEvent::Closed`] once nothing of the queue pair will be
/// sent any more; before that its place is not used again.
pub trait Port {
    /// Makes a queue pair that leads along `route`; ends with [`PortEvent::Ready`] or `Broken`.
    fn connect(&mut self, pair: PairId, route: &Route);

    /// Sends a piece, after those that were posted on this queue pair before.
    fn post(&mut self, post: &Post);

    /// Stops sending and gives a queue pair up. What is under way may arrive or not.
    fn close(&mut self, pair: PairId);

    /// What happened, if anything did.
    fn poll(&mut self) -> Option<PortEvent>;

    /// Does what the mesh wants.
    fn carry_out(&mut self, call: PortCall) {
        match call {
            PortCall::Connect { pair, route } => self.connect(pair, &route),
            PortCall::Post(post) => self.post(&post),
            PortCall::Close { pair } => self.close(pair),
        }
    }
}
