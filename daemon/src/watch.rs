//! One thread, one poll: everything a daemon waits for at once.

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What is waited for next.
#[derive(Default)]
pub struct Watch<'a> {
    fds: Vec<PollFd<'a>>,
    /// The end of the wait, even if nothing is ready.
    by: Option<Instant>,
}

impl<'a> Watch<'a> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { fds: Vec::new(), by: None }
    }

    /// Until there is something to read, or the other end is gone. Its place, for
    /// [`is_ready`](Self::is_ready).
    pub fn readable(&mut self, fd: BorrowedFd<'a>) -> usize {
        self.add(fd, PollFlags::IN)
    }

    /// Until there is room to write, or the other end is gone.
    pub fn writable(&mut self, fd: BorrowedFd<'a>) -> usize {
        self.add(fd, PollFlags::OUT)
    }

    /// Not beyond this time: then there is something to do, even if nothing is ready.
    pub fn until(&mut self, time: Instant) {
        self.by = self.by.into_iter().chain([time]).min();
    }

    fn add(&mut self, fd: BorrowedFd<'a>, flags: PollFlags) -> usize {
        self.fds.push(PollFd::from_borrowed_fd(fd, flags));
        self.fds.len() - 1
    }

    /// Waits until something is ready, at most so long; how many are. A signal ends it early.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<usize> {
        let by = self.by.map(|by| by.saturating_duration_since(Instant::now()));
        let limit = limit.into_iter().chain(by).min();
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: limit.subsec_nanos().into(),
        });
        match poll(&mut self.fds, limit.as_ref()) {
            Ok(ready) => Ok(ready),
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether what is at this place is ready.
    pub fn is_ready(&self, place: usize) -> bool {
        self.fds.get(place).is_some_and(|fd| !fd.revents().is_empty())
    }

    /// What is ready, for when what was watched is to be changed.
    pub fn into_ready(self) -> Ready {
        Ready(self.fds.iter().map(|fd| !fd.revents().is_empty()).collect())
    }
}

/// What was ready after a wait.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ready(Vec<bool>);

impl Ready {
    /// Whether what is at this place was ready; what was not watched was not.
    pub fn is(&self, place: usize) -> bool {
        self.0.get(place).copied().unwrap_or(false)
    }
}

/// Where something is watched, kept with it.
#[derive(Clone, Default, Debug)]
pub struct Place(Cell<Option<usize>>);

impl Place {
    /// Watches it, as [`Watch::readable`].
    pub fn readable<'a>(&self, watch: &mut Watch<'a>, fd: BorrowedFd<'a>) {
        self.0.set(Some(watch.readable(fd)));
    }

    /// Whether it was ready in the wait that it was last watched in; true if it was never watched.
    pub fn is_ready(&self, ready: &Ready) -> bool {
        self.0.get().is_none_or(|place| ready.is(place))
    }
}
