//! What has to survive a restart, on a disk that may be full or gone: what cannot be written is tried again, and
//! the subnet is served meanwhile.
//!
//! Nothing waits for the disk but the order of things: an answer goes out after what it promises was written, or
//! after writing failed. What failed is not queued: the state is written whole when it is tried again, so that
//! what waits is never more than the state itself.

use std::sync::Arc;

use snin_daemon::trouble::{News, Trouble};
use snin_protocol::Time;
use snin_sm_database::records::{Database, KeptRecord};
use snin_sm_database::saved::Saved;

use super::failure::Failure;
use super::kept::KeptFile;
use super::memory::Memory;

/// The files of the state folder.
#[derive(Debug)]
pub struct Storage {
    memory: Memory,
    kept: KeptFile,
    /// The addresses and trees that were to be stored last, unless they were.
    unsaved: Option<Arc<Saved>>,
    /// The secret of M_Keys is to be made, for the next start: without it on the disk no port gets a key.
    unmade: bool,
    /// What hosts said is not all in the file: it has to be written whole.
    stale: bool,
    trouble: Trouble,
}

impl Storage {
    /// These files.
    pub fn new(memory: Memory, kept: KeptFile) -> Self {
        Self {
            memory,
            kept,
            unsaved: None,
            unmade: false,
            stale: false,
            trouble: Trouble::default(),
        }
    }

    /// The secret of M_Keys could not be made: this is why. It is tried again.
    pub fn lacks_secret(&mut self, why: Failure, now: Time) {
        self.unmade = true;
        self.note(Err(why), now);
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
        self.trouble.next_retry()
    }

    /// Tries again what is due; what there is to tell since it was last asked.
    pub fn work(&mut self, database: &Database, now: Time) -> Option<News> {
        if self.next_retry().is_some_and(|due| due <= now) {
            self.retry(database, now);
        }
        if self.unsaved.is_none() && !self.stale && !self.unmade {
            self.trouble.works();
        }
        self.trouble.news()
    }

    fn retry(&mut self, database: &Database, now: Time) {
        if let Some(saved) = self.unsaved.take() {
            self.save(saved, now);
        }
        if self.unmade {
            let done = self.memory.make_secret(&mut Saved::default());
            self.unmade = done.is_err();
            self.note(done, now);
        }
        if self.stale {
            let done = self.kept.rewrite(&database.kept());
            self.stale = done.is_err();
            self.note(done, now);
        }
    }

    fn note(&mut self, done: Result<(), Failure>, now: Time) {
        if let Err(error) = done {
            self.trouble.failed(error, now);
        }
    }

    /// Why the state is not stored, where it is not.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.why()
    }

    /// How often writing failed.
    pub const fn failures(&self) -> u64 {
        self.trouble.failures()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use snin_fabric::{Guid, Lid, Lmc};
    use snin_sm_database::records::Aliases;

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
    fn what_failed_is_tried_again_until_it_is_written() {
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
        let Some(News::Failed(why)) = storage.work(&database, Time::ZERO) else { panic!() };
        assert!(why.starts_with(&*state.to_string_lossy()), "{why}");
        assert_eq!((storage.work(&database, Time::ZERO), storage.failures()), (None, 2));
        for _ in 0..9 {
            let due = storage.next_retry().unwrap();
            assert_eq!(storage.work(&database, due), None, "told once");
        }
        fs::remove_file(&state).unwrap();
        let now = storage.next_retry().unwrap();
        assert_eq!(storage.work(&database, now), Some(News::Works(20)));
        assert_eq!((storage.trouble(), storage.next_retry()), (None, None));
        // Both files are whole.
        assert_eq!(Memory::open(Some(&state)).unwrap().1.lids, saved().lids);
        assert_eq!(KeptFile::open(Some(&state), Time::ZERO).unwrap().1, [alias(&database)]);
    }
}
