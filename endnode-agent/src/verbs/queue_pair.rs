//! Queue pairs, whose state is part of their type: what a state does not allow does not compile.
//!
//! ```text
//!   Reset ──initialise──▶ Initialised ──connect / open──▶ Receiving ──start──▶ Sending
//!                          (receives)                      (receives)      (receives, sends)
//! ```
//!
//! A posted [`Slot`] belongs to the queue pair until its completion gives it back; a queue pair that is
//! dropped is destroyed first, and its slots afterwards.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rdma_sys::{
    ibv_create_qp, ibv_destroy_qp, ibv_modify_qp, ibv_post_recv, ibv_post_send, ibv_qp,
    ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wr_opcode,
};

use super::address::AddressHandle;
use super::attributes::{self, Mtu, Remote, Timing, Transition, Transport};
use super::completion::{Completion, CompletionQueue, Created};
use super::error::{VerbsError, check};
use super::kind::{Connected, Initialised, Kind, Rc, Receives, Receiving, Reset, Sending, Ud};
use super::memory::{Allocated, Domain, RemoteMemory, Slot};
use super::path::Path;
use super::raw;

/// What a queue pair is made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Depth {
    /// The most sends posted at a time.
    pub sends: u32,
    /// The most receives.
    pub receives: u32,
    /// Messages of up to this many bytes are copied when posted, if the device can.
    pub inline: u32,
}

/// A queue pair of a kind in a state.
pub struct QueuePair<K, S> {
    inner: Inner,
    kind: PhantomData<(K, S)>,
}

/// What is posted, in order.
struct Posted {
    id: u64,
    token: u64,
    slot: Option<Slot>,
    _to: Option<AddressHandle>,
}

struct Inner {
    queue_pair: NonNull<ibv_qp>,
    port: u8,
    inline_most: usize,
    /// The upper bits of every number that this queue pair posts, the same for no other.
    serial: u64,
    count: u64,
    sends: VecDeque<Posted>,
    receives: VecDeque<Posted>,
    most: Depth,
    _domain: Arc<Allocated>,
    _completions: [Arc<Created>; 2],
}

// SAFETY: libibverbs calls are thread safe for one queue pair, and only `&mut self` posts.
unsafe impl Send for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once, before the slots posted on it, its domain and its queues go.
        unsafe { ibv_destroy_qp(self.queue_pair.as_ptr()) };
    }
}

/// A post that failed, with the slot that was to be posted.
#[derive(Debug)]
pub struct NotPosted {
    /// What was to be posted.
    pub slot: Slot,
    /// Why it was not.
    pub error: VerbsError,
}

/// Something posted that came back.
#[derive(Debug)]
pub struct Finished {
    /// As it was given when posting.
    pub token: u64,
    /// What was posted; none if it was copied.
    pub slot: Option<Slot>,
}

/// Numbers of posts: 24 bits of the queue pair, one bit for receives, 39 that count.
const SERIAL: u32 = 40;
const RECEIVE: u64 = 1 << 39;
static SERIALS: AtomicU64 = AtomicU64::new(1);

impl<K: Kind> QueuePair<K, Reset> {
    /// A queue pair by `port` whose sends and receives complete on these queues.
    ///
    /// # Errors
    /// When the device cannot.
    pub fn new(
        domain: &Domain,
        port: u8,
        (sends, receives): (&CompletionQueue, &CompletionQueue),
        depth: Depth,
    ) -> Result<Self, VerbsError> {
        let mut make = raw::no_queue_pair();
        make.send_cq = sends.inner.queue.as_ptr();
        make.recv_cq = receives.inner.queue.as_ptr();
        make.qp_type = match K::TRANSPORT {
            Transport::Rc => ibv_qp_type::IBV_QPT_RC,
            Transport::Uc => ibv_qp_type::IBV_QPT_UC,
            Transport::Ud => ibv_qp_type::IBV_QPT_UD,
        };
        make.cap.max_send_wr = depth.sends;
        make.cap.max_recv_wr = depth.receives;
        make.cap.max_send_sge = 1;
        make.cap.max_recv_sge = 1;
        make.cap.max_inline_data = depth.inline;
        // SAFETY: the domain and the queues are there, and this keeps them; the call reads and writes `make`.
        let made = unsafe { ibv_create_qp(domain.inner.domain.as_ptr(), &raw mut make) };
        let queue_pair = NonNull::new(made).ok_or_else(|| VerbsError::last("ibv_create_qp"))?;
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed) << SERIAL;
        let inner = Inner {
            queue_pair,
            port,
            inline_most: make.cap.max_inline_data as usize,
            serial,
            count: 0,
            sends: VecDeque::with_capacity(depth.sends as usize),
            receives: VecDeque::with_capacity(depth.receives as usize),
            most: depth,
            _domain: Arc::clone(&domain.inner),
            _completions: [Arc::clone(&sends.inner), Arc::clone(&receives.inner)],
        };
        Ok(Self { inner, kind: PhantomData })
    }

    /// Now receives may be posted. With `remote_access` peers may read and write [`Shared`](super::Shared)
    /// memory through it; `q_key` is what datagrams have to show.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn initialise(
        self,
        remote_access: bool,
        q_key: u32,
    ) -> Result<QueuePair<K, Initialised>, VerbsError> {
        let port = self.inner.port;
        self.become_next(attributes::initialise(K::TRANSPORT, port, remote_access, q_key))
    }
}

impl<K: Connected> QueuePair<K, Initialised> {
    /// Connects it to `remote` along `path`, for good.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn connect(
        self,
        path: &Path,
        remote: Remote,
        mtu: Mtu,
        timing: &Timing,
    ) -> Result<QueuePair<K, Receiving>, VerbsError> {
        let (reliable, port) = (K::TRANSPORT == Transport::Rc, self.inner.port);
        let next = attributes::receive_connected(reliable, path, port, remote, mtu, timing);
        self.become_next(next)
    }
}

impl QueuePair<Ud, Initialised> {
    /// Datagrams may come.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn open(self) -> Result<QueuePair<Ud, Receiving>, VerbsError> {
        self.become_next(attributes::receive_datagrams())
    }
}

impl<K: Kind> QueuePair<K, Receiving> {
    /// Messages may go out; the first packet has this number.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn start(
        self,
        first_packet: u32,
        timing: &Timing,
    ) -> Result<QueuePair<K, Sending>, VerbsError> {
        self.become_next(attributes::send(K::TRANSPORT, first_packet, timing))
    }
}

impl<K, S> QueuePair<K, S> {
    /// Its number, which peers have to be told.
    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair is there, and its number never changes.
        unsafe { (*self.inner.queue_pair.as_ptr()).qp_num }
    }

    /// The most bytes that are copied when posted.
    pub const fn inline_most(&self) -> usize {
        self.inner.inline_most
    }

    /// Stops it: everything posted comes back as flushed.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn fail(&mut self) -> Result<(), VerbsError> {
        self.inner.modify(attributes::error())
    }

    /// Takes back what a completion says is done: the post it names, and sends before it that were not to be
    /// signalled. A completion of another queue pair gives nothing back.
    pub fn finish(&mut self, completion: &Completion<'_>, mut finished: impl FnMut(Finished)) {
        let id = completion.id();
        let posted =
            if id & RECEIVE == 0 { &mut self.inner.sends } else { &mut self.inner.receives };
        if id >> SERIAL << SERIAL != self.inner.serial {
            return;
        }
        while let Some(first) = posted.pop_front_if(|first| first.id <= id) {
            finished(Finished { token: first.token, slot: first.slot });
        }
    }

    fn become_next<T>(mut self, next: Transition) -> Result<QueuePair<K, T>, VerbsError> {
        self.inner.modify(next)?;
        Ok(QueuePair { inner: self.inner, kind: PhantomData })
    }
}

impl<K: Kind, S: Receives> QueuePair<K, S> {
    /// Gives `slot` to the next message that comes.
    ///
    /// # Errors
    /// When as many are posted as may be, or the device refuses.
    pub fn receive(&mut self, slot: Slot, token: u64) -> Result<(), NotPosted> {
        if self.inner.receives.len() >= self.inner.most.receives as usize {
            return Err(NotPosted { slot, error: VerbsError::QueueFull });
        }
        let id = self.inner.next_id(RECEIVE);
        let mut entry = slot.entry(slot.len());
        let mut work =
            ibv_recv_wr { wr_id: id, next: null_mut(), sg_list: &raw mut entry, num_sge: 1 };
        let mut bad = null_mut();
        let queue_pair = self.inner.queue_pair.as_ptr();
        // SAFETY: the queue pair is there; work and entry are read during the call only; the memory that the
        // entry names belongs to the slot, which is kept until the completion or the queue pair's end.
        let code = unsafe { ibv_post_recv(queue_pair, &raw mut work, &raw mut bad) };
        match check("ibv_post_recv", code) {
            Ok(()) => {
                self.inner.receives.push_back(Posted { id, token, slot: Some(slot), _to: None });
                Ok(())
            }
            Err(error) => Err(NotPosted { slot, error }),
        }
    }
}

/// What to do with the memory that is posted.
#[derive(Clone, Copy)]
enum Work<'a> {
    Send { immediate: Option<u32> },
    Write { to: RemoteMemory, offset: u64 },
    Read { from: RemoteMemory, offset: u64 },
    Datagram { to: &'a AddressHandle, number: u32, q_key: u32 },
}

/// Whether a send's completion is to be told; one that is not comes back with the next that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// It is.
    Yes,
    /// Only if it fails.
    No,
}

impl<K: Connected> QueuePair<K, Sending> {
    /// Sends the first `length` bytes of a slot to a receive of the peer's.
    ///
    /// # Errors
    /// When as many are posted as may be, or the device refuses.
    pub fn send(
        &mut self,
        slot: Slot,
        length: usize,
        immediate: Option<u32>,
        token: u64,
        signal: Signal,
    ) -> Result<(), NotPosted> {
        self.inner.post_slot(slot, length, Work::Send { immediate }, token, signal)
    }

    /// Sends bytes that are copied now.
    ///
    /// # Errors
    /// When as many are posted as may be, they are too many to be copied, or the device refuses.
    pub fn send_copy(
        &mut self,
        bytes: &[u8],
        immediate: Option<u32>,
        token: u64,
        signal: Signal,
    ) -> Result<(), VerbsError> {
        self.inner.post_copy(bytes, Work::Send { immediate }, token, signal)
    }

    /// Writes the first `length` bytes of a slot to the peer's shared memory.
    ///
    /// # Errors
    /// When as many are posted as may be, or the device refuses.
    pub fn write(
        &mut self,
        slot: Slot,
        length: usize,
        (to, offset): (RemoteMemory, u64),
        token: u64,
        signal: Signal,
    ) -> Result<(), NotPosted> {
        self.inner.post_slot(slot, length, Work::Write { to, offset }, token, signal)
    }

    /// Writes bytes that are copied now.
    ///
    /// # Errors
    /// When as many are posted as may be, they are too many to be copied, or the device refuses.
    pub fn write_copy(
        &mut self,
        bytes: &[u8],
        (to, offset): (RemoteMemory, u64),
        token: u64,
        signal: Signal,
    ) -> Result<(), VerbsError> {
        self.inner.post_copy(bytes, Work::Write { to, offset }, token, signal)
    }
}

impl QueuePair<Rc, Sending> {
    /// Reads the peer's shared memory into the first `length` bytes of a slot.
    ///
    /// # Errors
    /// When as many are posted as may be, or the device refuses.
    pub fn read(
        &mut self,
        slot: Slot,
        length: usize,
        (from, offset): (RemoteMemory, u64),
        token: u64,
    ) -> Result<(), NotPosted> {
        self.inner.post_slot(slot, length, Work::Read { from, offset }, token, Signal::Yes)
    }
}

impl QueuePair<Ud, Sending> {
    /// Sends a datagram of the first `length` bytes of a slot.
    ///
    /// # Errors
    /// When as many are posted as may be, or the device refuses.
    pub fn send_to(
        &mut self,
        slot: Slot,
        length: usize,
        to: &AddressHandle,
        (number, q_key): (u32, u32),
        token: u64,
        signal: Signal,
    ) -> Result<(), NotPosted> {
        self.inner.post_slot(slot, length, Work::Datagram { to, number, q_key }, token, signal)
    }
}

impl Inner {
    fn modify(&mut self, next: Transition) -> Result<(), VerbsError> {
        let mut attributes = next.attributes;
        let mask = next.mask.0.cast_signed();
        // SAFETY: the queue pair is there, and the call reads one structure.
        let code = unsafe { ibv_modify_qp(self.queue_pair.as_ptr(), &raw mut attributes, mask) };
        check("ibv_modify_qp", code)
    }

    fn next_id(&mut self, receive: u64) -> u64 {
        self.count = (self.count + 1) & (RECEIVE - 1);
        self.serial | receive | self.count
    }

    fn post_slot(
        &mut self,
        slot: Slot,
        length: usize,
        work: Work<'_>,
        token: u64,
        signal: Signal,
    ) -> Result<(), NotPosted> {
        if length > slot.len() {
            let error = VerbsError::TooLong { bytes: length, most: slot.len() };
            return Err(NotPosted { slot, error });
        }
        let entry = slot.entry(length);
        match self.post(entry, work, signal, ibv_send_flags(0)) {
            Ok(id) => {
                let _to = match work {
                    Work::Datagram { to, .. } => Some(to.clone()),
                    _ => None,
                };
                self.sends.push_back(Posted { id, token, slot: Some(slot), _to });
                Ok(())
            }
            Err(error) => Err(NotPosted { slot, error }),
        }
    }

    fn post_copy(
        &mut self,
        bytes: &[u8],
        work: Work<'_>,
        token: u64,
        signal: Signal,
    ) -> Result<(), VerbsError> {
        let most = self.inline_most;
        if bytes.len() > most {
            return Err(VerbsError::TooLong { bytes: bytes.len(), most });
        }
        let entry = ibv_sge { addr: bytes.as_ptr() as u64, length: bytes.len() as u32, lkey: 0 };
        let id = self.post(entry, work, signal, ibv_send_flags::IBV_SEND_INLINE)?;
        self.sends.push_back(Posted { id, token, slot: None, _to: None });
        Ok(())
    }

    /// Posts one entry. Its memory is either copied during the call (inline) or kept by the caller until the
    /// completion.
    fn post(
        &mut self,
        mut entry: ibv_sge,
        work: Work<'_>,
        signal: Signal,
        flags: ibv_send_flags,
    ) -> Result<u64, VerbsError> {
        if self.sends.len() >= self.most.sends as usize {
            return Err(VerbsError::QueueFull);
        }
        let id = self.next_id(0);
        let mut post = prepare(work);
        post.wr_id = id;
        post.sg_list = &raw mut entry;
        post.num_sge = i32::from(entry.length > 0);
        post.send_flags = flags.0;
        if signal == Signal::Yes {
            post.send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
        }
        let mut bad = null_mut();
        let queue_pair = self.queue_pair.as_ptr();
        // SAFETY: the queue pair is there; `post` and `entry` are read during the call only; the memory that
        // the entry names is valid as this function's description says.
        let code = unsafe { ibv_post_send(queue_pair, &raw mut post, &raw mut bad) };
        check("ibv_post_send", code)?;
        Ok(id)
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

impl<K: Kind, S> fmt::Debug for QueuePair<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair")
            .field("transport", &K::TRANSPORT)
            .field("number", &self.number())
            .field("sends", &self.inner.sends.len())
            .field("receives", &self.inner.receives.len())
            .finish_non_exhaustive()
    }
}
