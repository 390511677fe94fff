//! The cluster's consent: which manager is configuration manager, and whether it may enforce what is expected.
//!
//! ```text
//!  every Limits::interval, and when an entry changes           the driver
//!     Ask::Read (what this manager is) ------------------------> writes `managers/GUID`, reads all
//!     <----------------------------------------- Answer::Entries
//!     Ask::Choose, where it is to be this one -----------------> compare-and-swap
//!     <----------------------------------------- Answer::Chosen
//! ```
//!
//! The entries and who is to be chosen: [`entries`](Entries). A manager writes itself only. What a check says
//! counts from the time at which it was asked, for [`Limits::valid`]; so a manager that the cluster does not
//! hear any more, or that stood still, enforces nothing after that time. One that takes the place of another
//! waits for as long before it enforces, and so does one that has not heard the cluster for that time: two never
//! do so at once.

mod entries;
mod verdict;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use snin_fabric::Guid;
use snin_protocol::Time;

use crate::election::Priority;
use snin_sm_database::judgement::Consent;

pub use entries::{CHOSEN, EXPECTED, Entries, Entry, Registration};
pub use verdict::Verdict;

/// Times and bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Between two checks.
    pub interval: Time,
    /// A question that is not answered for so long is given up.
    pub patience: Time,
    /// For how long the answer to a check counts, from when it was asked.
    pub valid: Time,
    /// Checks in a row in which no other manager is to be chosen, before a standby that knows no master writes
    /// itself: its master may not have been heard yet.
    pub hesitation: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            interval: Time::millis(500),
            patience: Time::millis(1500),
            valid: Time::secs(3),
            hesitation: 4,
        }
    }
}

/// Something happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ClusterEvent {
    /// A question was answered.
    Answered(u64, Answer),
    /// An entry is another.
    Changed,
    /// The version of the expected configuration that is in force here.
    Version(u64),
}

/// What became of a question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// All entries.
    Entries(Vec<Entry>),
    /// Whether the entry was as it was expected, and is this manager now.
    Chosen(bool),
    /// The cluster's service cannot be asked; why.
    Failed(String),
}

/// What the cluster's service is asked: one question at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Keep the entry of this manager as it is here, and read all.
    Read {
        /// Comes back with the answer.
        number: u64,
        /// The entry's key.
        key: String,
        /// Its value.
        value: String,
    },
    /// Set an entry that was last changed by `revision`, 0 where there is none.
    Choose {
        /// Comes back with the answer.
        number: u64,
        /// The entry's key.
        key: String,
        /// The revision that it has to have.
        revision: u64,
        /// Its value.
        value: String,
    },
}

/// Whether the cluster wants a manager to be master: what raises its priority.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Mandate {
    /// It does not.
    #[default]
    None,
    /// It did when it was last heard: this manager goes after one that is chosen, and before all others.
    Lapsed,
    /// It does.
    Held,
}

/// What this manager is, as mastership knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Own {
    /// Its port.
    pub guid: Guid,
    /// Its place in the order of managers; `master` says whether it is master.
    pub priority: Priority,
}

/// The core. See the module's documentation.
#[derive(Debug)]
pub struct Cluster {
    limits: Limits,
    own: Option<Own>,
    version: u64,
    asked: Option<(u64, Time)>,
    number: u64,
    due: Time,
    /// The last good check: when it was asked, and what it read.
    read: Option<(Time, Entries)>,
    /// Why the last one was none.
    failed: Option<String>,
    /// Who was chosen when that was last seen, and until when this manager may not enforce though it is chosen.
    holder: Option<Guid>,
    from: Option<Time>,
    /// It was chosen when that was last known.
    was_chosen: bool,
    hesitated: u8,
    outputs: VecDeque<Ask>,
}

impl Cluster {
    /// A manager that has read nothing yet.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            own: None,
            version: 0,
            asked: None,
            number: 0,
            due: Time::ZERO,
            read: None,
            failed: None,
            holder: None,
            from: None,
            was_chosen: false,
            hesitated: 0,
            outputs: VecDeque::new(),
        }
    }

    /// What this manager is now. It checks nothing before it knows at which port it is. A manager that becomes
    /// master checks at once.
    pub fn set_own(&mut self, own: Option<Own>, now: Time) {
        if self.own != own {
            self.due = self.due.min(now);
            self.own = own;
        }
    }

    /// Takes note of what happened.
    pub fn handle(&mut self, event: ClusterEvent, now: Time) {
        match event {
            ClusterEvent::Changed => self.due = self.due.min(now),
            ClusterEvent::Version(version) => {
                (self.version, self.due) = (version, self.due.min(now));
            }
            ClusterEvent::Answered(number, answer) => {
                let Some((_, at)) = self.asked.take_if(|(asked, _)| *asked == number) else {
                    return;
                };
                self.answered(answer, at, now);
            }
        }
        self.handle_deadline(now);
    }

    fn answered(&mut self, answer: Answer, asked: Time, now: Time) {
        match answer {
            Answer::Failed(why) => self.failed = Some(why),
            Answer::Chosen(_) => self.due = now,
            Answer::Entries(entries) => match Entries::read(entries) {
                Err(why) => self.failed = Some(why),
                Ok(entries) => {
                    self.failed = None;
                    self.follow(entries.chosen.map(|(guid, _)| guid), now);
                    self.read = Some((asked, entries));
                    self.was_chosen = self.mandate(now) == Mandate::Held;
                    self.choose(now);
                    self.name_version(now);
                }
            },
        }
    }

    /// Who is chosen: where that was another manager, or may have been, it may enforce for some time still.
    fn follow(&mut self, chosen: Option<Guid>, now: Time) {
        let first = self.read.is_none();
        let was_other = self.holder.is_some() && self.holder != chosen;
        if first || was_other {
            self.from = Some(now + self.limits.valid);
        }
        self.holder = chosen.or_else(|| self.holder.filter(|_| self.from.is_some()));
    }

    /// Writes this manager, where it is to be chosen.
    fn choose(&mut self, now: Time) {
        let (Some(own), Some((_, entries))) = (self.own, &self.read) else { return };
        let is_chosen = entries.chosen.is_some_and(|(guid, _)| guid == own.guid);
        if is_chosen || entries.choice() != Some(own.guid) {
            self.hesitated = 0;
            return;
        }
        self.hesitated = self.hesitated.saturating_add(1);
        let knows_master = own.priority.master || entries.has_master();
        if knows_master || self.hesitated >= self.limits.hesitation {
            let revision = entries.chosen.map_or(0, |(_, revision)| revision);
            let value = own.guid.to_string();
            self.ask(now, |number| Ask::Choose { number, key: CHOSEN.to_owned(), revision, value });
        }
    }

    /// A manager that may enforce a newer version than the cluster knows has it known: from then on no manager
    /// with an older one is chosen.
    fn name_version(&mut self, now: Time) {
        let Some((_, entries)) = &self.read else { return };
        let (version, revision) = (self.version, entries.named);
        let is_newer = version > entries.newest && self.verdict(now) == Verdict::Granted;
        if is_newer && self.asked.is_none() {
            let (key, value) = (EXPECTED.to_owned(), version.to_string());
            self.ask(now, |number| Ask::Choose { number, key, revision, value });
        }
    }

    fn ask(&mut self, now: Time, ask: impl FnOnce(u64) -> Ask) {
        self.number += 1;
        self.asked = Some((self.number, now));
        self.outputs.push_back(ask(self.number));
    }

    /// What is to be asked.
    pub fn poll_output(&mut self) -> Option<Ask> {
        self.outputs.pop_front()
    }

    /// When [`handle_deadline`](Self::handle_deadline) has to be called.
    pub fn next_deadline(&self) -> Option<Time> {
        self.own?;
        let until = self.read.as_ref().map(|(at, _)| *at + self.limits.valid);
        let asked = self.asked.map(|(_, at)| at + self.limits.patience);
        let due = asked.unwrap_or(self.due);
        until.into_iter().chain([due]).chain(self.from).min()
    }

    /// Does what is due.
    pub fn handle_deadline(&mut self, now: Time) {
        if self.asked.take_if(|(_, at)| *at + self.limits.patience <= now).is_some() {
            self.failed = Some("it does not answer".to_owned());
        }
        let valid = self.limits.valid;
        if self.read.take_if(|(at, _)| *at + valid <= now).is_some() {
            self.failed.get_or_insert_with(|| "it has not answered for too long".to_owned());
        }
        self.from.take_if(|from| *from <= now);
        let Some(own) = self.own.filter(|_| self.asked.is_none() && self.due <= now) else {
            return;
        };
        self.due = now + self.limits.interval;
        let registration = Registration { priority: own.priority, version: self.version };
        let (key, value) = (Registration::key(own.guid), registration.to_string());
        self.ask(now, |number| Ask::Read { number, key, value });
    }

    /// What the last check says of this manager, if it is not too old at `now`.
    pub fn verdict(&self, now: Time) -> Verdict {
        let Some(own) = self.own else { return Verdict::Unknown };
        let fresh = self.read.as_ref().filter(|(at, _)| now < *at + self.limits.valid);
        let Some((_, entries)) = fresh else {
            return self.failed.clone().map_or(Verdict::Unknown, Verdict::Unreachable);
        };
        if let Some(why) = entries.objection(own.guid) {
            return Verdict::Barred(why);
        }
        if self.version < entries.newest {
            return Verdict::Outdated { own: self.version, newest: entries.newest };
        }
        match entries.chosen.map(|(guid, _)| guid) {
            Some(guid) if guid != own.guid => Verdict::Other(guid),
            None => Verdict::NotChosen,
            Some(_) if !own.priority.master => Verdict::NotMaster,
            Some(_) if self.from.is_some_and(|from| now < from) => Verdict::Succeeds,
            Some(_) => Verdict::Granted,
        }
    }

    /// Whether the cluster wants this manager to be master.
    pub fn mandate(&self, now: Time) -> Mandate {
        match self.verdict(now) {
            Verdict::NotMaster | Verdict::Succeeds | Verdict::Granted => Mandate::Held,
            Verdict::Unknown | Verdict::Unreachable(_) if self.was_chosen => Mandate::Lapsed,
            _ => Mandate::None,
        }
    }

    /// What configuration is to be told.
    pub fn consent(&self, now: Time) -> Consent {
        let until = self.read.as_ref().map(|(at, _)| *at + self.limits.valid);
        match self.verdict(now) {
            Verdict::Granted => Consent::Granted { by: "the cluster".to_owned(), until },
            _ => Consent::Absent,
        }
    }

    /// What was read last, as long as it counts.
    pub fn entries(&self) -> Option<&Entries> {
        self.read.as_ref().map(|(_, entries)| entries)
    }
}
