//! Receives that many queue pairs share (IBA 10.2.9): memory is set aside for what comes in at a time, not
//! for every queue pair that something may come in on.

use std::fmt;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use rdma_sys::{
    ibv_create_srq, ibv_destroy_srq, ibv_post_srq_recv, ibv_recv_wr, ibv_sge, ibv_srq,
    ibv_srq_attr, ibv_srq_init_attr,
};

use super::completion::Completion;
use super::error::{VerbsError, check};
use super::memory::{Allocated, Domain, ReceiveBuffer, Slot};
use super::numbers::{RECEIVE, is_of, serial};
use super::raw;

/// Receives for whichever of its queue pairs something comes in on first, each with a note of its owner's.
pub struct SharedReceives<T> {
    queue: Arc<Queue>,
    serial: u64,
    /// What is posted, by the number that its completion has.
    posted: Box<[Option<Box<ReceiveBuffer<T>>>]>,
    free: Vec<u32>,
    stage: Stage,
}

/// As many are handed over at a time.
const BATCH: usize = 16;

/// Room for what is staged, made with the queue.
struct Stage {
    works: Box<[ibv_recv_wr]>,
    entries: Box<[ibv_sge]>,
    /// How many are staged.
    count: usize,
}

// SAFETY: the pointers in it mean something during `ring` only.
unsafe impl Send for Stage {}

/// The device's part, which queue pairs are made with; another thread may post.
#[derive(Clone)]
pub struct SharedQueue(pub(super) Arc<Queue>);

impl fmt::Debug for SharedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedQueue").finish_non_exhaustive()
    }
}

pub(super) struct Queue {
    queue: NonNull<ibv_srq>,
    /// Slots that were still posted when their owner was dropped; freed after the device's queue.
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

impl<T> SharedReceives<T> {
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
            stage: Stage {
                works: vec![raw::no_receive(); BATCH].into(),
                entries: vec![raw::no_entry(); BATCH].into(),
                count: 0,
            },
        })
    }

    /// What queue pairs are made with.
    pub fn queue(&self) -> SharedQueue {
        SharedQueue(Arc::clone(&self.queue))
    }

    /// The most that may be.
    pub fn most(&self) -> usize {
        self.posted.len()
    }

    /// How many are posted or staged.
    pub fn posted(&self) -> usize {
        self.posted.len() - self.free.len()
    }

    /// Stages a slot for one of the next messages: [`ring`](Self::ring) is due.
    ///
    /// # Errors
    /// When as many are posted as may be, or the device refuses.
    pub fn receive(&mut self, buffer: Box<ReceiveBuffer<T>>) -> Result<(), VerbsError> {
        if self.stage.count == BATCH {
            self.ring()?;
        }
        let Some(place) = self.free.pop() else { return Err(VerbsError::QueueFull) };
        let Stage { works, entries, count } = &mut self.stage;
        works[*count].wr_id = self.serial | RECEIVE | u64::from(place);
        entries[*count] = buffer.slot.entry(0, buffer.slot.len());
        *count += 1;
        self.posted[place as usize] = Some(buffer);
        Ok(())
    }

    /// Hands what is staged to the device, in one call.
    ///
    /// # Errors
    /// When the device refuses: what it did not take is freed.
    pub fn ring(&mut self) -> Result<(), VerbsError> {
        let Stage { works, entries, count } = &mut self.stage;
        // From the last to the first, so that each knows the next.
        let mut first = null_mut();
        for at in (0..std::mem::take(count)).rev() {
            let work = &mut works[at];
            (work.sg_list, work.num_sge) = (&raw mut entries[at], 1);
            work.next = first;
            first = work;
        }
        if first.is_null() {
            return Ok(());
        }
        let mut bad = null_mut();
        // SAFETY: the queue is there; works and entries are read during the call only; the memory that the entries
        // name belongs to slots, which are kept until their completions or the queue's end.
        let code = unsafe { ibv_post_srq_recv(self.queue.as_ptr(), first, &raw mut bad) };
        let posted = check("ibv_post_srq_recv", code);
        if posted.is_err() {
            self.take_back(bad);
        }
        posted
    }

    /// What the device did not take, from this one on.
    fn take_back(&mut self, bad: *mut ibv_recv_wr) {
        let mut refused = false;
        for work in &mut self.stage.works {
            refused |= std::ptr::eq(work, bad);
            if refused {
                let place = (work.wr_id & (RECEIVE - 1)) as u32;
                self.posted[place as usize] = None;
                self.free.push(place);
                if work.next.is_null() {
                    return;
                }
            }
        }
    }

    /// Whether it is the completion of one of these receives.
    pub fn posted_it(&self, completion: &Completion) -> bool {
        is_of(completion.id(), self.serial)
    }

    /// The buffer whose completion this is; none if it is none of these receives'. The completion is used up, so
    /// that it cannot give back a buffer that was posted again under its number.
    pub fn finish(&mut self, completion: Completion) -> Option<Box<ReceiveBuffer<T>>> {
        if !self.posted_it(&completion) {
            return None;
        }
        let place = (completion.id() & (RECEIVE - 1)) as u32;
        let buffer = self.posted.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(buffer)
    }
}

impl<T> Drop for SharedReceives<T> {
    /// The device may write to what is posted as long as its queue is there: that keeps the memory.
    fn drop(&mut self) {
        let posted = self.posted.iter_mut().filter_map(Option::take).map(|buffer| buffer.slot);
        self.queue.kept.lock().unwrap_or_else(PoisonError::into_inner).extend(posted);
    }
}

impl<T> fmt::Debug for SharedReceives<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReceives").field("posted", &self.posted()).finish_non_exhaustive()
    }
}
