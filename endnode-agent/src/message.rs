//! Messages in the agent's memory, where devices read and write them.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

use snin_fabric::Guid;

use crate::io::rings::{Received, Rings};
use crate::partial::Joined;
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

impl Incoming<'_> {
    /// The port that sent it.
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
/// [`Agent::reserve`](crate::Agent::reserve), for [`Flow::commit`](crate::Flow::commit). Dropped, its memory is
/// given back.
#[derive(Debug)]
pub struct Outgoing<'a> {
    rings: &'a Rings,
    buffer: Option<Source>,
    length: usize,
}

impl<'a> Outgoing<'a> {
    /// Memory for a message of a length that is known to be possible, if there is any.
    pub(crate) fn take(rings: &'a Rings, length: usize) -> Option<Self> {
        let mut buffer = rings.buffers.pop()?;
        if buffer.bytes_mut().is_some() {
            return Some(Self { rings, buffer: Some(buffer), length });
        }
        // A queue pair that broke still holds it.
        let _ = rings.buffers.push(buffer);
        None
    }

    /// The memory, which the message no longer gives back, and how much of it is the message.
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
    /// `WouldBlock`: as many wait as may. `InvalidInput`: it is another agent's.
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
    /// Why it was not taken; the message is dropped.
    fn from(refused: NotSent<'_>) -> Self {
        refused.error
    }
}
