//! What a manager knows that is master no more: the next master takes it before anybody forgets it.
//!
//! A manager that stands by and was master with its database says so ([`Told::holds`](super::Told)). The master
//! asks for all of it, as a standby does, and joins it to its own; only when that is stored does it acknowledge
//! the last part. Then the other one forgets that it was master, and mirrors.

use std::collections::BTreeSet;

use snin_fabric::Guid;
use snin_mad::SmState;
use snin_protocol::mirror::{Follow, FromStandby, Have, Part, PartKind};

use super::rows::Gathered;
use super::{Link, Mirror, MirrorOutput, Surroundings};
use snin_sm_database::keys::KeySecret;
use snin_sm_database::merge::Snapshot;

/// The database of a manager that was master, on its way here.
#[derive(Debug)]
pub(super) struct Estate {
    guid: Guid,
    /// Its last mastership.
    term: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Parts of it are there.
    Coming(Box<Gathered>),
    /// All of it is there.
    Whole(Have, Option<Box<(Snapshot, Vec<KeySecret>)>>),
    /// It was joined to the own one.
    Taken,
}

/// A database that is to be joined to the own one.
#[derive(Debug)]
pub struct Inherited {
    /// What its manager knew.
    pub snapshot: Snapshot,
    /// What the M_Keys of its ports follow from, if they are generated.
    pub keys: Vec<KeySecret>,
    link: Link,
    last: Have,
}

impl Mirror {
    /// The last mastership of this manager, if another master has to have what it knows of it; 0: none has.
    pub(super) fn holds(&self, around: &Surroundings<'_>) -> u64 {
        let holds = around.state == SmState::Standby && around.saved.lineage.untaken;
        if holds { self.term } else { 0 }
    }

    /// A manager that begins has a number for what it knew before.
    pub(super) fn number_estate(&mut self, around: &Surroundings<'_>) {
        if self.term == 0 && around.saved.lineage.untaken {
            self.term = around.database.clock(around.now).0.max(1);
        }
    }

    /// The master asks for what others hold.
    pub(super) fn ask_estates(&mut self, around: &Surroundings<'_>) {
        let (Some(own), SmState::Master) = (around.guid, around.state) else {
            return self.estates.clear();
        };
        for (&link, told) in &self.called {
            let Some(told) = told.as_ref().filter(|told| told.holds != 0 && told.guid != own)
            else {
                self.estates.remove(&link);
                continue;
            };
            if self.estates.get(&link).is_some_and(|estate| estate.term == told.holds) {
                continue;
            }
            let state = State::Coming(Box::new(Gathered::new()));
            self.estates.insert(link, Estate { guid: told.guid, term: told.holds, state });
            let follow = Follow { guid: own, term: 0, sequence: 0 };
            self.outputs.push_back(MirrorOutput::ToMaster(link, FromStandby::Follow(follow)));
        }
    }

    /// A part of what another manager holds.
    pub(super) fn take_estate(&mut self, link: Link, part: &Part) {
        let Some(estate) = self.estates.get_mut(&link).filter(|held| held.term == part.term) else {
            return;
        };
        let State::Coming(gathered) = &mut estate.state else { return };
        if part.kind == PartKind::First {
            **gathered = Gathered::new();
        }
        gathered.take(&part.lines);
        let have = Have { term: part.term, sequence: part.sequence };
        if part.kind == PartKind::Last {
            let gathered = std::mem::replace(&mut **gathered, Gathered::new());
            estate.state = State::Whole(have, gathered.into_estate().map(Box::new));
            return;
        }
        self.outputs.push_back(MirrorOutput::ToMaster(link, FromStandby::Have(have)));
    }

    /// Managers whose database is still to come: they say in a session that they are master, or hold one.
    pub fn awaited(&self) -> BTreeSet<Guid> {
        let is_whole = |link: &Link| {
            let state = self.estates.get(link).map(|estate| &estate.state);
            matches!(state, Some(State::Whole(..) | State::Taken))
        };
        let told = self.called.iter().filter(|(link, _)| !is_whole(link));
        let told = told.filter_map(|(_, told)| told.as_ref());
        told.filter(|told| told.term != 0 || told.holds != 0).map(|told| told.guid).collect()
    }

    /// Managers whose database is there, and not yet joined to the own one.
    pub fn inherits(&self) -> BTreeSet<Guid> {
        let whole = |estate: &&Estate| matches!(estate.state, State::Whole(..));
        self.estates.values().filter(whole).map(|estate| estate.guid).collect()
    }

    /// The databases that are there; each once.
    pub fn take_inherited(&mut self) -> Vec<Inherited> {
        let mut all = Vec::new();
        for (&link, estate) in &mut self.estates {
            let State::Whole(last, snapshot) = &mut estate.state else { continue };
            let (last, snapshot) = (*last, snapshot.take());
            estate.state = State::Taken;
            match snapshot.map(|all| *all) {
                Some((snapshot, keys)) => all.push(Inherited { snapshot, keys, link, last }),
                // There was no subnet in it.
                None => {
                    self.outputs.push_back(MirrorOutput::ToMaster(link, FromStandby::Have(last)));
                }
            }
        }
        all
    }

    /// It is joined, and stored.
    pub fn inherited(&mut self, inherited: &Inherited) {
        let have = FromStandby::Have(inherited.last);
        self.outputs.push_back(MirrorOutput::ToMaster(inherited.link, have));
    }

    /// Whether the master has all that this manager held.
    pub(super) fn has_given(&self, around: &Surroundings<'_>) -> bool {
        let told = self.called.values().flatten();
        let masters: BTreeSet<Guid> =
            told.filter(|told| told.term != 0).map(|told| told.guid).collect();
        let has_all = |guid: Guid| masters.contains(&guid);
        self.holds(around) != 0
            && self.followers.values().any(|follower| {
                follower.has_estate(self.term) && follower.guid().is_some_and(has_all)
            })
    }
}
