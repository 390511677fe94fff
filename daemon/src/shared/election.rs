//! One leader among several daemons: it alone changes what they share.
//!
//! The leader holds a key on a lease. Every change that it makes is a transaction that fails where the key is
//! not its own any more, so one that stood still and does not know yet that another leads changes nothing.

use std::sync::Arc;
use std::time::Duration;

use super::{Changes, Embedded, SharedError, Versioned};
use crate::session::Files;

/// Keys with values that this daemon alone changes, many at once.
pub trait Values: Send + Sync {
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

    /// Changes keys, without looking at their old values. They are durable when this returns.
    ///
    /// # Errors
    /// When they cannot be kept, or another daemon leads.
    fn put_all(&self, changes: &Changes) -> Result<(), SharedError>;

    /// An error of this store: what is in it is not what was written.
    fn damaged(&self, what: String) -> SharedError;
}

impl Values for Embedded {
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedError> {
        super::Shared::get(self, key)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, SharedError> {
        super::Shared::list(self, prefix)
    }

    fn put_all(&self, changes: &Changes) -> Result<(), SharedError> {
        Self::put_all(self, changes)
    }

    fn damaged(&self, what: String) -> SharedError {
        Self::damaged(self, what)
    }
}

/// What came of a candidacy.
pub enum Candidacy {
    /// This daemon leads.
    Won {
        /// What it alone may change now.
        values: Arc<dyn Values>,
        /// The length of the lease of the leader before, where that had not run out: for so long that one may
        /// think that it leads. The lease was revoked.
        predecessor: Option<Duration>,
    },
    /// Another one leads, and says this of itself; nothing, where it has lost the lead meanwhile.
    Other(Vec<u8>),
}

/// See the module's documentation. Each call waits for the store, a bounded time.
pub trait Election: Send {
    /// Leads, unless another daemon does, and says `value` of itself. The lease lasts for `ttl` seconds from this
    /// call at least.
    ///
    /// # Errors
    /// When that cannot be found out. This daemon may have been elected: [`resign`](Self::resign).
    fn stand(&mut self, value: &[u8]) -> Result<Candidacy, SharedError>;

    /// Whether this daemon leads still; then its lease begins anew.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn renew(&mut self) -> Result<bool, SharedError>;

    /// Leads no more, so that another one may at once. Where the store does not answer, the lease runs out.
    fn resign(&mut self);
}

/// Opens `etcd://host:port,...` or `etcds://...` for an election; `folder` is where keys are unless the address
/// says another one, `ttl` the seconds of a lease. Nothing is asked yet. `files`: this daemon's certificate and
/// what goes with it, for `etcds`.
///
/// # Errors
/// When the address cannot be used.
pub fn election(
    address: &str,
    files: Option<&Files>,
    folder: &str,
    ttl: u32,
) -> Result<Box<dyn Election>, SharedError> {
    #[cfg(feature = "etcd")]
    {
        let etcd = Arc::new(super::Etcd::open(address, files, folder)?);
        Ok(Box::new(super::etcd::Leading::new(etcd, ttl)))
    }
    #[cfg(not(feature = "etcd"))]
    {
        let _ = (files, folder, ttl);
        Err(super::without_etcd(address))
    }
}
