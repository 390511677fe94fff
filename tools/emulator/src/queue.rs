//! What will happen, in the order of time; what happens at one time, in the order of being planned.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use snin_protocol::Time;

/// Something that will happen. Indices are those of the emulator's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A packet comes in by a port.
    Arrive { packet: u32, port: u32 },
    /// An agent is done with a packet.
    Serve { packet: u32, node: u32, life: u32 },
    /// Two ports have found each other.
    Trained { port: u32, attempt: u32 },
    /// A trap that nobody repressed is due again.
    Trap { port: u32, round: u32 },
    /// A fault that was asked for.
    Fault { fault: u32 },
    /// A node is switched on again.
    PowerOn { node: u32, life: u32 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    at: Time,
    order: u64,
    event: Event,
}

impl Ord for Entry {
    /// The earliest is the greatest: the heap gives the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    planned: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.planned += 1;
        self.heap.push(Entry { at, order: self.planned, event });
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// The next event, if it is due.
    pub(crate) fn pop_until(&mut self, until: Time) -> Option<(Time, Event)> {
        if self.heap.peek()?.at > until {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}
