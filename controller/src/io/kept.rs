//! Slices and requests for later, as they survive a restart.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use snin_controller_core::orders::{Frame, SliceRecord};
use snin_daemon::shared::{Changes, Values};
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
    pub fn read(store: &dyn Values) -> Result<Self, Failure> {
        let slices: Vec<SliceRecord> = list(store, SLICE)?.into_values().collect();
        let slices = slices.into_iter().map(|record| (record.owner.clone(), record)).collect();
        let mut frames = BTreeMap::new();
        for (name, frame) in list(store, FRAME)? {
            let id = name.parse().map_err(|_| store.damaged(format!("no frame: {name:.80}")))?;
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

    /// An owner's slice is this one, or there is none: what is to be written for that.
    pub fn slice(&self, owner: &str, record: Option<&SliceRecord>) -> Change {
        let changes = [(format!("{SLICE}{owner}"), record.map(encoded))];
        Change(changes.into(), One::Slice(owner.to_owned(), record.cloned()))
    }

    /// A frame is this one, or there is none: what is to be written for that.
    pub fn frame(&self, id: u64, frame: Option<KeptFrame>) -> Change {
        let changes = [(format!("{FRAME}{id}"), frame.as_ref().map(encoded))];
        Change(changes.into(), One::Frame(id, frame))
    }

    /// What is to be written so that all is as it was before a change.
    pub fn before(&self, change: &Change) -> Changes {
        match &change.1 {
            One::Slice(owner, _) => self.slice(owner, self.slices.get(owner)).0,
            One::Frame(id, _) => self.frame(*id, self.frames.get(id).cloned()).0,
        }
    }

    /// Whether it is so already.
    pub fn is_so(&self, change: &Change) -> bool {
        match &change.1 {
            One::Slice(owner, record) => self.slices.get(owner) == record.as_ref(),
            One::Frame(id, frame) => self.frames.get(id) == frame.as_ref(),
        }
    }

    /// It is kept.
    pub fn take(&mut self, change: Change) {
        match change.1 {
            One::Slice(owner, Some(record)) => drop(self.slices.insert(owner, record)),
            One::Slice(owner, None) => drop(self.slices.remove(&owner)),
            One::Frame(id, Some(frame)) => drop(self.frames.insert(id, frame)),
            One::Frame(id, None) => drop(self.frames.remove(&id)),
        }
    }
}

/// Something that is to be kept, and what is to be written for it.
pub struct Change(pub Changes, One);

enum One {
    Slice(String, Option<SliceRecord>),
    Frame(u64, Option<KeptFrame>),
}

/// Texts and numbers in memory: there is nothing that could not be written.
fn encoded<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn list<T: DeserializeOwned>(
    store: &dyn Values,
    prefix: &'static str,
) -> Result<BTreeMap<String, T>, Failure> {
    let mut all = BTreeMap::new();
    for (key, held) in store.list(prefix)? {
        let value = serde_json::from_slice(&held.value)
            .map_err(|error| store.damaged(format!("{key:.80}: {error}")))?;
        all.insert(key[prefix.len()..].to_owned(), value);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use snin_controller_core::orders::{SliceHosts, TreeName};
    use snin_daemon::shared::Embedded;

    use snin_controller_core::orders::CollectiveWanted;
    use snin_protocol::collective::CollectiveKind;

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
            collective: Some(CollectiveWanted {
                kind: CollectiveKind::Ring,
                slot: Time::millis(1),
            }),
        };
        let frame = Frame {
            owner: "user/1000".to_owned(),
            source: Guid(1),
            destination: Guid(2),
            from: Time::secs(100),
            until: Time::secs(160),
        };
        let day = TimeOfDay { unix: 1_000_000_000_000, own: Time::secs(90) };
        let store = Embedded::open(&path, "all").unwrap();
        let mut kept = Kept::read(&store).unwrap();
        let frames = [(5, Some(day.keep(&frame))), (6, Some(day.keep(&frame))), (6, None)];
        let slice = kept.slice("slurm/17", Some(&record));
        let frames = frames.map(|(id, frame)| kept.frame(id, frame));
        for change in [slice].into_iter().chain(frames) {
            store.put_all(&change.0).unwrap();
            kept.take(change);
        }
        drop(store);
        let again = Kept::read(&Embedded::open(&path, "all").unwrap()).unwrap();
        assert!(again.slices().eq(kept.slices()) && again.frames().eq(kept.frames()));
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
