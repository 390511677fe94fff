//! The mirror: a standby's copy of the master's subnet database, so that it knows all that hosts said and all
//! that was programmed when the master is gone.
//!
//! Every manager is called by others and calls others; the driver numbers these sessions ([`Link`]). A called
//! manager that is master tells who follows it the whole database, then what changes (`source`); one that
//! stands by follows the master that answers (`copy`). A place in the log is (term, sequence): a term is one
//! mastership, a sequence counts the changes of its database.
//!
//! ```text
//!  standby                                    master
//!     |  <- Standing (term, sequence, settings)  |   at once, and as often as a standby polls
//!     |  Follow (what it has) ->                 |
//!     |  <- Part First, More, ... Last           |   at most WINDOW of them on their way
//!     |  Have ->                                 |
//!     |  <- Part Change                          |   as soon as something changes
//!     |  <- Checksum of a table                  |   now and then, of each in turn
//!     |  Follow (nothing) ->                     |   where the copy differs
//! ```

mod copy;
mod estate;
pub mod rows;
mod settings;
mod source;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use snin_fabric::Guid;
use snin_mad::{MKey, SmState};
use snin_protocol::Time;
use snin_protocol::election::Ballot;
use snin_protocol::mirror::{FromMaster, FromStandby, Line, Standing as Told};

use snin_sm_database::config::Config;
use snin_sm_database::keys::KeyPolicy;
use snin_sm_database::records::Database;
use snin_sm_database::saved::Saved;

use copy::Copy;
use estate::Estate;
pub use estate::Inherited;
use rows::Telling;
use source::Follower;

/// A session with another manager, as the driver numbers them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Link(pub u64);

/// Something happened in a session with another manager.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MirrorEvent {
    /// Another manager called this one.
    Called(Link),
    /// A manager that this one calls has answered.
    Answered(Link),
    /// The session is over.
    Closed(Link),
    /// The caller said something.
    Asked(Link, #[serde(with = "snin_protocol::codec::serde")] FromStandby),
    /// The called one said something.
    Heard(Link, #[serde(with = "snin_protocol::codec::serde")] FromMaster),
}

/// What is to be said to another manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MirrorOutput {
    /// To one that called.
    ToStandby(Link, FromMaster),
    /// To one that was called.
    ToMaster(Link, FromStandby),
}

/// What an operator wants to know of a mirror.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MirrorReport {
    /// This manager has all that the master knows.
    Complete {
        /// The master.
        master: Guid,
        /// How many records it had to change for that.
        changed: usize,
    },
    /// A table of the copy came to something else than the master's. It is read anew.
    Differs {
        /// The master.
        master: Guid,
        /// Which table.
        table: &'static str,
    },
    /// Settings that have to be the same are not.
    Settings {
        /// The other manager.
        other: Guid,
        /// What differs, in words.
        differ: Vec<String>,
    },
}

/// A line for the operator.
impl fmt::Display for MirrorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete { master, changed } => {
                write!(f, "the database of {master} is mirrored; {changed} records were other")
            }
            Self::Differs { master, table } => {
                write!(f, "the mirrored {table} differ from those of {master}: all is read anew")
            }
            Self::Settings { other, differ } => {
                write!(f, "settings differ from those of {other}: {}", differ.join("; "))
            }
        }
    }
}

/// How far a mirror is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirrorState {
    /// The other manager.
    pub other: Guid,
    /// It mirrors this one; else this one mirrors it.
    pub follows: bool,
    /// The whole database was told.
    pub whole: bool,
    /// Changes that are not there yet.
    pub behind: u64,
    /// Settings that differ, in words.
    pub differ: Vec<String>,
}

/// What the mirror may see and change.
pub struct Surroundings<'a> {
    /// What this manager is.
    pub state: SmState,
    /// Its port, once it is known.
    pub guid: Option<Guid>,
    /// The subnet is as this manager made it.
    pub leads: bool,
    /// The master before this one is master still, of the rest of a subnet that was cut in two.
    pub beside: bool,
    /// The master that this manager follows.
    pub followed: Option<Guid>,
    /// What the copy is made of, and what it becomes.
    pub database: &'a mut Database,
    /// What has to survive a restart, which a copy has too.
    pub saved: &'a mut Arc<Saved>,
    /// The time of this turn.
    pub now: Time,
}

/// How many beats pass between two checksums.
const BEATS: u32 = 20;

/// Ballots that wait for the end of a turn; more are dropped, and said again.
const MOST_BALLOTS: usize = 256;

/// See the module's documentation.
#[derive(Debug)]
pub struct Mirror {
    settings: String,
    telling: Telling,
    beat: Time,
    beat_due: Time,
    beats: u32,
    /// The present mastership's, or the last one's.
    term: u64,
    /// The masters that took over from each other with a copy, and of which it is one.
    line: Line,
    /// A manager that took over from this one while this one was silent.
    successor: Option<Guid>,
    state: SmState,
    /// The managers that called.
    followers: BTreeMap<Link, Follower>,
    /// The managers that were called, and what each last said of itself.
    called: BTreeMap<Link, Option<Told>>,
    copy: Copy,
    /// The databases of managers that were master, on their way here.
    estates: BTreeMap<Link, Estate>,
    outputs: VecDeque<MirrorOutput>,
    reports: VecDeque<MirrorReport>,
    /// What managers said about the election.
    ballots: VecDeque<Ballot>,
    /// Managers that were heard, and what they are.
    heard: VecDeque<(Guid, SmState)>,
}

impl Mirror {
    /// One without sessions.
    pub fn new(config: &Config) -> Self {
        Self {
            settings: settings::of(config),
            telling: Telling {
                epoch: Time::ZERO,
                secrets: true,
                given: MKey(if config.m_key_policy == KeyPolicy::Given { config.m_key } else { 0 }),
            },
            beat: config.poll_interval(),
            beat_due: Time::ZERO,
            beats: 0,
            term: 0,
            line: Line::default(),
            successor: None,
            state: SmState::Discovering,
            followers: BTreeMap::new(),
            called: BTreeMap::new(),
            copy: Copy::default(),
            estates: BTreeMap::new(),
            outputs: VecDeque::new(),
            reports: VecDeque::new(),
            ballots: VecDeque::new(),
            heard: VecDeque::new(),
        }
    }

    /// Settings have changed; other managers hear of it with the next beat.
    pub fn set_settings(&mut self, config: &Config) {
        self.settings = settings::of(config);
    }

    /// What has to be added to the time of a turn for that of the epoch, which all managers share.
    pub const fn set_epoch(&mut self, epoch: Time) {
        self.telling.epoch = epoch;
    }

    /// Whether others can read what is said in sessions: M_Keys are not told then.
    pub const fn set_readable(&mut self, readable: bool) {
        self.telling.secrets = !readable;
    }

    /// Whether M_Keys are told in sessions.
    pub const fn tells_secrets(&self) -> bool {
        self.telling.secrets
    }

    /// Whose database this manager has all of, and when that was last so.
    pub fn copy(&self) -> Option<(Guid, Time)> {
        self.copy.complete()
    }

    /// The next thing to be said in a session.
    pub fn poll_output(&mut self) -> Option<MirrorOutput> {
        self.outputs.pop_front()
    }

    /// What an operator wants to know of it.
    pub fn next_report(&mut self) -> Option<MirrorReport> {
        self.reports.pop_front()
    }

    /// A manager that took over from this one, as it says itself, while this one was silent.
    pub const fn take_successor(&mut self) -> Option<Guid> {
        self.successor.take()
    }

    /// A manager that was heard since this was last asked, and what it is.
    pub fn next_heard(&mut self) -> Option<(Guid, SmState)> {
        self.heard.pop_front()
    }

    /// What another manager said about the election, since this was last asked.
    pub fn next_ballot(&mut self) -> Option<Ballot> {
        self.ballots.pop_front()
    }

    /// Says something about the election to every manager that was called.
    pub fn say(&mut self, ballot: Ballot) {
        let said = |link: &Link| MirrorOutput::ToMaster(*link, FromStandby::Ballot(ballot));
        self.outputs.extend(self.called.keys().map(said));
    }

    /// When it has to have its turn.
    pub fn next_deadline(&self) -> Option<Time> {
        (!self.followers.is_empty()).then_some(self.beat_due)
    }

    /// Something happened in a session.
    pub fn handle(&mut self, event: MirrorEvent, around: &mut Surroundings<'_>) {
        match event {
            MirrorEvent::Called(link) => {
                self.followers.insert(link, Follower::default());
                self.tell_standing(link, around);
            }
            MirrorEvent::Answered(link) => drop(self.called.insert(link, None)),
            MirrorEvent::Closed(link) => {
                self.followers.remove(&link);
                self.called.remove(&link);
                self.estates.remove(&link);
                self.copy.closed(link);
            }
            MirrorEvent::Asked(_, FromStandby::Ballot(ballot)) => {
                if self.ballots.len() < MOST_BALLOTS {
                    self.ballots.push_back(ballot);
                }
            }
            MirrorEvent::Asked(link, said) => {
                if let Some(follower) = self.followers.get_mut(&link) {
                    follower.asked(&said, self.term);
                }
            }
            MirrorEvent::Heard(link, said) => self.learn(link, said, around),
        }
    }

    /// Says what has changed to who follows, and follows whom it has to.
    pub fn follow(&mut self, around: &mut Surroundings<'_>) {
        if self.state != around.state {
            self.state = around.state;
            if self.state == SmState::Master {
                let clock = around.database.clock(around.now).0;
                self.term = clock.max(self.term + 1);
                let origin = around.guid.unwrap_or_default();
                let begun = Line { term: self.term, origin };
                let line = self.copy.part_with().filter(|_| !around.beside);
                self.line = line.unwrap_or(begun);
            }
            self.beat_due = around.now;
        }
        if self.state != SmState::Standby {
            self.copy.stop();
        }
        self.number_estate(around);
        if self.has_given(around) {
            Arc::make_mut(around.saved).lineage.untaken = false;
            self.beat_due = around.now;
        }
        if self.beat_due <= around.now && !self.followers.is_empty() {
            self.beat_all(around);
        }
        if self.serves(around) {
            self.serve(around);
        }
        self.choose_master(around);
        self.ask_estates(around);
    }

    /// Whether what is known of the subnet is worth to be told.
    fn serves(&self, around: &Surroundings<'_>) -> bool {
        self.reigns(around) || self.holds(around) != 0
    }

    /// Whether the subnet is as this manager made it.
    const fn reigns(&self, around: &Surroundings<'_>) -> bool {
        matches!(around.state, SmState::Master) && around.leads
    }

    fn beat_all(&mut self, around: &Surroundings<'_>) {
        self.beat_due = around.now + self.beat;
        self.beats += 1;
        let links: Vec<Link> = self.followers.keys().copied().collect();
        for link in links {
            self.tell_standing(link, around);
        }
        if self.beats.is_multiple_of(BEATS) && self.reigns(around) {
            self.tell_checksum((self.beats / BEATS) as usize % rows::TABLES.len(), around);
        }
    }

    fn tell_standing(&mut self, link: Link, around: &Surroundings<'_>) {
        let Some(guid) = around.guid else { return };
        let term = if self.reigns(around) { self.term } else { 0 };
        let holds = self.holds(around);
        let sequence = around.database.cursor();
        let settings = self.settings.clone().into_bytes();
        let line = self.line;
        let told = Told { guid, term, holds, sequence, line, settings };
        self.outputs.push_back(MirrorOutput::ToStandby(link, FromMaster::Standing(told)));
    }

    /// Other managers in sessions that have not all of this one's database.
    pub fn copying(&self) -> BTreeSet<Guid> {
        let whole = |follower: &&Follower| follower.is_whole();
        let whole: BTreeSet<Guid> =
            self.followers.values().filter(whole).filter_map(Follower::guid).collect();
        // A master of its own copies nothing. One of this line learns that it was succeeded, and stands by.
        let copies = |told: &&Told| told.term == 0 || told.line == self.line;
        let called = self.called.values().flatten().filter(copies).map(|told| told.guid);
        let all = self.followers.values().filter_map(Follower::guid).chain(called);
        all.filter(|guid| !whole.contains(guid)).collect()
    }

    /// Masters of this one's line: one of the two took over from the other.
    pub fn kin(&self) -> BTreeSet<Guid> {
        let told = self.called.values().flatten();
        told.filter(|told| told.term != 0 && told.line == self.line).map(|told| told.guid).collect()
    }

    /// How far each mirror is: those of this manager, then the one that it has.
    pub fn states(&self, cursor: u64) -> Vec<MirrorState> {
        let differ = |guid: Guid| {
            let told = self.called.values().flatten().find(|told| told.guid == guid);
            told.map(|told| settings::compare(&self.settings, &told.settings)).unwrap_or_default()
        };
        let follower = |follower: &Follower| {
            let guid = follower.guid()?;
            Some(MirrorState {
                other: guid,
                follows: true,
                whole: follower.is_whole(),
                behind: cursor.saturating_sub(follower.acknowledged()),
                differ: differ(guid),
            })
        };
        let master = |(master, sequence): (Guid, u64)| {
            let told = self.called.values().flatten().find(|told| told.guid == master);
            MirrorState {
                other: master,
                follows: false,
                whole: self.copy.is_whole(),
                behind: told.map_or(0, |told| told.sequence.saturating_sub(sequence)),
                differ: differ(master),
            }
        };
        let own = self.copy.master().map(master);
        self.followers.values().filter_map(follower).chain(own).collect()
    }
}
