//! Future events, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that will happen. Numbers are the network's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// A port has sent the last byte of a packet.
    Sent(u32),
    /// A packet's header has been read by a switch, or its last byte by an end port.
    Arrive(u32),
    /// A port that waited for credits has some.
    Wake(u32),
    /// A message may be sent from now on.
    Begin(u32),
}

/// A queue of events. Those of one time come in the order they were planned in, so that every agenda gives
/// the same run.
pub trait Agenda {
    /// Empty. `span`: most events are planned at most so many picoseconds ahead.
    fn with_span(span: u64) -> Self;

    /// Plans `event` at `at` picoseconds.
    fn push(&mut self, at: u64, event: Event);

    /// The time of the first event.
    fn next(&mut self) -> Option<u64>;

    /// The first events, in order: those that it has found already.
    fn coming(&self) -> impl Iterator<Item = Event>;

    /// Takes the first event, if it is due at `at` or was before.
    fn pop(&mut self, at: u64) -> Option<Event>;
}

/// The textbook agenda: a binary heap. It judges the [`Wheel`](super::Wheel), in tests and in the benchmark.
#[derive(Default, Debug)]
pub struct Heap {
    /// By time and number: the least first.
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    planned: u64,
}

impl Agenda for Heap {
    fn with_span(_: u64) -> Self {
        Self::default()
    }

    fn push(&mut self, at: u64, event: Event) {
        self.heap.push(Reverse((at, self.planned, event)));
        self.planned += 1;
    }

    fn next(&mut self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    fn coming(&self) -> impl Iterator<Item = Event> {
        self.heap.peek().map(|&Reverse((.., event))| event).into_iter()
    }

    fn pop(&mut self, at: u64) -> Option<Event> {
        if self.next()? > at {
            return None;
        }
        self.heap.pop().map(|Reverse((.., event))| event)
    }
}
