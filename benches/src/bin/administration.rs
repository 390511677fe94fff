//! `make bench-sa`.

use std::alloc::System;

use snin_benches::administration;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Says how many bytes the manager's core holds.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> std::io::Result<()> {
    let held = || {
        let stats = ALLOCATOR.stats();
        stats.bytes_allocated - stats.bytes_deallocated
    };
    snin_benches::main(|size| administration::run(size, held))
}
