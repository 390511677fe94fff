//! The mesh's port on real verbs, as the data thread has it: posts and completions, and nothing that takes a
//! system call. Queue pairs are made and destroyed by the control thread.

use std::sync::Arc;

use snin_agent_core::{PairId, Port, PortEvent, Post, Route};
use snin_fabric::Guid;
use snin_verbs::{Batch, Completion, CompletionQueue};

use super::inbox::Inbox;
use super::outbox::{BATCH, Outbox};
use super::rings::{Command, ControlEvent, Rings};

/// Queue pairs that may be torn down at a time before memory is allocated for more.
const LEAVING: usize = 1024;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct VerbsPort {
    rings: Arc<Rings>,
    queue: CompletionQueue,
    batch: Batch,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    is_up: bool,
    /// Queue pairs that nothing comes by any more, each with its sender.
    leaving: Vec<(u32, Guid, u64)>,
    /// How many of these have no completion behind those of the batch.
    drained: usize,
}

impl VerbsPort {
    pub(crate) fn new(
        rings: Arc<Rings>,
        queue: CompletionQueue,
        inbox: Inbox,
        outbox: Outbox,
    ) -> Self {
        let (batch, leaving) = (Batch::new(BATCH), Vec::with_capacity(LEAVING));
        Self { rings, queue, batch, inbox, outbox, is_up: true, leaving, drained: 0 }
    }

    /// Takes completions from the device when those before are dealt with, then what the control thread
    /// reports: it has reported a sender before that sender's first piece can complete.
    pub(crate) fn take_completions(&mut self) {
        if self.batch.completions().is_empty() {
            self.forget_drained();
            match self.queue.poll(&mut self.batch) {
                // The device had no more than this.
                Ok(count) if count < BATCH.into() => self.drained = self.leaving.len(),
                Ok(_) => {}
                Err(_) => self.link_changed(false),
            }
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
                return self.leaving.push((number, peer, session));
            }
            ControlEvent::PeerGone { peer, session } => PortEvent::PeerGone { peer, session },
            ControlEvent::Up => return self.link_changed(true),
            ControlEvent::Down => return self.link_changed(false),
        };
        self.outbox.news.push_back(event);
    }

    /// What came by these queue pairs was taken.
    fn forget_drained(&mut self) {
        for (number, peer, session) in self.leaving.drain(..std::mem::take(&mut self.drained)) {
            self.inbox.forget(number, peer, session);
            self.rings.command(Command::InboundDrained { number });
        }
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
