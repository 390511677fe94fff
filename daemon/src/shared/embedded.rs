//! The store in a file of this machine, by redb.
//!
//! The file has its name when it is whole and not before, so that no disk that is full leaves half of one. That it
//! was made says a file beside it, `NAME.made`: where the store is gone, that is told, and not taken for a first
//! start. After an error the file is closed and opened anew by the next one who asks, since redb answers nothing
//! more; a panic inside it is an error like others. Where a disk refuses what opening writes, values are read from
//! a copy in memory.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use redb::backends::{FileBackend, InMemoryBackend};
use redb::{
    Builder, Database, Error, ReadableDatabase as _, ReadableTable as _, StorageBackend as _,
    TableDefinition,
};
use tracing::warn;

use super::{Changed, Conflict, Shared, SharedError, Versioned, check};
use crate::store::{self, Draft, StoreError, is_of_disk};

const VALUES: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("values");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const REVISION: &str = "revision";

/// What keys shall be: a value, or nothing.
pub type Changes = BTreeMap<String, Option<Vec<u8>>>;

/// See the module's documentation. One process at a time has it open, and so holds every lease.
pub struct Embedded {
    path: PathBuf,
    /// What is in it, for who loses it.
    holds: &'static str,
    /// None after an error.
    database: Mutex<Option<Database>>,
    watchers: Mutex<Vec<(String, Sender<Changed>)>>,
}

impl Embedded {
    /// Opens a file, which is made where there never was one. A disk that refuses is no error here: what is there
    /// is read, and writing fails until there is room. `holds`: what is in it, in words, for who loses it.
    ///
    /// # Errors
    /// When the file cannot be read, is gone, or another daemon has it.
    pub fn open(path: &Path, holds: &'static str) -> Result<Self, SharedError> {
        let embedded = Self {
            path: path.to_owned(),
            holds,
            database: Mutex::default(),
            watchers: Mutex::default(),
        };
        match embedded.connect() {
            Ok(database) => *lock(&embedded.database) = Some(database),
            Err(error) if error.is_of_disk() => warn!("the store cannot be written: {error}"),
            Err(error) => return Err(error),
        }
        Ok(embedded)
    }

    /// The same, without making one.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    pub fn open_made(path: &Path, holds: &'static str) -> Result<Option<Self>, SharedError> {
        let is_made = path.exists() || mark_of(path).exists();
        is_made.then(|| Self::open(path, holds)).transpose()
    }

    /// An error of this store: what is in it is not what was written.
    pub fn damaged(&self, what: impl Into<String>) -> SharedError {
        SharedError::Damaged { path: self.path.clone(), what: what.into(), holds: self.holds }
    }

    /// Whether they are of a length that is kept.
    ///
    /// # Errors
    /// [`SharedError::TooLong`].
    pub fn check(changes: &Changes) -> Result<(), SharedError> {
        changes.iter().try_for_each(|(key, value)| check(key, value.as_deref()))
    }

    /// Changes many keys in one transaction, without looking at their old values: all of them are durable when
    /// this returns, or none is changed.
    ///
    /// # Errors
    /// When they cannot be kept.
    pub fn put_all(&self, changes: &Changes) -> Result<(), SharedError> {
        Self::check(changes)?;
        let revision = self.ask(|database| {
            let change = database.begin_write()?;
            let revision = {
                let (mut values, mut meta) = (change.open_table(VALUES)?, change.open_table(META)?);
                let revision = meta.get(REVISION)?.map_or(0, |last| last.value()) + 1;
                meta.insert(REVISION, revision)?;
                for (key, value) in changes {
                    match value {
                        Some(value) => drop(values.insert(&**key, (revision, &**value))?),
                        None => drop(values.remove(&**key)?),
                    }
                }
                revision
            };
            change.commit()?;
            Ok(revision)
        })?;
        for (key, value) in changes {
            let now = value.clone().map(|value| Versioned { revision, value });
            self.notify(key, now.as_ref());
        }
        Ok(())
    }

    /// Opens the file or makes it.
    fn connect(&self) -> Result<Database, SharedError> {
        let path = &self.path;
        let mark = mark_of(path);
        let database = match fs::metadata(path) {
            Ok(there) if there.len() == 0 => return Err(self.damaged("it is empty")),
            Ok(_) => self.open_there()?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if fs::read_to_string(&mark).is_ok_and(|said| !self.was_put_aside(&said)) {
                    let path = path.clone();
                    return Err(SharedError::Gone { path, mark, holds: self.holds });
                }
                match self.make()? {
                    Some(database) => database,
                    // Another process made it meanwhile.
                    None => self.open_there()?,
                }
            }
            Err(error) => return Err(self.of_system(&error)),
        };
        // Without it a store that is lost is not missed, which is no reason not to use one that is there.
        if let Err(error) = store::replace(&mark, self.mark().as_bytes()) {
            warn!("that the store was made is not noted: {error}");
        }
        Ok(database)
    }

    fn open_there(&self) -> Result<Database, SharedError> {
        self.guarded(|| Ok(Builder::new().set_check_integrity_on_open(true).open(&self.path)?))
    }

    /// The file has no name until all of it is on the disk; none where another one has it by then.
    fn make(&self) -> Result<Option<Database>, SharedError> {
        let of_store = |error: StoreError| self.of_system(&error.error);
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(|error| self.of_system(&error))?;
        }
        let draft = Draft::open(&self.path).map_err(of_store)?;
        let file = draft.file().map_err(of_store)?;
        let database = self.guarded(|| {
            let database = Builder::new().create_with_backend(FileBackend::new(file)?)?;
            let change = database.begin_write()?;
            change.open_table(VALUES)?;
            change.open_table(META)?;
            change.commit()?;
            Ok(database)
        })?;
        let published = draft.publish_new();
        if matches!(published, Ok(true)) {
            return Ok(Some(database));
        }
        close(database);
        published.map_err(of_store).map(|_| None)
    }

    /// What is there, where the disk refuses what opening writes. None: nothing.
    fn copy(&self) -> Result<Option<Database>, SharedError> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.of_system(&error)),
        };
        let made = self.guarded(|| {
            let memory = InMemoryBackend::new();
            memory.set_len(bytes.len() as u64)?;
            memory.write(0, &bytes)?;
            let mut builder = Builder::new();
            Ok(builder.set_check_integrity_on_open(true).create_with_backend(memory)?)
        });
        made.map(Some)
    }

    /// Asks the store; after an error it is opened anew the next time.
    fn ask<T>(&self, ask: impl Fn(&Database) -> Result<T, Error>) -> Result<T, SharedError> {
        let mut held = lock(&self.database);
        let database = match held.take() {
            Some(database) => database,
            None => self.connect()?,
        };
        let answer = self.guarded(|| ask(&database));
        match &answer {
            Ok(_) => *held = Some(database),
            Err(_) => close(database),
        }
        answer
    }

    /// Reads from the store, or from a copy in memory where the disk refuses. None: there is no store yet.
    fn look<T>(
        &self,
        look: impl Fn(&Database) -> Result<T, Error>,
    ) -> Result<Option<T>, SharedError> {
        match self.ask(&look) {
            Err(error) if error.is_of_disk() => {}
            done => return done.map(Some),
        }
        let Some(copy) = self.copy()? else { return Ok(None) };
        let seen = self.guarded(|| look(&copy));
        close(copy);
        seen.map(Some)
    }

    fn guarded<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, SharedError> {
        match unpanicked(work) {
            Ok(done) => done.map_err(|error| self.of_redb(&error)),
            Err(what) => Err(self.damaged(format!("redb panics: {what}"))),
        }
    }

    fn of_system(&self, error: &std::io::Error) -> SharedError {
        let (path, what) = (self.path.clone(), error.to_string());
        match is_of_disk(error) {
            true => SharedError::Disk { path, what },
            false => SharedError::File { path, what },
        }
    }

    fn of_redb(&self, error: &Error) -> SharedError {
        let what = error.to_string();
        match error {
            Error::DatabaseAlreadyOpen => SharedError::Taken(self.path.clone()),
            Error::Io(error)
                if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
            {
                self.damaged(what)
            }
            Error::Io(error) => self.of_system(error),
            Error::PreviousIo => SharedError::Disk { path: self.path.clone(), what },
            _ => self.damaged(what),
        }
    }

    fn notify(&self, key: &str, now: Option<&Versioned>) {
        let mut watchers = lock(&self.watchers);
        watchers.retain(|(prefix, to)| {
            let changed = || Changed { key: key.to_owned(), now: now.cloned() };
            !key.starts_with(prefix.as_str()) || to.send(changed()).is_ok()
        });
    }

    /// What says that the store was made: also which file was put aside before.
    fn mark(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let aside = fs::metadata(beside(&self.path, "bad"));
        let aside = aside.map_or(String::new(), |it| format!("{} {}", it.ino(), it.mtime()));
        format!("{name} was made, and is missed where it is gone.\n{aside}\n")
    }

    /// Whether an operator has put the store aside since it was made.
    fn was_put_aside(&self, said: &str) -> bool {
        beside(&self.path, "bad").exists() && said != self.mark()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(database) = lock(&self.database).take() {
            close(database);
        }
    }
}

impl Shared for Embedded {
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedError> {
        let found = self.look(|database| {
            let values = database.begin_read()?.open_table(VALUES)?;
            Ok(values.get(key)?.map(|found| versioned(found.value())))
        });
        found.map(Option::flatten)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, SharedError> {
        let found = self.look(|database| {
            let values = database.begin_read()?.open_table(VALUES)?;
            let mut all = Vec::new();
            for entry in values.range(prefix..)? {
                let (key, value) = entry?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                all.push((key.value().to_owned(), versioned(value.value())));
            }
            Ok(all)
        });
        found.map(Option::unwrap_or_default)
    }

    fn compare_and_swap(
        &self,
        key: &str,
        expected: Option<u64>,
        value: Option<&[u8]>,
    ) -> Result<Result<u64, Conflict>, SharedError> {
        check(key, value)?;
        let done = self.ask(|database| {
            let change = database.begin_write()?;
            let revision = {
                let (mut values, mut meta) = (change.open_table(VALUES)?, change.open_table(META)?);
                let there = values.get(key)?.map(|found| versioned(found.value()));
                if there.as_ref().map(|there| there.revision) != expected {
                    return Ok(Err(Conflict(there)));
                }
                let revision = meta.get(REVISION)?.map_or(0, |last| last.value()) + 1;
                meta.insert(REVISION, revision)?;
                match value {
                    Some(value) => drop(values.insert(key, (revision, value))?),
                    None => drop(values.remove(key)?),
                }
                revision
            };
            change.commit()?;
            Ok(Ok(revision))
        })?;
        if let Ok(revision) = done {
            let now = value.map(|value| Versioned { revision, value: value.to_vec() });
            self.notify(key, now.as_ref());
        }
        Ok(done)
    }

    fn watch(&self, prefix: &str) -> Receiver<Changed> {
        let (to, from) = channel();
        lock(&self.watchers).push((prefix.to_owned(), to));
        from
    }

    fn lease(&self, _: &str) -> Result<bool, SharedError> {
        Ok(true)
    }
}

fn versioned((revision, value): (u64, &[u8])) -> Versioned {
    Versioned { revision, value: value.to_vec() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file's path with one more ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn mark_of(path: &Path) -> PathBuf {
    beside(path, "made")
}

/// Closing writes too, and may fail as all else does: what counts was committed before.
fn close(database: Database) {
    let _ = unpanicked(|| drop(database));
}

thread_local! {
    /// A panic on this thread is an error, and not for stderr.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Does something in code of others that may panic; what it panicked with, in one line.
fn unpanicked<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                before(panic);
            }
        }));
    });
    QUIET.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    done.map_err(|what| {
        let text = what.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| what.downcast_ref::<&str>().copied()).unwrap_or("no reason");
        text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_seen_what_is_there_changes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/store.redb");
        let shared = Embedded::open(&path, "all").unwrap();
        let watch = shared.watch("slice/");
        assert_eq!(shared.get("term").unwrap(), None);
        let first = shared.compare_and_swap("term", None, Some(b"1")).unwrap().unwrap();
        let late = shared.compare_and_swap("term", None, Some(b"9")).unwrap();
        assert_eq!(late, Err(Conflict(Some(Versioned { revision: first, value: b"1".to_vec() }))));
        let second = shared.compare_and_swap("term", Some(first), Some(b"2")).unwrap().unwrap();
        assert!(second > first);
        for name in ["slice/b", "slice/a", "sliced"] {
            shared.compare_and_swap(name, None, Some(name.as_bytes())).unwrap().unwrap();
        }
        let keys: Vec<String> =
            shared.list("slice/").unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["slice/a", "slice/b"]);
        let seen: Vec<String> = watch.try_iter().map(|changed| changed.key).collect();
        assert_eq!(seen, ["slice/b", "slice/a"]);
        assert!(matches!(Embedded::open(&path, "all"), Err(SharedError::Taken(_))));
        drop(shared);
        let again = Embedded::open(&path, "all").unwrap();
        assert_eq!(again.get("term").unwrap().unwrap().value, b"2");
        let gone = again.get("slice/a").unwrap().unwrap().revision;
        again.compare_and_swap("slice/a", Some(gone), None).unwrap().unwrap();
        assert_eq!(again.list("slice/").unwrap().len(), 1);
    }
}
