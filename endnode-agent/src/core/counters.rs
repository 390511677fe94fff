//! What a mesh counts.

/// Counted since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Pieces posted.
    pub posted: u64,
    /// Bytes posted.
    pub posted_bytes: u64,
    /// Pieces done.
    pub done: u64,
    /// Messages complete.
    pub messages: u64,
    /// Pieces posted again because their queue pair broke.
    pub again: u64,
    /// Pieces that came in and were delivered.
    pub received: u64,
    /// Pieces that came in a second time, or from before a restart of their sender.
    pub repeated: u64,
    /// Pieces that never came (UC, UD).
    pub lost: u64,
    /// Pieces of more flows than may come in.
    pub too_many: u64,
    /// Grants that were followed.
    pub grants: u64,
    /// Changes of a flow from one tree to another.
    pub changes: u64,
    /// Frames of a controller that is no longer in charge.
    pub stale_term: u64,
    /// Frames of a conversation that is over.
    pub stale_session: u64,
    /// Leases that a later one had overtaken.
    pub stale_lease: u64,
    /// Bytes that were no frame.
    pub malformed: u64,
    /// Grants that were over when they came.
    pub late_grants: u64,
    /// Grants that say what no controller says: without end, or moving what is pinned.
    pub bad_grants: u64,
    /// Grants for flows that had not asked for them, or not for these.
    pub unasked_grants: u64,
    /// Frames that what is known of the clocks cannot explain.
    pub wrong_clock: u64,
    /// Conversations begun.
    pub conversations: u64,
    /// Leases followed.
    pub leases: u64,
    /// Leases confirmed.
    pub confirms: u64,
    /// Messages and flows that were declined.
    pub declined: u64,
    /// Queue pairs made.
    pub connects: u64,
    /// Queue pairs that gave way to others.
    pub evicted: u64,
    /// Queue pairs that broke.
    pub broken: u64,
    /// Times that a granted flow found all queue pairs in use.
    pub starved: u64,
    /// Grants that ended while pieces were under way.
    pub overruns: u64,
    /// Times that the controller was lost.
    pub controller_lost: u64,
}
