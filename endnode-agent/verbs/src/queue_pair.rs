//! Queue pairs, whose state is part of their type: what a state does not allow does not compile.
//!
//! ```text
//!   Reset ──initialise──▶ Initialised ──connect / open──▶ Receiving ──start──▶ Sending
//!                          (receives)                      (receives)      (receives, sends)
//! ```
//!
//! A [`Slot`] that a device is to write to belongs to the queue pair until its completion gives it back; of
//! one that a device is to read the queue pair holds a share. A queue pair that is dropped is destroyed
//! first, and its slots afterwards.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::{
    ibv_create_qp, ibv_destroy_qp, ibv_modify_qp, ibv_post_recv, ibv_qp, ibv_qp_type, ibv_recv_wr,
    ibv_sge,
};

use super::address::AddressHandle;
use super::attributes::{self, Mtu, Remote, Timing, Transition, Transport};
use super::completion::{Completion, CompletionQueue, Created};
use super::error::{VerbsError, check};
use super::kind::{Connected, Initialised, Kind, Receives, Receiving, Reset, Sending, Ud};
use super::memory::{Allocated, DeviceHold, Domain, Shared, Slot, Source};
use super::numbers::{RECEIVE, is_of, serial};
use super::path::Path;
use super::raw;
use super::shared_receives::{Queue, SharedQueue};
use super::stage::Stage;

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
    pub(super) inner: Inner,
    kind: PhantomData<(K, S)>,
}

/// What is posted, in order.
pub(super) struct Posted {
    pub(super) id: u64,
    pub(super) token: u64,
    pub(super) held: Held,
    pub(super) _to: Option<AddressHandle>,
}

/// Memory that a post keeps until it is done.
#[derive(Debug, Default)]
pub enum Held {
    /// None: what was to be sent was copied.
    #[default]
    Nothing,
    /// The device wrote to it, or was to.
    Own(Slot),
    /// The device read it: others may have too.
    Shared(Source, Option<Source>),
    /// The device wrote to it, or was to, and others may, too.
    DeviceHold(DeviceHold),
}

impl Held {
    /// What a device wrote to.
    pub fn own(self) -> Option<Slot> {
        if let Self::Own(slot) = self { Some(slot) } else { None }
    }
}

pub(super) struct Inner {
    pub(super) queue_pair: NonNull<ibv_qp>,
    port: u8,
    pub(super) inline_most: usize,
    /// The upper bits of every number that this queue pair posts, the same for no other.
    serial: u64,
    count: u64,
    pub(super) sends: VecDeque<Posted>,
    receives: VecDeque<Posted>,
    pub(super) most: Depth,
    pub(super) stage: Stage,
    _domain: Arc<Allocated>,
    _completions: [Arc<Created>; 2],
    _shared: Option<Arc<Queue>>,
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
    /// The memory that was posted.
    pub held: Held,
}

impl<K: Kind> QueuePair<K, Reset> {
    /// A queue pair by `port` whose sends and receives complete on these queues.
    ///
    /// # Errors
    /// When the device cannot.
    pub fn new(
        domain: &Domain,
        port: u8,
        queues: (&CompletionQueue, &CompletionQueue),
        depth: Depth,
    ) -> Result<Self, VerbsError> {
        Self::make(domain, port, queues, None, depth)
    }

    /// One whose receives are those that it shares with others; it has none of its own.
    ///
    /// # Errors
    /// When the device cannot.
    pub fn sharing(
        domain: &Domain,
        port: u8,
        queues: (&CompletionQueue, &CompletionQueue),
        receives: &SharedQueue,
        depth: Depth,
    ) -> Result<Self, VerbsError> {
        let depth = Depth { receives: 0, ..depth };
        Self::make(domain, port, queues, Some(Arc::clone(&receives.0)), depth)
    }

    fn make(
        domain: &Domain,
        port: u8,
        (sends, receives): (&CompletionQueue, &CompletionQueue),
        shared: Option<Arc<Queue>>,
        depth: Depth,
    ) -> Result<Self, VerbsError> {
        let mut make = raw::no_queue_pair();
        make.srq = shared.as_ref().map_or(null_mut(), |shared| shared.as_ptr());
        make.send_cq = sends.inner.queue.as_ptr();
        make.recv_cq = receives.inner.queue.as_ptr();
        make.qp_type = match K::TRANSPORT {
            Transport::Rc => ibv_qp_type::IBV_QPT_RC,
            Transport::Uc => ibv_qp_type::IBV_QPT_UC,
            Transport::Ud => ibv_qp_type::IBV_QPT_UD,
        };
        make.cap.max_send_wr = depth.sends;
        make.cap.max_recv_wr = depth.receives;
        make.cap.max_send_sge = 2;
        make.cap.max_recv_sge = 1;
        make.cap.max_inline_data = depth.inline;
        // SAFETY: the domain and the queues are there, and this keeps them; the call reads and writes `make`.
        let made = unsafe { ibv_create_qp(domain.inner.domain.as_ptr(), &raw mut make) };
        let queue_pair = NonNull::new(made).ok_or_else(|| VerbsError::last("ibv_create_qp"))?;
        let inner = Inner {
            queue_pair,
            port,
            inline_most: make.cap.max_inline_data as usize,
            serial: serial(),
            count: 0,
            sends: VecDeque::with_capacity(depth.sends as usize),
            receives: VecDeque::with_capacity(depth.receives as usize),
            most: depth,
            stage: Stage::new(depth.sends, make.cap.max_inline_data as usize),
            _domain: Arc::clone(&domain.inner),
            _completions: [Arc::clone(&sends.inner), Arc::clone(&receives.inner)],
            _shared: shared,
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
    pub fn finish(&mut self, completion: &Completion, mut finished: impl FnMut(Finished)) {
        let id = completion.id();
        let posted =
            if id & RECEIVE == 0 { &mut self.inner.sends } else { &mut self.inner.receives };
        if !is_of(id, self.inner.serial) {
            return;
        }
        while let Some(first) = posted.pop_front_if(|first| first.id <= id) {
            finished(Finished { token: first.token, held: first.held });
        }
    }

    /// The most sends posted at a time.
    pub const fn most_sends(&self) -> usize {
        self.inner.most.sends as usize
    }

    /// How many sends are posted and not finished.
    pub fn outstanding(&self) -> usize {
        self.inner.sends.len()
    }

    /// Destroys it and gives back what was posted and not finished: no device works on that any more.
    pub fn destroy(mut self, mut finished: impl FnMut(Finished)) {
        let sends = std::mem::take(&mut self.inner.sends);
        let receives = std::mem::take(&mut self.inner.receives);
        drop(self);
        for posted in sends.into_iter().chain(receives) {
            finished(Finished { token: posted.token, held: posted.held });
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
        match self.inner.post_receive(slot.entry(0, slot.len())) {
            Ok(id) => {
                self.inner.keep_receive(id, token, Held::Own(slot));
                Ok(())
            }
            Err(error) => Err(NotPosted { slot, error }),
        }
    }

    /// Gives shared memory to the next message that comes; the same may be given to others, too. For a caller
    /// that does not look at messages, or only at what came last.
    ///
    /// # Errors
    /// When as many are posted as may be, or the device refuses.
    pub fn receive_shared(&mut self, into: &Shared, token: u64) -> Result<(), VerbsError> {
        let id = self.inner.post_receive(into.entry())?;
        self.inner.keep_receive(id, token, Held::DeviceHold(into.hold()));
        Ok(())
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

    /// Its number, under which the caller keeps the memory that the entry names.
    fn post_receive(&mut self, mut entry: ibv_sge) -> Result<u64, VerbsError> {
        if self.receives.len() >= self.most.receives as usize {
            return Err(VerbsError::QueueFull);
        }
        let id = self.next_id(RECEIVE);
        let mut work =
            ibv_recv_wr { wr_id: id, next: null_mut(), sg_list: &raw mut entry, num_sge: 1 };
        let mut bad = null_mut();
        let queue_pair = self.queue_pair.as_ptr();
        // SAFETY: the queue pair is there; work and entry are read during the call only; the memory that the
        // entry names is kept by `receives`, to which the caller adds it, until the completion or the queue
        // pair's end.
        let code = unsafe { ibv_post_recv(queue_pair, &raw mut work, &raw mut bad) };
        check("ibv_post_recv", code).map(|()| id)
    }

    /// Keeps what a receive was posted with until its completion.
    fn keep_receive(&mut self, id: u64, token: u64, held: Held) {
        self.receives.push_back(Posted { id, token, held, _to: None });
    }

    pub(super) fn next_id(&mut self, receive: u64) -> u64 {
        self.count = (self.count + 1) & (RECEIVE - 1);
        self.serial | receive | self.count
    }
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
