//! What survives a restart: the term, the longest that a grant was made for, which trees pinned connections
//! have, slices, and requests for later.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use snin_controller_core::window::SliceRecord;
use snin_daemon::shared::{Embedded, Shared};
use snin_fabric::{Guid, TreeId};
use snin_protocol::{Term, Time};

use crate::error::Failure;
use crate::io::kept::{Kept, KeptFrame};

const TERM: &str = "controller/term";
const PINNED: &str = "controller/pinned/";

/// The last controller's term, and until when its grants may last.
#[derive(Serialize, Deserialize)]
struct Reign {
    term: u64,
    /// From the decision of a grant to the end of its guard, at most, in nanoseconds.
    longest: u64,
}

/// See the module's documentation.
pub struct State {
    shared: Box<dyn Shared>,
    pinned: BTreeMap<(Guid, Guid), TreeId>,
    kept: Kept,
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
    /// Opens the store of a folder.
    ///
    /// # Errors
    /// When it cannot be used, or another controller does.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        let shared = Embedded::open(&folder.join("controller.redb"))?;
        let mut pinned = BTreeMap::new();
        for (key, held) in shared.list(PINNED)? {
            let ends = key.strip_prefix(PINNED).and_then(|ends| ends.split_once('/'));
            let ends = ends.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            let ends = ends.ok_or_else(|| Failure::State { key: PINNED, what: key.clone() })?;
            let tree: u16 = serde_json::from_slice(&held.value)
                .map_err(|error| Failure::State { key: PINNED, what: error.to_string() })?;
            pinned.insert(ends, TreeId(tree));
        }
        let kept = Kept::read(&shared)?;
        Ok(Self { shared: Box::new(shared), pinned, kept })
    }

    /// Begins a term, greater than all before and at least `least`. It is kept before anything is granted in it.
    /// `longest`: the longest from the decision of one of its grants to the end of its guard.
    ///
    /// # Errors
    /// When that cannot be kept, or another controller was faster.
    pub fn begin(&self, least: Term, longest: Time) -> Result<Begun, Failure> {
        let held = self.shared.get(TERM)?;
        let before: Option<Reign> = held
            .as_ref()
            .map(|held| serde_json::from_slice(&held.value))
            .transpose()
            .map_err(|error| Failure::State { key: TERM, what: error.to_string() })?;
        let term = before.as_ref().map_or(1, |before| before.term.saturating_add(1)).max(least.0);
        let reign = Reign { term, longest: longest.nanos() };
        let bytes = serde_json::to_vec(&reign)
            .map_err(|error| Failure::State { key: TERM, what: error.to_string() })?;
        let revision = held.map(|held| held.revision);
        let kept = self.shared.compare_and_swap(TERM, revision, Some(&bytes))?;
        kept.map_err(|_| Failure::Taken)?;
        // A controller that was told a least term has lost its state: what was granted before is not known.
        let is_first = before.is_none() && least.0 <= 1;
        let longest = before.map_or(longest, |before| Time(before.longest).max(longest));
        Ok(Begun { term: Term(term), predecessor: (!is_first).then_some(longest) })
    }

    /// Slices and frames.
    pub const fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Keeps an owner's slice, or that there is none.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub fn keep_slice(&mut self, owner: &str, record: Option<&SliceRecord>) -> Result<(), Failure> {
        self.kept.keep_slice(&*self.shared, owner, record)
    }

    /// Keeps a frame, or that there is none.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub fn keep_frame(&mut self, id: u64, frame: Option<KeptFrame>) -> Result<(), Failure> {
        self.kept.keep_frame(&*self.shared, id, frame)
    }

    /// The tree that a pinned connection had.
    pub fn pinned(&self, from: Guid, to: Guid) -> Option<TreeId> {
        self.pinned.get(&(from, to)).copied()
    }

    /// Keeps the trees of the pinned connections that there are.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub fn keep_pinned(&mut self, now: &BTreeMap<(Guid, Guid), TreeId>) -> Result<(), Failure> {
        let ends: Vec<(Guid, Guid)> = self.pinned.keys().chain(now.keys()).copied().collect();
        for ends in ends {
            let tree = now.get(&ends).copied();
            if self.pinned.get(&ends).copied() == tree {
                continue;
            }
            let key = format!("{PINNED}{}/{}", ends.0, ends.1);
            let revision = self.shared.get(&key)?.map(|held| held.revision);
            let value = tree.map(|tree| tree.0.to_string());
            let kept = self.shared.compare_and_swap(
                &key,
                revision,
                value.as_ref().map(String::as_bytes),
            )?;
            kept.map_err(|_| Failure::Taken)?;
            match tree {
                Some(tree) => drop(self.pinned.insert(ends, tree)),
                None => drop(self.pinned.remove(&ends)),
            }
        }
        Ok(())
    }
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
        state.keep_pinned(&BTreeMap::from([(ends, TreeId(3))])).unwrap();
        drop(state);
        let mut state = State::open(folder.path()).unwrap();
        assert_eq!(state.pinned(Guid(1), Guid(2)), Some(TreeId(3)));
        state.keep_pinned(&BTreeMap::new()).unwrap();
        drop(state);
        assert_eq!(State::open(folder.path()).unwrap().pinned(Guid(1), Guid(2)), None);
    }
}
