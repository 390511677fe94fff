//! Messages in the agent's memory, where devices read and write them.

use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use snin_fabric::Guid;

use crate::agent::Agent;
use crate::core::FlowId;
use crate::io::rings::Rings;
use crate::verbs::Slot;

/// A message that came in. Its memory is the agent's: the sooner it is dropped, the sooner others come.
#[derive(Debug)]
pub struct Incoming {
    pub(crate) peer: Guid,
    pub(crate) flow: FlowId,
    pub(crate) number: u64,
    pub(crate) bytes: Bytes,
}

#[derive(Debug)]
pub(crate) enum Bytes {
    Held(Held, usize),
    Joined(Vec<u8>),
}

impl Incoming {
    /// Who sent it.
    pub const fn peer(&self) -> Guid {
        self.peer
    }

    /// The sender's number of the flow.
    pub const fn flow(&self) -> FlowId {
        self.flow
    }

    /// Which of the flow's messages it is, counted from 0.
    pub const fn number(&self) -> u64 {
        self.number
    }
}

impl Deref for Incoming {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Held(held, length) => held.bytes(*length),
            Bytes::Joined(bytes) => bytes,
        }
    }
}

/// A receive that goes back to the device when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    rings: Arc<Rings>,
    slot: Option<Box<Slot>>,
    start: usize,
}

impl Held {
    /// Its bytes begin at `start`.
    #[inline]
    pub(crate) fn new(rings: &Arc<Rings>, slot: Box<Slot>, start: usize) -> Self {
        Self { rings: Arc::clone(rings), slot: Some(slot), start }
    }

    #[inline]
    pub(crate) fn bytes(&self, length: usize) -> &[u8] {
        self.slot.as_ref().map_or(&[], |slot| &slot.bytes()[self.start..self.start + length])
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            // There is room for every slot.
            let _ = self.rings.empties.push(slot);
            self.rings.to_data.wake();
        }
    }
}

/// A message that is written where the device reads it, and so sent without being copied: from
/// [`Agent::reserve`], for [`Flow::commit`](crate::Flow::commit). Dropped, its memory is given back.
#[derive(Debug)]
pub struct Outgoing {
    rings: Arc<Rings>,
    buffer: Option<Arc<Slot>>,
    length: usize,
}

impl Outgoing {
    /// The memory, which nobody gives back any more, and how much of it is the message.
    #[inline]
    pub(crate) fn into_parts(mut self) -> Option<(Arc<Slot>, usize)> {
        self.buffer.take().map(|buffer| (buffer, self.length))
    }

    /// Whether it is of this agent's memory.
    #[inline]
    pub(crate) fn is_of(&self, rings: &Arc<Rings>) -> bool {
        Arc::ptr_eq(&self.rings, rings)
    }
}

impl Deref for Outgoing {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.bytes()[..self.length])
    }
}

impl DerefMut for Outgoing {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // Nobody else has had it since it was reserved.
        let slot = self.buffer.as_mut().and_then(Arc::get_mut);
        slot.map_or(&mut [], |slot| &mut slot.bytes_mut()[..self.length])
    }
}

impl Drop for Outgoing {
    #[inline]
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            // It came from there.
            let _ = self.rings.buffers.push(buffer);
        }
    }
}

/// A message that was not taken, to be tried again.
pub struct NotSent {
    /// As it was.
    pub message: Outgoing,
    /// [`ErrorKind::WouldBlock`]: as many wait as may. [`ErrorKind::InvalidInput`]: it is another agent's.
    pub error: io::Error,
}

impl fmt::Debug for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotSent").field("error", &self.error).finish_non_exhaustive()
    }
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotSent {}

impl Agent {
    /// Memory for a message of so many bytes, if there is any. What is in it was written there for a message
    /// before, or nothing but zeros.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] where all memory is in use, and when messages may not be so long.
    #[inline]
    pub fn reserve(&self, bytes: usize) -> io::Result<Outgoing> {
        self.check_length(bytes)?;
        let buffer = self.take_buffer().ok_or(ErrorKind::WouldBlock)?;
        Ok(Outgoing { rings: Arc::clone(self.rings()), buffer: Some(buffer), length: bytes })
    }

    /// Memory that nobody else has, and so nobody else can get.
    #[inline]
    pub(crate) fn take_buffer(&self) -> Option<Arc<Slot>> {
        let buffers = &self.rings().buffers;
        let buffer = buffers.pop()?;
        if Arc::strong_count(&buffer) == 1 {
            return Some(buffer);
        }
        // A queue pair that broke still holds it: another may be free.
        let _ = buffers.push(buffer);
        None
    }
}
