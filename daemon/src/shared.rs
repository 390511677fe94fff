//! What must survive a daemon: keys with values, changed one at a time and only by one who has seen what is there.
//!
//! [`Shared`] is the trait; [`Embedded`] keeps it in a file of this machine. What several machines share is a
//! [`Cluster`]: `Etcd` (feature `etcd`), or [`Listed`], a file that an operator writes. A value has a revision,
//! greater with every change of anything. What another daemon must not do meanwhile is held as a
//! [lease](Shared::lease).

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

#[cfg(feature = "etcd")]
mod etcd;
mod listed;

#[cfg(feature = "etcd")]
pub use etcd::Etcd;
pub use listed::Listed;

use crate::session::Files;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

const VALUES: TableDefinition<'_, &str, (u64, &[u8])> = TableDefinition::new("values");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const REVISION: &str = "revision";
/// The longest key and value, in bytes.
const MAX_KEY: usize = 256;
const MAX_VALUE: usize = 1 << 20;

/// A value as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Versioned {
    /// Which change made it.
    pub revision: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// A key that was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// Which.
    pub key: String,
    /// What it is now; `None`: nothing.
    pub now: Option<Versioned>,
}

/// Why something is not done. One line.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// The file.
    #[error("{}: {what}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The error, in words.
        what: String,
    },
    /// Another process has it open.
    #[error("{}: another daemon uses it", .0.display())]
    Taken(PathBuf),
    /// No member of the cluster's service answers.
    #[error("{0}")]
    Unreachable(String),
    /// An address that cannot be used.
    #[error("{address}: {what}")]
    Address {
        /// The address.
        address: String,
        /// The error, in words.
        what: String,
    },
    /// A key or value that is too long.
    #[error("key `{0:.40}`: at most {MAX_KEY} bytes a key and {MAX_VALUE} a value are kept")]
    TooLong(String),
}

/// Another one was faster: what is there now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict(pub Option<Versioned>);

/// See the module's documentation.
pub trait Shared: Send {
    /// What a key holds.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedError>;

    /// All keys that begin so, in order.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, SharedError>;

    /// Changes a key that was last changed by `expected`, or that was never set: to `value`, or to nothing. It is
    /// durable when this returns. The new revision.
    ///
    /// # Errors
    /// When it cannot be kept.
    fn compare_and_swap(
        &self,
        key: &str,
        expected: Option<u64>,
        value: Option<&[u8]>,
    ) -> Result<Result<u64, Conflict>, SharedError>;

    /// Every later change of keys that begin so, until the receiver is dropped.
    fn watch(&self, prefix: &str) -> Receiver<Changed>;

    /// Whether this daemon alone holds `name` from now on. It holds it until it ends, or [`Shared`] is dropped.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn lease(&self, name: &str) -> Result<bool, SharedError>;
}

/// What several machines share.
pub trait Cluster: Shared {
    /// Sets a key for as long as this process lives: soon after its end the key is gone.
    ///
    /// # Errors
    /// When it cannot be set.
    fn attach(&self, key: &str, value: &[u8]) -> Result<(), SharedError>;
}

/// Opens `etcd://host:port,...`, `etcds://...`, or `file:PATH`. Nothing is asked yet. `files`: this daemon's
/// certificate and what goes with it, for `etcds`.
///
/// # Errors
/// When the address cannot be used.
pub fn cluster(address: &str, files: Option<&Files>) -> Result<Box<dyn Cluster>, SharedError> {
    if let Some(path) = address.strip_prefix("file:") {
        return Ok(Box::new(Listed::new(Path::new(path))));
    }
    #[cfg(feature = "etcd")]
    return Ok(Box::new(Etcd::open(address, files)?));
    #[cfg(not(feature = "etcd"))]
    {
        let _ = files;
        let what = "this program was built without the feature etcd".to_owned();
        Err(SharedError::Address { address: address.to_owned(), what })
    }
}

fn check(key: &str, value: Option<&[u8]>) -> Result<(), SharedError> {
    if key.len() > MAX_KEY || value.is_some_and(|value| value.len() > MAX_VALUE) {
        return Err(SharedError::TooLong(key.to_owned()));
    }
    Ok(())
}

/// In a file of this machine: one process at a time has it open, and so holds every lease.
pub struct Embedded {
    path: PathBuf,
    database: Database,
    watchers: Mutex<Vec<(String, Sender<Changed>)>>,
}

impl Embedded {
    /// Opens a file, which is made where there is none.
    ///
    /// # Errors
    /// When it cannot be used, or another daemon has it.
    pub fn open(path: &Path) -> Result<Self, SharedError> {
        let failed = |what: String| SharedError::File { path: path.to_owned(), what };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error: io::Error| failed(error.to_string()))?;
        }
        let database = Database::create(path).map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => SharedError::Taken(path.to_owned()),
            other => failed(other.to_string()),
        })?;
        let shared = Self { path: path.to_owned(), database, watchers: Mutex::default() };
        let make = || -> Result<(), redb::Error> {
            let change = shared.database.begin_write()?;
            change.open_table(VALUES)?;
            change.open_table(META)?;
            Ok(change.commit()?)
        };
        make().map_err(|error| failed(error.to_string()))?;
        Ok(shared)
    }

    fn failed(&self) -> impl Fn(redb::Error) -> SharedError {
        |error| SharedError::File { path: self.path.clone(), what: error.to_string() }
    }

    fn notify(&self, key: &str, now: Option<&Versioned>) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|(prefix, to)| {
            let changed = || Changed { key: key.to_owned(), now: now.cloned() };
            !key.starts_with(prefix.as_str()) || to.send(changed()).is_ok()
        });
    }
}

impl Shared for Embedded {
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedError> {
        let read = || -> Result<_, redb::Error> {
            let values = self.database.begin_read()?.open_table(VALUES)?;
            Ok(values.get(key)?.map(|found| versioned(found.value())))
        };
        read().map_err(self.failed())
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, SharedError> {
        let read = || -> Result<_, redb::Error> {
            let values = self.database.begin_read()?.open_table(VALUES)?;
            let mut all = Vec::new();
            for entry in values.range(prefix..)? {
                let (key, value) = entry?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                all.push((key.value().to_owned(), versioned(value.value())));
            }
            Ok(all)
        };
        read().map_err(self.failed())
    }

    fn compare_and_swap(
        &self,
        key: &str,
        expected: Option<u64>,
        value: Option<&[u8]>,
    ) -> Result<Result<u64, Conflict>, SharedError> {
        check(key, value)?;
        let write = || -> Result<_, redb::Error> {
            let change = self.database.begin_write()?;
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
        };
        let done = write().map_err(self.failed())?;
        if let Ok(revision) = done {
            let now = value.map(|value| Versioned { revision, value: value.to_vec() });
            self.notify(key, now.as_ref());
        }
        Ok(done)
    }

    fn watch(&self, prefix: &str) -> Receiver<Changed> {
        let (to, from) = channel();
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.push((prefix.to_owned(), to));
        from
    }

    fn lease(&self, _: &str) -> Result<bool, SharedError> {
        Ok(true)
    }
}

fn versioned((revision, value): (u64, &[u8])) -> Versioned {
    Versioned { revision, value: value.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_seen_what_is_there_changes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/store.redb");
        let shared = Embedded::open(&path).unwrap();
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
        assert!(matches!(Embedded::open(&path), Err(SharedError::Taken(_))));
        drop(shared);
        let again = Embedded::open(&path).unwrap();
        assert_eq!(again.get("term").unwrap().unwrap().value, b"2");
        let gone = again.get("slice/a").unwrap().unwrap().revision;
        again.compare_and_swap("slice/a", Some(gone), None).unwrap().unwrap();
        assert_eq!(again.list("slice/").unwrap().len(), 1);
    }
}
