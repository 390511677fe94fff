//! Wakes threads that sleep until something is put into a ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// See the module's documentation. Several threads may sleep by one doorbell; each looks at its rings when it
/// wakes.
#[derive(Debug)]
pub(crate) struct Doorbell {
    descriptor: OwnedFd,
    /// Whether threads ever sleep by it, and how many do now.
    wakes: bool,
    asleep: AtomicU32,
}

impl Doorbell {
    /// One by which threads sleep if it `wakes`; otherwise they poll their rings.
    pub(crate) fn new(wakes: bool) -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { descriptor, wakes, asleep: AtomicU32::new(0) })
    }

    /// Something was put into a ring: wakes the threads that sleep.
    pub(crate) fn ring(&self) {
        if !self.wakes {
            return;
        }
        // A thread that goes to sleep after this fence sees what was put into the ring; one that went before is
        // seen here.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) > 0 {
            // The write fails only where the descriptor is readable already.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// Announces that the calling thread sleeps until the result is dropped. It has to look at its rings once more
    /// before it waits for the descriptor.
    pub(crate) fn sleep(&self) -> Asleep<'_> {
        self.asleep.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Asleep(self)
    }
}

impl AsFd for Doorbell {
    /// Readable when it was rung.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A thread that sleeps.
pub(crate) struct Asleep<'a>(&'a Doorbell);

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.asleep.fetch_sub(1, Ordering::SeqCst);
        let mut count = [0; 8];
        // There is nothing to read where it was not rung.
        let _ = rustix::io::read(&self.0.descriptor, &mut count);
    }
}
