//! The notices that a port has not yet told its manager.

use std::collections::VecDeque;

use snin_mad::{Notice, TransactionId};

/// Notices that wait at one port; what happens beyond that is not told.
pub(crate) const MOST: usize = 16;

/// The notice queue of a port (IBA 13.4.10).
#[derive(Default)]
pub(crate) struct Notices {
    pub(crate) queue: VecDeque<Notice>,
    pub(crate) toggle: bool,
    /// Names the notice at the front: rises when it is gone.
    pub(crate) round: u32,
    pub(crate) told: u64,
}

impl Notices {
    pub(crate) fn front(&self) -> Option<Notice> {
        let mut notice = self.queue.front()?.clone();
        notice.toggle = self.toggle;
        notice.count = self.queue.len() as u16;
        Some(notice)
    }

    /// Forgets everything, as a loss of power does.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.round = self.round.wrapping_add(1);
    }

    pub(crate) fn pop(&mut self) {
        self.queue.pop_front();
        self.toggle = !self.toggle;
        self.round = self.round.wrapping_add(1);
    }

    /// Repetitions carry the first one's transaction id, other notices others.
    pub(crate) fn transaction(&self, port: u32) -> TransactionId {
        TransactionId(u64::from(port) << 32 | u64::from(self.round))
    }
}
