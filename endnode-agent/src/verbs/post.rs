//! Sending: what is posted is staged first, and handed to the device in one call.

use std::ptr::null_mut;
use std::sync::Arc;

use rdma_sys::{ibv_post_send, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode};

use super::address::AddressHandle;
use super::error::{VerbsError, check};
use super::kind::{Connected, Kind, Rc, Sending, Ud};
use super::memory::{RemoteMemory, Slot};
use super::queue_pair::{Held, Inner, NotPosted, Posted, QueuePair};
use super::raw;

/// What is to be sent. As many bytes as the device copies are copied when staged; else the memory is shared
/// with the device until the completion.
#[derive(Clone, Copy, Debug)]
pub enum Gather<'a> {
    /// Bytes that have to be copied.
    Copy(&'a [u8]),
    /// The first so many bytes of a slot.
    One(&'a Arc<Slot>, usize),
    /// A part of a slot: where it begins and its length.
    Part(&'a Arc<Slot>, usize, usize),
    /// The first so many bytes of a slot, then a part of another: where it begins and its length.
    Two((&'a Arc<Slot>, usize), (&'a Arc<Slot>, usize, usize)),
}

/// Whether a send's completion is to be told; one that is not comes back with the next that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// It is.
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
        let entries = [slot.entry(0, length), raw::no_entry()];
        match self.inner.push(entries, 1, Work::Read { from, offset }, 0, (token, Signal::Yes)) {
            Ok(()) => {
                self.inner.hold(Held::Own(slot));
                Ok(())
            }
            Err(error) => Err(NotPosted { slot, error }),
        }
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

    /// The same, with the last one's completion told: who stages does not know yet which is the last.
    ///
    /// # Errors
    /// As [`ring`](Self::ring).
    pub fn ring_told(&mut self) -> Result<(), VerbsError> {
        if let Some(last) = self.inner.stage.works.last_mut() {
            last.send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
        }
        self.inner.ring()
    }
}

/// As many are handed over at a time.
const BATCH: usize = 32;

/// Room for what is staged, made with the queue pair.
pub(super) struct Stage {
    works: Vec<ibv_send_wr>,
    entries: Vec<[ibv_sge; 2]>,
    copies: Box<[u8]>,
    /// How many.
    most: usize,
}

// SAFETY: the pointers in it are null but during `ring`.
unsafe impl Send for Stage {}

impl Stage {
    pub(super) fn new(sends: u32, inline: usize) -> Self {
        let room = BATCH.min(sends as usize);
        Self {
            works: Vec::with_capacity(room),
            entries: Vec::with_capacity(room),
            copies: vec![0; room * inline].into(),
            most: room,
        }
    }

    /// Room for the next one's bytes.
    fn room(&mut self, inline: usize, bytes: usize) -> &mut [u8] {
        let start = self.works.len() * inline;
        &mut self.copies[start..start + bytes]
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
        if self.stage.works.len() == self.stage.most {
            self.ring()?;
        }
        let inline = self.inline_most;
        if let Some(bytes) = what.copied(inline)? {
            let room = self.stage.room(inline, bytes);
            what.copy_to(room);
            let entry = ibv_sge { addr: room.as_ptr() as u64, length: bytes as u32, lkey: 0 };
            let flags = ibv_send_flags::IBV_SEND_INLINE.0;
            return self.push(
                [entry, raw::no_entry()],
                usize::from(bytes > 0),
                work,
                flags,
                (token, signal),
            );
        }
        let (entries, count, held) = match what {
            Gather::Copy(bytes) => {
                return Err(VerbsError::TooLong { bytes: bytes.len(), most: inline });
            }
            Gather::One(slot, length) => {
                let entries = [slot.entry(0, length), raw::no_entry()];
                (entries, 1, Held::Shared(Arc::clone(slot), None))
            }
            Gather::Part(slot, start, length) => {
                let entries = [slot.entry(start, length), raw::no_entry()];
                (entries, usize::from(length > 0), Held::Shared(Arc::clone(slot), None))
            }
            Gather::Two((first, length), (second, start, rest)) => {
                let entries = [first.entry(0, length), second.entry(start, rest)];
                (entries, 2, Held::Shared(Arc::clone(first), Some(Arc::clone(second))))
            }
        };
        self.push(entries, count, work, 0, (token, signal))?;
        self.hold(held);
        Ok(())
    }

    /// What was staged last keeps this until its completion.
    fn hold(&mut self, held: Held) {
        if let Some(last) = self.sends.back_mut() {
            last.held = held;
        }
    }

    /// Stages one entry. Its memory is either in the stage (inline) or held until the completion.
    fn push(
        &mut self,
        entries: [ibv_sge; 2],
        count: usize,
        work: Work<'_>,
        flags: u32,
        (token, signal): (u64, Signal),
    ) -> Result<(), VerbsError> {
        if self.sends.len() >= self.most.sends as usize {
            return Err(VerbsError::QueueFull);
        }
        if self.stage.works.len() == self.stage.most {
            self.ring()?;
        }
        let id = self.next_id(0);
        let mut post = prepare(work);
        post.wr_id = id;
        post.num_sge = count as i32;
        post.send_flags = flags;
        if signal == Signal::Yes {
            post.send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
        }
        self.stage.works.push(post);
        self.stage.entries.push(entries);
        let _to = match work {
            Work::Datagram { to, .. } => Some(to.clone()),
            _ => None,
        };
        self.sends.push_back(Posted { id, token, held: Held::Nothing, _to });
        Ok(())
    }

    pub(super) fn ring(&mut self) -> Result<(), VerbsError> {
        let Stage { works, entries, .. } = &mut self.stage;
        if works.is_empty() {
            return Ok(());
        }
        for (work, entries) in works.iter_mut().zip(entries.iter_mut()) {
            work.sg_list = entries.as_mut_ptr();
        }
        let first = works.as_mut_ptr();
        for at in 1..works.len() {
            // SAFETY: both are entries of `works`, which has at least `at` + 1 of them.
            unsafe { (*first.add(at - 1)).next = first.add(at) };
        }
        let mut bad = null_mut();
        let queue_pair = self.queue_pair.as_ptr();
        // SAFETY: the queue pair is there; works and entries are read during the call only; the memory that the
        // entries name is in the stage and copied during the call, or held by `sends` until the completion.
        let code = unsafe { ibv_post_send(queue_pair, first, &raw mut bad) };
        works.clear();
        entries.clear();
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

    /// How many bytes are to be copied, if it is so few that they are.
    fn copied(&self, inline: usize) -> Result<Option<usize>, VerbsError> {
        let too_long = |bytes, most| Err(VerbsError::TooLong { bytes, most });
        match *self {
            Gather::One(slot, length) if length > slot.len() => {
                return too_long(length, slot.len());
            }
            Gather::Two((slot, length), _) if length > slot.len() => {
                return too_long(length, slot.len());
            }
            Gather::Part(slot, start, length) | Gather::Two(_, (slot, start, length))
                if start + length > slot.len() =>
            {
                return too_long(start + length, slot.len());
            }
            _ => {}
        }
        let bytes = self.bytes();
        Ok((bytes <= inline).then_some(bytes))
    }

    fn copy_to(&self, room: &mut [u8]) {
        match *self {
            Gather::Copy(bytes) => room.copy_from_slice(bytes),
            Gather::One(slot, length) => room.copy_from_slice(&slot.bytes()[..length]),
            Gather::Part(slot, start, length) => {
                room.copy_from_slice(&slot.bytes()[start..start + length]);
            }
            Gather::Two((first, length), (second, start, rest)) => {
                room[..length].copy_from_slice(&first.bytes()[..length]);
                room[length..].copy_from_slice(&second.bytes()[start..start + rest]);
            }
        }
    }
}

fn prepare(work: Work<'_>) -> ibv_send_wr {
    let mut post = raw::no_send();
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
            post.wr.ud = raw::datagram(to, number, q_key);
        }
    }
    post
}
