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
    /// Agents that greeted in the name of another port.
    pub imposters: u64,
    /// Agents that have heard of a later term.
    pub agents_ahead: u64,
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

/// A name, what it means, and its value.
pub type Named = (&'static str, &'static str, u64);

impl Metrics {
    /// Every count.
    pub const fn counters(&self) -> [Named; 22] {
        [
            ("windows", "Windows decided", self.windows),
            (
                "windows_missed",
                "Windows that were over before they could be decided",
                self.windows_missed,
            ),
            ("granted", "Connections in windows: one in two windows counts twice", self.granted),
            (
                "granted_late",
                "Of these, grants that had to wait for links and began after their window did",
                self.granted_late,
            ),
            ("deferred", "Waits of connections, by window", self.deferred),
            ("refused", "Requests refused", self.refused),
            ("moved", "Connections that changed their tree while in service", self.moved),
            (
                "paused",
                "Connections that had to stop for a while so that others could change theirs",
                self.paused,
            ),
            ("rested", "Connections that gave way to one that had waited long", self.rested),
            (
                "certificate_failures",
                "Windows whose certificate did not hold, or with a link of two owners: nothing new was \
                 granted in them",
                self.certificate_failures,
            ),
            ("leases", "Leases sent for the first time", self.leases),
            ("leases_repeated", "Leases sent again", self.leases_repeated),
            ("strangers", "Messages of conversations that are not known", self.strangers),
            ("imposters", "Agents that greeted in the name of another port", self.imposters),
            ("agents_ahead", "Agents that have heard of a later term", self.agents_ahead),
            (
                "asks_out_of_turn",
                "Requests out of turn, said again or too early",
                self.asks_out_of_turn,
            ),
            (
                "agents_refused",
                "Agents turned away because there are as many as may be",
                self.agents_refused,
            ),
            ("agents_lost", "Agents that fell silent", self.agents_lost),
            ("agents_restarted", "Agents that began a new conversation", self.agents_restarted),
            ("views", "Views and view changes taken", self.views),
            ("views_stale", "Views older than the one in use", self.views_stale),
            (
                "cut_short",
                "Grants ended at once because a view took their path away",
                self.cut_short,
            ),
        ]
    }

    /// Every gauge.
    pub const fn gauges(&self) -> [Named; 3] {
        [
            ("agents", "Agents", self.agents),
            ("connections", "Connections", self.connections),
            ("holding", "Connections with a grant", self.holding),
        ]
    }
}
