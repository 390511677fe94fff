//! A thread that does one thing until it is told to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::error::VerbsLabError;

/// See the module's documentation. It is told to stop, and waited for, when dropped.
pub(super) struct Worker {
    name: &'static str,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Worker {
    /// Begins. The work looks every now and then whether it is to stop.
    pub(super) fn start(
        name: &'static str,
        work: impl FnOnce(&AtomicBool) -> io::Result<()> + Send + 'static,
    ) -> Result<Self, VerbsLabError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || work(&stops));
        let thread = spawned.map_err(VerbsLabError::system(format!("a thread for the {name}")))?;
        Ok(Self { name, stop, thread: Some(thread) })
    }

    /// Whether it works still; if not, why.
    pub(super) fn check(&mut self) -> Result<(), VerbsLabError> {
        let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) else {
            return Ok(());
        };
        match thread.join() {
            Ok(Err(error)) => Err(VerbsLabError::system(format!("the {}", self.name))(error)),
            _ => Err(VerbsLabError::Stopped(format!("the {} stopped", self.name))),
        }
    }

    /// Tells it to stop when it looks next.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // `check` has told of a failure already, or the caller has no use for it any more.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it says once its thread has ended.
    fn end(mut worker: Worker) -> String {
        while worker.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            thread::yield_now();
        }
        worker.check().expect_err("it ended").to_string()
    }

    #[test]
    fn one_that_ends_by_itself_is_noticed() {
        let failed = || Err(io::Error::other("no more room"));
        let text = end(Worker::start("fabric", move |_| failed()).unwrap());
        assert!(text.contains("the fabric") && text.contains("no more room"), "{text}");
        let text = end(Worker::start("hosts", |_| Ok(())).unwrap());
        assert!(text.contains("the hosts stopped"), "{text}");
    }

    #[test]
    fn one_that_works_is_well_until_it_is_dropped() {
        let ended = Arc::new(AtomicBool::new(false));
        let says = Arc::clone(&ended);
        let work = move |stops: &AtomicBool| {
            while !stops.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            says.store(true, Ordering::Relaxed);
            Ok(())
        };
        let mut worker = Worker::start("hosts", work).unwrap();
        assert!(worker.check().is_ok() && !ended.load(Ordering::Relaxed));
        drop(worker);
        assert!(ended.load(Ordering::Relaxed), "it is waited for");
    }
}
