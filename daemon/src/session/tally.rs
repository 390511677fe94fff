//! Counters of sessions.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use crate::metrics::Page;

/// A line a kind of trouble in so long.
const QUIET: Duration = Duration::from_secs(1);

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Count {
    /// Callers that were let in to greet.
    Callers,
    /// Sessions that began.
    Opened,
    /// Sessions that were replaced by a later one of the same peer.
    Replaced,
    /// Callers without a good certificate, or whose handshake failed in another way.
    Handshake,
    /// Callers that did not greet in time, or gave way to others.
    Slow,
    /// Callers that claimed another identity than theirs, or whose role has no business here.
    Imposter,
    /// Callers that speak no version that is spoken here, or want another service.
    Stranger,
    /// Callers that came when there were as many sessions as may be.
    Full,
    /// Sessions that ended because what came was no frame.
    Malformed,
    /// Times that a peer's frames had to wait because there were too many of them.
    Paced,
    /// Sessions of peers that did not read.
    Unread,
    /// Sessions of peers that were silent for too long.
    Idle,
    /// Sessions that ended because their certificate was revoked, or is not good any more.
    Revoked,
    /// Sessions that ended because the other end went away.
    Gone,
    /// Frames that came.
    FramesIn,
    /// Frames that went out.
    FramesOut,
}

impl Count {
    /// All of them, with their names in metrics and what they mean.
    pub const ALL: [(Self, &'static str, &'static str); 16] = [
        (Self::Callers, "callers", "Callers that were let in to greet"),
        (Self::Opened, "opened", "Sessions that began"),
        (Self::Replaced, "replaced", "Sessions replaced by a later one of the same peer"),
        (Self::Handshake, "handshakes_failed", "Callers without a good certificate"),
        (Self::Slow, "slow", "Callers that did not greet in time"),
        (Self::Imposter, "imposters", "Callers that claimed to be somebody else"),
        (Self::Stranger, "strangers", "Callers that want another service or version"),
        (Self::Full, "full", "Callers turned away because there were too many sessions"),
        (Self::Malformed, "malformed", "Sessions ended because what came was no frame"),
        (Self::Paced, "paced", "Times that a peer's frames had to wait"),
        (Self::Unread, "unread", "Sessions of peers that did not read"),
        (Self::Idle, "idle", "Sessions of peers that were silent"),
        (Self::Revoked, "revoked", "Sessions whose certificate is not good any more"),
        (Self::Gone, "gone", "Sessions whose other end went away"),
        (Self::FramesIn, "frames_in", "Frames that came"),
        (Self::FramesOut, "frames_out", "Frames that went out"),
    ];
}

/// Counts since the start, and the lines logged of them.
#[derive(Debug, Default)]
pub struct Tally {
    counts: [AtomicU64; Count::ALL.len()],
    said: Mutex<[Option<Instant>; Count::ALL.len()]>,
}

impl Tally {
    /// How often it happened.
    pub fn get(&self, what: Count) -> u64 {
        self.counts[what as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, what: Count) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts, and says so in a line unless the same was said just now.
    pub(crate) fn notify(&self, what: Count, line: impl fmt::Display) {
        self.add(what);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let last = &mut said[what as usize];
        if last.is_none_or(|last| last.elapsed() >= QUIET) {
            *last = Some(Instant::now());
            warn!("{line}");
        }
    }

    /// As metrics whose names begin so.
    pub fn export(&self, prefix: &str, page: &mut Page) {
        for (what, name, help) in Count::ALL {
            page.counter(&format!("{prefix}_sessions_{name}"), help, self.get(what));
        }
    }
}
