//! The port: what a mesh needs of an adapter, be it real or emulated.

use snin_protocol::Time;

use super::events::{Event, Output, PairId, PortCall, PortEvent, Post, Route};
use super::mesh::Mesh;

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

    /// Somebody waits for what was posted on a queue pair: whatever [`PortEvent::Done`] would be told only with
    /// one that follows is told as soon as it is so. Most ports tell everything, and have nothing to do.
    fn hurry(&mut self, _pair: PairId) {}

    /// Stops sending and gives a queue pair up. What is under way may arrive or not.
    fn close(&mut self, pair: PairId);

    /// What happened, if anything did.
    fn poll(&mut self) -> Option<PortEvent>;
}

/// Gives the mesh what the port has for it, at most `most` events, and does what the mesh wants done: by
/// the port at once, by others through `other`. How many events there were.
pub fn turn<P: Port>(
    mesh: &mut Mesh,
    port: &mut P,
    now: Time,
    most: usize,
    mut other: impl FnMut(Output),
) -> usize {
    let mut events = 0;
    while events < most
        && let Some(event) = port.poll()
    {
        mesh.handle(Event::Port(event), now);
        events += 1;
    }
    if mesh.next_deadline().is_some_and(|deadline| deadline <= now) {
        mesh.handle_deadline(now);
    }
    while let Some(output) = mesh.poll_output() {
        match output {
            Output::Port(call) => carry_out(call, port),
            output => other(output),
        }
    }
    events
}

/// Has a port do what the mesh wants.
pub fn carry_out<P: Port>(call: PortCall, port: &mut P) {
    match call {
        PortCall::Connect { pair, route } => port.connect(pair, &route),
        PortCall::Post(post) => port.post(&post),
        PortCall::Hurry { pair } => port.hurry(pair),
        PortCall::Close { pair } => port.close(pair),
    }
}
