//! What the threads of an agent share: bounded rings, made at the start, without locks.
//!
//! ```text
//!   application ──calls──▶ data thread ──arrived──▶ application
//!        ◀───buffers────        │ ▲      ◀─empties──
//!                        orders │ │ words
//!                               ▼ │
//!                          control thread: makes queue pairs, talks to peers and the controller
//! ```

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use hdrhistogram::Histogram;
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::message::{FromAgent, ToAgent};

use super::bell::Bell;
use super::links::Link;
use snin_agent_core::{
    Arrival, BreakReason, Config, ControllerState, Counters, FlowId, FlowStatus, Notice, PairId,
    PairStatus, Piece, Room, Route, Wanted,
};
use snin_verbs::{Noted, Source};

/// What applications ask of the data thread.
#[derive(Debug)]
pub(crate) enum Call {
    /// A flow.
    Open { flow: FlowId, peer: Guid, wanted: Wanted },
    /// The first so many bytes of a buffer on a flow, as the message of that number.
    Send { flow: FlowId, message: u64, buffer: Source, bytes: usize, due: Time },
    /// The flow's end.
    Close { flow: FlowId },
    /// That it be told soon what is done.
    Ask,
}

/// A piece that came in; its bytes are `start..start + piece.bytes` of the slot that it is the note of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) arrival: Arrival,
    pub(crate) start: usize,
}

impl Received {
    /// Before anything came.
    pub(crate) const NOTHING: Self = {
        let piece =
            Piece { flow: FlowId(0), sequence: 0, message: 0, offset: 0, bytes: 0, last: false };
        Self { arrival: Arrival { peer: Guid(0), session: 0, piece }, start: 0 }
    };
}

/// What the data thread has the control thread do: whatever takes system calls.
#[derive(Debug)]
pub(crate) enum Order {
    /// Make a queue pair.
    Connect { pair: PairId, route: Route },
    /// It is not wanted any more, if it is still being made.
    Cancel { pair: PairId },
    /// Destroy it.
    Retire { pair: PairId, link: Box<Link> },
    /// A queue pair that receives is in error.
    InboundFailed { number: u32 },
}

/// What the control thread tells the data thread.
#[derive(Debug)]
pub(crate) enum Word {
    /// A queue pair is connected.
    Linked { pair: PairId, link: Box<Link> },
    /// One could not be, or its peer is gone.
    Broken { pair: PairId, reason: BreakReason },
    /// One is destroyed.
    Closed { pair: PairId },
    /// What comes by this queue pair comes from this peer.
    Inbound { number: u32, peer: Guid, session: u64 },
    /// Nothing comes by it any more.
    InboundGone { number: u32, peer: Guid, session: u64 },
    /// The port has its link again.
    Up,
    /// The port has lost it.
    Down,
}

/// What the data thread shows of itself, in room that whoever asks has made.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) flows: Vec<FlowStatus>,
    pub(crate) pairs: Vec<PairStatus>,
    pub(crate) counters: Counters,
    pub(crate) controller: ControllerState,
    /// Of the flow asked for.
    pub(crate) latency: Option<(FlowId, Histogram<u64>)>,
}

/// What an application sees of its flow while the data thread works on it.
#[derive(Debug, Default)]
pub(crate) struct FlowWord {
    /// Messages that are complete, or never will be.
    pub(crate) done: AtomicU64,
    /// Of these, those that never will be.
    pub(crate) unsent: AtomicU64,
}

/// What is counted where the data thread does not come.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Streams of peers and the controller that ended because what came was no frame.
    pub(crate) malformed: AtomicU64,
    /// Peers that were turned away, and offers declined.
    pub(crate) declined: AtomicU64,
    /// Peers that ended or did not answer.
    pub(crate) gone: AtomicU64,
    /// Pieces that came from nobody known, or without a header.
    pub(crate) strange: AtomicU64,
    /// Queue pairs that receive.
    pub(crate) inbound: AtomicU64,
    /// Notices that nobody read in time.
    pub(crate) unread: AtomicU64,
    /// How often it was asked whether the last of several messages is done: nothing followed it on its queue pair,
    /// or somebody waits.
    pub(crate) asked_for: AtomicU64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Rings {
    pub(crate) calls: ArrayQueue<Call>,
    pub(crate) buffers: ArrayQueue<Source>,
    pub(crate) numbers: ArrayQueue<u32>,
    /// The memory of flows, made by who opens more of them at a time than there ever were, and how often that was.
    pub(crate) rooms: ArrayQueue<Room>,
    furnished: AtomicUsize,
    pub(crate) flows: Box<[FlowWord]>,
    pub(crate) arrived: ArrayQueue<Box<Noted<Received>>>,
    pub(crate) empties: ArrayQueue<Box<Noted<Received>>>,
    pub(crate) orders: ArrayQueue<Order>,
    pub(crate) words: ArrayQueue<Word>,
    /// What the controller said; `None`: something that is no frame.
    pub(crate) frames: ArrayQueue<Option<Box<ToAgent>>>,
    /// Frames that were heard, back to who frees them.
    pub(crate) heard: ArrayQueue<Box<ToAgent>>,
    pub(crate) says: ArrayQueue<FromAgent>,
    pub(crate) notices: ArrayQueue<Notice>,
    pub(crate) asked: ArrayQueue<Box<Look>>,
    pub(crate) shown: ArrayQueue<Box<Look>>,
    pub(crate) to_data: Bell,
    pub(crate) to_control: Bell,
    pub(crate) to_application: Bell,
    pub(crate) tally: Tally,
    pub(crate) stop: AtomicBool,
    /// Whether the data thread never sleeps: then it wakes nobody either, and the control thread looks often.
    pub(crate) busy: bool,
}

/// Notices that may wait for whoever reads them.
const NOTICES: usize = 4096;
/// Frames that may wait to be sent to the controller, or to be heard.
const FRAMES: usize = 64;

impl Rings {
    pub(crate) fn new(
        config: &Config,
        inbound: usize,
        receives: usize,
        buffers: usize,
        (busy, driven): (bool, bool),
    ) -> io::Result<Self> {
        let (flows, pairs) = (config.flows as usize, config.pairs as usize);
        let numbers = ArrayQueue::new(flows);
        for number in 0..config.flows {
            // There is room for all.
            let _ = numbers.push(number);
        }
        Ok(Self {
            calls: ArrayQueue::new(buffers + 2 * flows),
            buffers: ArrayQueue::new(buffers),
            numbers,
            rooms: ArrayQueue::new(flows),
            furnished: AtomicUsize::new(0),
            flows: (0..flows).map(|_| FlowWord::default()).collect(),
            arrived: ArrayQueue::new(receives),
            empties: ArrayQueue::new(receives),
            orders: ArrayQueue::new(4 * pairs + inbound),
            words: ArrayQueue::new(4 * pairs + 2 * inbound + 16),
            frames: ArrayQueue::new(FRAMES),
            heard: ArrayQueue::new(2 * FRAMES),
            says: ArrayQueue::new(FRAMES),
            notices: ArrayQueue::new(NOTICES),
            asked: ArrayQueue::new(1),
            shown: ArrayQueue::new(1),
            to_data: Bell::new(!busy && !driven)?,
            to_control: Bell::new(true)?,
            to_application: Bell::new(true)?,
            tally: Tally::default(),
            stop: AtomicBool::new(false),
            busy,
        })
    }

    /// Before another flow is opened, whose number is taken: so that the data thread need not make its memory.
    pub(crate) fn furnish(&self, config: &Config) {
        let open = self.flows.len() - self.numbers.len();
        let more = |furnished| (furnished < open).then_some(furnished + 1);
        if self.furnished.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
            // There is room for all.
            let _ = self.rooms.push(Room::new(config));
        }
    }

    /// Tells the data thread; whether there was room.
    pub(crate) fn tell(&self, word: Word) -> bool {
        let told = self.words.push(word).is_ok();
        self.to_data.ring();
        told
    }

    /// From the data thread: has the control thread do something.
    pub(crate) fn order(&self, order: Order) {
        // There is room for all that can be said of every queue pair.
        let _ = self.orders.push(order);
        self.call_control();
    }

    /// From the data thread: has the control thread look.
    pub(crate) fn call_control(&self) {
        if !self.busy {
            self.to_control.ring();
        }
    }

    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
