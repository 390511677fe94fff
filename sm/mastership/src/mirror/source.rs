//! The master's side: each follower has the whole database on its way, then a place in the log.

use std::collections::VecDeque;
use std::sync::Arc;

use snin_fabric::Guid;
use snin_mad::{MKey, SmState};
use snin_protocol::mirror::{
    Checksum, Follow, FromMaster, FromStandby, MAX_LINES, Part, PartKind, WINDOW,
};

use super::rows::{TABLES, Telling, changed, checksum, saved_since, table};
use super::{Link, Mirror, MirrorOutput, Surroundings};
use snin_sm_database::keys::KeySecret;
use snin_sm_database::merge::words::octets;
use snin_sm_database::records::Database;
use snin_sm_database::saved::Saved;

/// Changes that are looked at for one part: a part's size is bounded by its bytes too.
const CHANGES: usize = 1_024;

/// A manager that called.
#[derive(Debug, Default)]
pub(super) struct Follower {
    /// It wants the database, and this is what it has.
    wants: Option<Follow>,
    /// Its port, once it has said so.
    guid: Option<Guid>,
    /// Of what it is told: the term, and the place in the log up to which it was told.
    told: Option<(u64, u64)>,
    /// Parts of the whole database that were not sent yet.
    waiting: VecDeque<(PartKind, Vec<u8>)>,
    /// Parts that were sent and not acknowledged.
    on_way: usize,
    acknowledged: u64,
    /// The place in the log of the whole database that was last begun.
    whole: u64,
    /// This manager was no master any more when it asked.
    of_estate: bool,
    /// What it was last told of addresses and trees.
    saved: Option<Arc<Saved>>,
}

impl Follower {
    pub(super) fn asked(&mut self, said: &FromStandby, term: u64) {
        match said {
            FromStandby::Follow(follow) => {
                (self.wants, self.guid, self.told) = (Some(*follow), Some(follow.guid), None);
                (self.on_way, self.acknowledged, self.whole) = (0, 0, 0);
                self.of_estate = false;
                self.waiting.clear();
            }
            FromStandby::Have(have) if have.term == term => {
                self.on_way = self.on_way.saturating_sub(1);
                // Parts of the whole database say where its last one leads.
                if have.sequence > self.whole || self.waiting.is_empty() && self.on_way == 0 {
                    self.acknowledged = self.acknowledged.max(have.sequence);
                }
            }
            FromStandby::Have(_) | FromStandby::Ballot(_) => {}
        }
    }

    pub(super) const fn guid(&self) -> Option<Guid> {
        self.guid
    }

    pub(super) fn is_whole(&self) -> bool {
        self.told.is_some() && self.waiting.is_empty() && self.acknowledged > 0
    }

    /// Whether it has all that was known in a mastership that is over.
    pub(super) fn has_estate(&self, term: u64) -> bool {
        let of_it = self.told.is_some_and(|(told, _)| told == term);
        self.of_estate && of_it && self.is_whole()
    }

    pub(super) const fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Begins where it stopped, or at the beginning.
    fn begin(&mut self, term: u64, around: &Surroundings<'_>, telling: Telling) {
        let Some(follow) = self.wants.take() else { return };
        self.of_estate = around.state != SmState::Master;
        let known = follow.term == term && around.database.since(follow.sequence).is_some();
        if known && follow.sequence <= around.database.cursor() {
            (self.told, self.acknowledged) = (Some((term, follow.sequence)), follow.sequence);
            // Of addresses and trees there is no log.
            self.saved = None;
            return;
        }
        self.waiting = whole(around.database, around.saved, telling);
        if self.of_estate && telling.secrets && telling.given != MKey(0) {
            // Who mirrors has it from its own operator.
            let keys = KeySecret::given(telling.given);
            let line = format!("former {} {}\n", octets(&keys.secret), keys.generation);
            let last = self.waiting.len().saturating_sub(1);
            self.waiting.insert(last, (PartKind::More, line.into_bytes()));
        }
        self.whole = around.database.cursor();
        self.told = Some((term, self.whole));
        self.saved = Some(around.saved.clone());
    }

    /// The next part, where there is something to be told.
    fn next(&mut self, around: &Surroundings<'_>, telling: Telling) -> Option<Part> {
        let (term, sequence) = self.told?;
        if let Some((kind, lines)) = self.waiting.pop_front() {
            // It has the log up to there when it has the last of them.
            return Some(Part { term, sequence, kind, lines });
        }
        if self.of_estate {
            return None;
        }
        let before = self.saved.clone().unwrap_or_default();
        if self.saved.is_none() || !Arc::ptr_eq(&before, around.saved) {
            self.saved = Some(around.saved.clone());
            let lines = saved_since(&before, around.saved, telling);
            let mut parts = VecDeque::new();
            lines.iter().for_each(|line| append(&mut parts, line));
            self.waiting.extend(parts.into_iter().map(|lines| (PartKind::Change, lines)));
            return self.next(around, telling);
        }
        if sequence == around.database.cursor() {
            return None;
        }
        let Some(changes) = around.database.since(sequence) else {
            self.wants = Some(Follow { guid: self.guid?, term: 0, sequence: 0 });
            self.begin(term, around, telling);
            return self.next(around, telling);
        };
        let (mut lines, mut to) = (Vec::new(), sequence);
        for change in changes.take(CHANGES) {
            let line = changed(around.database, change, telling).unwrap_or_default();
            if lines.len() + line.len() > MAX_LINES {
                break;
            }
            lines.extend_from_slice(line.as_bytes());
            to += 1;
        }
        self.told = Some((term, to));
        Some(Part { term, sequence: to, kind: PartKind::Change, lines })
    }
}

impl Mirror {
    /// Tells every follower as much as may be on its way.
    pub(super) fn serve(&mut self, around: &Surroundings<'_>) {
        for (&link, follower) in &mut self.followers {
            follower.begin(self.term, around, self.telling);
            if follower.told.is_some_and(|(term, _)| term != self.term) {
                // This manager was master before, and something else in between.
                continue;
            }
            while follower.on_way < WINDOW {
                let Some(part) = follower.next(around, self.telling) else { break };
                follower.on_way += 1;
                self.outputs.push_back(MirrorOutput::ToStandby(link, FromMaster::Part(part)));
            }
        }
    }

    /// Tells what a table comes to, to those who have been told everything.
    pub(super) fn tell_checksum(&mut self, number: usize, around: &Surroundings<'_>) {
        let sequence = around.database.cursor();
        let told: Vec<Link> = self
            .followers
            .iter()
            .filter(|(_, follower)| follower.told == Some((self.term, sequence)))
            .filter(|(_, follower)| follower.waiting.is_empty() && follower.wants.is_none())
            .map(|(&link, _)| link)
            .collect();
        if told.is_empty() || number >= TABLES.len() {
            return;
        }
        let (records, sum) = checksum(number, around.database, around.saved, self.telling);
        let term = self.term;
        let checksum = Checksum { term, sequence, table: number as u8, records, sum };
        for link in told {
            self.outputs.push_back(MirrorOutput::ToStandby(link, FromMaster::Checksum(checksum)));
        }
    }
}

/// The whole database in parts.
fn whole(database: &Database, saved: &Saved, telling: Telling) -> VecDeque<(PartKind, Vec<u8>)> {
    let mut parts = VecDeque::new();
    for number in 0..TABLES.len() {
        table(number, database, saved, telling, &mut |line| append(&mut parts, line));
    }
    // A first and a last one there are in any case.
    let lines = parts.into_iter().map(|lines| (PartKind::More, lines));
    let first = (PartKind::First, Vec::new());
    let last = (PartKind::Last, Vec::new());
    [first].into_iter().chain(lines).chain([last]).collect()
}

fn append(parts: &mut VecDeque<Vec<u8>>, line: &str) {
    match parts.back_mut() {
        Some(part) if part.len() + line.len() <= MAX_LINES => {
            part.extend_from_slice(line.as_bytes());
        }
        _ => parts.push_back(line.as_bytes().to_vec()),
    }
}
