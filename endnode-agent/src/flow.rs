//! Flows: what programs send by.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use snin_fabric::Guid;
use snin_protocol::Time;

use crate::io::rings::{AppCall, Progress, Rings};
use crate::message::{NotSent, Outgoing};
use crate::shared::Shared;
use snin_agent_core::FlowId;
use snin_verbs::Source;

/// A flow to a peer. Messages arrive in the order in which they were sent. Dropped, it gives up what was not
/// sent; [`flush`](Self::flush) waits until everything was.
#[derive(Debug)]
pub struct Flow {
    shared: Arc<Shared>,
    flow: FlowId,
    peer: Guid,
    /// The number of the next message.
    next: u64,
}

impl Flow {
    /// A flow that has just been opened.
    pub(crate) const fn new(shared: Arc<Shared>, flow: FlowId, peer: Guid) -> Self {
        Self { shared, flow, peer, next: 0 }
    }

    /// Sends a message; waits for room.
    ///
    /// # Errors
    /// When it is longer than messages may be.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        shared.wait(None, || self.offer(bytes, shared.now()).transpose())?
    }

    /// Sends a message if there is room.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] where there is none, and as [`send`](Self::send).
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.send_due(bytes, self.shared.now())
    }

    /// As [`try_send`](Self::try_send), a message that was meant to be sent at `due`: latency is counted from
    /// then, so that a sender that is held up does not hide it.
    ///
    /// # Errors
    /// As [`try_send`](Self::try_send).
    pub fn send_due(&mut self, bytes: &[u8], due: Time) -> io::Result<()> {
        self.offer(bytes, due)?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    /// Sends a message that was written into memory from [`Agent::reserve`](crate::Agent::reserve), if as many
    /// may wait.
    ///
    /// # Errors
    /// With the message, to be tried again.
    pub fn commit<'a>(&mut self, message: Outgoing<'a>) -> Result<(), NotSent<'a>> {
        self.commit_due(message, self.shared.now())
    }

    /// As [`commit`](Self::commit), a message that was meant to be sent at `due`.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_due<'a>(&mut self, message: Outgoing<'a>, due: Time) -> Result<(), NotSent<'a>> {
        if !self.has_room() || !message.is_of(self.rings()) {
            return Err(self.refuse(message));
        }
        if let Some((buffer, bytes)) = message.into_parts() {
            self.hand_over(buffer, bytes, due);
        }
        Ok(())
    }

    fn refuse<'a>(&self, message: Outgoing<'a>) -> NotSent<'a> {
        let error = if message.is_of(self.rings()) {
            ErrorKind::WouldBlock.into()
        } else {
            io::Error::new(ErrorKind::InvalidInput, "the message is in another agent's memory")
        };
        NotSent { message, error }
    }

    /// `None` where there is no room.
    fn offer(&mut self, bytes: &[u8], due: Time) -> io::Result<Option<()>> {
        self.shared.check_length(bytes.len())?;
        if !self.has_room() {
            return Ok(None);
        }
        let rings = &self.shared.rings;
        let Some(mut message) = Outgoing::take(rings, bytes.len()) else { return Ok(None) };
        message.copy_from_slice(bytes);
        if let Some((buffer, bytes)) = message.into_parts() {
            self.hand_over(buffer, bytes, due);
        }
        Ok(Some(()))
    }

    /// Gives the data thread a message.
    fn hand_over(&mut self, buffer: Source, bytes: usize, due: Time) {
        let (flow, message) = (self.flow, self.next);
        self.next += 1;
        self.shared.call(AppCall::Send { flow, message, buffer, bytes, due });
    }

    fn has_room(&self) -> bool {
        self.waiting() < u64::from(self.shared.config.queue)
    }

    /// Messages that are not complete.
    pub fn waiting(&self) -> u64 {
        self.next - self.progress().done.load(Ordering::Acquire)
    }

    /// Waits until all messages are complete: arrived (rc) or sent (ud).
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`].
    pub fn flush(&mut self, limit: Duration) -> io::Result<()> {
        self.shared.wait(Some(limit), || (self.waiting() == 0).then_some(()))
    }

    /// Its number, by which [`Agent::snapshot`](crate::Agent::snapshot) knows it.
    pub const fn id(&self) -> FlowId {
        self.flow
    }

    /// Where it leads.
    pub const fn peer(&self) -> Guid {
        self.peer
    }

    fn rings(&self) -> &Rings {
        &self.shared.rings
    }

    fn progress(&self) -> &Progress {
        &self.rings().flows[self.flow.index()]
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.shared.call(AppCall::Close { flow: self.flow });
    }
}
