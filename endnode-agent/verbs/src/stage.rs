//! Room for sends that are handed to the device together.

use rdma_sys::{ibv_send_wr, ibv_sge};

use super::raw;

/// As many are handed over at a time.
const BATCH: usize = 32;

/// Room for what is staged, made with the queue pair.
pub(super) struct Stage {
    pub(super) works: Box<[ibv_send_wr]>,
    pub(super) entries: Box<[[ibv_sge; 2]]>,
    /// For bytes that are in no slot.
    copies: Box<[u8]>,
    /// How many are staged.
    pub(super) count: usize,
}

// SAFETY: the pointers in it mean something during `ring` only.
unsafe impl Send for Stage {}

impl Stage {
    pub(super) fn new(sends: u32, inline: usize) -> Self {
        let room = BATCH.min(sends as usize);
        Self {
            works: (0..room).map(|_| raw::no_send()).collect(),
            entries: vec![[raw::no_entry(); 2]; room].into(),
            copies: vec![0; room * inline].into(),
            count: 0,
        }
    }

    /// Copies bytes that are to be sent next; they are few enough.
    pub(super) fn copy(&mut self, bytes: &[u8], inline: usize) -> ibv_sge {
        let start = self.count * inline;
        let room = &mut self.copies[start..start + bytes.len()];
        room.copy_from_slice(bytes);
        ibv_sge { addr: room.as_ptr() as u64, length: bytes.len() as u32, lkey: 0 }
    }
}
