//! What an adapter says of its ports by itself: that a link came or went, that addresses or the subnet manager are
//! others. libibumad has no such events, libibverbs has.

use std::os::fd::{AsFd as _, BorrowedFd};

use snin_verbs::{AsyncEvent, AsyncEvents, Device};
use tracing::info;

/// The asynchronous events of one port.
#[derive(Debug)]
pub struct Changes {
    /// None: the adapter says nothing, or is gone.
    events: Option<AsyncEvents>,
    number: u8,
}

impl Changes {
    /// Of the port of an adapter. Where its events are not to be had, as for lack of rights or of a kernel's
    /// module, there are none, which is told.
    pub fn of(adapter: &str, number: u8) -> Self {
        let opened = Device::open(adapter).and_then(|device| AsyncEvents::new(&device));
        let events = opened.map_err(|why| {
            info!("{adapter}/{number} says nothing by itself, and is asked only: {why}");
        });
        Self { events: events.ok(), number }
    }

    /// Readable when the adapter said something; `None` where it says nothing.
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(|events| events.as_fd())
    }

    /// Whether the port changed since this was last asked: all that was said is read. Never blocks.
    pub fn take(&mut self) -> bool {
        let mut changed = false;
        while let Some(event) = self.events.as_mut().and_then(AsyncEvents::take) {
            match event {
                AsyncEvent::PortActive(port)
                | AsyncEvent::PortDown(port)
                | AsyncEvent::PortChanged(port) => changed |= port == self.number,
                // The last that it says.
                AsyncEvent::DeviceFailed => (self.events, changed) = (None, true),
                AsyncEvent::QueuePairFailed(_)
                | AsyncEvent::LastReceive(_)
                | AsyncEvent::Other(_) => {}
            }
        }
        changed
    }
}
