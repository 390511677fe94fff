//! The standby's side: whom it follows, and what it has of it.

use snin_fabric::Guid;
use snin_mad::SmState;
use snin_protocol::Time;
use snin_protocol::mirror::{
    Checksum, Follow, FromMaster, FromStandby, Have, Line, Part, PartKind, Standing as Told,
};

use super::rows::{Gathered, TABLES, Telling, checksum};
use super::{Link, Mirror, MirrorOutput, MirrorReport, Surroundings, settings};

/// After a difference was mended, none is looked for: one that comes back at once is no reason to read everything
/// without end.
const REST: Time = Time::secs(60);

/// What a standby has.
#[derive(Debug, Default)]
pub(super) struct Copy {
    /// Where it comes from, while this manager follows.
    from: Option<Link>,
    /// ... and the mastership that it follows.
    followed: u64,
    master: Option<Guid>,
    term: u64,
    sequence: u64,
    /// The masters from whom it came.
    line: Line,
    /// The whole database is on its way.
    gathered: Option<Gathered>,
    /// It had all at least once.
    whole: bool,
    /// Up to where the master's log went, when it last said so, and when that was.
    told: (u64, Time),
    /// When it last had all that the master had told by then.
    complete: Option<Time>,
    /// Checksums are not looked at before.
    rests: Time,
}

impl Copy {
    pub(super) const fn is_whole(&self) -> bool {
        self.whole
    }

    /// Of whom it is a copy, and up to where.
    pub(super) fn master(&self) -> Option<(Guid, u64)> {
        self.master.filter(|_| self.from.is_some()).map(|master| (master, self.sequence))
    }

    /// Whose it is, and when it last had all that the master knew.
    pub(super) fn complete(&self) -> Option<(Guid, Time)> {
        self.master.zip(self.complete)
    }

    /// Whether it has all that the master said to have.
    fn compare(&mut self) {
        let (sequence, at) = self.told;
        if self.whole && self.gathered.is_none() && self.sequence >= sequence {
            self.complete = Some(at);
        }
    }

    pub(super) fn closed(&mut self, link: Link) {
        if self.from == Some(link) {
            self.stop();
        }
    }

    /// Follows no more; what it has stays.
    pub(super) fn stop(&mut self) {
        (self.from, self.gathered) = (None, None);
    }

    /// This manager is master, and changes what it had: it is no copy any more. The line of whom it was, where it
    /// was one to go on from.
    pub(super) fn part_with(&mut self) -> Option<Line> {
        (self.term, self.sequence) = (0, 0);
        self.complete.take().map(|_| self.line)
    }

    fn ask(&mut self, link: Link, guid: Guid) -> MirrorOutput {
        self.from = Some(link);
        let (term, sequence) = if self.whole { (self.term, self.sequence) } else { (0, 0) };
        let follow = Follow { guid, term, sequence };
        MirrorOutput::ToMaster(link, FromStandby::Follow(follow))
    }
}

impl Mirror {
    /// A called manager said something.
    pub(super) fn learn(&mut self, link: Link, said: FromMaster, around: &mut Surroundings<'_>) {
        if !self.called.contains_key(&link) {
            return;
        }
        match said {
            FromMaster::Standing(told) => self.met(link, told, around.now),
            FromMaster::Part(part) if around.state == SmState::Master => {
                self.take_estate(link, &part);
            }
            _ if self.copy.from != Some(link) || around.state != SmState::Standby => {}
            FromMaster::Part(part) => self.take(link, &part, around),
            FromMaster::Checksum(checksum) => self.check(&checksum, around),
        }
    }

    fn met(&mut self, link: Link, told: Told, now: Time) {
        let state = if told.term == 0 { SmState::Standby } else { SmState::Master };
        self.heard.push_back((told.guid, state));
        if self.copy.from == Some(link) && self.copy.followed != told.term {
            self.copy.stop();
        }
        if self.copy.from == Some(link) && self.copy.term == told.term {
            (self.copy.told, self.copy.line) = ((told.sequence, now), told.line);
            self.copy.compare();
        }
        let later = told.term > self.term && told.line == self.line;
        if self.state == SmState::Master && later {
            self.successor = Some(told.guid);
        }
        let Some(known) = self.called.get_mut(&link) else { return };
        let is_new = known.as_ref().is_none_or(|known| known.settings != told.settings);
        if is_new {
            let differ = settings::compare(&self.settings, &told.settings);
            if !differ.is_empty() {
                self.reports.push_back(MirrorReport::Settings { other: told.guid, differ });
            }
        }
        *known = Some(told);
    }

    /// A standby follows the latest mastership that it is told of: an earlier master may stand still, and say
    /// nothing. Of masters of other subnets it follows the one that is its master in the fabric. What another
    /// manager has told is of no use for the next one's log.
    pub(super) fn choose_master(&mut self, around: &Surroundings<'_>) {
        let (Some(guid), SmState::Standby) = (around.guid, around.state) else { return };
        // What this manager knows is not overwritten before the master has it.
        if around.saved.lineage.untaken {
            return;
        }
        let is_master = |told: &Told| told.term != 0 && told.guid != guid;
        let masters = self.called.iter().filter_map(|(&link, told)| {
            let told = told.as_ref().filter(|told| is_master(told))?;
            Some((told.term, link, told.guid, told.sequence, told.line))
        });
        let Some(latest) = masters.clone().max_by_key(|master| (master.0, master.1)) else {
            return;
        };
        let mut own = masters.filter(|&(_, _, guid, ..)| around.followed == Some(guid));
        let own = own.next().filter(|own| own.4 != latest.4);
        let (term, link, master, sequence, _) = own.unwrap_or(latest);
        if (self.copy.from, self.copy.followed) != (Some(link), term) {
            self.copy.stop();
            (self.copy.master, self.copy.followed) = (Some(master), term);
            (self.copy.told, self.copy.complete) = ((sequence, around.now), None);
            let asks = self.copy.ask(link, guid);
            self.outputs.push_back(asks);
        }
    }

    fn take(&mut self, link: Link, part: &Part, around: &mut Surroundings<'_>) {
        let copy = &mut self.copy;
        let (now, epoch) = (around.now, self.telling.epoch);
        match part.kind {
            PartKind::First => copy.gathered = Some(Gathered::new()),
            PartKind::More | PartKind::Last => {
                let Some(gathered) = &mut copy.gathered else { return };
                gathered.take(&part.lines);
            }
            // It changes what is not there yet.
            PartKind::Change if !copy.whole || copy.gathered.is_some() => return,
            PartKind::Change => {
                let mut gathered = Gathered::new();
                gathered.take(&part.lines);
                gathered.apply(around.database, around.saved, false, epoch, now);
            }
        }
        if part.kind == PartKind::Last
            && let Some(gathered) = copy.gathered.take()
        {
            let changed = gathered.apply(around.database, around.saved, true, epoch, now);
            copy.whole = true;
            if let Some(master) = copy.master {
                self.reports.push_back(MirrorReport::Complete { master, changed });
            }
        }
        if copy.gathered.is_none() {
            (copy.term, copy.sequence) = (part.term, part.sequence);
            copy.compare();
        }
        let have = Have { term: part.term, sequence: part.sequence };
        self.outputs.push_back(MirrorOutput::ToMaster(link, FromStandby::Have(have)));
    }

    /// A table has to come to this. Where it does not, all is read anew.
    fn check(&mut self, told: &Checksum, around: &Surroundings<'_>) {
        let copy = &mut self.copy;
        let number = usize::from(told.table);
        let same = (copy.term, copy.sequence) == (told.term, told.sequence);
        if !same || copy.gathered.is_some() || around.now < copy.rests {
            return;
        }
        // A table that this version does not have.
        let Some(&table) = TABLES.get(number) else { return };
        // What was told without keys is held without keys.
        let telling = Telling { secrets: true, ..self.telling };
        let held = checksum(number, around.database, around.saved, telling);
        if held == (told.records, told.sum) {
            return;
        }
        let (Some(master), Some(link), Some(guid)) = (copy.master, copy.from, around.guid) else {
            return;
        };
        self.reports.push_back(MirrorReport::Differs { master, table });
        copy.rests = around.now + REST;
        (copy.term, copy.sequence) = (0, 0);
        let follow = Follow { guid, term: 0, sequence: 0 };
        self.outputs.push_back(MirrorOutput::ToMaster(link, FromStandby::Follow(follow)));
    }
}
