//! What has to survive a restart, on a disk that may be full or gone: what cannot be written is tried again, and
//! the subnet is served meanwhile.
//!
//! Nothing waits for the disk but the order of things: an answer goes out after what it promises was written, or
//! after writing failed. What failed is not queued: the state is written whole when it is tried again, so that
//! what waits is never more than the state itself.

use std::sync::Arc;

use snin_protocol::Time;
use snin_sm_core::Saved;
use snin_sm_core::database::{Database, KeptRecord};

use super::failure::Failure;
use super::kept::KeptFile;
use super::memory::Memory;

/// The wait after a first failure; it doubles with each further one.
const FIRST_WAIT: Time = Time::millis(500);
/// The longest wait.
const LONGEST_WAIT: Time = Time::secs(60);

/// The files of the state folder.
#[derive(Debug)]
pub struct Storage {
    memory: Memory,
    kept: KeptFile,
    /// The addresses and trees that were to be stored last, unless they were.
    unsaved: Option<Arc<Saved>>,
    /// What hosts said is not all in the file: it has to be written whole.
    stale: bool,
    trouble: Option<Trouble>,
    failures: u64,
}

/// Since something could not be written.
#[derive(Debug)]
struct Trouble {
    why: String,
    wait: Time,
    retry_at: Time,
    told: bool,
    attempts: u64,
}

/// What there is to tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// Something could not be written: why. It is tried again.
    Failed(String),
    /// All is written again, after so many attempts that failed.
    Works(u64),
}

impl Storage {
    /// These files.
    pub const fn new(memory: Memory, kept: KeptFile) -> Self {
        Self { memory, kept, unsaved: None, stale: false, trouble: None, failures: 0 }
    }

    /// Appends what hosts said; it is on the disk after [`settle`](Self::settle).
    pub fn append(&mut self, changes: &[KeptRecord], now: Time) {
        if !self.stale {
            let done = self.kept.append(changes);
            self.stale |= done.is_err();
            self.note(done, now);
        }
    }

    /// Forces what was appended to the disk, and writes a file anew that has grown too long.
    pub fn settle(&mut self, database: &Database, now: Time) {
        if self.stale {
            return;
        }
        let done = self.kept.sync().and_then(|()| {
            let long = self.kept.is_long(database.kept_len());
            if long { self.kept.rewrite(&database.kept()) } else { Ok(()) }
        });
        self.stale |= done.is_err();
        self.note(done, now);
    }

    /// Stores this in place of what was stored before.
    pub fn save(&mut self, saved: Arc<Saved>, now: Time) {
        let done = self.memory.save(&saved);
        self.unsaved = done.is_err().then_some(saved);
        self.note(done, now);
    }

    /// When something is tried again.
    pub fn next_retry(&self) -> Option<Time> {
        self.trouble.as_ref().map(|trouble| trouble.retry_at)
    }

    /// Tries again what is due; what there is to tell since it was last asked.
    pub fn work(&mut self, database: &Database, now: Time) -> Option<Told> {
        if self.next_retry().is_some_and(|due| due <= now) {
            self.retry(database, now);
        }
        let trouble = self.trouble.as_mut()?;
        if self.unsaved.is_none() && !self.stale {
            let attempts = trouble.attempts;
            self.trouble = None;
            return Some(Told::Works(attempts));
        }
        let first = !std::mem::replace(&mut trouble.told, true);
        first.then(|| Told::Failed(trouble.why.clone()))
    }

    fn retry(&mut self, database: &Database, now: Time) {
        if let Some(saved) = self.unsaved.take() {
            self.save(saved, now);
        }
        if self.stale {
            let done = self.kept.rewrite(&database.kept());
            self.stale = done.is_err();
            self.note(done, now);
        }
    }

    fn note(&mut self, done: Result<(), Failure>, now: Time) {
        let Err(error) = done else { return };
        self.failures += 1;
        let trouble = self.trouble.get_or_insert_with(|| Trouble {
            why: String::new(),
            wait: Time::ZERO,
            retry_at: now,
            told: false,
            attempts: 0,
        });
        trouble.attempts += 1;
        trouble.why = error.to_string();
        // What fails before its time is up has no effect on it.
        if trouble.retry_at <= now {
            trouble.wait = (trouble.wait * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
            trouble.retry_at = now + trouble.wait;
        }
    }

    /// Why the state is not stored, where it is not.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| &*trouble.why)
    }

    /// How often writing failed.
    pub const fn failures(&self) -> u64 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use snin_fabric::{Guid, Lid, Lmc};
    use snin_sm_core::database::Aliases;

    use super::*;

    fn saved() -> Arc<Saved> {
        let mut saved = Saved::default();
        saved.lids.insert(Guid(1), (Lid(5), Lmc::ZERO));
        Arc::new(saved)
    }

    fn alias(database: &Database) -> KeptRecord {
        database.kept().pop().unwrap()
    }

    /// A file is where the folder should be, then it is not.
    #[test]
    fn what_failed_is_tried_again_with_pauses_that_double() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let (memory, _) = Memory::open(Some(&state)).unwrap();
        let (kept, _) = KeptFile::open(Some(&state), Time::ZERO).unwrap();
        fs::write(&state, "no folder").unwrap();
        let mut storage = Storage::new(memory, kept);
        let mut database = Database::new(Guid(1));
        database.put::<Aliases>((Guid(1), 4), Guid(5), Time::ZERO);
        storage.append(&[alias(&database)], Time::ZERO);
        storage.settle(&database, Time::ZERO);
        storage.save(saved(), Time::ZERO);
        let Some(Told::Failed(why)) = storage.work(&database, Time::ZERO) else { panic!() };
        assert!(why.starts_with(&*state.to_string_lossy()), "{why}");
        assert_eq!((storage.work(&database, Time::ZERO), storage.failures()), (None, 2));
        let mut waits = Vec::new();
        let mut now = Time::ZERO;
        for _ in 0..9 {
            let due = storage.next_retry().unwrap();
            waits.push((due - now).nanos() / 1_000_000);
            now = due;
            assert_eq!(storage.work(&database, now), None, "told once");
        }
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        fs::remove_file(&state).unwrap();
        now = storage.next_retry().unwrap();
        assert_eq!(storage.work(&database, now), Some(Told::Works(20)));
        assert_eq!((storage.trouble(), storage.next_retry()), (None, None));
        // Both files are whole.
        assert_eq!(Memory::open(Some(&state)).unwrap().1.lids, saved().lids);
        assert_eq!(KeptFile::open(Some(&state), Time::ZERO).unwrap().1, [alias(&database)]);
    }
}
