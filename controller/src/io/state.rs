//! What survives a restart: the term, the longest that a grant was made for, which trees pinned connections
//! have, slices, and requests for later.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use snin_daemon::clock::Clock;
use snin_daemon::shared::{Changes, Embedded, Values};
use snin_daemon::trouble::News;
use snin_fabric::{Guid, TreeId};
use snin_protocol::{Term, Time};

use crate::error::Failure;
use crate::io::kept::{Change, Kept};
use crate::io::writer::Writer;

/// What is in the store, for who loses it.
const HOLDS: &str = "the term (without it set least_term above any that agents have heard of), the trees of \
                     pinned connections, slices, and requests";
const TERM: &str = "controller/term";
const PINNED: &str = "controller/pinned/";

/// The last controller's term, and until when its grants may last.
#[derive(Serialize, Deserialize)]
struct TermRecord {
    term: u64,
    /// From the decision of a grant to the end of its guard, at most, in nanoseconds.
    longest: u64,
}

/// See the module's documentation.
#[derive(Default)]
pub struct State {
    /// None: nothing is kept, which is a standby's state.
    store: Option<Store>,
    pinned: BTreeMap<(Guid, Guid), TreeId>,
    kept: Kept,
}

/// Where it is kept, and who writes there.
struct Store {
    values: Arc<dyn Values>,
    writer: Writer,
}

/// What a controller has to know of those before it.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// Its own term.
    pub term: Term,
    /// For how long grants of its predecessor may still be in force; `None`: it is the first.
    pub predecessor: Option<Time>,
}

impl State {
    /// Opens the store of a folder. A disk that refuses to be written is no error here, but of what is to be kept.
    ///
    /// # Errors
    /// When it cannot be read, or another controller uses it.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        Self::of(Arc::new(Embedded::open(&folder.join("controller.redb"), HOLDS)?))
    }

    /// Reads what there is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(values: Arc<dyn Values>) -> Result<Self, Failure> {
        let mut pinned = BTreeMap::new();
        for (key, held) in values.list(PINNED)? {
            let pin = pin(&key, &held.value);
            let (ends, tree) = pin.ok_or_else(|| values.damaged(format!("no pin: {key:.80}")))?;
            pinned.insert(ends, tree);
        }
        let kept = Kept::read(&*values)?;
        let writer = Writer::start(values.clone(), Clock::system());
        let writer = writer.map_err(Failure::system("a thread"))?;
        Ok(Self { store: Some(Store { values, writer }), pinned, kept })
    }

    /// Begins a term, greater than all before and at least `least`. It is kept before anything is granted in it.
    /// `longest`: the longest from the decision of one of its grants to the end of its guard.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub fn begin(&self, least: Term, longest: Time) -> Result<Begun, Failure> {
        let Store { values, .. } = self.store.as_ref().ok_or(Failure::Standby)?;
        let held = values.get(TERM)?;
        let before = held.as_ref().map(|held| serde_json::from_slice::<TermRecord>(&held.value));
        let before = before.transpose();
        let before = before.map_err(|error| values.damaged(format!("{TERM}: {error}")))?;
        let term = before.as_ref().map_or(1, |before| before.term.saturating_add(1)).max(least.0);
        let reign = TermRecord { term, longest: longest.nanos() };
        let bytes = serde_json::to_vec(&reign).unwrap_or_default();
        let was = Changes::from([(TERM.to_owned(), held.map(|held| held.value))]);
        self.write(Changes::from([(TERM.to_owned(), Some(bytes))]), was)?;
        // A controller that was told a least term has lost its state: what was granted before is not known.
        let is_first = before.is_none() && least.0 <= 1;
        let longest = before.map_or(longest, |before| Time(before.longest).max(longest));
        Ok(Begun { term: Term(term), predecessor: (!is_first).then_some(longest) })
    }

    /// Slices and frames.
    pub const fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Keeps something before somebody is told of it.
    ///
    /// # Errors
    /// When that cannot be kept: then all is as it was before.
    pub fn promise(&mut self, change: Change) -> Result<(), Failure> {
        if !self.kept.is_so(&change) {
            self.write(change.0.clone(), self.kept.before(&change))?;
            self.kept.take(change);
        }
        Ok(())
    }

    /// Keeps something that is so already, as soon as the disk has room for it.
    pub fn keep(&mut self, change: Change) {
        if let Some(Store { writer, .. }) = &self.store
            && !self.kept.is_so(&change)
        {
            writer.keep(change.0.clone());
            self.kept.take(change);
        }
    }

    fn write(&self, changes: Changes, before: Changes) -> Result<(), Failure> {
        let Store { writer, .. } = self.store.as_ref().ok_or(Failure::Standby)?;
        writer.write(changes).inspect_err(|failure| {
            // A store may have what it did not say that it has.
            if failure.may_pass() {
                writer.keep(before);
            }
        })
    }

    /// The tree that a pinned connection had.
    pub fn pinned(&self, from: Guid, to: Guid) -> Option<TreeId> {
        self.pinned.get(&(from, to)).copied()
    }

    /// Keeps the trees of the pinned connections that there are, as soon as the disk has room for them: agents
    /// that live know them too.
    pub fn keep_pinned(&mut self, now: BTreeMap<(Guid, Guid), TreeId>) {
        let Some(Store { writer, .. }) = self.store.as_ref().filter(|_| self.pinned != now) else {
            return;
        };
        let key = |ends: &(Guid, Guid)| format!("{PINNED}{}/{}", ends.0, ends.1);
        let gone = self.pinned.keys().filter(|&ends| !now.contains_key(ends));
        let gone = gone.map(|ends| (key(ends), None));
        let others = now.iter().filter(|&(ends, tree)| self.pinned.get(ends) != Some(tree));
        let others = others.map(|(ends, tree)| (key(ends), Some(tree.0.to_string().into_bytes())));
        writer.keep(gone.chain(others).collect());
        self.pinned = now;
    }

    /// What there is to tell of the disk that was not told yet.
    pub fn news(&self) -> Option<News> {
        self.store.as_ref()?.writer.news()
    }

    /// Why the state is not stored, where it is not.
    pub fn trouble(&self) -> Option<String> {
        self.store.as_ref()?.writer.trouble()
    }

    /// How often writing has failed.
    pub fn failures(&self) -> u64 {
        self.store.as_ref().map_or(0, |store| store.writer.failures())
    }
}

fn pin(key: &str, tree: &[u8]) -> Option<((Guid, Guid), TreeId)> {
    let (a, b) = key.strip_prefix(PINNED)?.split_once('/')?;
    Some(((a.parse().ok()?, b.parse().ok()?), TreeId(serde_json::from_slice(tree).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_rise_and_the_longest_grant_of_any_predecessor_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let begin = |longest| State::open(folder.path()).unwrap().begin(Term(1), longest).unwrap();
        let first = begin(Time::millis(500));
        assert_eq!((first.term, first.predecessor), (Term(1), None));
        let second = begin(Time::millis(100));
        assert_eq!((second.term, second.predecessor), (Term(2), Some(Time::millis(500))));
        let third = begin(Time::millis(100));
        assert_eq!((third.term, third.predecessor), (Term(3), Some(Time::millis(100))));
        let raised = State::open(folder.path()).unwrap().begin(Term(9), Time::ZERO).unwrap();
        assert_eq!(raised.term, Term(9));
    }

    #[test]
    fn pinned_trees_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let ends = (Guid(1), Guid(2));
        let mut state = State::open(folder.path()).unwrap();
        state.keep_pinned(BTreeMap::from([(ends, TreeId(3))]));
        drop(state);
        let mut state = State::open(folder.path()).unwrap();
        assert_eq!(state.pinned(Guid(1), Guid(2)), Some(TreeId(3)));
        state.keep_pinned(BTreeMap::new());
        drop(state);
        assert_eq!(State::open(folder.path()).unwrap().pinned(Guid(1), Guid(2)), None);
    }
}
