//! Memory that a device may read and write.
//!
//! A device works on memory while the program runs on, so the two must not meet. A [`Slot`] is a part of
//! registered memory that has one owner: the program, which may read and write it, or a queue pair, from
//! posting it until its completion gives it back. Peers may write to [`Shared`] memory at any moment, and
//! messages may come into it, so the program has no references into it and copies in and out.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{ibv_alloc_pd, ibv_dealloc_pd, ibv_dereg_mr, ibv_mr, ibv_pd, ibv_reg_mr, ibv_sge};

use super::attributes::access;
use super::device::{Device, Opened};
use super::error::VerbsError;

/// What queue pairs and memory have to have in common.
#[derive(Clone)]
pub struct Domain {
    pub(super) inner: Arc<Allocated>,
}

pub(super) struct Allocated {
    pub(super) domain: NonNull<ibv_pd>,
    _device: Arc<Opened>,
}

// SAFETY: libibverbs calls are thread safe for one domain; it is freed once, by the last owner.
unsafe impl Send for Allocated {}
// SAFETY: as above.
unsafe impl Sync for Allocated {}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: the domain is allocated, and everything in it holds an `Arc` of this, so it is empty.
        unsafe { ibv_dealloc_pd(self.domain.as_ptr()) };
    }
}

impl Domain {
    /// A domain of a device.
    ///
    /// # Errors
    /// When the device has no more.
    pub fn new(device: &Device) -> Result<Self, VerbsError> {
        let device = Arc::clone(&device.inner);
        // SAFETY: the context is open and kept open by `device`.
        let domain = unsafe { ibv_alloc_pd(device.context.as_ptr()) };
        let domain = NonNull::new(domain).ok_or_else(|| VerbsError::last("ibv_alloc_pd"))?;
        Ok(Self { inner: Arc::new(Allocated { domain, _device: device }) })
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").finish_non_exhaustive()
    }
}

/// Registered memory; unregistered and freed when no slot of it is left.
struct Region {
    memory: NonNull<u8>,
    layout: Layout,
    registration: NonNull<ibv_mr>,
    _domain: Arc<Allocated>,
}

// SAFETY: the memory is reached through `Slot` and `Shared` only, which say who may; the rest is
// libibverbs, which is thread safe.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

const PAGE: usize = 4096;

impl Region {
    fn new(domain: &Domain, bytes: usize, remote: bool) -> Result<Self, VerbsError> {
        let layout = Layout::from_size_align(bytes.max(1).next_multiple_of(PAGE), PAGE);
        let layout =
            layout.map_err(|_| VerbsError::TooLong { bytes, most: isize::MAX as usize })?;
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let (start, flags) = (memory.as_ptr().cast(), access(remote).0.cast_signed());
        let pd = domain.inner.domain.as_ptr();
        // SAFETY: the domain is allocated, and the memory of that length is ours until it is unregistered.
        let registration = unsafe { ibv_reg_mr(pd, start, layout.size(), flags) };
        let Some(registration) = NonNull::new(registration) else {
            let error = std::io::Error::last_os_error();
            // SAFETY: it was allocated just now with this layout, and there is no other pointer to it.
            unsafe { dealloc(memory.as_ptr(), layout) };
            return Err(match error.raw_os_error() {
                Some(libc::ENOMEM) => VerbsError::MemoryLocked { bytes: layout.size() },
                _ => VerbsError::Call { call: "ibv_reg_mr", error },
            });
        };
        Ok(Self { memory, layout, registration, _domain: Arc::clone(&domain.inner) })
    }

    fn local_key(&self) -> u32 {
        // SAFETY: the registration is valid until `drop`, and its keys never change.
        unsafe { (*self.registration.as_ptr()).lkey }
    }

    fn remote_key(&self) -> u32 {
        // SAFETY: the registration is valid until `drop`, and its keys never change.
        unsafe { (*self.registration.as_ptr()).rkey }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it is registered, and all parts, those posted too, hold an `Arc` of this: no device works
        // on it any more.
        unsafe { ibv_dereg_mr(self.registration.as_ptr()) };
        // SAFETY: it was allocated with this layout, and no slot of it is left.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

/// A part of registered memory with one owner.
pub struct Slot {
    /// Where it begins in the region, its length, and what devices call the region: what every message asks for.
    memory: NonNull<u8>,
    length: u32,
    key: u32,
    _region: Arc<Region>,
}

// SAFETY: as `Region`, of which it is a part that no other slot has.
unsafe impl Send for Slot {}
// SAFETY: as above: threads that share it only read.
unsafe impl Sync for Slot {}

impl Slot {
    /// Registers memory for `count` slots of `bytes` each.
    ///
    /// # Errors
    /// When the device or the system has no more.
    pub fn allocate(domain: &Domain, count: usize, bytes: usize) -> Result<Vec<Self>, VerbsError> {
        let most = u32::MAX as usize;
        let length = u32::try_from(bytes).map_err(|_| VerbsError::TooLong { bytes, most })?;
        let all =
            count.checked_mul(bytes).ok_or(VerbsError::TooLong { bytes: usize::MAX, most })?;
        let region = Arc::new(Region::new(domain, all, false)?);
        let key = region.local_key();
        let slot = |at| {
            // SAFETY: `at` is below `count`, so this begins inside the region's allocation, or at its end if
            // slots have no bytes.
            let memory = unsafe { region.memory.add(at * bytes) };
            Self { memory, length, key, _region: Arc::clone(&region) }
        };
        Ok((0..count).map(slot).collect())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the part lies inside the region; slots do not overlap, and while the program has this
        // one no device works on it.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len()) }
    }

    /// What is in it, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and it is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len()) }
    }

    /// How many bytes it has.
    #[expect(clippy::len_without_is_empty, reason = "the length is chosen when it is made")]
    pub const fn len(&self) -> usize {
        self.length as usize
    }

    /// A part of it, as a device is told: not beyond its end.
    pub(super) fn entry(&self, start: usize, length: usize) -> ibv_sge {
        debug_assert!(start + length <= self.len(), "posts are checked");
        // A slot is no longer than a device can be told.
        let (addr, length) = (self.memory.as_ptr() as u64 + start as u64, length as u32);
        ibv_sge { addr, length, lkey: self.key }
    }
}

/// A slot that devices read. Its poster keeps it too, and no thread writes it until the completion.
#[derive(Clone, Debug)]
pub struct Source(Arc<Slot>);

impl Source {
    /// A source with a single owner.
    pub fn new(slot: Slot) -> Self {
        Self(Arc::new(slot))
    }

    /// The bytes, to be changed, if there is no other owner.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        Arc::get_mut(&mut self.0).map(Slot::bytes_mut)
    }
}

impl Deref for Source {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        &self.0
    }
}

/// A slot that a device writes to, and what its owner notes of what came: both are one pointer in a box.
#[derive(Debug)]
pub struct ReceiveBuffer<T> {
    pub(super) slot: Slot,
    /// What its owner has noted.
    pub note: T,
}

impl<T> ReceiveBuffer<T> {
    /// A slot and its note.
    pub const fn new(slot: Slot, note: T) -> Self {
        Self { slot, note }
    }

    /// What is in the slot.
    pub fn bytes(&self) -> &[u8] {
        self.slot.bytes()
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("memory", &self.memory).field("length", &self.length).finish()
    }
}

/// Memory that peers may read and write.
pub struct Shared {
    region: Arc<Region>,
    length: usize,
}

/// Keeps shared memory as long as a device may write to it.
pub struct DeviceHold(Arc<Region>);

/// Where a peer's shared memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteMemory {
    /// Its address there.
    pub address: u64,
    /// What its device asks for.
    pub key: u32,
    /// Its length.
    pub length: u64,
}

impl Shared {
    /// Registers `bytes` of memory, all zero.
    ///
    /// # Errors
    /// When the device or the system has no more.
    pub fn new(domain: &Domain, bytes: usize) -> Result<Self, VerbsError> {
        Ok(Self { region: Arc::new(Region::new(domain, bytes, true)?), length: bytes })
    }

    /// What a peer has to be told.
    pub fn remote(&self) -> RemoteMemory {
        let address = self.region.memory.as_ptr() as u64;
        RemoteMemory { address, key: self.region.remote_key(), length: self.length as u64 }
    }

    /// All of it, as a device is told.
    pub(super) fn entry(&self) -> ibv_sge {
        let addr = self.region.memory.as_ptr() as u64;
        // What is longer is written to only as far as one entry reaches.
        let length = u32::try_from(self.length).unwrap_or(u32::MAX);
        ibv_sge { addr, length, lkey: self.region.local_key() }
    }

    /// What keeps it as long as a device may write to it.
    pub(super) fn hold(&self) -> DeviceHold {
        DeviceHold(Arc::clone(&self.region))
    }

    /// Copies out what is at `start`. While a peer writes there it may be some old and some new bytes.
    ///
    /// # Panics
    /// When it would reach beyond the end.
    pub fn read(&self, start: usize, into: &mut [u8]) {
        self.check(start, into.len());
        for (at, byte) in into.iter_mut().enumerate() {
            // SAFETY: checked to be inside; volatile, since a peer may write it at any moment.
            *byte = unsafe { self.region.memory.as_ptr().add(start + at).read_volatile() };
        }
    }

    /// Copies in at `start`.
    ///
    /// # Panics
    /// When it would reach beyond the end.
    pub fn write(&mut self, start: usize, from: &[u8]) {
        self.check(start, from.len());
        for (at, &byte) in from.iter().enumerate() {
            // SAFETY: checked to be inside; volatile, since a peer may read it at any moment.
            unsafe { self.region.memory.as_ptr().add(start + at).write_volatile(byte) };
        }
    }

    fn check(&self, start: usize, length: usize) {
        let end = start.checked_add(length);
        assert!(end.is_some_and(|end| end <= self.length), "{start} + {length} is beyond the end");
    }
}

impl fmt::Debug for DeviceHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceHold").field(&self.0.memory).finish()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("length", &self.length).finish_non_exhaustive()
    }
}
