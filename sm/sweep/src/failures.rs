//! Writes that were not taken: whose trouble that is, and when they are tried again.
//!
//! What one port refuses is that port's trouble: everything else is written as if it were not there.

use std::collections::BTreeMap;

use snin_protocol::Time;

use crate::query::PortId;

/// The wait after the second failure in a row; it doubles with each further one.
const FIRST_WAIT: Time = Time::secs(1);
/// The longest wait.
const LONGEST_WAIT: Time = Time::secs(64);

/// Writes to one port that were not taken, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) count: u32,
    /// The attribute of the last one.
    pub(crate) what: &'static str,
    /// It was not refused, but left without an answer.
    pub(crate) silent: bool,
    /// Nothing is written before.
    pub(crate) retry_at: Time,
}

/// Every port that did not take what was written last. An entry goes when a write is taken, when nothing is
/// left to be written, or when the port is out of reach.
#[derive(Debug, Default)]
pub(crate) struct Failures(BTreeMap<PortId, Failure>);

impl Failures {
    /// Notes one more; how many there are in a row. The first is tried again at once: perhaps the port was
    /// just reset.
    pub(crate) fn note(&mut self, end: PortId, what: &'static str, silent: bool, now: Time) -> u32 {
        let count = self.count(end).saturating_add(1);
        let retry_at = now + wait(count);
        self.0.insert(end, Failure { count, what, silent, retry_at });
        count
    }

    /// Failures in a row.
    pub(crate) fn count(&self, end: PortId) -> u32 {
        self.0.get(&end).map_or(0, |failure| failure.count)
    }

    /// Whether nothing is written to the port for now.
    pub(crate) fn holds(&self, end: PortId, now: Time) -> bool {
        self.0.get(&end).is_some_and(|failure| failure.retry_at > now)
    }

    /// The ports that are tried again now.
    pub(crate) fn due(&self, now: Time) -> impl Iterator<Item = PortId> + '_ {
        self.0.iter().filter(move |(_, failure)| failure.retry_at <= now).map(|(&end, _)| end)
    }

    /// When the next one is.
    pub(crate) fn next_retry(&self) -> Option<Time> {
        self.0.values().map(|failure| failure.retry_at).min()
    }

    /// Those that are due were not tried, and wait once more.
    pub(crate) fn postpone(&mut self, now: Time) {
        for failure in self.0.values_mut().filter(|failure| failure.retry_at <= now) {
            failure.retry_at = now + wait(failure.count.max(2));
        }
    }

    /// A write was taken, or there is none left.
    pub(crate) fn clear(&mut self, end: PortId) {
        self.0.remove(&end);
    }

    /// Forgets ports that are gone.
    pub(crate) fn retain(&mut self, is_there: impl Fn(PortId) -> bool) {
        self.0.retain(|&end, _| is_there(end));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PortId, &Failure)> {
        self.0.iter().map(|(&end, failure)| (end, failure))
    }
}

/// How long a port is left alone after so many failures in a row.
fn wait(count: u32) -> Time {
    match count.checked_sub(2) {
        None => Time::ZERO,
        Some(doublings) => (FIRST_WAIT * (1 << doublings.min(16))).min(LONGEST_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use snin_fabric::PortNum;

    use super::*;
    use crate::query::NodeId;

    #[test]
    fn each_port_waits_longer_and_longer_for_itself() {
        let mut failures = Failures::default();
        let [a, b] = [1, 2].map(|node| (NodeId(node), PortNum(1)));
        assert_eq!(failures.note(a, "PortInfo", false, Time::ZERO), 1);
        assert!(!failures.holds(a, Time::ZERO), "once more at once");
        assert_eq!(failures.due(Time::ZERO).collect::<Vec<_>>(), [a]);
        let mut waits = Vec::new();
        for _ in 0..9 {
            failures.note(a, "PortInfo", false, Time::ZERO);
            waits.push(failures.next_retry().unwrap());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64].map(Time::secs));
        assert!(!failures.holds(b, Time::ZERO));
        failures.note(b, "PortInfo", false, Time::ZERO);
        failures.clear(a);
        assert_eq!((failures.count(a), failures.count(b)), (0, 1));
    }
}
