//! The thread that writes the state: windows do not wait for a disk.
//!
//! What has changed is written together in one transaction, and what fails is tried again, by which time it may be
//! more: what waits is never more than the state itself. What a user is told must be on the disk before; for that
//! [`Writer::write`] waits, but not for ever.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use snin_daemon::clock::Clock;
use snin_daemon::shared::{Changes, Embedded, SharedError, Values};
use snin_daemon::trouble::{News, Trouble};
use tracing::error;

use crate::error::Failure;

/// A disk that has not answered for so long is as good as full.
const PATIENCE: Duration = Duration::from_secs(2);

/// See the module's documentation. The thread ends when this is dropped, after a last attempt.
pub struct Writer {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

/// What the daemon and the thread share.
#[derive(Default)]
struct Inner {
    waiting: Mutex<Waiting>,
    /// Something to do, or something done.
    condvar: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// To be written some time.
    later: Changes,
    /// To be written now, and its number.
    urgent: Option<(u64, Changes)>,
    /// What became of the urgent one with this number.
    done: Option<(u64, Result<(), SharedError>)>,
    last: u64,
    trouble: Trouble,
    ended: bool,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn start(store: Arc<dyn Values>, clock: Clock) -> io::Result<Self> {
        let inner = Arc::new(Inner::default());
        let its = inner.clone();
        let thread = thread::Builder::new()
            .name("state".to_owned())
            .spawn(move || work(&its, &*store, clock))?;
        Ok(Self { inner, thread: Some(thread) })
    }

    /// Has something written soon.
    pub fn keep(&self, changes: Changes) {
        if let Err(why) = Embedded::check(&changes) {
            // It was never promised, and would keep all else from the disk.
            error!("not kept: {why}");
        } else if !changes.is_empty() {
            lock(&self.inner).later.extend(changes);
            self.inner.condvar.notify_all();
        }
    }

    /// Has something written, and waits for that.
    ///
    /// # Errors
    /// When it is not on the disk. A disk that is slow may have it later nevertheless: who was told so keeps what
    /// was there before.
    pub fn write(&self, changes: Changes) -> Result<(), Failure> {
        Embedded::check(&changes)?;
        let before = Instant::now();
        let mut waits = lock(&self.inner);
        waits.last += 1;
        let number = waits.last;
        waits.urgent = Some((number, changes));
        self.inner.condvar.notify_all();
        loop {
            if let Some((_, done)) = waits.done.take_if(|(of, _)| *of == number) {
                return Ok(done?);
            }
            let Some(left) = PATIENCE.checked_sub(before.elapsed()) else {
                waits.urgent = None;
                return Err(Failure::Slow(PATIENCE.as_secs()));
            };
            let waited = self.inner.condvar.wait_timeout(waits, left);
            waits = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What there is to tell that was not told yet.
    pub fn news(&self) -> Option<News> {
        lock(&self.inner).trouble.news()
    }

    /// Why the state is not stored, where it is not.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.inner).trouble.why().map(str::to_owned)
    }

    /// How often writing has failed.
    pub fn failures(&self) -> u64 {
        lock(&self.inner).trouble.failures()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.inner).ended = true;
        self.inner.condvar.notify_all();
        if let Some(thread) = self.thread.take() {
            // Where it panicked there is nothing to wait for.
            let _ = thread.join();
        }
    }
}

fn work(inner: &Inner, store: &dyn Values, clock: Clock) {
    let mut waits = lock(inner);
    loop {
        let now = clock.now();
        // After a failure it is looked whether there is room, also where nothing waits for it.
        let waiting = !waits.later.is_empty() || waits.trouble.why().is_some() && !waits.ended;
        let is_due = waiting && (waits.ended || waits.trouble.is_due(now));
        if waits.urgent.is_none() && !is_due {
            if waits.ended {
                return;
            }
            let pause = waits
                .trouble
                .next_retry()
                .map_or(PATIENCE, |at| Duration::from_nanos((at - now).nanos()));
            let waited = inner.condvar.wait_timeout(waits, pause);
            waits = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        let urgent = waits.urgent.take();
        let later = std::mem::take(&mut waits.later);
        let mut all = later.clone();
        all.extend(urgent.iter().flat_map(|(_, changes)| changes.clone()));
        drop(waits);
        let done = store.put_all(&all);
        waits = lock(inner);
        match &done {
            Ok(()) => waits.trouble.works(),
            Err(error) => {
                waits.trouble.failed(error, clock.now());
                // What was said of the same keys meanwhile counts more.
                for (key, value) in later {
                    waits.later.entry(key).or_insert(value);
                }
            }
        }
        if let Some((number, _)) = urgent {
            waits.done = Some((number, done));
            inner.condvar.notify_all();
        } else if done.is_err() && waits.ended {
            return;
        }
    }
}

fn lock(inner: &Inner) -> MutexGuard<'_, Waiting> {
    inner.waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
