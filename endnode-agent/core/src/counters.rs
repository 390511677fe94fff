//! Counters of a mesh.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Counted since the start.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Each counter: its name, what it counts, how many.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($doc),+).trim_ascii(), self.$name),)+].into_iter()
            }
        }
    };
}

counters! {
    /// Pieces posted.
    posted,
    /// Bytes posted.
    posted_bytes,
    /// Pieces done.
    done,
    /// Messages complete.
    messages,
    /// Pieces posted again because their queue pair broke.
    again,
    /// Pieces that came in and were delivered.
    received,
    /// Pieces that came in a second time, or from before a restart of their sender.
    repeated,
    /// Pieces that never came (UC, UD).
    lost,
    /// Pieces of peers or flows that were not admitted.
    too_many,
    /// Grants that were followed.
    grants,
    /// Changes of a flow from one tree to another.
    changes,
    /// Frames of a controller that is no longer in charge.
    stale_term,
    /// Frames of a conversation that is over.
    stale_session,
    /// Leases that a later one had overtaken.
    stale_lease,
    /// Bytes that were no frame.
    malformed,
    /// Grants that were over when they came.
    late_grants,
    /// Grants that say what no controller says: without end, or moving what is pinned.
    bad_grants,
    /// Grants for flows that had not asked for them, or not for these.
    unasked_grants,
    /// Frames that what is known of the clocks cannot explain.
    wrong_clock,
    /// Conversations begun.
    conversations,
    /// Leases followed.
    leases,
    /// Leases confirmed.
    confirms,
    /// Messages and flows that were declined.
    declined,
    /// Queue pairs made.
    connects,
    /// Queue pairs that gave way to others.
    evicted,
    /// Queue pairs that broke.
    broken,
    /// Times that a granted flow found all queue pairs in use.
    starved,
    /// Grants that ended while pieces were under way.
    overruns,
    /// Times that the controller was lost.
    controller_lost,
}
