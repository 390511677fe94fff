//! Deadlines of many things, one each, in tables made at the start.
//!
//! A timer only ever moves nearer: one that is wanted later is set again when it fires. So a deadline that keeps
//! moving away, as that of a queue pair which keeps completing, costs nothing until it fires too early.
//!
//! The earliest is the winner of a knockout: the tree's node `n` holds the earlier of what its children `2n`
//! and `2n + 1` hold, the leaves behind the nodes are the timers themselves.

use snin_protocol::Time;

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    /// The conversation with the controller.
    ControllerSession,
    /// A flow, by number.
    Flow(u32),
    /// A queue pair, by slot.
    Pair(u32),
    /// The next time slot of a collective.
    TimeSlot,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Timers {
    flows: u32,
    /// When each is due, or never: the conversation, flows, queue pairs, the time slot.
    due: Box<[Time]>,
    /// Places in `due`; the first node is 1.
    nodes: Box<[u32]>,
}

impl Timers {
    /// For so many flows and queue pairs, one at least. None is set.
    pub(super) fn new(flows: u32, pairs: u32) -> Self {
        let count = 2 + flows as usize + pairs as usize;
        let mut timers =
            Self { flows, due: vec![Time::MAX; count].into(), nodes: vec![0; count].into() };
        for node in (1..count).rev() {
            timers.play(node);
        }
        timers
    }

    /// Sets a timer, unless it is due earlier already.
    pub(super) fn set(&mut self, timer: Timer, at: Time) {
        let place = self.place(timer);
        if at < self.due[place as usize] {
            self.hasten(place, at);
        }
    }

    fn hasten(&mut self, place: u32, at: Time) {
        self.due[place as usize] = at;
        let mut node = (self.due.len() + place as usize) / 2;
        while node > 0 && self.earlier(place, self.nodes[node]) == place {
            self.nodes[node] = place;
            node /= 2;
        }
    }

    /// When the first is due.
    pub(super) fn first(&self) -> Option<Time> {
        Some(self.due[self.nodes[1] as usize]).filter(|&at| at < Time::MAX)
    }

    /// Takes one that is due; it is not set any more.
    pub(super) fn take_due(&mut self, now: Time) -> Option<Timer> {
        self.first().filter(|&at| at <= now)?;
        let place = self.nodes[1];
        self.due[place as usize] = Time::MAX;
        let mut node = (self.due.len() + place as usize) / 2;
        while node > 0 {
            self.play(node);
            node /= 2;
        }
        Some(self.timer(place))
    }

    fn play(&mut self, node: usize) {
        self.nodes[node] = self.earlier(self.winner(2 * node), self.winner(2 * node + 1));
    }

    fn winner(&self, node: usize) -> u32 {
        let leaf = node.checked_sub(self.due.len());
        leaf.map_or_else(|| self.nodes[node], |place| place as u32)
    }

    fn earlier(&self, one: u32, other: u32) -> u32 {
        let key = |place: u32| (self.due[place as usize], place);
        if key(one) <= key(other) { one } else { other }
    }

    fn place(&self, timer: Timer) -> u32 {
        match timer {
            Timer::ControllerSession => 0,
            Timer::Flow(index) => 1 + index,
            Timer::Pair(slot) => 1 + self.flows + slot,
            Timer::TimeSlot => self.due.len() as u32 - 1,
        }
    }

    fn timer(&self, place: u32) -> Timer {
        match place {
            0 => Timer::ControllerSession,
            _ if place as usize == self.due.len() - 1 => Timer::TimeSlot,
            _ if place <= self.flows => Timer::Flow(place - 1),
            _ => Timer::Pair(place - 1 - self.flows),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn a_timer_moves_nearer_and_fires_once() {
        let mut timers = Timers::new(2, 1);
        assert_eq!(timers.first(), None);
        for at in [20, 30, 10] {
            timers.set(Timer::Flow(1), Time(at));
        }
        timers.set(Timer::Pair(0), Time(20));
        timers.set(Timer::ControllerSession, Time(20));
        assert_eq!((timers.first(), timers.take_due(Time(9))), (Some(Time(10)), None));
        let fired = [(); 4].map(|()| timers.take_due(Time(25)));
        let expected = [Timer::Flow(1), Timer::ControllerSession, Timer::Pair(0)];
        assert_eq!((&fired[..3], fired[3]), (&expected.map(Some)[..], None));
    }

    #[test]
    fn of_all_that_are_set_the_earliest_comes_first() {
        for seed in 0..50 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (flows, pairs) = (rng.random_range(1..9), rng.random_range(1..9));
            let mut timers = Timers::new(flows, pairs);
            let mut plain = vec![Time::MAX; 2 + (flows + pairs) as usize];
            for step in 0..500 {
                let place = rng.random_range(0..plain.len() as u32);
                let at = Time(rng.random_range(0..50));
                timers.set(timers.timer(place), at);
                plain[place as usize] = plain[place as usize].min(at);
                let (first, &at) = plain.iter().enumerate().min_by_key(|&(_, at)| at).unwrap();
                assert_eq!(timers.first(), Some(at), "seed {seed}, step {step}");
                if rng.random() {
                    assert_eq!(timers.take_due(at), Some(timers.timer(first as u32)));
                    plain[first] = Time::MAX;
                }
            }
        }
    }
}
