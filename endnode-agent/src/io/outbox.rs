//! The sending half: messages that are not complete, and the queue pairs that carry them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::rings::{Command, Rings};
use super::send_path::{Headers, SendPath, Sender, send, send_datagram};
use snin_agent_core::{BreakReason, FlowId, PairId, Piece, PortEvent, Post, Route};
use snin_verbs::{Completion, QueuePair, Sending, Source, Ud, VerbsError};

/// Completions that are taken at a time.
pub(super) const BATCH: u16 = 32;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Outbox {
    rings: Arc<Rings>,
    sender: Sender,
    /// By [`PairId::slot`].
    entries: Box<[Entry]>,
    /// Number of a queue pair and its slot, sorted.
    numbers: Vec<(u32, u32)>,
    datagrams: Option<Datagrams>,
    /// By flow.
    messages: Box<[Messages]>,
    /// Slots with something staged.
    dirty: Vec<u32>,
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
struct Entry {
    life: u32,
    /// It was asked for and not given up.
    is_open: bool,
    /// Something is staged on it.
    is_dirty: bool,
    path: Option<Box<SendPath>>,
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
    ) -> Self {
        let messages = |_| Messages { first: 0, buffers: VecDeque::with_capacity(waiting) };
        Self {
            rings,
            sender,
            entries: (0..pairs).map(|_| Entry::default()).collect(),
            numbers: Vec::with_capacity(pairs),
            datagrams,
            messages: (0..flows).map(messages).collect(),
            dirty: Vec::with_capacity(pairs),
            news: VecDeque::with_capacity(2 * usize::from(BATCH) + 4 * pairs),
        }
    }

    /// A message whose pieces will be posted.
    pub(crate) fn load(&mut self, flow: FlowId, message: u64, buffer: Source) {
        let of_it = &mut self.messages[flow.index()];
        if of_it.buffers.is_empty() {
            of_it.first = message;
        }
        of_it.buffers.push_back(buffer);
    }

    /// Gives the flow's first message back: it is complete.
    pub(crate) fn unload(&mut self, flow: FlowId) -> Option<Source> {
        let of_it = &mut self.messages[flow.index()];
        of_it.first += 1;
        of_it.buffers.pop_front()
    }

    /// Gives the flow's last message back: it was not taken.
    pub(crate) fn reject(&mut self, flow: FlowId) -> Option<Source> {
        self.messages[flow.index()].buffers.pop_back()
    }

    pub(crate) fn post(&mut self, post: &Post) {
        let slot = post.pair.slot;
        if self.stage(slot, post.ticket, post.piece).is_err() {
            return self.failed(slot);
        }
        let entry = &mut self.entries[slot as usize];
        if !std::mem::replace(&mut entry.is_dirty, true) {
            self.dirty.push(slot);
        }
    }

    fn stage(&mut self, slot: u32, ticket: u64, piece: Piece) -> Result<(), VerbsError> {
        let Messages { first, buffers } = &self.messages[piece.flow.index()];
        let body = buffers.get((piece.message - first) as usize).ok_or(VerbsError::QueueFull)?;
        let entry = &mut self.entries[slot as usize];
        let what = (self.sender, piece);
        match (entry.path.as_deref_mut(), &mut self.datagrams) {
            (Some(SendPath::Connected(pair, headers)), _) => {
                send((pair, headers), what, body, ticket)
            }
            (Some(SendPath::Datagrams(to, number)), Some(datagrams)) => {
                let Datagrams { pair, headers, under_way } = datagrams;
                send_datagram((pair, headers), what, body, (to, *number))?;
                under_way.push_back((PairId { slot, life: entry.life }, ticket));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Hands the device what was posted; the last piece on each queue pair has a completion.
    pub(crate) fn flush(&mut self) {
        while let Some(slot) = self.dirty.pop() {
            self.ring(slot);
        }
    }

    fn ring(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.is_dirty = false;
        let rung = match entry.path.as_deref_mut() {
            Some(SendPath::Connected(pair, _)) => pair.ring_signalled(),
            // What cannot be handed over is lost, as datagrams may be; the mesh's heartbeat notices.
            _ => self.datagrams.as_mut().map_or(Ok(()), |all| all.pair.ring_signalled().or(Ok(()))),
        };
        if rung.is_err() {
            self.failed(slot);
        }
    }

    /// A completion of something that was posted here: what the mesh is to be told of it.
    pub(crate) fn sent(&mut self, completion: &Completion) -> Option<PortEvent> {
        if self.datagrams.is_some() {
            return self.sent_datagrams(completion);
        }
        // A completion of a queue pair that was destroyed meanwhile is dropped.
        let number = completion.queue_pair();
        let at = self.numbers.partition_point(|&(known, _)| known < number);
        let &(_, slot) = self.numbers.get(at).filter(|&&(known, _)| known == number)?;
        let entry = &mut self.entries[slot as usize];
        let pair = PairId { slot, life: entry.life };
        let Some(SendPath::Connected(queue_pair, _)) = entry.path.as_deref_mut() else {
            return None;
        };
        let mut done = None;
        queue_pair.finish(completion, |finished| done = Some(finished.token));
        let ticket = done?;
        if completion.outcome().is_ok() {
            return Some(PortEvent::Done { pair, ticket });
        }
        self.failed(slot);
        self.news.pop_front()
    }

    fn sent_datagrams(&mut self, completion: &Completion) -> Option<PortEvent> {
        let Datagrams { pair, under_way, .. } = self.datagrams.as_mut()?;
        pair.finish(completion, |_| {
            if let Some((pair, ticket)) = under_way.pop_front() {
                self.news.push_back(PortEvent::Done { pair, ticket });
            }
        });
        self.news.pop_front()
    }

    fn failed(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        let (pair, reason) = (PairId { slot, life: entry.life }, BreakReason::Failed);
        // What else of it comes back says the same.
        let told = |news: &PortEvent| matches!(news, PortEvent::Broken { pair: told, .. } if *told == pair);
        if entry.is_open && !self.news.iter().any(told) {
            self.news.push_back(PortEvent::Broken { pair, reason });
        }
    }

    /// Has the control thread make a queue pair.
    pub(crate) fn connect(&mut self, pair: PairId, route: &Route) {
        let entry = &mut self.entries[pair.slot as usize];
        (entry.life, entry.is_open) = (pair.life, true);
        if !self.rings.command(Command::Connect { pair, route: *route }) {
            // The control thread was not told to make it: the mesh tries again after a while.
            self.failed(pair.slot);
        }
    }

    /// It is made.
    pub(crate) fn connected(&mut self, pair: PairId, path: Box<SendPath>) {
        let entry = &mut self.entries[pair.slot as usize];
        if entry.life != pair.life || !entry.is_open {
            self.rings.command(Command::Retire { pair, path });
            return;
        }
        if let SendPath::Connected(queue_pair, _) = &*path {
            let numbered = (queue_pair.number(), pair.slot);
            let at = self.numbers.partition_point(|known| *known < numbered);
            self.numbers.insert(at, numbered);
        }
        entry.path = Some(path);
        self.news.push_back(PortEvent::Ready { pair });
    }

    /// Gives it up.
    pub(crate) fn close(&mut self, pair: PairId) {
        let entry = &mut self.entries[pair.slot as usize];
        (entry.is_open, entry.is_dirty) = (false, false);
        self.dirty.retain(|&slot| slot != pair.slot);
        match entry.path.take() {
            Some(path) => {
                self.numbers.retain(|&(_, slot)| slot != pair.slot);
                self.rings.command(Command::Retire { pair, path });
            }
            None => {
                self.rings.command(Command::Cancel { pair });
            }
        }
    }
}
