//! Cores for the packer: a pool of threads that is there from the start, so that nothing is allocated later.

use crate::packing::Workers;

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
}
