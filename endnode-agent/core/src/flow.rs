//! One flow: what waits, what is under way, what it may do.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;
use snin_protocol::message::{Grant, Wait};

use super::config::{Config, HistogramShape};
use super::events::{FlowId, Message, PairId, Piece, Wanted};

/// What the controller knows of a flow, or is to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestState {
    /// It knows nothing.
    None,
    /// It shall hear the request.
    Ask,
    /// It was told in the ask of this number.
    Asked(u64),
    /// It shall hear that the connection is not wanted any more.
    Withdraw,
}

/// What a flow takes of memory. Whose flow is closed leaves it to the next one.
#[derive(Debug)]
pub struct FlowBuffers {
    queue: VecDeque<Message>,
    again: VecDeque<Piece>,
    latency: Option<Histogram<u64>>,
}

impl FlowBuffers {
    /// FlowBuffers for one flow of such a mesh.
    pub fn new(config: &Config) -> Self {
        Self {
            queue: VecDeque::with_capacity(config.queue as usize),
            again: VecDeque::with_capacity(config.depth as usize),
            latency: config.histogram.and_then(histogram),
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) id: FlowId,
    pub(super) peer: Guid,
    pub(super) wanted: Wanted,
    pub(super) closing: bool,
    /// Messages that closing gave up.
    pub(super) unsent: u32,
    /// Messages that are not complete, in order.
    queue: VecDeque<Message>,
    /// The first of these that is not wholly cut into pieces, and how much of it is.
    cutting: usize,
    cut: u64,
    /// Of the next piece.
    pub(super) sequence: u64,
    /// Pieces taken back from a queue pair that broke: they go first, as they are, so that the receiver
    /// knows those that had arrived.
    again: VecDeque<Piece>,
    /// The one queue pair on which the flow has, or last had, pieces under way: order is kept because
    /// there never are two.
    pub(super) on: Option<PairId>,
    /// How many pieces are under way.
    pub(super) outstanding: u32,
    /// When the last piece that completed is off the links.
    pub(super) settled: Time,
    /// Nothing is posted before: until then the slowest link of the way carries what was posted last.
    pub(super) paced_until: Time,
    /// By the controller's clock: when what is under way must have left.
    pub(super) clear_by: Time,
    pub(super) current: Option<Grant>,
    pub(super) next: Option<Grant>,
    pub(super) wish: RequestState,
    /// When to ask, if there is something to send.
    pub(super) ask_at: Time,
    /// Why it waits, as the controller last said.
    pub(super) wait: Option<Wait>,
    /// Since when there is nothing to send.
    pub(super) idle_since: Time,
    pub(super) latency: Option<Histogram<u64>>,
    /// Whether it is in the mesh's list of flows with something to send.
    pub(super) listed: bool,
}

impl Flow {
    /// A flow whose first piece is numbered `sequence`.
    pub(super) fn new(
        id: FlowId,
        (peer, wanted): (Guid, Wanted),
        sequence: u64,
        FlowBuffers { queue, again, latency }: FlowBuffers,
        now: Time,
    ) -> Self {
        Self {
            id,
            peer,
            wanted,
            closing: false,
            unsent: 0,
            queue,
            cutting: 0,
            cut: 0,
            sequence,
            again,
            on: None,
            outstanding: 0,
            settled: Time::ZERO,
            paced_until: Time::ZERO,
            clear_by: Time::ZERO,
            current: None,
            next: None,
            wish: RequestState::None,
            ask_at: Time::ZERO,
            wait: None,
            idle_since: now,
            latency,
            listed: false,
        }
    }

    /// Its memory, as it was at first.
    pub(super) fn into_buffers(self) -> FlowBuffers {
        let Self { mut queue, mut again, mut latency, .. } = self;
        queue.clear();
        again.clear();
        if let Some(latency) = &mut latency {
            latency.reset();
        }
        FlowBuffers { queue, again, latency }
    }

    /// Takes a message, unless as many wait as may.
    pub(super) fn push(&mut self, message: Message, most: u32) -> bool {
        let room = self.queue.len() < most as usize;
        if room {
            self.queue.push_back(message);
        }
        room
    }

    /// Messages that are not complete.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether there is something to post.
    pub(super) fn is_backlogged(&self) -> bool {
        !self.again.is_empty() || self.cutting < self.queue.len()
    }

    /// Whether there is nothing to post and nothing under way.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.outstanding == 0
    }

    /// Whether the flow has something to post and has not asked a controller for a grant.
    pub(super) fn is_unserved(&self) -> bool {
        self.is_backlogged() && self.wish == RequestState::None && !self.closing
    }

    /// Whether the controller has the flow's request if it has all asks up to the number `heard`.
    pub(super) fn is_heard(&self, heard: u64) -> bool {
        matches!(self.wish, RequestState::Asked(number) if number <= heard)
    }

    /// The piece to post next, if it or a part of it fits into `room` bytes on the wire: whole packets, or
    /// the rest of a message, at most `most` bytes.
    pub(super) fn upcoming(&self, config: &Config, room: u64, most: u32) -> Option<Piece> {
        if let Some(&piece) = self.again.front() {
            return (config.wire(piece.bytes.into()) <= room).then_some(piece);
        }
        let message = self.queue.get(self.cutting)?;
        let rest = message.bytes - self.cut;
        let most = rest.min(most.into());
        let bytes = if config.wire(most) <= room {
            most
        } else {
            let packets = room / u64::from(config.mtu + config.overhead);
            packets * u64::from(config.mtu)
        };
        if bytes == 0 && (rest > 0 || config.wire(0) > room) {
            return None;
        }
        Some(Piece {
            flow: self.id,
            sequence: self.sequence,
            message: message.id,
            offset: self.cut,
            bytes: bytes as u32,
            last: bytes == rest,
        })
    }

    /// The upcoming piece was posted.
    pub(super) fn posted(&mut self, piece: &Piece) {
        self.outstanding += 1;
        if self.again.pop_front().is_some() {
            return;
        }
        self.sequence += 1;
        if piece.last {
            self.cutting += 1;
            self.cut = 0;
        } else {
            self.cut += u64::from(piece.bytes);
        }
    }

    /// A piece is done: the message that is complete with it, if any.
    pub(super) fn done(&mut self, piece: &Piece, now: Time, settle: Time) -> Option<Message> {
        self.outstanding -= 1;
        self.settled = now + settle;
        self.idle_since = now;
        if !piece.last {
            return None;
        }
        let message = self.queue.pop_front()?;
        self.cutting -= 1;
        if let Some(latency) = &mut self.latency {
            latency.saturating_record((now - message.due).nanos());
        }
        Some(message)
    }

    /// A piece under way is to be posted again; of several the latest is given first.
    pub(super) fn take_back(&mut self, piece: Piece) {
        self.outstanding -= 1;
        if self.closing {
            self.abandon(&piece);
        } else {
            self.again.push_front(piece);
        }
    }

    /// Gives up what is not posted; only what is under way is waited for.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.unsent += (self.queue.len() - self.cutting) as u32;
        self.queue.truncate(self.cutting);
        self.cut = 0;
        while let Some(piece) = self.again.pop_back() {
            self.abandon(&piece);
        }
    }

    /// The latest piece of all that are cut is not sent again.
    fn abandon(&mut self, piece: &Piece) {
        if piece.last {
            self.queue.pop_back();
            self.cutting -= 1;
            self.unsent += 1;
        }
    }

    /// The trees of its grants.
    pub(super) fn granted(&self) -> impl Iterator<Item = TreeId> {
        self.current.iter().chain(&self.next).map(|grant| grant.tree)
    }
}

fn histogram(shape: HistogramShape) -> Option<Histogram<u64>> {
    Histogram::new_with_bounds(1, shape.longest.nanos(), shape.digits).ok()
}
