//! Address handles: where datagrams go.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{ibv_ah, ibv_create_ah, ibv_destroy_ah};

use super::attributes::address_vector;
use super::error::VerbsError;
use super::memory::{Allocated, Domain};
use super::path::Path;

/// Where datagrams go. It may be dropped while some are on their way: they keep it.
#[derive(Clone)]
pub struct AddressHandle {
    inner: Arc<Created>,
}

struct Created {
    handle: NonNull<ibv_ah>,
    _domain: Arc<Allocated>,
}

// SAFETY: an address handle is not changed after it was made, and is freed once, by the last owner.
unsafe impl Send for Created {}
// SAFETY: as above.
unsafe impl Sync for Created {}

impl Drop for Created {
    fn drop(&mut self) {
        // SAFETY: no datagram that was posted with it is on its way: each has an `Arc` of this.
        unsafe { ibv_destroy_ah(self.handle.as_ptr()) };
    }
}

impl AddressHandle {
    /// To the end of `path`, by `port`.
    ///
    /// # Errors
    /// When the device cannot, for example because no port has that IP address.
    pub fn new(domain: &Domain, port: u8, path: &Path) -> Result<Self, VerbsError> {
        let mut vector = address_vector(path, port);
        // SAFETY: the domain is there and is kept; the call reads one structure.
        let handle = unsafe { ibv_create_ah(domain.inner.domain.as_ptr(), &raw mut vector) };
        let handle = NonNull::new(handle).ok_or_else(|| VerbsError::last("ibv_create_ah"))?;
        Ok(Self { inner: Arc::new(Created { handle, _domain: Arc::clone(&domain.inner) }) })
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_ah {
        self.inner.handle.as_ptr()
    }
}

impl fmt::Debug for AddressHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressHandle").finish_non_exhaustive()
    }
}
