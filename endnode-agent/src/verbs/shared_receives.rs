//! Receives that many queue pairs share (IBA 10.2.9): memory is set aside for what comes in at a time, not
//! for every queue pair that something may come in on.

use std::fmt;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use rdma_sys::{
    ibv_create_srq, ibv_destroy_srq, ibv_post_srq_recv, ibv_recv_wr, ibv_srq, ibv_srq_attr,
    ibv_srq_init_attr,
};

use super::completion::Completion;
use super::error::{VerbsError, check};
use super::memory::{Allocated, Domain, Slot};
use super::queue_pair::{NotPosted, RECEIVE, is_of, serial};

/// Receives for whichever of its queue pairs something comes in on first.
pub struct SharedReceives {
    queue: Arc<Queue>,
    serial: u64,
    /// What is posted, by the number that its completion has.
    posted: Box<[Option<Slot>]>,
    free: Vec<u32>,
}

/// The device's part, which queue pairs are made with; whoever posts may be on another thread.
#[derive(Clone)]
pub struct SharedQueue(pub(super) Arc<Queue>);

impl fmt::Debug for SharedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedQueue").finish_non_exhaustive()
    }
}

pub(super) struct Queue {
    queue: NonNull<ibv_srq>,
    /// What was posted when nobody was left to take it back; freed after the device's queue.
    kept: Mutex<Vec<Slot>>,
    _domain: Arc<Allocated>,
}

// SAFETY: libibverbs calls are thread safe for one queue; it is destroyed once, by the last owner.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    pub(super) const fn as_ptr(&self) -> *mut ibv_srq {
        self.queue.as_ptr()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: every queue pair that shares it holds an `Arc` of this, so there is none.
        unsafe { ibv_destroy_srq(self.queue.as_ptr()) };
    }
}

impl SharedReceives {
    /// Room for so many.
    ///
    /// # Errors
    /// When the device cannot.
    pub fn new(domain: &Domain, most: u32) -> Result<Self, VerbsError> {
        let mut make = ibv_srq_init_attr {
            srq_context: null_mut(),
            attr: ibv_srq_attr { max_wr: most, max_sge: 1, srq_limit: 0 },
        };
        // SAFETY: the domain is there and is kept; the call reads and writes `make`.
        let queue = unsafe { ibv_create_srq(domain.inner.domain.as_ptr(), &raw mut make) };
        let queue = NonNull::new(queue).ok_or_else(|| VerbsError::last("ibv_create_srq"))?;
        let queue =
            Arc::new(Queue { queue, kept: Mutex::default(), _domain: Arc::clone(&domain.inner) });
        Ok(Self {
            queue,
            serial: serial(),
            posted: (0..most).map(|_| None).collect(),
            free: (0..most).rev().collect(),
        })
    }

    /// What queue pairs are made with.
    pub fn queue(&self) -> SharedQueue {
        SharedQueue(Arc::clone(&self.queue))
    }

    /// How many are posted.
    pub fn posted(&self) -> usize {
        self.posted.len() - self.free.len()
    }

    /// Gives `slot` to one of the next messages.
    ///
    /// # Errors
    /// When as many are posted as may be, or the device refuses.
    pub fn receive(&mut self, slot: Slot) -> Result<(), NotPosted> {
        let Some(place) = self.free.pop() else {
            return Err(NotPosted { slot, error: VerbsError::QueueFull });
        };
        let mut entry = slot.entry(0, slot.len());
        let wr_id = self.serial | RECEIVE | u64::from(place);
        let mut work = ibv_recv_wr { wr_id, next: null_mut(), sg_list: &raw mut entry, num_sge: 1 };
        let mut bad = null_mut();
        // SAFETY: the queue is there; work and entry are read during the call only; the memory that the entry
        // names belongs to the slot, which is kept until the completion or the queue's end.
        let code = unsafe { ibv_post_srq_recv(self.queue.as_ptr(), &raw mut work, &raw mut bad) };
        match check("ibv_post_srq_recv", code) {
            Ok(()) => {
                self.posted[place as usize] = Some(slot);
                Ok(())
            }
            Err(error) => {
                self.free.push(place);
                Err(NotPosted { slot, error })
            }
        }
    }

    /// Whether it is the completion of one of these receives.
    #[inline]
    pub fn posted_it(&self, completion: &Completion<'_>) -> bool {
        is_of(completion.id(), self.serial)
    }

    /// The slot whose completion this is; none if it is none of these receives'.
    #[inline]
    pub fn finish(&mut self, completion: &Completion<'_>) -> Option<Slot> {
        if !self.posted_it(completion) {
            return None;
        }
        let place = (completion.id() & (RECEIVE - 1)) as u32;
        let slot = self.posted.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(slot)
    }
}

impl Drop for SharedReceives {
    /// The device may write to what is posted as long as its queue is there: that keeps the memory.
    fn drop(&mut self) {
        let posted = self.posted.iter_mut().filter_map(Option::take);
        self.queue.kept.lock().unwrap_or_else(PoisonError::into_inner).extend(posted);
    }
}

impl fmt::Debug for SharedReceives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReceives").field("posted", &self.posted()).finish_non_exhaustive()
    }
}
