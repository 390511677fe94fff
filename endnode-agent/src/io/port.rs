//! The mesh's port on real verbs, as the data thread has it: posts and completions, and nothing that takes a
//! system call. Queue pairs are made and destroyed by the control thread.

use std::sync::Arc;

use super::inbox::Inbox;
use super::outbox::Outbox;
use super::rings::{Received, Rings, Word};
use snin_agent_core::{PairId, Port, PortEvent, Post, Route};
use snin_verbs::{Batch, CompletionQueue, Noted};

/// Completions that are taken at a time.
pub(super) const BATCH: u16 = 32;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct VerbsPort {
    rings: Arc<Rings>,
    queue: CompletionQueue,
    batch: Batch,
    /// How many of its completions were looked at for what came, and how many for all else.
    came: usize,
    done: usize,
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
        let batch = Batch::new(BATCH);
        Self { rings, queue, batch, came: 0, done: 0, inbox, outbox, is_up: true }
    }

    /// Takes completions from the device when those before are dealt with: whether there is anything to look at.
    #[inline(always)]
    pub(crate) fn look(&mut self) -> bool {
        if self.done < self.batch.len() || !self.outbox.news.is_empty() {
            return true;
        }
        (self.came, self.done) = (0, 0);
        match self.queue.poll(&mut self.batch) {
            Ok(count) => count > 0,
            Err(_) => {
                self.told_down(true);
                !self.outbox.news.is_empty()
            }
        }
    }

    /// The next piece that came. Somebody waits for it, so it is told before what was done.
    #[inline]
    pub(crate) fn next_arrival(&mut self) -> Option<Box<Noted<Received>>> {
        while let Some(completion) = self.batch.completion(self.came) {
            let at = self.came;
            self.came += 1;
            if self.inbox.expects(&completion) {
                self.done += usize::from(self.done == at);
                let slot = self.inbox.open(&completion);
                if slot.is_some() {
                    return slot;
                }
            }
        }
        None
    }

    /// Takes what the control thread says, which is seldom anything.
    #[inline]
    pub(crate) fn hear(&mut self) {
        if !self.rings.words.is_empty() {
            self.hear_all();
        }
    }

    #[cold]
    fn hear_all(&mut self) {
        while let Some(word) = self.rings.words.pop() {
            self.word(word);
        }
    }

    fn word(&mut self, word: Word) {
        let event = match word {
            Word::Linked { pair, link } => return self.outbox.linked(pair, link),
            Word::Broken { pair, reason } => PortEvent::Broken { pair, reason },
            Word::Closed { pair } => PortEvent::Closed { pair },
            Word::Inbound { number, peer, session } => {
                return self.inbox.admit(number, peer, session);
            }
            Word::InboundGone { number, peer, session } => {
                return self.inbox.forget(number, peer, session);
            }
            Word::Up => return self.told_down(false),
            Word::Down => return self.told_down(true),
        };
        self.outbox.news.push_back(event);
    }

    fn told_down(&mut self, down: bool) {
        if self.is_up == down {
            self.is_up = !down;
            let event = if down { PortEvent::Down } else { PortEvent::Up };
            self.outbox.news.push_back(event);
        }
    }

    pub(crate) const fn queue(&self) -> &CompletionQueue {
        &self.queue
    }
}

impl Port for VerbsPort {
    fn connect(&mut self, pair: PairId, route: &Route) {
        self.outbox.connect(pair, route);
    }

    #[inline]
    fn post(&mut self, post: &Post) {
        self.outbox.post(post);
    }

    fn hurry(&mut self, pair: PairId) {
        self.outbox.hurry(pair);
    }

    fn close(&mut self, pair: PairId) {
        self.outbox.close(pair);
    }

    /// All but what came, for which [`next_arrival`](VerbsPort::next_arrival) is asked before.
    #[inline]
    fn poll(&mut self) -> Option<PortEvent> {
        if !self.outbox.news.is_empty() {
            return self.outbox.news.pop_front();
        }
        while let Some(completion) = self.batch.completion(self.done) {
            self.done += 1;
            if !self.inbox.expects(&completion)
                && let Some(event) = self.outbox.sent(&completion)
            {
                return Some(event);
            }
        }
        None
    }
}
