//! Every metric that the sweep core counts.

use std::collections::BTreeMap;

use snin_mad::{AttributeId, Class, Method, attribute};

use snin_sm_database::error::Dropped;

/// Counters since the start. All only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// SMPs sent by attribute and method, those sent again included.
    pub sent: BTreeMap<(AttributeId, u8), u64>,
    /// Of those, the ones sent again.
    pub retries: u64,
    /// Questions without an answer that were given up.
    pub unanswered: u64,
    /// Answers taken.
    pub answers: u64,
    /// Answers that said no.
    pub refused: u64,
    /// Reads of counters that were sent, those sent again included.
    pub counters_read: u64,
    /// What a health monitor said of nodes.
    pub health_reports: u64,
    /// What came in and was dropped, by reason.
    pub dropped: BTreeMap<Dropped, u64>,
    /// Traps by the numbers that the specification knows; all others under `None`.
    pub traps: BTreeMap<Option<u16>, u64>,
    /// Reports of a kept manager's subnet administration.
    pub reports: u64,
    /// Looks at the fabric of every kind, those for what only requests to administration need among them.
    pub surveys: u64,
    /// Sweeps from scratch.
    pub full_sweeps: u64,
    /// Sweeps that ask every switch whether something changed.
    pub light_sweeps: u64,
    /// Probes of what a trap or a sweep named.
    pub local_probes: u64,
    /// Blocks of forwarding tables written.
    pub blocks_written: u64,
    /// Of those, blocks written first with some addresses dropped, to be written again.
    pub blocks_rewritten: u64,
    /// Blocks of multicast forwarding tables written, 16 ports each.
    pub masks_written: u64,
    /// How often another manager was found to have written what this manager writes.
    pub overwritten: u64,
    /// Links that were told to come up or to stay down.
    pub link_orders: u64,
    /// Views published.
    pub views: u64,
}

impl Metrics {
    /// All SMPs sent.
    pub fn smps(&self) -> u64 {
        self.sent.values().sum()
    }

    /// SMPs that wrote.
    pub fn sets(&self) -> u64 {
        let set = |(&(_, method), &n): (&(AttributeId, u8), &u64)| {
            if method == Method::Set.code() { n } else { 0 }
        };
        self.sent.iter().map(set).sum()
    }

    /// SMPs by the specification's names: `Get(NodeInfo)` and how many.
    pub fn by_name(&self) -> Vec<(String, u64)> {
        let name = |(&(id, method), &n): (&(AttributeId, u8), &u64)| {
            let attribute = attribute::name(Class::DirectedSubnet, id).unwrap_or("?");
            let method = Method::new(method).name().unwrap_or("?");
            (format!("{method}({attribute})"), n)
        };
        self.sent.iter().map(name).collect()
    }

    pub(crate) fn count_sent(&mut self, attribute: AttributeId, method: Method) {
        *self.sent.entry((attribute, method.code())).or_insert(0) += 1;
    }

    pub(crate) fn count_dropped(&mut self, why: Dropped) {
        *self.dropped.entry(why).or_insert(0) += 1;
    }
}
