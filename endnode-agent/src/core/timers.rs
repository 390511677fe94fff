//! Deadlines of many things in one heap.
//!
//! A thing has one timer at most that counts; setting an earlier one leaves the later in the heap, which
//! then finds itself out of date. So a deadline that only ever moves away, as that of a queue pair which
//! keeps completing, costs nothing until it fires too early and is set anew.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use snin_protocol::Time;

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    /// The conversation with the controller.
    Conversation,
    /// A flow, by number.
    Flow(u32),
    /// A queue pair, by slot.
    Pair(u32),
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Time, Timer)>>,
}

impl Timers {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(capacity) }
    }

    /// Sets a timer, where `set` is the time that the thing's timer is set for (or never) and is kept by
    /// the thing.
    pub(super) fn set(&mut self, timer: Timer, at: Time, set: &mut Time) {
        if at < *set {
            *set = at;
            self.heap.push(Reverse((at, timer)));
        }
    }

    /// When the first is due. It may turn out to be out of date.
    pub(super) fn first(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes one that is due, with its time: it counts if the thing's timer is set for just that.
    pub(super) fn due(&mut self, now: Time) -> Option<(Time, Timer)> {
        self.first().filter(|&at| at <= now)?;
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_set_earlier_fires_earlier_and_the_later_is_out_of_date() {
        let mut timers = Timers::with_capacity(4);
        let mut set = Time::MAX;
        timers.set(Timer::Flow(1), Time(20), &mut set);
        timers.set(Timer::Flow(1), Time(30), &mut set);
        timers.set(Timer::Flow(1), Time(10), &mut set);
        assert_eq!((timers.first(), set), (Some(Time(10)), Time(10)));
        assert_eq!(timers.due(Time(9)), None);
        assert_eq!(timers.due(Time(25)), Some((Time(10), Timer::Flow(1))));
        assert_eq!(timers.due(Time(25)), Some((Time(20), Timer::Flow(1))));
        assert_eq!(timers.due(Time(25)), None);
    }
}
