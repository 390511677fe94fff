//! The numbers that posts have, by which their completions are known.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of posts: 24 bits of the queue pair, one bit for receives, 39 that count.
const SERIAL: u32 = 40;
pub(super) const RECEIVE: u64 = 1 << 39;
static SERIALS: AtomicU64 = AtomicU64::new(1);

/// The upper bits of a poster's work request numbers: no other poster has the same.
pub(super) fn serial() -> u64 {
    SERIALS.fetch_add(1, Ordering::Relaxed) << SERIAL
}

/// Whether a number is one of those.
pub(super) const fn is_of(id: u64, serial: u64) -> bool {
    id >> SERIAL << SERIAL == serial
}
