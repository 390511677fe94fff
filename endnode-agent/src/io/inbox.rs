//! The receiving half: memory for pieces, and the flows that they belong to.

use std::sync::Arc;

use snin_fabric::Guid;

use super::header::{HEADER, Header, supply};
use super::rings::{Command, Received, Rings};
use snin_agent_core::Arrival;
use snin_verbs::{Completion, ReceiveBuffer, SharedReceives};

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
    /// What came last, until an application gets it or it is posted again.
    last: Option<Box<ReceiveBuffer<Received>>>,
}

/// The sender on a queue pair; for datagrams the number is the sender's.
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
        let senders = Vec::with_capacity(senders);
        Self { rings, receives, start, is_reliable, senders, last: None }
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
    pub(crate) fn expects(&self, completion: &Completion) -> bool {
        self.receives.posted_it(completion)
    }

    /// The piece that came; none if it belongs to no flow, which is counted. Its buffer is posted again when the
    /// next comes, unless [`take_last`](Self::take_last) takes it.
    pub(crate) fn receive(&mut self, completion: Completion) -> Option<Arrival> {
        self.post_last_again();
        let (number, failed) = (completion.queue_pair(), completion.outcome().is_err());
        let (source, bytes) = (completion.source(), completion.bytes() as usize);
        let immediate = completion.immediate();
        let mut buffer = self.receives.finish(completion)?;
        let received = match immediate {
            _ if failed => None,
            Some(immediate) => self.follow(number, immediate, bytes),
            None => {
                let from = if self.is_reliable { number } else { source };
                self.read(from, buffer.bytes().get(self.start..bytes))
            }
        };
        let arrival = received.map(|received| received.arrival);
        match received {
            Some(received) => buffer.note = received,
            None if failed => {
                self.rings.command(Command::InboundFailed { number });
            }
            None => self.is_strange(number),
        }
        self.last = Some(buffer);
        arrival
    }

    /// The buffer of the piece that came last.
    pub(crate) fn take_last(&mut self) -> Option<Box<ReceiveBuffer<Received>>> {
        self.last.take()
    }

    fn post_last_again(&mut self) {
        if let Some(buffer) = self.last.take() {
            self.stage(buffer);
        }
    }

    /// The piece belongs to no flow. Without it the pieces that follow on the queue pair mean nothing either.
    fn is_strange(&mut self, number: u32) {
        Rings::count(&self.rings.counters.strange);
        let senders = self.senders.iter_mut().filter(|known| known.number == number);
        senders.for_each(|known| known.is_known = false);
    }

    /// The piece that came without a header, if one is expected.
    fn follow(&mut self, number: u32, immediate: u32, bytes: usize) -> Option<Received> {
        let at = self.senders.partition_point(|known| known.number < number);
        let known = self.senders.get_mut(at).filter(|known| known.number == number)?;
        let is_next = known.is_known && supply(&mut known.arrival.piece, immediate, bytes as u32);
        is_next.then_some(Received { arrival: known.arrival, start: 0 })
    }

    /// The piece that came with a header.
    fn read(&mut self, number: u32, bytes: Option<&[u8]>) -> Option<Received> {
        let reliable = self.is_reliable;
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

    /// Posts again what applications have read, and what none of them got.
    pub(crate) fn refill(&mut self) {
        self.post_last_again();
        while let Some(buffer) = self.rings.empties.pop() {
            self.stage(buffer);
        }
        // The queue has room for every buffer; one that the device refuses is lost to it.
        let _ = self.receives.ring();
    }

    fn stage(&mut self, buffer: Box<ReceiveBuffer<Received>>) {
        // As above.
        let _ = self.receives.receive(buffer);
    }
}
