//! Managers and a cluster's service that may be cut off from any of them, in virtual time.

use snin_fabric::Guid;
use snin_mastership::cluster::{CHOSEN, Cluster, ClusterEvent, Limits, Mandate, Own, Verdict};
use snin_mastership::election::Priority;
use snin_protocol::Time;
use snin_sm_database::judgement::Consent;

use super::net::guid;
use super::store::Store;

/// How finely time passes.
const STEP: Time = Time::millis(50);

/// A manager of the site.
pub(crate) struct Member {
    pub(crate) core: Cluster,
    pub(crate) priority: Priority,
    /// The cluster's service answers it.
    pub(crate) reaches: bool,
    /// It runs: one that stands still has its time pass by.
    pub(crate) runs: bool,
    /// When the service said last, to this one and truly, that it is chosen and that nothing is against it.
    agreed: Option<Time>,
}

/// See the module's documentation.
pub(crate) struct Site {
    pub(crate) now: Time,
    pub(crate) members: Vec<Member>,
    store: Store,
    /// A manager becomes master as soon as it is chosen.
    pub(crate) promotes: bool,
}

impl Site {
    /// Managers of which the first is master.
    pub(crate) fn new(count: usize) -> Self {
        Self::led_by(0, count)
    }

    /// Managers of which this one is master, before any of them asks.
    pub(crate) fn led_by(master: usize, count: usize) -> Self {
        let member = |at: usize| Member {
            core: Cluster::new(Limits::default()),
            priority: Priority { master: at == master, ..Priority::default().with_ports(1, 1) },
            reaches: true,
            runs: true,
            agreed: None,
        };
        let members = (0..count).map(member).collect();
        let (now, store) = (Time::ZERO, Store::default());
        let mut site = Self { now, members, store, promotes: true };
        (0..count).for_each(|at| site.turn(at));
        site
    }

    pub(crate) fn put(&mut self, key: &str, value: &str) {
        self.store.put(key, value);
        self.tell_all();
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.store.remove(key);
        self.tell_all();
    }

    fn tell_all(&mut self) {
        for at in 0..self.members.len() {
            if self.members[at].reaches && self.members[at].runs {
                self.members[at].core.handle(ClusterEvent::Changed, self.now);
                self.turn(at);
            }
        }
    }

    /// A manager does what it has to do; the service answers at once.
    fn turn(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.core.set_own(Some(Own { guid: guid(at), priority: member.priority }), self.now);
        member.core.handle_deadline(self.now);
        while let Some(ask) = self.members[at].core.poll_output() {
            if !self.members[at].reaches {
                continue;
            }
            let (number, answer) = self.store.answer(ask, self.now);
            self.members[at].core.handle(ClusterEvent::Answered(number, answer), self.now);
        }
    }

    /// Time passes; `judge` looks at every step.
    pub(crate) fn pass(&mut self, span: Time, mut judge: impl FnMut(&Self)) {
        let end = self.now + span;
        while self.now < end {
            self.now += STEP;
            self.store.expire(self.now);
            for at in 0..self.members.len() {
                if self.members[at].runs {
                    self.turn(at);
                }
            }
            self.note_agreed();
            if self.promotes {
                self.promote();
            }
            judge(self);
        }
    }

    /// Mastership as SMInfo has it: the one with a mandate, else the one that is.
    fn promote(&mut self) {
        let held = (0..self.members.len()).find(|&at| {
            self.members[at].core.mandate(self.now) == Mandate::Held && self.members[at].runs
        });
        if let Some(held) = held {
            for (at, member) in self.members.iter_mut().enumerate() {
                member.priority.master = at == held;
            }
        }
    }

    fn note_agreed(&mut self) {
        let chosen = self.chosen();
        for at in 0..self.members.len() {
            let name = guid(at);
            let against = |folder: &str| self.store.get(&format!("{folder}/{name}"));
            let agrees = chosen == Some(name)
                && against("blacklist").is_none()
                && against("health").is_none_or(|health| health == "ok");
            let member = &mut self.members[at];
            if agrees && member.reaches && member.runs {
                member.agreed = Some(self.now);
            }
        }
    }

    /// Those that enforce though they are not master, or though the service has not agreed for too long (P5). It
    /// is looked at between two steps.
    pub(crate) fn unfounded(&self) -> Vec<usize> {
        let valid = Limits::default().valid + STEP;
        let is_founded = |at: &usize| {
            let member = &self.members[*at];
            let agreed = member.agreed.is_some_and(|agreed| self.now <= agreed + valid);
            member.priority.master && agreed
        };
        self.enforcing().into_iter().filter(|at| !is_founded(at)).collect()
    }

    pub(crate) fn verdict(&self, at: usize) -> Verdict {
        self.members[at].core.verdict(self.now)
    }

    /// Those that enforce now: they run, and what they were told is not too old.
    pub(crate) fn enforcing(&self) -> Vec<usize> {
        let enforces = |at: &usize| match self.members[*at].core.consent(self.now) {
            Consent::Granted { until, .. } => {
                self.members[*at].runs && until.is_none_or(|until| self.now < until)
            }
            Consent::Absent => false,
        };
        (0..self.members.len()).filter(enforces).collect()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.store.get(key)
    }

    pub(crate) fn chosen(&self) -> Option<Guid> {
        self.store.get(CHOSEN).and_then(|value| value.parse().ok())
    }
}
