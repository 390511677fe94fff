//! What must survive a daemon: keys with values, changed one at a time and only by one who has seen what is there.
//!
//! [`Shared`] is the trait; [`Embedded`] keeps it in a file of this machine. What several machines share is a
//! [`Cluster`]: `Etcd` (feature `etcd`), or [`Listed`], a file that an operator writes. A value has a revision,
//! greater with every change of anything. What another daemon must not do meanwhile is held as a
//! [lease](Shared::lease). What one of several daemons alone changes, the leader, begins with an [`Election`].

use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

mod election;
mod embedded;
#[cfg(feature = "etcd")]
mod etcd;
mod listed;

pub use election::{Candidacy, Election, Values, election};
pub use embedded::{Changes, Embedded};
#[cfg(feature = "etcd")]
pub use etcd::Etcd;
pub use listed::Listed;

use crate::session::Files;

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
    /// The disk of a file that is as it should be: it is full, say. Later it may work.
    #[error("{}: {what}", path.display())]
    Disk {
        /// Which file.
        path: PathBuf,
        /// The error, in words.
        what: String,
    },
    /// A file that holds something else than was written.
    #[error(
        "{0}: {what}; lost with it: {holds}; `mv {0} {0}.bad` puts it aside, and without it all begins anew",
        path.display()
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// The error, in words.
        what: String,
        /// What was in it.
        holds: &'static str,
    },
    /// A file that was made once and is not there any more.
    #[error(
        "{}: it was here before and is gone; lost with it: {holds}; put it back, or `rm {}` and all begins anew",
        path.display(), mark.display()
    )]
    Gone {
        /// Which.
        path: PathBuf,
        /// The file that says that it was made.
        mark: PathBuf,
        /// What was in it.
        holds: &'static str,
    },
    /// Another process has it open.
    #[error("{}: another daemon uses it", .0.display())]
    Taken(PathBuf),
    /// No member of the cluster's service answers.
    #[error("{0}")]
    Unreachable(String),
    /// Another daemon leads, or none: this one's changes are not made.
    #[error("this daemon does not lead any more: {0} does")]
    Deposed(String),
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

impl SharedError {
    /// Whether it is the disk that refuses: what is asked may work later, without anybody's help but more room.
    pub const fn is_of_disk(&self) -> bool {
        matches!(self, Self::Disk { .. })
    }

    /// Whether what is asked may work later: the disk refuses, or no member of the cluster's service answers.
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Disk { .. } | Self::Unreachable(_))
    }
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
    return Ok(Box::new(Etcd::open(address, files, "snin")?));
    #[cfg(not(feature = "etcd"))]
    {
        let _ = files;
        Err(without_etcd(address))
    }
}

#[cfg(not(feature = "etcd"))]
fn without_etcd(address: &str) -> SharedError {
    let what = "this program was built without the feature etcd".to_owned();
    SharedError::Address { address: address.to_owned(), what }
}

fn check(key: &str, value: Option<&[u8]>) -> Result<(), SharedError> {
    if key.len() > MAX_KEY || value.is_some_and(|value| value.len() > MAX_VALUE) {
        return Err(SharedError::TooLong(key.to_owned()));
    }
    Ok(())
}
