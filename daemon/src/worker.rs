//! A thread that does one job after the other, beside a daemon's loop: a job of a second delays no answer by one.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use rustix::event::{EventfdFlags, eventfd};

/// A thread that turns jobs into results. It ends with the value, after the job that it has begun.
pub struct Worker<J, R> {
    name: &'static str,
    jobs: SyncSender<J>,
    results: Receiver<R>,
    ready: Arc<OwnedFd>,
}

/// Why a job was not taken; the job is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotTaken<J> {
    /// As many jobs wait as may.
    Full(J),
    /// The thread has ended, as by a panic.
    Ended(J),
}

impl<J, R> fmt::Debug for Worker<J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<J: Send + 'static, R: Send + 'static> Worker<J, R> {
    /// Starts the thread. At most `waiting` jobs wait to be begun, and as many results to be taken. A job for
    /// which `work` returns `None` has no result.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub fn start(
        name: &'static str,
        waiting: usize,
        mut work: impl FnMut(J) -> Option<R> + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, next) = sync_channel::<J>(waiting);
        let (done, results) = sync_channel(waiting);
        let ready = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let its = Arc::clone(&ready);
        let body = move || {
            while let Ok(job) = next.recv() {
                let Some(result) = work(job) else { continue };
                if done.send(result).is_err() {
                    break;
                }
                // It cannot fail but for a count of 2^64 - 1, which would be readable already.
                let _ = rustix::io::write(&*its, &1_u64.to_ne_bytes());
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Self { name, jobs, results, ready })
    }

    /// Has the job done.
    ///
    /// # Errors
    /// When there is no room, or the thread has ended.
    pub fn give(&self, job: J) -> Result<(), NotTaken<J>> {
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) => NotTaken::Full(job),
            TrySendError::Disconnected(job) => NotTaken::Ended(job),
        })
    }

    /// Becomes readable when [`next`](Self::next) has something; then that has to be asked until nothing is left.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// The next result, if there is one.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn next(&self) -> io::Result<Option<R>> {
        // First the wake-up, then the look: what is done in between wakes again. Nothing to read is as good.
        let _ = rustix::io::read(&self.ready, &mut [0; 8]);
        match self.results.try_recv() {
            Ok(result) => Ok(Some(result)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.ended()),
        }
    }

    /// The error of a thread that has ended.
    pub fn ended(&self) -> io::Error {
        io::Error::other(format!("the thread `{}` has ended", self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::watch::Watch;

    fn next<R: Send + 'static>(worker: &Worker<u32, R>) -> io::Result<R> {
        loop {
            if let Some(result) = worker.next()? {
                return Ok(result);
            }
            let mut watch = Watch::new();
            watch.readable(worker.readable());
            watch.wait(None).unwrap();
        }
    }

    #[test]
    fn results_come_in_the_order_of_jobs_and_some_have_none() {
        let worker = Worker::start("odd", 4, |n: u32| (n % 2 == 1).then_some(n * 10)).unwrap();
        for n in 1..=4 {
            worker.give(n).unwrap();
        }
        assert_eq!((next(&worker).unwrap(), next(&worker).unwrap()), (10, 30));
        assert_eq!(worker.next().unwrap(), None);
    }

    #[test]
    fn jobs_are_bounded_and_a_thread_that_ended_is_known() {
        let (go, wait) = channel::<()>();
        let (begun, begins) = channel();
        let work = move |n: u32| {
            begun.send(()).unwrap();
            wait.recv().ok().map(|()| n)
        };
        let worker = Worker::start("slow", 1, work).unwrap();
        worker.give(1).unwrap();
        begins.recv().unwrap();
        worker.give(2).unwrap();
        assert_eq!(worker.give(3), Err(NotTaken::Full(3)));
        go.send(()).unwrap();
        assert_eq!(next(&worker).unwrap(), 1);

        let worker = Worker::<u32, u32>::start("brief", 1, |_| panic!("planted")).unwrap();
        worker.give(1).unwrap();
        let error = loop {
            match worker.next() {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.to_string(), "the thread `brief` has ended");
        assert_eq!(worker.give(2), Err(NotTaken::Ended(2)));
    }
}
