//! Messages in the agent's memory, where devices read and write them.

use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::{Deref, DerefMut};

use snin_fabric::Guid;

use crate::agent::Agent;
use crate::io::rings::{Received, Rings};
use snin_agent_core::FlowId;
use snin_verbs::{ReceiveBuffer, Source};

/// A message that came in. Its memory is the agent's: the sooner it is dropped, the sooner others come, and the
/// agent does not go before it.
///
/// ```compile_fail,E0505
/// fn keep(agent: snin_agent::Agent) -> std::io::Result<()> {
///     let message = agent.recv()?;
///     drop(agent);
///     println!("{}", message.len());
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Incoming<'a>(pub(crate) Whole<'a>);

/// A message in one piece, or put together of several.
#[derive(Debug)]
pub(crate) enum Whole<'a> {
    Held(Held<'a>),
    Joined(Box<Joined>),
}

/// A message that came in several pieces.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) peer: Guid,
    pub(crate) flow: FlowId,
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Incoming<'_> {
    /// Who sent it.
    pub fn peer(&self) -> Guid {
        match &self.0 {
            Whole::Held(held) => held.received().arrival.peer,
            Whole::Joined(joined) => joined.peer,
        }
    }

    /// The sender's number of the flow.
    pub fn flow(&self) -> FlowId {
        match &self.0 {
            Whole::Held(held) => held.received().arrival.piece.flow,
            Whole::Joined(joined) => joined.flow,
        }
    }

    /// Which of the flow's messages it is, counted from 0.
    pub fn number(&self) -> u64 {
        match &self.0 {
            Whole::Held(held) => held.received().arrival.piece.message,
            Whole::Joined(joined) => joined.number,
        }
    }
}

impl Deref for Incoming<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Whole::Held(held) => held.bytes(),
            Whole::Joined(joined) => &joined.bytes,
        }
    }
}

/// A receive that goes back to the device when it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    rings: &'a Rings,
    slot: Option<Box<ReceiveBuffer<Received>>>,
}

impl<'a> Held<'a> {
    pub(crate) const fn new(rings: &'a Rings, slot: Box<ReceiveBuffer<Received>>) -> Self {
        Self { rings, slot: Some(slot) }
    }

    /// What came with it.
    pub(crate) fn received(&self) -> &Received {
        self.slot.as_ref().map_or(&Received::NOTHING, |slot| &slot.note)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let Some(slot) = &self.slot else { return &[] };
        let Received { arrival, start } = &slot.note;
        &slot.bytes()[*start..][..arrival.piece.bytes as usize]
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            // There is room for every slot.
            let _ = self.rings.empties.push(slot);
            self.rings.to_data.ring();
        }
    }
}

/// A message that is written where the device reads it, and so sent without being copied: from
/// [`Agent::reserve`], for [`Flow::commit`](crate::Flow::commit). Dropped, its memory is given back.
#[derive(Debug)]
pub struct Outgoing<'a> {
    rings: &'a Rings,
    buffer: Option<Source>,
    length: usize,
}

impl Outgoing<'_> {
    /// The memory, which nobody gives back any more, and how much of it is the message.
    pub(crate) fn into_parts(mut self) -> Option<(Source, usize)> {
        self.buffer.take().map(|buffer| (buffer, self.length))
    }

    /// Whether it is of this agent's memory.
    pub(crate) fn is_of(&self, rings: &Rings) -> bool {
        std::ptr::eq(self.rings, rings)
    }
}

impl Deref for Outgoing<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.bytes()[..self.length])
    }
}

impl DerefMut for Outgoing<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // No other has the buffer: it was taken as such, and gets no other owner before it is sent.
        let bytes = self.buffer.as_mut().and_then(Source::bytes_mut);
        bytes.map_or(&mut [], |bytes| &mut bytes[..self.length])
    }
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            // It came from there.
            let _ = self.rings.buffers.push(buffer);
        }
    }
}

/// A message that was not taken, to be tried again.
pub struct NotSent<'a> {
    /// As it was.
    pub message: Outgoing<'a>,
    /// [`ErrorKind::WouldBlock`]: as many wait as may. [`ErrorKind::InvalidInput`]: it is another agent's.
    pub error: io::Error,
}

impl fmt::Debug for NotSent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotSent").field("error", &self.error).finish_non_exhaustive()
    }
}

impl fmt::Display for NotSent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotSent<'_> {}

impl From<NotSent<'_>> for io::Error {
    /// Why, for one who does not try again.
    fn from(refused: NotSent<'_>) -> Self {
        refused.error
    }
}

impl Agent {
    /// Memory for a message of so many bytes, if there is any. What is in it was written there for a message
    /// before, or nothing but zeros.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] where all memory is in use, and when messages may not be so long.
    pub fn reserve(&self, bytes: usize) -> io::Result<Outgoing<'_>> {
        self.check_length(bytes)?;
        self.take_message(bytes).ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    /// The same, for a length that is known to be possible.
    pub(crate) fn take_message(&self, length: usize) -> Option<Outgoing<'_>> {
        let buffers = &self.rings().buffers;
        let mut buffer = buffers.pop()?;
        if buffer.bytes_mut().is_some() {
            return Some(Outgoing { rings: self.rings(), buffer: Some(buffer), length });
        }
        // A queue pair that broke still holds it.
        let _ = buffers.push(buffer);
        None
    }
}
