//! Every metric of the controller.

/// Counts since the start; gauges are named so.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Metrics {
    /// Windows decided.
    pub windows: u64,
    /// Windows that were over before they could be decided.
    pub windows_missed: u64,
    /// Connections in windows: one in two windows counts twice.
    pub granted: u64,
    /// Of these, grants that had to wait for links and began after their window did.
    pub granted_late: u64,
    /// Waits of connections, by window.
    pub deferred: u64,
    /// Requests refused.
    pub refused: u64,
    /// Connections that changed their tree while in service.
    pub moved: u64,
    /// Connections that had to stop for a while so that others could change theirs.
    pub paused: u64,
    /// Connections that gave way to one that had waited long.
    pub rested: u64,
    /// Windows whose certificate did not hold, or with a link of two owners: nothing new was granted in them.
    pub certificate_failures: u64,
    /// Leases sent for the first time.
    pub leases: u64,
    /// Leases sent again.
    pub leases_repeated: u64,
    /// Messages of conversations that are not known.
    pub strangers: u64,
    /// Requests out of turn, said again or too early.
    pub asks_out_of_turn: u64,
    /// Agents turned away because there are as many as may be.
    pub agents_refused: u64,
    /// Agents that fell silent.
    pub agents_lost: u64,
    /// Agents that began a new conversation.
    pub agents_restarted: u64,
    /// Views and view changes taken.
    pub views: u64,
    /// Views older than the one in use.
    pub views_stale: u64,
    /// Grants ended at once because a view took their path away.
    pub cut_short: u64,
    /// Gauge: agents.
    pub agents: u64,
    /// Gauge: connections.
    pub connections: u64,
    /// Gauge: connections with a grant.
    pub holding: u64,
}
