//! The state that the threads of an agent share: bounded rings, made at the start, without locks.
//!
//! ```text
//!   application ──calls──▶ data thread ──arrived──▶ application
//!        ◀───buffers────        │ ▲      ◀─empties──
//!                      commands │ │ control events
//!                               ▼ │
//!                          control thread: makes queue pairs, talks to peers and the controller
//! ```

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_queue::ArrayQueue;
use hdrhistogram::Histogram;
use snin_daemon::record::OutputDigest;
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::message::{FromAgent, LinkTested, ToAgent};

use super::doorbell::Doorbell;
use super::send_path::SendPath;
use crate::partial::Partial;
use snin_agent_core::{
    Arrival, BreakReason, Config, ControllerState, Event, FlowBuffers, FlowId, FlowStatus, Notice,
    PairId, PairStatus, Piece, Route, Wanted,
};
use snin_verbs::{ReceiveBuffer, Source};

/// What applications ask of the data thread.
#[derive(Debug)]
pub(crate) enum AppCall {
    /// A flow.
    Open { flow: FlowId, peer: Guid, wanted: Wanted },
    /// The first so many bytes of a buffer on a flow, as the message of that number.
    Send { flow: FlowId, message: u64, buffer: Source, bytes: usize, due: Time },
    /// The flow's end.
    Close { flow: FlowId },
    /// What came of a test of the link.
    LinkTested(LinkTested),
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

/// What the data thread has the control thread do: work that takes system calls.
#[derive(Debug)]
pub(crate) enum Command {
    /// Make a queue pair.
    Connect { pair: PairId, route: Route },
    /// It is not wanted any more, if it is still being made.
    Cancel { pair: PairId },
    /// Destroy it.
    Retire { pair: PairId, path: Box<SendPath> },
    /// A queue pair that receives is in error.
    InboundFailed { number: u32 },
    /// All that came by a queue pair was taken.
    InboundDrained { number: u32 },
}

/// What the control thread reports to the data thread.
#[derive(Debug)]
pub(crate) enum ControlEvent {
    /// A queue pair is connected.
    Connected { pair: PairId, path: Box<SendPath> },
    /// One could not be, or its peer is gone.
    Broken { pair: PairId, reason: BreakReason },
    /// One is destroyed.
    Closed { pair: PairId },
    /// What comes by this queue pair comes from this peer.
    Inbound { number: u32, peer: Guid, session: u64 },
    /// Nothing comes by it any more: what has come is to be taken, and [`Command::InboundDrained`] answers.
    InboundGone { number: u32, peer: Guid, session: u64 },
    /// Nothing of a peer's session comes any more.
    PeerGone { peer: Guid, session: u64 },
    /// The port has its link again.
    Up,
    /// The port has lost it.
    Down,
}

/// Memory for a copy of the mesh's state, made by the thread that wants it.
#[derive(Debug)]
pub(crate) struct SnapshotBuffer {
    pub(crate) flows: Vec<FlowStatus>,
    pub(crate) pairs: Vec<PairStatus>,
    pub(crate) counters: snin_agent_core::Counters,
    pub(crate) controller: ControllerState,
    /// Of the flow asked for.
    pub(crate) latency: Option<(FlowId, Histogram<u64>)>,
}

/// What an application sees of its flow while the data thread works on it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Messages that are complete, or never will be.
    pub(crate) done: AtomicU64,
    /// Of these, those that never will be.
    pub(crate) unsent: AtomicU64,
}

/// What is counted where the data thread does not come.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Streams of peers and the controller that ended because what came was no frame.
    pub(crate) malformed: AtomicU64,
    /// Peers that were turned away, and offers declined.
    pub(crate) declined: AtomicU64,
    /// Peers that ended or did not answer.
    pub(crate) gone: AtomicU64,
    /// Pieces from an unknown sender, or without a header.
    pub(crate) strange: AtomicU64,
    /// Messages of several pieces that were given up: a piece did not come, or too many had come in part.
    pub(crate) unjoined: AtomicU64,
    /// Queue pairs that receive.
    pub(crate) inbound: AtomicU64,
    /// Notices that the application did not read in time.
    pub(crate) unread: AtomicU64,
    /// Commands that the control thread was not told: it stood still for too long.
    pub(crate) untold: AtomicU64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Rings {
    pub(crate) calls: ArrayQueue<AppCall>,
    pub(crate) buffers: ArrayQueue<Source>,
    pub(crate) numbers: ArrayQueue<u32>,
    /// Memory for flows, made by the application that opens more of them at a time than there ever were, and how
    /// often that was.
    pub(crate) flow_buffers: ArrayQueue<FlowBuffers>,
    buffered_flows: AtomicUsize,
    pub(crate) flows: Box<[Progress]>,
    pub(crate) arrived: ArrayQueue<Box<ReceiveBuffer<Received>>>,
    pub(crate) empties: ArrayQueue<Box<ReceiveBuffer<Received>>>,
    pub(crate) commands: ArrayQueue<Command>,
    pub(crate) control_events: ArrayQueue<ControlEvent>,
    /// What the controller sent; `None`: something that is no frame.
    pub(crate) frames: ArrayQueue<Option<Arc<ToAgent>>>,
    pub(crate) to_controller: ArrayQueue<FromAgent>,
    pub(crate) notices: ArrayQueue<Notice>,
    pub(crate) snapshots_wanted: ArrayQueue<Box<SnapshotBuffer>>,
    pub(crate) snapshots: ArrayQueue<Box<SnapshotBuffer>>,
    pub(crate) to_data: Doorbell,
    pub(crate) to_control: Doorbell,
    pub(crate) to_application: Doorbell,
    pub(crate) counters: Counters,
    /// The data thread never locks it.
    partial: Mutex<Partial>,
    /// What the mesh is told, if that is recorded.
    pub(crate) recording: Option<Recording>,
    pub(crate) stop: AtomicBool,
    /// Whether the data thread never sleeps: then it does not wake the control thread, which looks often.
    pub(crate) busy: bool,
}

/// An entry of a recording.
#[derive(Debug)]
pub(crate) enum Recorded {
    /// The mesh was told of an event, or without one that a deadline had come.
    Told(Time, Option<Event>),
    /// The mesh ends, and this came out of it.
    End(Time, OutputDigest),
}

/// What the mesh is told, on its way to a file.
#[derive(Debug)]
pub(crate) struct Recording {
    entries: ArrayQueue<Recorded>,
    /// The file cannot be written any more.
    ended: AtomicBool,
}

impl Recording {
    fn new() -> Self {
        Self { entries: ArrayQueue::new(RECORDED), ended: AtomicBool::new(false) }
    }

    /// From the data thread, which waits until there is room: a recording has no gaps.
    pub(crate) fn push(&self, mut entry: Recorded) {
        while !self.ended.load(Ordering::Relaxed)
            && let Err(again) = self.entries.push(entry)
        {
            entry = again;
            std::thread::yield_now();
        }
    }

    /// From the control thread.
    pub(crate) fn pop(&self) -> Option<Recorded> {
        self.entries.pop()
    }

    /// From the control thread: nothing is recorded any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Events that may wait to be written.
const RECORDED: usize = 4096;
/// Notices that may wait for their reader.
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
        records: bool,
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
            flow_buffers: ArrayQueue::new(flows),
            buffered_flows: AtomicUsize::new(0),
            flows: (0..flows).map(|_| Progress::default()).collect(),
            arrived: ArrayQueue::new(receives),
            empties: ArrayQueue::new(receives),
            commands: ArrayQueue::new(4 * pairs + 4 * inbound),
            control_events: ArrayQueue::new(4 * pairs + 4 * inbound + 16),
            frames: ArrayQueue::new(FRAMES),
            to_controller: ArrayQueue::new(FRAMES),
            notices: ArrayQueue::new(NOTICES),
            snapshots_wanted: ArrayQueue::new(1),
            snapshots: ArrayQueue::new(1),
            to_data: Doorbell::new(!busy && !driven)?,
            to_control: Doorbell::new(true)?,
            to_application: Doorbell::new(true)?,
            counters: Counters::default(),
            recording: records.then(Recording::new),
            partial: Mutex::new(Partial::new(config.piece as usize)),
            stop: AtomicBool::new(false),
            busy,
        })
    }

    /// Makes the memory of a flow whose number is taken already, so that the data thread need not.
    pub(crate) fn make_flow_buffers(&self, config: &Config) {
        let open = self.flows.len() - self.numbers.len();
        let more = |buffered| (buffered < open).then_some(buffered + 1);
        if self.buffered_flows.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
            // The ring has room for all.
            let _ = self.flow_buffers.push(FlowBuffers::new(config));
        }
    }

    /// From the control thread: reports to the data thread; whether the ring had room.
    pub(crate) fn report(&self, event: ControlEvent) -> bool {
        let reported = self.control_events.push(event).is_ok();
        self.to_data.ring();
        reported
    }

    /// From the data thread: has the control thread do something; whether there was room. There is for all that
    /// every queue pair can need at a time: the ring is full only where the control thread stands still while
    /// pairs come and go. Commands that found no room are counted. What a queue pair that is to end held goes with
    /// the command; a pair that is made although the mesh dropped it meanwhile is retired when it is there.
    pub(crate) fn command(&self, command: Command) -> bool {
        let is_told = self.commands.push(command).is_ok();
        if !is_told {
            Self::count(&self.counters.untold);
        }
        self.wake_control();
        is_told
    }

    /// From the data thread: a data thread that never sleeps wakes no other, whose control thread looks often.
    pub(crate) fn wake_control(&self) {
        if !self.busy {
            self.to_control.ring();
        }
    }

    /// Messages that have come in part.
    pub(crate) fn partial(&self) -> MutexGuard<'_, Partial> {
        self.partial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_for_which_there_is_no_room_are_counted() {
        let config = Config { pairs: 2, flows: 1, ..Config::default() };
        let rings = Rings::new(&config, 1, 1, 1, (false, false), false).unwrap();
        let cancel = |slot| rings.command(Command::Cancel { pair: PairId { slot, life: 1 } });
        assert!((0..12).all(cancel), "four for each queue pair");
        assert!(!cancel(12) && !cancel(13));
        assert_eq!(rings.counters.untold.load(Ordering::Relaxed), 2);
        assert_eq!(rings.commands.len(), 12);
    }
}
