//! Completion queues: what devices have done, asked for or waited for.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::{
    ibv_ack_cq_events, ibv_comp_channel, ibv_cq, ibv_create_comp_channel, ibv_create_cq,
    ibv_destroy_comp_channel, ibv_destroy_cq, ibv_get_cq_event, ibv_poll_cq, ibv_req_notify_cq,
    ibv_wc, ibv_wc_flags, ibv_wc_status,
};
use snin_protocol::Time;

use super::device::{Device, Opened};
use super::error::{VerbsError, check};
use super::{fd, raw};

/// A queue of completions, with a channel that wakes a thread that waits for them.
#[derive(Clone)]
pub struct CompletionQueue {
    pub(super) inner: Arc<Created>,
}

pub(super) struct Created {
    pub(super) queue: NonNull<ibv_cq>,
    channel: NonNull<ibv_comp_channel>,
    _device: Arc<Opened>,
}

// SAFETY: libibverbs calls are thread safe for one completion queue; it is freed once, by the last owner.
unsafe impl Send for Created {}
// SAFETY: as above.
unsafe impl Sync for Created {}

impl Drop for Created {
    fn drop(&mut self) {
        // SAFETY: every queue pair on it holds an `Arc` of this, so there is none; all events are
        // acknowledged in `wait`.
        unsafe { ibv_destroy_cq(self.queue.as_ptr()) };
        // SAFETY: its only completion queue is gone.
        unsafe { ibv_destroy_comp_channel(self.channel.as_ptr()) };
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").finish_non_exhaustive()
    }
}

impl CompletionQueue {
    /// With room for `entries` completions: as many as may be posted on all its queue pairs together.
    ///
    /// # Errors
    /// When the device cannot.
    pub fn new(device: &Device, entries: u32) -> Result<Self, VerbsError> {
        let device = Arc::clone(&device.inner);
        let context = device.context.as_ptr();
        // SAFETY: the context is open and kept open by `device`.
        let channel = unsafe { ibv_create_comp_channel(context) };
        let channel =
            NonNull::new(channel).ok_or_else(|| VerbsError::last("ibv_create_comp_channel"))?;
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        // SAFETY: the context is open and the channel is one of it.
        let queue = unsafe { ibv_create_cq(context, entries, null_mut(), channel.as_ptr(), 0) };
        let Some(queue) = NonNull::new(queue) else {
            let error = VerbsError::last("ibv_create_cq");
            // SAFETY: the channel was made just now, and nothing uses it.
            unsafe { ibv_destroy_comp_channel(channel.as_ptr()) };
            return Err(error);
        };
        let created = Created { queue, channel, _device: device };
        fd::set_nonblocking(created.fd())?;
        Ok(Self { inner: Arc::new(created) })
    }

    /// Takes what is there, as much as the batch has room for: how much.
    ///
    /// # Errors
    /// When the device is broken.
    pub fn poll(&self, batch: &mut Batch) -> Result<usize, VerbsError> {
        (batch.length, batch.taken) = (0, 0);
        let (room, first) = (batch.entries.len() as i32, batch.entries.as_mut_ptr().cast());
        // SAFETY: the queue is there, at most `room` entries are written, and a completion is such an entry.
        let count = unsafe { ibv_poll_cq(self.inner.queue.as_ptr(), room, first) };
        batch.length =
            usize::try_from(count).map_err(|_| VerbsError::code("ibv_poll_cq", count))?;
        Ok(batch.length)
    }

    /// Asks to be woken by the next completion. What came before this is to be polled for afterwards, or it
    /// is slept through.
    ///
    /// # Errors
    /// When the device is broken.
    pub fn arm(&self) -> Result<(), VerbsError> {
        // SAFETY: the queue is there.
        let code = unsafe { ibv_req_notify_cq(self.inner.queue.as_ptr(), 0) };
        check("ibv_req_notify_cq", code)
    }

    /// Waits until the armed queue has something, or for so long: whether it has.
    ///
    /// # Errors
    /// When the device is broken.
    pub fn wait(&self, most: Time) -> Result<bool, VerbsError> {
        Ok(fd::wait_readable(self.inner.fd(), most)? && self.take_wake())
    }

    /// Takes the event that made the queue's descriptor readable: whether there was one.
    pub fn take_wake(&self) -> bool {
        let (mut queue, mut context) = (null_mut(), null_mut());
        let channel = self.inner.channel.as_ptr();
        // SAFETY: the channel is there, does not block, and two pointers are written.
        let code = unsafe { ibv_get_cq_event(channel, &raw mut queue, &raw mut context) };
        if code == 0 {
            // SAFETY: the channel has one queue only, so that is the queue of the one event just taken.
            unsafe { ibv_ack_cq_events(queue, 1) };
        }
        code == 0
    }
}

impl AsFd for CompletionQueue {
    /// Readable when the armed queue has something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel, and so its descriptor, is there as long as this is.
        unsafe { BorrowedFd::borrow_raw(self.inner.fd()) }
    }
}

impl Created {
    fn fd(&self) -> i32 {
        // SAFETY: the channel is there until `drop`, and its descriptor never changes.
        unsafe { (*self.channel.as_ptr()).fd }
    }
}

/// Room for completions, made once and used again and again.
pub struct Batch {
    entries: Box<[Completion]>,
    /// How many the last poll took, and how many of these were taken from here.
    length: usize,
    taken: usize,
}

impl Batch {
    /// Room for `count`.
    pub fn new(count: u16) -> Self {
        let entries = (0..count.max(1)).map(|_| Completion(raw::no_completion())).collect();
        Self { entries, length: 0, taken: 0 }
    }

    /// What the last poll took, without what was [taken](Self::take) since.
    pub fn completions(&self) -> &[Completion] {
        &self.entries[self.taken..self.length]
    }

    /// Takes the next completion of the last poll.
    pub fn take(&mut self) -> Option<Completion> {
        let entry = self.entries[self.taken..self.length].first_mut()?;
        self.taken += 1;
        Some(std::mem::replace(entry, Completion(raw::no_completion())))
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("length", &self.length).finish_non_exhaustive()
    }
}

/// Something posted is done, or never will be. There is one of each: a completion that is used up cannot be used
/// again, when what it named may have been posted anew.
#[repr(transparent)]
pub struct Completion(ibv_wc);

// SAFETY: completions are numbers.
unsafe impl Send for Completion {}

impl Completion {
    /// The number of the queue pair that it was posted on.
    pub const fn queue_pair(&self) -> u32 {
        self.0.qp_num
    }

    /// Of a datagram: the number of the queue pair that sent it.
    pub const fn source(&self) -> u32 {
        self.0.src_qp
    }

    /// Whether it was done; if not, why.
    ///
    /// # Errors
    /// The queue pair is then in error, and all that is posted on it comes back like this.
    pub const fn outcome(&self) -> Result<(), Failure> {
        match self.0.status {
            ibv_wc_status::IBV_WC_SUCCESS => Ok(()),
            status => Err(Failure(status)),
        }
    }

    /// Of a receive: how many bytes came; a datagram's include 40 of its global route.
    pub const fn bytes(&self) -> u32 {
        self.0.byte_len
    }

    /// Of a receive: what its sender sent beside the bytes.
    pub fn immediate(&self) -> Option<u32> {
        let with = self.0.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0;
        with.then(|| raw::immediate(&self.0))
    }

    pub(super) const fn id(&self) -> u64 {
        self.0.wr_id
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queue_pair, outcome) = (self.queue_pair(), self.outcome());
        f.debug_struct("Completion")
            .field("queue_pair", &queue_pair)
            .field("outcome", &outcome)
            .finish()
    }
}

/// Why something posted was not done (IBA 11.6.2): the device's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure(ibv_wc_status::Type);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            ibv_wc_status::IBV_WC_LOC_LEN_ERR => "it does not fit the receive or the message limit",
            ibv_wc_status::IBV_WC_LOC_PROT_ERR => "the memory is not registered here",
            ibv_wc_status::IBV_WC_WR_FLUSH_ERR => "the queue pair failed before",
            ibv_wc_status::IBV_WC_REM_INV_REQ_ERR => "the peer could not take it",
            ibv_wc_status::IBV_WC_REM_ACCESS_ERR => "the peer does not show that memory",
            ibv_wc_status::IBV_WC_RETRY_EXC_ERR => "the peer does not answer",
            ibv_wc_status::IBV_WC_RNR_RETRY_EXC_ERR => "the peer has posted no receive",
            code => return write!(f, "completion status {code}"),
        };
        f.write_str(text)
    }
}

impl std::error::Error for Failure {}
