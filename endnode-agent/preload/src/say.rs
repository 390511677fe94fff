//! What the user is told: lines on stderr, each thing once a process.

use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

/// Things said already, a bit each.
static SAID: AtomicU32 = AtomicU32::new(0);

/// What is said once only: every pair would say the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Once {
    /// The agent does not answer.
    NoAgent = 1,
    /// Pairs go unmanaged.
    Unmanaged = 2,
    /// The job's file cannot be used.
    NoFile = 4,
}

/// One line.
pub(super) fn line(text: impl std::fmt::Display) {
    // A program without stderr is not to end for that.
    let _ = std::io::stderr().write_all(format!("snin: {text}\n").as_bytes());
}

/// One line, where nothing of this kind has been said.
pub(super) fn once(what: Once, text: impl std::fmt::Display) {
    if SAID.fetch_or(what as u32, Ordering::Relaxed) & what as u32 == 0 {
        line(text);
    }
}
