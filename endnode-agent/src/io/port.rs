//! The mesh's port on real verbs, as the data thread has it: posts and completions, and nothing that takes a
//! system call. Queue pairs are made and destroyed by the control thread.

use std::collections::VecDeque;
use std::sync::Arc;

use snin_fabric::Guid;

use super::header::{HEADER, Header, supply};
use super::links::{Headers, Link, Sender, send, send_at_once, send_datagram};
use super::rings::{Order, Rings, Word};
use crate::core::{Arrival, BreakReason, FlowId, PairId, Piece, Port, PortEvent, Post, Route};
use crate::verbs::{
    Batch, Completion, CompletionQueue, QueuePair, Sending, SharedReceives, Slot, Ud, VerbsError,
};

/// Completions that are taken at a time.
const BATCH: u16 = 32;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct VerbsPort {
    rings: Arc<Rings>,
    sender: Sender,
    queue: CompletionQueue,
    batch: Option<Batch>,
    /// How many of its completions were looked at for what came, and how many for all else.
    came: usize,
    done: usize,
    receives: SharedReceives,
    /// Bytes before the header: a datagram's global route.
    start: usize,
    /// By [`PairId::slot`].
    places: Box<[Place]>,
    /// Number of a queue pair and its slot, sorted.
    numbers: Vec<(u32, u32)>,
    /// From whom what comes by a queue pair comes, sorted by number and peer.
    inbound: Vec<Inbound>,
    datagrams: Option<Datagrams>,
    /// Of each flow, the messages that are not complete.
    outboxes: Box<[Outbox]>,
    /// What the mesh is to be told beside completions.
    news: VecDeque<PortEvent>,
    /// Slots with something staged.
    dirty: Vec<u32>,
    is_up: bool,
}

/// Who sends by a queue pair; for datagrams the number is the sender's.
#[derive(Debug)]
struct Inbound {
    number: u32,
    peer: Guid,
    session: u64,
    /// What came last, if nothing strange did since.
    previous: Option<Piece>,
}

/// The one queue pair for all datagrams.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub(crate) pair: QueuePair<Ud, Sending>,
    pub(crate) headers: Headers,
    /// What is posted, in order.
    under_way: VecDeque<(PairId, u64)>,
}

impl Datagrams {
    pub(crate) fn new(pair: QueuePair<Ud, Sending>, headers: Headers, depth: u32) -> Self {
        Self { pair, headers, under_way: VecDeque::with_capacity(depth as usize) }
    }
}

#[derive(Debug, Default)]
struct Place {
    life: u32,
    /// It was asked for and not given up.
    is_open: bool,
    link: Option<Box<Link>>,
    /// Something is staged on it.
    is_dirty: bool,
}

/// Messages of a flow by number, which rises by one.
#[derive(Debug)]
struct Outbox {
    first: u64,
    messages: VecDeque<Arc<Slot>>,
}

/// What a port is made with.
pub(crate) struct Parts {
    pub(crate) rings: Arc<Rings>,
    pub(crate) sender: Sender,
    pub(crate) queue: CompletionQueue,
    pub(crate) receives: SharedReceives,
    pub(crate) start: usize,
    pub(crate) pairs: usize,
    pub(crate) inbound: usize,
    pub(crate) flows: usize,
    /// The most messages of a flow that wait.
    pub(crate) waiting: usize,
    pub(crate) datagrams: Option<Datagrams>,
}

impl VerbsPort {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            rings,
            sender,
            queue,
            receives,
            start,
            pairs,
            inbound,
            flows,
            waiting,
            datagrams,
        } = parts;
        let outbox = |_| Outbox { first: 0, messages: VecDeque::with_capacity(waiting) };
        Self {
            rings,
            sender,
            queue,
            batch: Some(Batch::new(BATCH)),
            came: 0,
            done: 0,
            receives,
            start,
            places: (0..pairs).map(|_| Place::default()).collect(),
            numbers: Vec::with_capacity(pairs),
            inbound: Vec::with_capacity(inbound),
            datagrams,
            outboxes: (0..flows).map(outbox).collect(),
            news: VecDeque::with_capacity(2 * usize::from(BATCH) + 4 * pairs),
            dirty: Vec::with_capacity(pairs),
            is_up: true,
        }
    }

    /// Takes completions from the device when those before are dealt with: whether there is anything to look at.
    #[inline]
    pub(crate) fn look(&mut self) -> bool {
        let Some(batch) = &mut self.batch else { return false };
        if self.done < batch.len() || !self.news.is_empty() {
            return true;
        }
        (self.came, self.done) = (0, 0);
        match self.queue.poll(batch) {
            Ok(count) => count > 0,
            Err(_) => {
                self.told_down(true);
                !self.news.is_empty()
            }
        }
    }

    /// The next piece that came: what it is, its memory, and where its bytes begin. Somebody waits for it, so it
    /// is told before what was done.
    #[inline]
    pub(crate) fn next_arrival(&mut self) -> Option<(Arrival, Slot, usize)> {
        let batch = self.batch.take()?;
        let mut arrival = None;
        while arrival.is_none()
            && let Some(completion) = batch.completion(self.came)
        {
            if let Some(slot) = self.receives.finish(&completion) {
                arrival = self.received(&completion, slot);
                self.done += usize::from(self.done == self.came);
            }
            self.came += 1;
        }
        self.batch = Some(batch);
        arrival
    }

    /// Takes what the control thread says.
    pub(crate) fn hear(&mut self) {
        while let Some(word) = self.rings.words.pop() {
            self.word(word);
        }
    }

    /// Posts again what applications have read.
    pub(crate) fn refill(&mut self) {
        while let Some(slot) = self.rings.empties.pop() {
            self.give_back(slot);
        }
    }

    /// Hands over what was posted, the last piece on each queue pair signalled.
    #[inline]
    pub(crate) fn flush(&mut self) {
        while let Some(slot) = self.dirty.pop() {
            self.ring(slot);
        }
    }

    #[inline]
    fn ring(&mut self, slot: u32) {
        let place = &mut self.places[slot as usize];
        place.is_dirty = false;
        let rung = match place.link.as_deref_mut() {
            Some(Link::Connected(pair, _)) => pair.ring_told(),
            // What cannot be handed over is lost, as datagrams may be; the mesh's heartbeat notices.
            _ => self.datagrams.as_mut().map_or(Ok(()), |all| all.pair.ring_told().or(Ok(()))),
        };
        if rung.is_err() {
            self.failed(slot);
        }
    }

    /// Posts a piece of a message that is not loaded yet, if that is all that it takes: whether it was posted.
    #[inline]
    pub(crate) fn post_at_once(&mut self, post: &Post, body: &Arc<Slot>) -> bool {
        let place = &mut self.places[post.pair.slot as usize];
        match place.link.as_deref_mut() {
            Some(Link::Connected(pair, headers)) if !place.is_dirty => {
                send_at_once((pair, headers), &post.piece, body, post.ticket)
            }
            _ => false,
        }
    }

    /// A message whose pieces will be posted.
    #[inline]
    pub(crate) fn load(&mut self, flow: FlowId, message: u64, buffer: Arc<Slot>) {
        let outbox = &mut self.outboxes[flow.index()];
        if outbox.messages.is_empty() {
            outbox.first = message;
        }
        outbox.messages.push_back(buffer);
    }

    /// Gives the flow's first message back: it is complete.
    pub(crate) fn unload(&mut self, flow: FlowId) -> Option<Arc<Slot>> {
        let outbox = &mut self.outboxes[flow.index()];
        outbox.first += 1;
        outbox.messages.pop_front()
    }

    /// Gives the flow's last message back: it was not taken.
    pub(crate) fn reject(&mut self, flow: FlowId) -> Option<Arc<Slot>> {
        self.outboxes[flow.index()].messages.pop_back()
    }

    pub(crate) const fn queue(&self) -> &CompletionQueue {
        &self.queue
    }

    fn word(&mut self, word: Word) {
        let event = match word {
            Word::Linked { pair, link } => {
                let place = &mut self.places[pair.slot as usize];
                if place.life != pair.life || !place.is_open {
                    self.order(Order::Retire { pair, link });
                    return;
                }
                if let Link::Connected(queue_pair, _) = &*link {
                    let entry = (queue_pair.number(), pair.slot);
                    let at = self.numbers.partition_point(|known| *known < entry);
                    self.numbers.insert(at, entry);
                }
                place.link = Some(link);
                PortEvent::Ready { pair }
            }
            Word::Broken { pair, reason } => PortEvent::Broken { pair, reason },
            Word::Closed { pair } => PortEvent::Closed { pair },
            Word::Inbound { number, peer, session } => {
                let inbound = Inbound { number, peer, session, previous: None };
                match self.find_inbound(number, peer) {
                    Ok(at) => self.inbound[at] = inbound,
                    Err(at) => self.inbound.insert(at, inbound),
                }
                return;
            }
            Word::InboundGone { number, peer, session } => {
                let found = self.find_inbound(number, peer).ok();
                if let Some(at) = found.filter(|&at| self.inbound[at].session == session) {
                    self.inbound.remove(at);
                }
                return;
            }
            Word::Up => return self.told_down(false),
            Word::Down => return self.told_down(true),
        };
        self.news.push_back(event);
    }

    fn told_down(&mut self, down: bool) {
        if self.is_up == down {
            self.is_up = !down;
            let event = if down { PortEvent::Down } else { PortEvent::Up };
            self.news.push_back(event);
        }
    }

    fn find_inbound(&self, number: u32, peer: Guid) -> Result<usize, usize> {
        self.inbound.binary_search_by_key(&(number, peer), |known| (known.number, known.peer))
    }

    #[inline]
    fn received(
        &mut self,
        completion: &Completion<'_>,
        slot: Slot,
    ) -> Option<(Arrival, Slot, usize)> {
        let number = completion.queue_pair();
        if completion.outcome().is_err() {
            self.order(Order::InboundFailed { number });
            self.give_back(slot);
            return None;
        }
        let read = match completion.immediate() {
            Some(immediate) => self.follows(number, immediate, completion.bytes()),
            None => self.is_headed(completion, &slot),
        };
        let Some((arrival, start)) = read else {
            Rings::count(&self.rings.tally.strange);
            // What follows it means nothing either.
            let of_it = self.inbound.iter_mut().filter(|known| known.number == number);
            of_it.for_each(|known| known.previous = None);
            self.give_back(slot);
            return None;
        };
        Some((arrival, slot, start))
    }

    /// A piece without a header, and where its bytes begin.
    #[inline]
    fn follows(&mut self, number: u32, immediate: u32, bytes: u32) -> Option<(Arrival, usize)> {
        let at = self.inbound.partition_point(|known| known.number < number);
        let known = self.inbound.get_mut(at).filter(|known| known.number == number)?;
        known.previous = supply(known.previous.as_ref(), immediate, bytes);
        let Inbound { peer, session, previous, .. } = *known;
        Some((Arrival { peer, session, piece: previous? }, 0))
    }

    /// A piece with a header, and where its bytes begin.
    fn is_headed(&mut self, completion: &Completion<'_>, slot: &Slot) -> Option<(Arrival, usize)> {
        let reliable = self.datagrams.is_none();
        let number = if reliable { completion.queue_pair() } else { completion.source() };
        let bytes = slot.bytes().get(self.start..completion.bytes() as usize);
        let Header { peer, session, piece } = bytes.and_then(Header::read)?;
        let at = self.find_inbound(number, peer).ok()?;
        let known = Some(&mut self.inbound[at]).filter(|known| known.session == session)?;
        known.previous = reliable.then_some(piece);
        Some((Arrival { peer, session, piece }, self.start + HEADER))
    }

    /// Posts memory again.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        // The queue has room for every slot that there is; one that the device refuses is lost to it.
        let _ = self.receives.receive(slot);
    }

    fn sent(&mut self, completion: &Completion<'_>) -> Option<PortEvent> {
        let number = completion.queue_pair();
        if let Some(datagrams) = &mut self.datagrams {
            let Datagrams { pair, under_way, .. } = datagrams;
            pair.finish(completion, |_| {
                if let Some((pair, ticket)) = under_way.pop_front() {
                    self.news.push_back(PortEvent::Done { pair, ticket });
                }
            });
            return self.news.pop_front();
        }
        // One that was destroyed meanwhile is nobody's.
        let at = self.numbers.binary_search_by_key(&number, |&(number, _)| number).ok()?;
        let slot = self.numbers[at].1;
        let place = &mut self.places[slot as usize];
        let pair = PairId { slot, life: place.life };
        let Some(Link::Connected(queue_pair, _)) = place.link.as_deref_mut() else { return None };
        let mut done = None;
        queue_pair.finish(completion, |finished| done = Some(finished.token));
        let ticket = done?;
        if completion.outcome().is_ok() {
            return Some(PortEvent::Done { pair, ticket });
        }
        self.failed(slot);
        self.news.pop_front()
    }

    fn failed(&mut self, slot: u32) {
        let place = &self.places[slot as usize];
        let (pair, reason) = (PairId { slot, life: place.life }, BreakReason::Failed);
        // What else of it comes back says the same.
        let told = |news: &PortEvent| matches!(news, PortEvent::Broken { pair: told, .. } if *told == pair);
        if place.is_open && !self.news.iter().any(told) {
            self.news.push_back(PortEvent::Broken { pair, reason });
        }
    }

    #[inline]
    fn stage(&mut self, slot: u32, ticket: u64, piece: Piece) -> Result<(), VerbsError> {
        let Outbox { first, messages } = &self.outboxes[piece.flow.index()];
        let body = messages.get((piece.message - first) as usize).ok_or(VerbsError::QueueFull)?;
        let place = &mut self.places[slot as usize];
        let what = (self.sender, piece);
        match (place.link.as_deref_mut(), &mut self.datagrams) {
            (Some(Link::Connected(pair, headers)), _) => send((pair, headers), what, body, ticket),
            (Some(Link::Datagrams(to, number)), Some(datagrams)) => {
                let Datagrams { pair, headers, under_way } = datagrams;
                send_datagram((pair, headers), what, body, (to, *number))?;
                under_way.push_back((PairId { slot, life: place.life }, ticket));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn order(&self, order: Order) {
        // There is room for all that can be said of every queue pair.
        let _ = self.rings.orders.push(order);
        self.rings.call_control();
    }
}

impl Port for VerbsPort {
    fn connect(&mut self, pair: PairId, route: &Route) {
        let place = &mut self.places[pair.slot as usize];
        (place.life, place.is_open) = (pair.life, true);
        self.order(Order::Connect { pair, route: *route });
    }

    #[inline]
    fn post(&mut self, post: &Post) {
        let slot = post.pair.slot;
        if self.stage(slot, post.ticket, post.piece).is_err() {
            return self.failed(slot);
        }
        let place = &mut self.places[slot as usize];
        if !std::mem::replace(&mut place.is_dirty, true) {
            self.dirty.push(slot);
        }
    }

    fn close(&mut self, pair: PairId) {
        let place = &mut self.places[pair.slot as usize];
        (place.is_open, place.is_dirty) = (false, false);
        self.dirty.retain(|&slot| slot != pair.slot);
        match place.link.take() {
            Some(link) => {
                self.numbers.retain(|&(_, slot)| slot != pair.slot);
                self.order(Order::Retire { pair, link });
            }
            None => self.order(Order::Cancel { pair }),
        }
    }

    /// All but what came, for which [`next_arrival`](VerbsPort::next_arrival) is asked before.
    fn poll(&mut self) -> Option<PortEvent> {
        if let Some(news) = self.news.pop_front() {
            return Some(news);
        }
        let batch = self.batch.take()?;
        let mut event = None;
        while event.is_none()
            && let Some(completion) = batch.completion(self.done)
        {
            self.done += 1;
            if !self.receives.posted_it(&completion) {
                event = self.sent(&completion);
            }
        }
        self.batch = Some(batch);
        event
    }
}
