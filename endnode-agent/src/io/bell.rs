//! Says that something was put into a ring, so that one word tells of all of them, and wakes a thread that
//! sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// See the module's documentation. Several threads may sleep by one bell; each looks again when it rings.
#[derive(Debug)]
pub(crate) struct Bell {
    descriptor: OwnedFd,
    rang: AtomicBool,
    /// Whether anybody ever sleeps by it, and how many do.
    wakes: bool,
    asleep: AtomicU32,
}

impl Bell {
    /// One by which threads sleep if it `wakes`; else they always look.
    pub(crate) fn new(wakes: bool) -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { descriptor, rang: AtomicBool::new(false), wakes, asleep: AtomicU32::new(0) })
    }

    /// Something was put into one of many rings: says so, and wakes whoever sleeps by this bell.
    #[inline]
    pub(crate) fn ring(&self) {
        self.rang.store(true, Ordering::Release);
        self.wake();
    }

    /// Something was put into a ring that is always looked at: wakes whoever sleeps by this bell.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.wakes {
            self.wake_now();
        }
    }

    #[inline]
    fn wake_now(&self) {
        // What was put there is seen by one who goes to sleep after this, or its sleep is seen here.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) > 0 {
            // It can only be full of rings already.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// Whether it rang since this was last asked: what was put into rings before is there to be taken.
    #[inline]
    pub(crate) fn rang(&self) -> bool {
        self.rang.load(Ordering::Relaxed) && self.rang.swap(false, Ordering::AcqRel)
    }

    /// Says that the thread goes to sleep until this is dropped. It has to look at its rings once more
    /// before it really sleeps.
    pub(crate) fn sleep(&self) -> Asleep<'_> {
        self.asleep.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Asleep(self)
    }
}

impl AsFd for Bell {
    /// Readable when it rang.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A thread sleeps.
pub(crate) struct Asleep<'a>(&'a Bell);

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.asleep.fetch_sub(1, Ordering::SeqCst);
        let mut count = [0; 8];
        // Where it did not ring there is nothing to be read.
        let _ = rustix::io::read(&self.0.descriptor, &mut count);
    }
}
