//! One table: records by key, each with the stamp of its last change.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use super::Stamp;

/// Records of one kind. What was removed is a tombstone: a stamp without a value.
#[derive(Clone, Debug)]
pub struct Records<K, V> {
    entries: BTreeMap<K, (Option<V>, Stamp)>,
    live: usize,
}

impl<K, V> Default for Records<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), live: 0 }
    }
}

impl<K: Ord, V> Records<K, V> {
    /// The record, if there is one.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)?.0.as_ref()
    }

    /// The stamp of its last change, of its removal too.
    pub fn stamp(&self, key: &K) -> Option<Stamp> {
        self.entries.get(key).map(|(_, stamp)| *stamp)
    }

    /// Every record, in the order of keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().filter_map(|(key, (value, _))| Some((key, value.as_ref()?)))
    }

    /// Every record and every tombstone, which has no value, with its stamp, in the order of keys.
    pub fn entries(&self) -> impl Iterator<Item = (&K, Option<&V>, Stamp)> {
        self.entries.iter().map(|(key, (value, stamp))| (key, value.as_ref(), *stamp))
    }

    /// Records within a range of keys.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (&K, &V)> {
        self.entries.range(range).filter_map(|(key, (value, _))| Some((key, value.as_ref()?)))
    }

    /// Number of records.
    pub const fn len(&self) -> usize {
        self.live
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(super) fn put(&mut self, key: K, value: V, stamp: Stamp) {
        let old = self.entries.insert(key, (Some(value), stamp));
        self.live += usize::from(!matches!(old, Some((Some(_), _))));
    }

    pub(super) fn remove(&mut self, key: &K, stamp: Stamp) -> Option<V> {
        let entry = self.entries.get_mut(key)?;
        entry.1 = stamp;
        let old = entry.0.take();
        self.live -= usize::from(old.is_some());
        old
    }

    /// What was kept: a record, or that it was removed.
    pub(super) fn set(&mut self, key: K, value: Option<V>, stamp: Stamp) {
        let is_live = value.is_some();
        let old = self.entries.insert(key, (value, stamp));
        self.live -= usize::from(matches!(old, Some((Some(_), _))));
        self.live += usize::from(is_live);
    }

    /// Forgets a tombstone, if it still has this stamp.
    pub(super) fn bury(&mut self, key: &K, stamp: Stamp) {
        if self.entries.get(key).is_some_and(|(value, last)| value.is_none() && *last == stamp) {
            self.entries.remove(key);
        }
    }
}
