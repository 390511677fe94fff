//! Sending: what is posted is staged first, and handed to the device in one call.

use std::ptr::null_mut;

use rdma_sys::{ibv_post_send, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode};

use super::address::AddressHandle;
use super::error::{VerbsError, check};
use super::kind::{Connected, Kind, Rc, Sending, Ud};
use super::memory::{RemoteMemory, Slot, Source};
use super::queue_pair::{Held, Inner, NotPosted, Posted, QueuePair};
use super::raw;
use super::stage::Stage;

/// What is to be sent. Slots are shared with the device until the completion.
#[derive(Clone, Copy, Debug)]
pub enum Gather<'a> {
    /// Bytes that have to be copied.
    Copy(&'a [u8]),
    /// The first so many bytes of a slot.
    One(&'a Source, usize),
    /// A part of a slot: where it begins and its length.
    Part(&'a Source, usize, usize),
    /// The first so many bytes of a slot, then a part of another: where it begins and its length.
    Two((&'a Source, usize), (&'a Source, usize, usize)),
}

/// Whether a send has a completion of its own. Without one it comes back with the next send that has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// It has.
    Yes,
    /// Only if it fails.
    No,
}

/// What to do with the memory.
#[derive(Clone, Copy)]
enum Work<'a> {
    Send { immediate: Option<u32> },
    Write { to: RemoteMemory, offset: u64 },
    Read { from: RemoteMemory, offset: u64 },
    Datagram { to: &'a AddressHandle, number: u32, q_key: u32 },
}

impl<K: Connected> QueuePair<K, Sending> {
    /// Stages a message to a receive of the peer's.
    ///
    /// # Errors
    /// When as many are posted as may be, or there is more than fits.
    pub fn send(
        &mut self,
        what: Gather<'_>,
        immediate: Option<u32>,
        token: u64,
        signal: Signal,
    ) -> Result<(), VerbsError> {
        self.inner.stage(what, Work::Send { immediate }, token, signal)
    }

    /// Stages a write to the peer's shared memory.
    ///
    /// # Errors
    /// When as many are posted as may be, or there is more than fits.
    pub fn write(
        &mut self,
        what: Gather<'_>,
        (to, offset): (RemoteMemory, u64),
        token: u64,
        signal: Signal,
    ) -> Result<(), VerbsError> {
        self.inner.stage(what, Work::Write { to, offset }, token, signal)
    }
}

impl QueuePair<Rc, Sending> {
    /// Stages a read of the peer's shared memory into the first `length` bytes of a slot.
    ///
    /// # Errors
    /// When as many are posted as may be, or the slot is shorter.
    pub fn read(
        &mut self,
        slot: Slot,
        length: usize,
        (from, offset): (RemoteMemory, u64),
        token: u64,
    ) -> Result<(), NotPosted> {
        if length > slot.len() {
            let error = VerbsError::TooLong { bytes: length, most: slot.len() };
            return Err(NotPosted { slot, error });
        }
        if let Err(error) = self.inner.make_room() {
            return Err(NotPosted { slot, error });
        }
        let entries = ([slot.entry(0, length), raw::no_entry()], 1);
        let work = Work::Read { from, offset };
        let id = self.inner.fill(entries, work, ibv_send_flags::IBV_SEND_SIGNALED.0);
        self.inner.keep(id, token, Held::Own(slot), work);
        Ok(())
    }
}

impl QueuePair<Ud, Sending> {
    /// Stages a datagram.
    ///
    /// # Errors
    /// When as many are posted as may be, or there is more than fits.
    pub fn send_to(
        &mut self,
        what: Gather<'_>,
        to: &AddressHandle,
        (number, q_key): (u32, u32),
        token: u64,
        signal: Signal,
    ) -> Result<(), VerbsError> {
        self.inner.stage(what, Work::Datagram { to, number, q_key }, token, signal)
    }
}

impl<K: Kind> QueuePair<K, Sending> {
    /// Hands what is staged to the device, in one call.
    ///
    /// # Errors
    /// When the device refuses: the queue pair is of no more use then.
    pub fn ring(&mut self) -> Result<(), VerbsError> {
        self.inner.ring()
    }

    /// The same, and the last one staged has a completion, which says that all are done.
    ///
    /// # Errors
    /// As [`ring`](Self::ring).
    pub fn ring_signalled(&mut self) -> Result<(), VerbsError> {
        self.inner.signal_last();
        self.inner.ring()
    }
}

impl Inner {
    fn stage(
        &mut self,
        what: Gather<'_>,
        work: Work<'_>,
        token: u64,
        signal: Signal,
    ) -> Result<(), VerbsError> {
        what.check()?;
        self.make_room()?;
        let flags = self.flags(what, signal)?;
        let entries = self.entries(what);
        let id = self.fill(entries, work, flags);
        self.keep(id, token, what.held(), work);
        Ok(())
    }

    /// For one more.
    fn make_room(&mut self) -> Result<(), VerbsError> {
        if self.sends.len() >= self.most.sends as usize {
            return Err(VerbsError::QueueFull);
        }
        if self.stage.count < self.stage.works.len() { Ok(()) } else { self.ring() }
    }

    /// What the device is to do beside sending: copy what is short, tell of it.
    const fn flags(&self, what: Gather<'_>, signal: Signal) -> Result<u32, VerbsError> {
        let signalled = match signal {
            Signal::Yes => ibv_send_flags::IBV_SEND_SIGNALED.0,
            Signal::No => 0,
        };
        match (what.bytes(), what) {
            (bytes, _) if bytes <= self.inline_most => {
                Ok(signalled | ibv_send_flags::IBV_SEND_INLINE.0)
            }
            (bytes, Gather::Copy(_)) => Err(VerbsError::TooLong { bytes, most: self.inline_most }),
            _ => Ok(signalled),
        }
    }

    /// Where its bytes are, in how many parts.
    fn entries(&mut self, what: Gather<'_>) -> ([ibv_sge; 2], usize) {
        let none = raw::no_entry();
        let one = usize::from(what.bytes() > 0);
        match what {
            Gather::Copy(from) => ([self.stage.copy(from, self.inline_most), none], one),
            Gather::One(slot, length) => ([slot.entry(0, length), none], one),
            Gather::Part(slot, start, length) => ([slot.entry(start, length), none], one),
            Gather::Two((first, length), (second, start, rest)) => {
                ([first.entry(0, length), second.entry(start, rest)], 2)
            }
        }
    }

    /// Fills in the next staged one, for which there is room: its number. Its memory is in the stage, or the
    /// caller keeps it until the completion.
    fn fill(&mut self, entries: ([ibv_sge; 2], usize), work: Work<'_>, flags: u32) -> u64 {
        let id = self.next_id(0);
        let at = self.stage.count;
        let post = &mut self.stage.works[at];
        prepare(post, work);
        (post.wr_id, post.num_sge, post.send_flags) = (id, entries.1 as i32, flags);
        let place = &mut self.stage.entries[at];
        *place = entries.0;
        post.sg_list = place.as_mut_ptr();
        self.stage.count = at + 1;
        id
    }

    /// Keeps what was posted under a number until its completion.
    fn keep(&mut self, id: u64, token: u64, held: Held, work: Work<'_>) {
        let _to = match work {
            Work::Datagram { to, .. } => Some(to.clone()),
            _ => None,
        };
        self.sends.push_back(Posted { id, token, held, _to });
    }

    /// What was staged last has a completion.
    fn signal_last(&mut self) {
        if let Some(last) = self.stage.works[..self.stage.count].last_mut() {
            last.send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
        }
    }

    pub(super) fn ring(&mut self) -> Result<(), VerbsError> {
        let Stage { works, count, .. } = &mut self.stage;
        let staged = &mut works[..std::mem::take(count)];
        let [before @ .., last] = staged else { return Ok(()) };
        last.next = null_mut();
        // From the last to the first, so that each knows the next.
        let first = before.iter_mut().rfold(&raw mut *last, |next, work| {
            work.next = next;
            work
        });
        let mut bad = null_mut();
        let queue_pair = self.queue_pair.as_ptr();
        // SAFETY: the queue pair is there; works and entries are read during the call only; the memory that the
        // entries name is copied during the call, or kept until the completion by `sends`.
        let code = unsafe { ibv_post_send(queue_pair, first, &raw mut bad) };
        check("ibv_post_send", code)
    }
}

impl Gather<'_> {
    const fn bytes(&self) -> usize {
        match *self {
            Gather::Copy(bytes) => bytes.len(),
            Gather::One(_, length) | Gather::Part(_, _, length) => length,
            Gather::Two((_, first), (_, _, second)) => first + second,
        }
    }

    /// The memory that a device works on.
    fn held(self) -> Held {
        match self {
            Gather::Copy(_) => Held::Nothing,
            Gather::One(slot, _) | Gather::Part(slot, ..) => Held::Shared(slot.clone(), None),
            Gather::Two((first, _), (second, ..)) => {
                Held::Shared(first.clone(), Some(second.clone()))
            }
        }
    }

    /// Slots have as many bytes as are to be sent of them.
    fn check(&self) -> Result<(), VerbsError> {
        let within = |slot: &Slot, bytes| {
            let most = slot.len();
            if bytes <= most { Ok(()) } else { Err(VerbsError::TooLong { bytes, most }) }
        };
        match *self {
            Gather::Copy(_) => Ok(()),
            Gather::One(slot, length) => within(slot, length),
            Gather::Part(slot, start, length) => within(slot, end(start, length)?),
            Gather::Two((first, length), (second, start, rest)) => {
                end(length, rest)?;
                within(first, length).and_then(|()| within(second, end(start, rest)?))
            }
        }
    }
}

/// Where a part of a slot ends, or why it ends nowhere.
fn end(start: usize, length: usize) -> Result<usize, VerbsError> {
    start
        .checked_add(length)
        .ok_or(VerbsError::TooLong { bytes: usize::MAX, most: u32::MAX as usize })
}

/// What each kind of work needs beside its memory.
fn prepare(post: &mut ibv_send_wr, work: Work<'_>) {
    match work {
        Work::Send { immediate: None } => post.opcode = ibv_wr_opcode::IBV_WR_SEND,
        Work::Send { immediate: Some(value) } => {
            post.opcode = ibv_wr_opcode::IBV_WR_SEND_WITH_IMM;
            post.imm_data_invalidated_rkey_union.imm_data = value.to_be();
        }
        Work::Write { to, offset } => {
            post.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
            post.wr.rdma = raw::remote(to.address + offset, to.key);
        }
        Work::Read { from, offset } => {
            post.opcode = ibv_wr_opcode::IBV_WR_RDMA_READ;
            post.wr.rdma = raw::remote(from.address + offset, from.key);
        }
        Work::Datagram { to, number, q_key } => {
            post.opcode = ibv_wr_opcode::IBV_WR_SEND;
            post.wr.ud = raw::datagram(to.as_ptr(), number, q_key);
        }
    }
}
