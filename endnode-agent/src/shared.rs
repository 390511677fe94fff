//! The state that the clones of an agent and its flows share: the rings to its threads, and how they wait.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snin_agent_core::Config;
use snin_daemon::clock::Clock;
use snin_daemon::session::{Address, Credentials};
use snin_fabric::Guid;
use snin_protocol::Time;

use crate::io::rings::{AppCall, Rings};

/// An application that waits looks at least so often.
const NAP: Duration = Duration::from_millis(10);

/// See the module's documentation. Dropped, it ends the threads.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) rings: Arc<Rings>,
    pub(crate) config: Config,
    pub(crate) peers: BTreeSet<Guid>,
    pub(crate) clock: Clock,
    /// The longest message.
    pub(crate) longest: usize,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held by the thread that takes a snapshot.
    pub(crate) snapshot_lock: Mutex<()>,
    pub(crate) listen: Address,
    /// The port's certificate.
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// The port, as the kernel shows it.
    pub(crate) port_folder: PathBuf,
}

impl Shared {
    /// The agent's clock.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Gives the data thread a call. The ring has room for every buffer and two calls a flow, so it is full only
    /// where the data thread stands still.
    pub(crate) fn call(&self, mut call: AppCall) {
        while let Err(again) = self.rings.calls.push(call) {
            call = again;
            thread::yield_now();
        }
        self.rings.to_data.ring();
    }

    /// Whether messages may be so long.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], in one line.
    pub(crate) fn check_length(&self, bytes: usize) -> io::Result<()> {
        if bytes <= self.longest {
            return Ok(());
        }
        let text = format!("a message of {bytes} bytes, but {} is the longest", self.longest);
        Err(io::Error::new(ErrorKind::InvalidInput, text))
    }

    /// Tries until there is something, sleeping in between.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`].
    pub(crate) fn wait<T>(
        &self,
        limit: Option<Duration>,
        mut take: impl FnMut() -> Option<T>,
    ) -> io::Result<T> {
        let until = limit.map(|limit| Instant::now() + limit);
        let doorbell = &self.rings.to_application;
        loop {
            if let Some(found) = take() {
                return Ok(found);
            }
            let asleep = doorbell.sleep();
            if let Some(found) = take() {
                return Ok(found);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(ErrorKind::TimedOut.into());
            }
            let nap = left.map_or(NAP, |left| left.min(NAP));
            let nap = Timespec { tv_sec: 0, tv_nsec: nap.as_nanos() as i64 };
            // An error is a short nap.
            let _ = poll(&mut [PollFd::new(doorbell, PollFlags::IN)], Some(&nap));
            drop(asleep);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.rings.stop.store(true, Ordering::Relaxed);
        // A thread that sleeps wakes within its nap; these make it at once.
        self.rings.to_data.ring();
        self.rings.to_control.ring();
        let threads =
            std::mem::take(self.threads.get_mut().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has reported it already.
            let _ = thread.join();
        }
    }
}
