//! Lasting faults: each is told by one event when it has lasted for two looks, and by another one when it has
//! ended. The status, `/healthz` and the metrics name the same ones.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use snin_protocol::Time;
use tracing::info;

use super::run::Daemon;
use super::summary::{self, Fault};

/// The time between two looks.
const EVERY: Time = Time::secs(1);
/// The most faults that are told apart; those beyond are in the status only.
const MOST: usize = 4_096;

/// The faults that there are, and since when. An entry goes when a look does not find it any more.
#[derive(Debug, Default)]
pub(super) struct Faults {
    known: BTreeMap<Fault, Seen>,
    due: Time,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    since: Time,
    told: bool,
}

/// What a look came to.
#[derive(PartialEq, Eq, Debug)]
enum News {
    Began(Fault),
    Ended(Fault, Time),
}

impl Faults {
    /// When the next look is due.
    pub(super) const fn next_look(&self) -> Time {
        self.due
    }

    fn look(&mut self, found: BTreeSet<Fault>, now: Time) -> Vec<News> {
        self.due = now + EVERY;
        let mut news = Vec::new();
        self.known.retain(|fault, seen| {
            let stays = found.contains(fault);
            if !stays && seen.told {
                news.push(News::Ended(fault.clone(), now - seen.since));
            }
            stays
        });
        for fault in found {
            let has_room = self.known.len() < MOST;
            match self.known.get_mut(&fault) {
                Some(seen) if seen.told => {}
                Some(seen) => {
                    seen.told = true;
                    news.push(News::Began(fault));
                }
                None if has_room => {
                    self.known.insert(fault, Seen { since: now, told: false });
                }
                None => {}
            }
        }
        news
    }
}

impl Daemon {
    /// Tells of faults that have begun and ended, when a look is due.
    pub(super) fn tell_of_faults(&mut self) {
        let now = self.clock.now();
        if now < self.faults.next_look() {
            return;
        }
        let found = summary::faults(&self.status()).into_iter().collect();
        for news in self.faults.look(found, now) {
            match news {
                News::Began(Fault { kind, what }) => {
                    self.outlets.notify("FAULT", json!({ "kind": kind, "what": what }));
                }
                News::Ended(Fault { kind, what }, lasted) => {
                    let seconds = lasted.nanos() as f64 / 1e9;
                    info!("over after {seconds:.1} s: {what}");
                    let told = json!({ "kind": kind, "what": what, "seconds": seconds });
                    self.outlets.notify("FAULT_OVER", told);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::FaultKind;
    use super::*;

    #[test]
    fn what_lasts_is_told_once_and_its_end_once() {
        let mut faults = Faults::default();
        let fault = |what: &str| Fault { kind: FaultKind::Gone, what: what.to_owned() };
        let [a, b] = ["a", "b"].map(fault);
        let set = |faults: &[&Fault]| faults.iter().copied().cloned().collect::<BTreeSet<_>>();
        assert_eq!(faults.look(set(&[&a]), Time::secs(1)), []);
        assert_eq!(faults.next_look(), Time::secs(2));
        assert_eq!(faults.look(set(&[&a, &b]), Time::secs(2)), [News::Began(a.clone())]);
        // What lasted for one look only was none.
        assert_eq!(faults.look(set(&[&a]), Time::secs(3)), []);
        assert_eq!(faults.look(set(&[]), Time::secs(4)), [News::Ended(a, Time::secs(3))]);
        assert_eq!(faults.look(set(&[]), Time::secs(5)), []);
        let many = |n: usize| (0..n).map(|n| fault(&n.to_string())).collect::<BTreeSet<_>>();
        faults.look(many(MOST + 9), Time::secs(6));
        assert_eq!(faults.look(many(MOST + 9), Time::secs(7)).len(), MOST);
    }
}
