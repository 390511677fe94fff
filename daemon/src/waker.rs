//! A thread that sessions run on, and how it wakes the daemon, which polls.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::mpsc;

use crate::watch::Watch;

/// Names of hosts that are looked up at a time.
const LOOKUPS: usize = 4;

/// False when the receiver is gone.
pub(crate) async fn hand_over<M>(heard: M, to: &mpsc::Sender<M>, waker: &Waker) -> bool {
    let is_taken = to.send(heard).await.is_ok();
    waker.wake();
    is_taken
}

/// A thread that has ended when this is dropped: an address at which it listened is free then.
#[derive(Debug)]
pub(crate) struct Joined(Option<thread::JoinHandle<()>>);

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic of its was its own.
            let _ = thread.join();
        }
    }
}

/// What wakes the daemon, and whether it was woken since that looked last.
#[derive(Debug)]
pub(crate) struct Waker {
    descriptor: OwnedFd,
    woken: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { descriptor, woken: AtomicBool::new(false) }))
    }

    /// Until it is woken.
    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.descriptor.as_fd());
    }

    fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            // It can only be full of wake-ups already.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// Whether it was woken; without a system call where it has not.
    pub(crate) fn was_woken(&self) -> bool {
        if !self.woken.load(Ordering::Acquire) {
            return false;
        }
        // In this order: a wake-up in between writes nothing, and what it is for is taken now. The other way round
        // it would be read here and stay noted, and no later one would write again.
        let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
        self.woken.swap(false, Ordering::AcqRel)
    }

    /// Runs something on a thread with a runtime of its own.
    pub(crate) fn run<W, F>(self: &Arc<Self>, name: &str, work: W) -> io::Result<Joined>
    where
        W: FnOnce(Arc<Self>) -> F + Send + 'static,
        F: Future<Output = ()>,
    {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_io().enable_time().max_blocking_threads(LOOKUPS);
        let runtime = runtime.build()?;
        let waker = self.clone();
        let body = move || {
            runtime.block_on(work(waker));
            // A host's name that is being looked up is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Joined(Some(thread)))
    }
}
