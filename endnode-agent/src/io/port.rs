//! The mesh's port on real verbs, as the data thread has it: posts and completions, and nothing that takes a
//! system call. Queue pairs are made and destroyed by the control thread.

use std::sync::Arc;

use snin_agent_core::{PairId, Port, PortEvent, Post, Route};
use snin_verbs::{Batch, Completion, CompletionQueue};

use super::inbox::Inbox;
use super::outbox::Outbox;
use super::rings::{ControlEvent, Rings};

/// Completions that are taken at a time.
pub(super) const BATCH: u16 = 32;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct VerbsPort {
    rings: Arc<Rings>,
    queue: CompletionQueue,
    batch: Batch,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    is_up: bool,
}

impl VerbsPort {
    pub(crate) fn new(
        rings: Arc<Rings>,
        queue: CompletionQueue,
        inbox: Inbox,
        outbox: Outbox,
    ) -> Self {
        Self { rings, queue, batch: Batch::new(BATCH), inbox, outbox, is_up: true }
    }

    /// Takes completions from the device when those before are dealt with, then what the control thread reports: it
    /// has reported a sender before that sender's first piece can complete.
    pub(crate) fn take_completions(&mut self) {
        if self.batch.completions().is_empty() && self.queue.poll(&mut self.batch).is_err() {
            self.link_changed(false);
        }
        while let Some(event) = self.rings.control_events.pop() {
            self.control_event(event);
        }
    }

    fn control_event(&mut self, event: ControlEvent) {
        let event = match event {
            ControlEvent::Connected { pair, path } => return self.outbox.connected(pair, path),
            ControlEvent::Broken { pair, reason } => PortEvent::Broken { pair, reason },
            ControlEvent::Closed { pair } => PortEvent::Closed { pair },
            ControlEvent::Inbound { number, peer, session } => {
                return self.inbox.admit(number, peer, session);
            }
            ControlEvent::InboundGone { number, peer, session } => {
                return self.inbox.forget(number, peer, session);
            }
            ControlEvent::Up => return self.link_changed(true),
            ControlEvent::Down => return self.link_changed(false),
        };
        self.outbox.news.push_back(event);
    }

    fn link_changed(&mut self, is_up: bool) {
        if self.is_up != is_up {
            self.is_up = is_up;
            self.outbox.news.push_back(if is_up { PortEvent::Up } else { PortEvent::Down });
        }
    }

    fn completed(&mut self, completion: Completion) -> Option<PortEvent> {
        if self.inbox.expects(&completion) {
            return self.inbox.receive(completion).map(PortEvent::Arrived);
        }
        self.outbox.sent(&completion)
    }

    pub(crate) const fn queue(&self) -> &CompletionQueue {
        &self.queue
    }
}

impl Port for VerbsPort {
    fn connect(&mut self, pair: PairId, route: &Route) {
        self.outbox.connect(pair, route);
    }

    fn post(&mut self, post: &Post) {
        self.outbox.post(post);
    }

    fn close(&mut self, pair: PairId) {
        self.outbox.close(pair);
    }

    fn poll(&mut self) -> Option<PortEvent> {
        loop {
            if let Some(event) = self.outbox.news.pop_front() {
                return Some(event);
            }
            let completion = self.batch.take()?;
            if let Some(event) = self.completed(completion) {
                return Some(event);
            }
        }
    }
}
