//! Cores for the packer: a pool of threads that is there from the start, so that nothing is allocated later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use snin_controller_core::packing::Workers;

/// A pool of threads.
#[derive(Debug)]
pub struct Threads {
    pool: rayon::ThreadPool,
}

impl Threads {
    /// A pool of so many threads, at least one.
    ///
    /// # Panics
    /// Where the system gives no threads.
    pub fn new(count: usize) -> Self {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(count.max(1));
        let pool = threads.build().expect("threads of the system");
        // What a thread needs to look for work it allocates when it first does: now, not in a window.
        pool.broadcast(|_| ());
        Self { pool }
    }

    /// Runs something on one of the threads: jobs that it divides need not be brought there first.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }
}

impl Workers for Threads {
    fn count(&self) -> usize {
        self.pool.current_num_threads()
    }

    fn join(&self, one: &mut (dyn FnMut() + Send), other: &mut (dyn FnMut() + Send)) {
        self.pool.join(one, other);
    }

    /// A thread that sleeps takes as long to wake as `first` may take: it is called at once, and waits awake.
    fn join_after(
        &self,
        first: &mut (dyn FnMut() + Send),
        one: &mut (dyn FnMut() + Send),
        other: &mut (dyn FnMut() + Send),
    ) {
        let has_run = AtomicBool::new(false);
        self.join(
            &mut || {
                let run = Raise(&has_run);
                first();
                drop(run);
                one();
            },
            &mut || {
                while !has_run.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                other();
            },
        );
    }
}

/// Raises a flag when dropped: after a panic, too, which must not leave another thread waiting.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn both_begin_when_the_first_has_run() {
        let threads = Threads::new(2);
        for _ in 0..1000 {
            let (order, sum) = (AtomicU32::new(0), AtomicU32::new(0));
            let after = || _ = sum.fetch_add(order.load(Ordering::Relaxed), Ordering::Relaxed);
            let (mut one, mut other) = (after, after);
            threads.join_after(&mut || order.store(1, Ordering::Relaxed), &mut one, &mut other);
            assert_eq!(sum.into_inner(), 2);
        }
    }

    #[test]
    fn a_panic_of_the_first_leaves_nobody_waiting() {
        let threads = Threads::new(2);
        let mut first = || panic!("as planned");
        let join = || threads.join_after(&mut first, &mut || (), &mut || ());
        assert!(catch_unwind(AssertUnwindSafe(join)).is_err());
    }
}
