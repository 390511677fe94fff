//! The thread that computes, so that a computation of a second never delays an answer by one.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use rustix::event::{EventfdFlags, eventfd};

use snin_sm_core::{Computed, Job};

/// A thread that runs one job after the other; it ends with the value, after the job that it has begun.
pub struct Worker {
    jobs: Sender<Job>,
    done: Receiver<Computed>,
    ready: Arc<OwnedFd>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub fn start() -> io::Result<Self> {
        let (jobs, next) = channel::<Job>();
        let (results, done) = channel();
        let ready = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let its = Arc::clone(&ready);
        let work = move || {
            while let Ok(job) = next.recv() {
                if results.send(job.run()).is_err() {
                    break;
                }
                // It cannot fail but for a count of 2^64 - 1, which would be readable already.
                let _ = rustix::io::write(&*its, &1_u64.to_ne_bytes());
            }
        };
        std::thread::Builder::new().name("compute".to_owned()).spawn(work)?;
        Ok(Self { jobs, done, ready })
    }

    /// Has the job run.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn run(&self, job: Job) -> io::Result<()> {
        self.jobs.send(job).map_err(|_| gone())
    }

    /// Becomes readable when [`next`](Self::next) has something.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// The next result, if there is one.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn next(&self) -> io::Result<Option<Computed>> {
        // First the wake-up, then the look: what is done in between wakes again. Nothing to read is as good.
        let _ = rustix::io::read(&self.ready, &mut [0; 8]);
        match self.done.try_recv() {
            Ok(computed) => Ok(Some(computed)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(gone()),
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that computes has ended")
}
