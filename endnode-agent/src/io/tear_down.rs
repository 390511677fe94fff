//! Tears down queue pairs that receive, so that nothing that was acknowledged is lost and no receive that
//! they share stays with them:
//!
//! 1. The queue pair is moved to ERR: it takes no more messages.
//! 2. The device says that it takes no more shared receives either (`IBV_EVENT_QP_LAST_WQE_REACHED`). Not
//!    all devices
//!    say so, and they are waited for no longer than [`LAST_RECEIVE`].
//! 3. The data thread takes every completion that there is, and says so.
//! 4. The queue pair is destroyed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snin_fabric::Guid;
use snin_verbs::{QueuePair, Rc, Receiving};

use super::rings::{ControlEvent, Rings};

/// How long a device may take to say that a queue pair takes no more receives.
const LAST_RECEIVE: Duration = Duration::from_millis(100);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct TearDown {
    rings: Arc<Rings>,
    ending: Vec<Ending>,
    /// The peers of those that are done.
    done: VecDeque<Guid>,
}

#[derive(Debug)]
struct Ending {
    sender: (Guid, u64),
    number: u32,
    /// Destroyed when this is dropped.
    _receives: Option<QueuePair<Rc, Receiving>>,
    /// Until when the device is waited for; `None`: the data thread takes what is left.
    waits_until: Option<Instant>,
}

impl TearDown {
    pub(crate) const fn new(rings: Arc<Rings>) -> Self {
        Self { rings, ending: Vec::new(), done: VecDeque::new() }
    }

    /// Begins with a queue pair; if its number `is_shared`, the data thread goes on taking what comes by it.
    pub(crate) fn begin(
        &mut self,
        sender: (Guid, u64),
        number: u32,
        mut receives: Option<QueuePair<Rc, Receiving>>,
        is_shared: bool,
        now: Instant,
    ) {
        if is_shared {
            return self.done.push_back(sender.0);
        }
        // A queue pair that cannot be moved to ERR is of a broken device, or in ERR already.
        let waits = receives.as_mut().is_some_and(|pair| pair.fail().is_ok());
        let waits_until = Some(if waits { now + LAST_RECEIVE } else { now });
        self.ending.push(Ending { sender, number, _receives: receives, waits_until });
    }

    /// The device says that a queue pair takes no more receives.
    pub(crate) fn last_receive(&mut self, number: u32, now: Instant) {
        let ending = self.ending.iter_mut().filter(|ending| ending.number == number);
        ending.for_each(|ending| ending.waits_until = ending.waits_until.map(|_| now));
    }

    /// The data thread has taken all that came by a queue pair.
    pub(crate) fn drained(&mut self, number: u32) {
        let Self { ending, done, .. } = self;
        ending.retain(|one| {
            let is_done = one.number == number && one.waits_until.is_none();
            if is_done {
                done.push_back(one.sender.0);
            }
            !is_done
        });
    }

    /// Has the data thread drain those that take no more receives.
    pub(crate) fn work(&mut self, now: Instant) {
        for ending in &mut self.ending {
            if ending.waits_until.is_some_and(|until| until <= now) {
                let (peer, session) = ending.sender;
                let event = ControlEvent::InboundGone { number: ending.number, peer, session };
                // Where the ring is full it is said again.
                if self.rings.report(event) {
                    ending.waits_until = None;
                }
            }
        }
    }

    /// The peer of a queue pair that is done with.
    pub(crate) fn take_done(&mut self) -> Option<Guid> {
        self.done.pop_front()
    }

    /// When the device has been waited for long enough.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.ending.iter().filter_map(|ending| ending.waits_until).min()
    }
}
