//! What goes out: messages that are not complete, and the queue pairs that carry them.

use std::collections::VecDeque;
use std::sync::Arc;

use snin_protocol::Time;

use super::links::{Headers, Link, Sender, send, send_at_once, send_datagram};
use super::port::BATCH;
use super::rings::{Order, Rings};
use super::untold::Untold;
use snin_agent_core::{BreakReason, FlowId, Foreseen, PairId, Piece, PortEvent, Post, Route};
use snin_verbs::{Completion, QueuePair, Sending, Signal, Source, Ud, VerbsError};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Outbox {
    rings: Arc<Rings>,
    sender: Sender,
    /// By [`PairId::slot`].
    places: Box<[Place]>,
    /// Number of a queue pair and its slot, sorted.
    numbers: Vec<(u32, u32)>,
    datagrams: Option<Datagrams>,
    /// By flow.
    messages: Box<[Messages]>,
    /// Slots with something staged.
    dirty: Vec<u32>,
    /// What was posted whose completion is not to be told.
    pub(crate) untold: Untold,
    /// What the mesh is to be told beside completions.
    pub(crate) news: VecDeque<PortEvent>,
}

/// The one queue pair for all datagrams.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub(crate) pair: QueuePair<Ud, Sending>,
    headers: Headers,
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
    /// Something is staged on it.
    is_dirty: bool,
    link: Option<Box<Link>>,
}

/// A flow's messages that are not complete, by number, which rises by one.
#[derive(Debug)]
struct Messages {
    first: u64,
    buffers: VecDeque<Source>,
}

impl Outbox {
    /// For so many queue pairs, and so many flows of which each has at most `waiting` messages.
    pub(crate) fn new(
        rings: Arc<Rings>,
        sender: Sender,
        pairs: usize,
        (flows, waiting): (usize, usize),
        datagrams: Option<Datagrams>,
        untold: Untold,
    ) -> Self {
        let messages = |_| Messages { first: 0, buffers: VecDeque::with_capacity(waiting) };
        Self {
            rings,
            sender,
            places: (0..pairs).map(|_| Place::default()).collect(),
            numbers: Vec::with_capacity(pairs),
            datagrams,
            messages: (0..flows).map(messages).collect(),
            dirty: Vec::with_capacity(pairs),
            untold,
            news: VecDeque::with_capacity(2 * usize::from(BATCH) + 4 * pairs),
        }
    }

    /// A message whose pieces will be posted.
    #[inline]
    pub(crate) fn load(&mut self, flow: FlowId, message: u64, buffer: Source) {
        let of_it = &mut self.messages[flow.index()];
        if of_it.buffers.is_empty() {
            of_it.first = message;
        }
        of_it.buffers.push_back(buffer);
    }

    /// Gives the flow's first message back: it is complete.
    #[inline]
    pub(crate) fn unload(&mut self, flow: FlowId) -> Option<Source> {
        let of_it = &mut self.messages[flow.index()];
        of_it.first += 1;
        of_it.buffers.pop_front()
    }

    /// Gives the flow's last message back: it was not taken.
    pub(crate) fn reject(&mut self, flow: FlowId) -> Option<Source> {
        self.messages[flow.index()].buffers.pop_back()
    }

    /// Posts a piece of a message that is not loaded yet, if that is all that it takes: whether its completion
    /// will be told, if it was posted.
    #[inline]
    pub(crate) fn post_at_once(&mut self, foreseen: &Foreseen, body: &Source) -> Option<Signal> {
        let Foreseen { post: Post { pair: id, ticket, piece }, is_patient, .. } = foreseen;
        let place = &mut self.places[id.slot as usize];
        let link = place.link.as_deref_mut().filter(|_| !place.is_dirty);
        let Some(Link::Connected(pair, headers)) = link else { return None };
        // Whoever asks later finds room.
        let has_room = pair.outstanding() < pair.most_sends() / 2;
        let signal = self.untold.signal(id.slot, *is_patient & has_room);
        if !send_at_once((pair, headers), piece, body, (*ticket, signal)) {
            return None;
        }
        if self.untold.leaves(id.slot) {
            self.ask();
        }
        self.untold.posted(id.slot, *ticket, signal);
        Some(signal)
    }

    /// Asks whether what is not to be told is done, if it is this queue pair's.
    pub(crate) fn hurry(&mut self, pair: PairId) {
        if self.untold.last().is_some_and(|(slot, _)| slot == pair.slot) {
            self.ask();
        }
    }

    /// Asks whether what is not to be told is done, if so much time has passed.
    #[inline]
    pub(crate) fn ask_if_late(&mut self, now: Time) {
        if self.untold.is_late(now) {
            self.ask();
        }
    }

    /// Asks whether what is not to be told is done.
    #[cold]
    pub(crate) fn ask(&mut self) {
        let Some((slot, ticket)) = self.untold.last() else { return };
        let link = self.places[slot as usize].link.as_deref_mut();
        let Some(Link::Connected(pair, _)) = link else { return };
        let marked = pair.mark(ticket);
        Rings::count(&self.rings.tally.asked_for);
        self.untold.told(slot);
        if marked.is_err() {
            self.failed(slot);
        }
    }

    #[inline]
    pub(crate) fn post(&mut self, post: &Post) {
        let slot = post.pair.slot;
        if self.stage(slot, post.ticket, post.piece).is_err() {
            return self.failed(slot);
        }
        let place = &mut self.places[slot as usize];
        if !std::mem::replace(&mut place.is_dirty, true) {
            self.dirty.push(slot);
        }
    }

    #[inline]
    fn stage(&mut self, slot: u32, ticket: u64, piece: Piece) -> Result<(), VerbsError> {
        let Messages { first, buffers } = &self.messages[piece.flow.index()];
        let body = buffers.get((piece.message - first) as usize).ok_or(VerbsError::QueueFull)?;
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

    /// Hands over what was posted, the last piece on each queue pair signalled.
    #[inline]
    pub(crate) fn flush(&mut self) {
        while let Some(slot) = self.dirty.pop() {
            self.ring(slot);
        }
    }

    fn ring(&mut self, slot: u32) {
        let place = &mut self.places[slot as usize];
        place.is_dirty = false;
        self.untold.told(slot);
        let rung = match place.link.as_deref_mut() {
            Some(Link::Connected(pair, _)) => pair.ring_told(),
            // What cannot be handed over is lost, as datagrams may be; the mesh's heartbeat notices.
            _ => self.datagrams.as_mut().map_or(Ok(()), |all| all.pair.ring_told().or(Ok(()))),
        };
        if rung.is_err() {
            self.failed(slot);
        }
    }

    /// A completion of something that was posted here: what the mesh is to be told of it.
    #[inline]
    pub(crate) fn sent(&mut self, completion: &Completion<'_>) -> Option<PortEvent> {
        if self.datagrams.is_some() {
            return self.sent_datagrams(completion);
        }
        // One that was destroyed meanwhile is nobody's.
        let number = completion.queue_pair();
        let at = self.numbers.partition_point(|&(known, _)| known < number);
        let &(_, slot) = self.numbers.get(at).filter(|&&(known, _)| known == number)?;
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

    #[cold]
    fn sent_datagrams(&mut self, completion: &Completion<'_>) -> Option<PortEvent> {
        let Datagrams { pair, under_way, .. } = self.datagrams.as_mut()?;
        pair.finish(completion, |_| {
            if let Some((pair, ticket)) = under_way.pop_front() {
                self.news.push_back(PortEvent::Done { pair, ticket });
            }
        });
        self.news.pop_front()
    }

    #[cold]
    fn failed(&mut self, slot: u32) {
        let place = &self.places[slot as usize];
        let (pair, reason) = (PairId { slot, life: place.life }, BreakReason::Failed);
        // What else of it comes back says the same.
        let told = |news: &PortEvent| matches!(news, PortEvent::Broken { pair: told, .. } if *told == pair);
        if place.is_open && !self.news.iter().any(told) {
            self.news.push_back(PortEvent::Broken { pair, reason });
        }
    }

    /// Has the control thread make a queue pair.
    pub(crate) fn connect(&mut self, pair: PairId, route: &Route) {
        let place = &mut self.places[pair.slot as usize];
        (place.life, place.is_open) = (pair.life, true);
        self.rings.order(Order::Connect { pair, route: *route });
    }

    /// It is made.
    pub(crate) fn linked(&mut self, pair: PairId, link: Box<Link>) {
        let place = &mut self.places[pair.slot as usize];
        if place.life != pair.life || !place.is_open {
            return self.rings.order(Order::Retire { pair, link });
        }
        if let Link::Connected(queue_pair, _) = &*link {
            let entry = (queue_pair.number(), pair.slot);
            let at = self.numbers.partition_point(|known| *known < entry);
            self.numbers.insert(at, entry);
        }
        place.link = Some(link);
        self.news.push_back(PortEvent::Ready { pair });
    }

    /// Gives it up.
    pub(crate) fn close(&mut self, pair: PairId) {
        let place = &mut self.places[pair.slot as usize];
        (place.is_open, place.is_dirty) = (false, false);
        self.untold.told(pair.slot);
        self.dirty.retain(|&slot| slot != pair.slot);
        match place.link.take() {
            Some(link) => {
                self.numbers.retain(|&(_, slot)| slot != pair.slot);
                self.rings.order(Order::Retire { pair, link });
            }
            None => self.rings.order(Order::Cancel { pair }),
        }
    }
}
