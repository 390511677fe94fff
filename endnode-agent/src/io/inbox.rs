//! What comes in: memory for it, and whose pieces it holds.

use std::sync::Arc;

use snin_fabric::Guid;

use super::header::{HEADER, Header, supply};
use super::rings::{Order, Received, Rings};
use snin_agent_core::Arrival;
use snin_verbs::{Completion, Noted, SharedReceives};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Inbox {
    rings: Arc<Rings>,
    receives: SharedReceives<Received>,
    /// Bytes before the header: a datagram's global route.
    start: usize,
    /// What comes was not sent as datagrams: the queue pair says who did, and a piece may have no header.
    is_reliable: bool,
    /// From whom what comes by a queue pair comes, sorted by number and peer.
    senders: Vec<Sender>,
}

/// Who sends by a queue pair; for datagrams the number is the sender's.
#[derive(Debug)]
struct Sender {
    number: u32,
    /// What came last.
    arrival: Arrival,
    /// Something did, and nothing strange since: the next piece may have no header.
    is_known: bool,
}

impl Inbox {
    /// For so many senders; `start` bytes are before a header.
    pub(crate) fn new(
        rings: Arc<Rings>,
        receives: SharedReceives<Received>,
        start: usize,
        is_reliable: bool,
        senders: usize,
    ) -> Self {
        Self { rings, receives, start, is_reliable, senders: Vec::with_capacity(senders) }
    }

    /// What comes by this queue pair comes from this peer.
    pub(crate) fn admit(&mut self, number: u32, peer: Guid, session: u64) {
        let arrival = Arrival { peer, session, ..Received::NOTHING.arrival };
        let sender = Sender { number, arrival, is_known: false };
        match self.find(number, peer) {
            Ok(at) => self.senders[at] = sender,
            Err(at) => self.senders.insert(at, sender),
        }
    }

    /// Nothing comes by it any more.
    pub(crate) fn forget(&mut self, number: u32, peer: Guid, session: u64) {
        let found = self.find(number, peer).ok();
        if let Some(at) = found.filter(|&at| self.senders[at].arrival.session == session) {
            self.senders.remove(at);
        }
    }

    /// Whether a completion tells of something that came.
    #[inline]
    pub(crate) fn expects(&self, completion: &Completion<'_>) -> bool {
        self.receives.posted_it(completion)
    }

    /// The piece that came; none if it is nobody's, which is counted.
    #[inline]
    pub(crate) fn open(&mut self, completion: &Completion<'_>) -> Option<Box<Noted<Received>>> {
        let mut slot = self.receives.finish(completion)?;
        let is_known = match completion.immediate() {
            _ if completion.outcome().is_err() => false,
            Some(immediate) => self.follows(completion, immediate, &mut slot.note),
            None => self.is_headed(completion, &mut slot),
        };
        if is_known {
            return Some(slot);
        }
        self.refuse(completion, slot);
        None
    }

    #[cold]
    fn refuse(&mut self, completion: &Completion<'_>, slot: Box<Noted<Received>>) {
        let number = completion.queue_pair();
        if completion.outcome().is_err() {
            self.rings.order(Order::InboundFailed { number });
        } else {
            Rings::count(&self.rings.tally.strange);
            // What follows it means nothing either.
            let of_it = self.senders.iter_mut().filter(|known| known.number == number);
            of_it.for_each(|known| known.is_known = false);
        }
        self.give_back(slot);
    }

    /// Whether it is a piece without a header; notes what it is.
    #[inline]
    fn follows(
        &mut self,
        completion: &Completion<'_>,
        immediate: u32,
        note: &mut Received,
    ) -> bool {
        let number = completion.queue_pair();
        let at = self.senders.partition_point(|known| known.number < number);
        let Some(known) = self.senders.get_mut(at) else { return false };
        let is_next = known.number == number
            && known.is_known
            && supply(&mut known.arrival.piece, immediate, completion.bytes());
        if is_next {
            *note = Received { arrival: known.arrival, start: 0 };
        }
        is_next
    }

    /// Whether it is a piece with a header; notes what it is.
    fn is_headed(&mut self, completion: &Completion<'_>, slot: &mut Noted<Received>) -> bool {
        let read = self.read(completion, slot.bytes());
        if let Some(received) = read {
            slot.note = received;
        }
        read.is_some()
    }

    fn read(&mut self, completion: &Completion<'_>, bytes: &[u8]) -> Option<Received> {
        let reliable = self.is_reliable;
        let number = if reliable { completion.queue_pair() } else { completion.source() };
        let bytes = bytes.get(self.start..completion.bytes() as usize);
        let Header { peer, session, piece } = bytes.and_then(Header::read)?;
        let at = self.find(number, peer).ok()?;
        let known = Some(&mut self.senders[at]).filter(|known| known.arrival.session == session)?;
        (known.arrival.piece, known.is_known) = (piece, reliable);
        Some(Received { arrival: known.arrival, start: self.start + HEADER })
    }

    fn find(&self, number: u32, peer: Guid) -> Result<usize, usize> {
        self.senders
            .binary_search_by_key(&(number, peer), |known| (known.number, known.arrival.peer))
    }

    /// Whether less is posted than not.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.receives.posted() < self.receives.most() / 2
    }

    /// Posts again what applications have read.
    pub(crate) fn refill(&mut self) {
        // Where there is none, that is the shorter question.
        while !self.rings.empties.is_empty()
            && let Some(slot) = self.rings.empties.pop()
        {
            self.stage(slot);
        }
        self.ring();
    }

    /// Posts memory again.
    pub(crate) fn give_back(&mut self, slot: Box<Noted<Received>>) {
        self.stage(slot);
        self.ring();
    }

    fn stage(&mut self, slot: Box<Noted<Received>>) {
        // The queue has room for every slot that there is; one that the device refuses is lost to it.
        let _ = self.receives.receive(slot);
    }

    fn ring(&mut self) {
        // As above.
        let _ = self.receives.ring();
    }
}
