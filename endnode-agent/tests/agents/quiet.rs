//! Counts what the calling thread allocates, and what all threads hold. The packer's counter, `stats_alloc`, knows
//! nothing of threads, and of an agent's only the data thread is quiet: the control thread may allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

/// Bytes allocated and not freed by all threads.
static LIVE: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counted.
pub(crate) struct Counting;

#[allow(unsafe_code, reason = "an allocator is asked in unsafe functions")]
// SAFETY: everything is the system's allocator's; the counts are numbers beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        COUNT.with(|count| count.set(count.get() + 1));
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// How often this thread has allocated or freed.
pub(crate) fn count() -> u64 {
    COUNT.with(Cell::get)
}

/// How many bytes are allocated and not freed, by all threads.
pub(crate) fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}
