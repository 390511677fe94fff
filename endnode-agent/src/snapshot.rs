//! Snapshots of a running agent, taken without its data thread waiting or allocating.

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::io::rings::{Rings, SnapshotBuffer};
use crate::shared::Shared;
use snin_agent_core::{ControllerState, Counters, FlowId, FlowStatus, PairStatus};

/// How long the data thread may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// An agent at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its flows, by number.
    pub flows: Vec<FlowStatus>,
    /// The queue pairs that it sends on, by peer and tree.
    pub pairs: Vec<PairStatus>,
    /// What its mesh has counted.
    pub counters: Counters,
    /// What was counted elsewhere.
    pub io_counters: IoCounters,
    /// The state of the controller, as far as it is known.
    pub controller: ControllerState,
    /// Of the flow asked for, how long messages took in nanoseconds.
    pub latency: Option<Histogram<u64>>,
}

/// What is counted outside of the mesh.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IoCounters {
    /// Streams that ended because what came was no frame.
    pub malformed: u64,
    /// Peers that were turned away, and offers declined.
    pub declined: u64,
    /// Peers that ended or did not answer.
    pub gone: u64,
    /// Pieces from an unknown sender, or without a header.
    pub strange: u64,
    /// Messages of several pieces that were given up: a piece did not come, or too many had come in part.
    pub unjoined: u64,
    /// Queue pairs that receive, at present.
    pub inbound: u64,
    /// Notices that the application did not read in time.
    pub unread: u64,
    /// Commands that the control thread was not told: it stood still for too long.
    pub untold: u64,
    /// Buffers that no message is in, at present.
    pub free_buffers: u64,
}

impl IoCounters {
    /// Each: its name, what it counts, how many.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let Self {
            malformed,
            declined,
            gone,
            strange,
            unjoined,
            inbound,
            unread,
            untold,
            free_buffers,
        } = *self;
        [
            ("malformed_streams", "Streams that ended because what came was no frame", malformed),
            ("declined_offers", "Peers turned away and offers declined", declined),
            ("gone_peers", "Peers that ended or did not answer", gone),
            ("strange_pieces", "Pieces from nobody known, or without a header", strange),
            ("unjoined_messages", "Messages given up for want of a piece or of room", unjoined),
            ("inbound_pairs", "Queue pairs that receive", inbound),
            ("unread_notices", "Notices that nobody read in time", unread),
            ("untold_commands", "Commands for which the control thread had no room", untold),
            ("free_buffers", "Buffers that no message is in", free_buffers),
        ]
        .into_iter()
    }
}

impl Snapshot {
    /// The state at one moment; with the latencies of one flow, if asked for.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`](io::ErrorKind::TimedOut) when the data thread stands still.
    pub(crate) fn take(shared: &Shared, latency_of: Option<FlowId>) -> io::Result<Self> {
        let _one = shared.snapshot_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let latency = latency_of.and_then(|flow| Some((flow, histogram(shared)?)));
        let buffer = SnapshotBuffer {
            flows: Vec::with_capacity(shared.config.flows as usize),
            pairs: Vec::with_capacity(shared.config.pairs as usize),
            counters: Counters::default(),
            controller: ControllerState::None,
            latency,
        };
        let rings = &shared.rings;
        // Only this thread looks; a snapshot from a look that it gave up on is out of date.
        while rings.snapshots.pop().is_some() || rings.snapshots_wanted.pop().is_some() {}
        let _ = rings.snapshots_wanted.push(Box::new(buffer));
        rings.to_data.ring();
        let buffer = shared.wait(Some(PATIENCE), || rings.snapshots.pop())?;
        let SnapshotBuffer { flows, pairs, counters, controller, latency } = *buffer;
        let io_counters = IoCounters::read(rings);
        let latency = latency.map(|(_, latency)| latency);
        Ok(Self { flows, pairs, counters, io_counters, controller, latency })
    }
}

fn histogram(shared: &Shared) -> Option<Histogram<u64>> {
    let shape = shared.config.histogram?;
    Histogram::new_with_bounds(1, shape.longest.nanos(), shape.digits).ok()
}

impl IoCounters {
    fn read(rings: &Rings) -> Self {
        let counters = &rings.counters;
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            malformed: read(&counters.malformed),
            declined: read(&counters.declined),
            gone: read(&counters.gone),
            strange: read(&counters.strange),
            unjoined: read(&counters.unjoined),
            inbound: read(&counters.inbound),
            unread: read(&counters.unread),
            untold: read(&counters.untold),
            free_buffers: rings.buffers.len() as u64,
        }
    }
}
