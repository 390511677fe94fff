//! Slices and requests for later, as they survive a restart.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use snin_controller_core::window::{Frame, SliceRecord};
use snin_daemon::shared::Shared;
use snin_fabric::Guid;
use snin_protocol::Time;

use crate::error::Failure;

const SLICE: &str = "controller/slice/";
const FRAME: &str = "controller/frame/";

/// A frame by the time of day: the controller's own clock begins anew with the machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeptFrame {
    /// The user that asked.
    pub owner: String,
    /// The port that sends.
    pub source: Guid,
    /// The port that receives.
    pub destination: Guid,
    /// Nanoseconds since 1970.
    pub from: u64,
    /// Nanoseconds since 1970.
    pub until: u64,
}

/// The difference of two clocks at one moment: the time of day, and the controller's own.
#[derive(Clone, Copy, Debug)]
pub struct TimeOfDay {
    unix: u64,
    own: Time,
}

impl TimeOfDay {
    /// Now.
    pub fn at(own: Time) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { unix: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX), own }
    }

    /// Nanoseconds since 1970 of a moment by the controller's clock.
    pub const fn unix(&self, own: Time) -> u64 {
        let ahead = own.0.saturating_sub(self.own.0);
        self.unix.saturating_add(ahead).saturating_sub(self.own.0.saturating_sub(own.0))
    }

    /// The other way round. What lies before the clock began is its beginning.
    pub const fn own(&self, unix: u64) -> Time {
        let ahead = unix.saturating_sub(self.unix);
        Time(self.own.0.saturating_add(ahead).saturating_sub(self.unix.saturating_sub(unix)))
    }

    /// A frame, to be kept.
    pub fn keep(&self, frame: &Frame) -> KeptFrame {
        KeptFrame {
            owner: frame.owner.clone(),
            source: frame.source,
            destination: frame.destination,
            from: self.unix(frame.from),
            until: self.unix(frame.until),
        }
    }

    /// A frame that was kept.
    pub fn recall(&self, kept: &KeptFrame) -> Frame {
        Frame {
            owner: kept.owner.clone(),
            source: kept.source,
            destination: kept.destination,
            from: self.own(kept.from),
            until: self.own(kept.until),
        }
    }
}

/// What is kept, and where.
#[derive(Default)]
pub struct Kept {
    slices: BTreeMap<String, SliceRecord>,
    frames: BTreeMap<u64, KeptFrame>,
}

impl Kept {
    /// What there is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(shared: &dyn Shared) -> Result<Self, Failure> {
        let slices: Vec<SliceRecord> = list(shared, SLICE)?.into_values().collect();
        let slices = slices.into_iter().map(|record| (record.owner.clone(), record)).collect();
        let mut frames = BTreeMap::new();
        for (name, frame) in list(shared, FRAME)? {
            let id = name.parse().map_err(|_| Failure::State { key: FRAME, what: name })?;
            frames.insert(id, frame);
        }
        Ok(Self { slices, frames })
    }

    /// Every slice.
    pub fn slices(&self) -> impl Iterator<Item = &SliceRecord> {
        self.slices.values()
    }

    /// Every frame, and its number.
    pub fn frames(&self) -> impl Iterator<Item = (u64, &KeptFrame)> {
        self.frames.iter().map(|(&id, frame)| (id, frame))
    }

    /// Keeps an owner's slice, or that there is none; nothing is written where it is kept so already.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn keep_slice(
        &mut self,
        shared: &dyn Shared,
        owner: &str,
        record: Option<&SliceRecord>,
    ) -> Result<(), Failure> {
        if self.slices.get(owner) == record {
            return Ok(());
        }
        put(shared, &format!("{SLICE}{owner}"), record)?;
        match record {
            Some(record) => drop(self.slices.insert(owner.to_owned(), record.clone())),
            None => drop(self.slices.remove(owner)),
        }
        Ok(())
    }

    /// Keeps a frame, or that there is none.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn keep_frame(
        &mut self,
        shared: &dyn Shared,
        id: u64,
        frame: Option<KeptFrame>,
    ) -> Result<(), Failure> {
        if self.frames.get(&id) == frame.as_ref() {
            return Ok(());
        }
        put(shared, &format!("{FRAME}{id}"), frame.as_ref())?;
        match frame {
            Some(frame) => drop(self.frames.insert(id, frame)),
            None => drop(self.frames.remove(&id)),
        }
        Ok(())
    }
}

fn list<T: DeserializeOwned>(
    shared: &dyn Shared,
    prefix: &'static str,
) -> Result<BTreeMap<String, T>, Failure> {
    let mut all = BTreeMap::new();
    for (key, held) in shared.list(prefix)? {
        let value = serde_json::from_slice(&held.value)
            .map_err(|error| Failure::State { key: prefix, what: format!("{key}: {error}") })?;
        all.insert(key[prefix.len()..].to_owned(), value);
    }
    Ok(all)
}

fn put<T: Serialize>(shared: &dyn Shared, key: &str, value: Option<&T>) -> Result<(), Failure> {
    let bytes = value.map(serde_json::to_vec).transpose();
    let bytes =
        bytes.map_err(|error| Failure::State { key: "a value", what: error.to_string() })?;
    let revision = shared.get(key)?.map(|held| held.revision);
    let kept = shared.compare_and_swap(key, revision, bytes.as_deref())?;
    kept.map(drop).map_err(|_| Failure::Taken)
}

#[cfg(test)]
mod tests {
    use snin_controller_core::window::{SliceHosts, TreeName};
    use snin_daemon::shared::Embedded;

    use super::*;

    #[test]
    fn slices_and_frames_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.redb");
        let tree = TreeName { root: Guid(3), plane: 1 };
        let record = SliceRecord {
            owner: "slurm/17".to_owned(),
            wanted: SliceHosts::Count(2),
            hosts: vec![Guid(1), Guid(2)],
            leaf: vec![(Guid(7), tree)],
            pod: Vec::new(),
            shared: false,
        };
        let frame = Frame {
            owner: "user/1000".to_owned(),
            source: Guid(1),
            destination: Guid(2),
            from: Time::secs(100),
            until: Time::secs(160),
        };
        let day = TimeOfDay { unix: 1_000_000_000_000, own: Time::secs(90) };
        let shared = Embedded::open(&path).unwrap();
        let mut kept = Kept::read(&shared).unwrap();
        kept.keep_slice(&shared, "slurm/17", Some(&record)).unwrap();
        kept.keep_frame(&shared, 5, Some(day.keep(&frame))).unwrap();
        kept.keep_frame(&shared, 6, Some(day.keep(&frame))).unwrap();
        kept.keep_frame(&shared, 6, None).unwrap();
        drop(shared);
        let shared = Embedded::open(&path).unwrap();
        let again = Kept::read(&shared).unwrap();
        assert_eq!(again.slices().collect::<Vec<_>>(), [&record]);
        // Another clock, a minute later.
        let later = TimeOfDay { unix: 1_060_000_000_000, own: Time::secs(3) };
        let (id, found) = again.frames().next().unwrap();
        assert_eq!((id, again.frames().count()), (5, 1));
        let found = later.recall(found);
        // It began 50 seconds ago, before the clock did.
        assert_eq!((found.from, found.until), (Time::ZERO, Time::secs(13)));
    }
}
