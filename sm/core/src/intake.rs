//! Where hosts' requests wait for their turn: answers to the manager's own questions, and traps, have theirs
//! first.
//!
//! A driver takes in all that came, hands management of the subnet to the [`Manager`](crate::Manager) at once and
//! puts what hosts ask in here. Then it serves some of that, for a [slice](Intake::slice) of time, and looks at
//! its ports again. While the manager is at work on the fabric it serves for a quarter of the time at most,
//! however many requests there are. What there is no room for is given back, to be refused, and counted.

use std::collections::{BTreeMap, VecDeque};

use snin_fabric::Lid;
use snin_mad::Mad;
use snin_protocol::Time;

use snin_sm_database::mad_address::{LocalPort, Origin};

/// A request that waits.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The local port that it came in by.
    pub port: LocalPort,
    /// Who asks.
    pub from: Origin,
    /// What.
    pub mad: Box<Mad>,
}

/// How many times as long as it served requests a manager that is at work is at work on the fabric alone.
const FABRIC: u64 = 3;

/// How much waits, and how long it is served for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntakeLimits {
    /// Requests of all hosts that wait.
    pub waiting: usize,
    /// Of those, requests of one address.
    pub of_one: usize,
    /// The most that are served in one slice.
    pub served: usize,
    /// How long a slice is while the manager has nothing else to do.
    pub idle: Time,
    /// How long it is while the manager is at work on the fabric.
    pub busy: Time,
}

impl Default for IntakeLimits {
    fn default() -> Self {
        let (idle, busy) = (Time::millis(5), Time::micros(250));
        Self { waiting: 8_192, of_one: 1_024, served: 512, idle, busy }
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Intake {
    limits: IntakeLimits,
    by_host: BTreeMap<Lid, VecDeque<Waiting>>,
    /// Hosts with something that waits, in the order of their turns.
    turns: VecDeque<Lid>,
    waiting: usize,
    refused: u64,
    /// Nothing is served before.
    from: Time,
}

impl Intake {
    /// Nothing waits yet.
    pub fn new(limits: IntakeLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// A request came in. What there is no room for is given back.
    ///
    /// # Errors
    /// When as much waits as may.
    pub fn put(&mut self, request: Waiting) -> Result<(), Waiting> {
        let lid = request.from.lid;
        let of_one = self.by_host.get(&lid).map_or(0, VecDeque::len);
        if self.waiting >= self.limits.waiting || of_one >= self.limits.of_one {
            self.refused += 1;
            return Err(request);
        }
        if of_one == 0 {
            self.turns.push_back(lid);
        }
        self.waiting += 1;
        self.by_host.entry(lid).or_default().push_back(request);
        Ok(())
    }

    /// The next request to be served: of each host one, in turn.
    pub fn pop(&mut self) -> Option<Waiting> {
        let lid = self.turns.pop_front()?;
        let queue = self.by_host.get_mut(&lid)?;
        let request = queue.pop_front();
        match queue.is_empty() {
            true => drop(self.by_host.remove(&lid)),
            false => self.turns.push_back(lid),
        }
        self.waiting -= usize::from(request.is_some());
        request
    }

    /// Until when requests may be served now and how many, if they may be; `busy`: the manager is at work on the
    /// fabric.
    pub fn slice(&self, busy: bool, now: Time) -> Option<(Time, usize)> {
        let length = if busy { self.limits.busy } else { self.limits.idle };
        let may = self.waiting > 0 && (!busy || now >= self.from);
        may.then_some((now + length, self.limits.served))
    }

    /// Requests were served for this time. For three times as long the fabric has its turn.
    pub fn served(&mut self, begin: Time, end: Time) {
        self.from = end + (end - begin) * FABRIC;
    }

    /// When [`slice`](Self::slice) is to be asked again, if anything waits.
    pub fn next_deadline(&self, busy: bool) -> Option<Time> {
        let due = if busy { self.from } else { Time::ZERO };
        (self.waiting > 0).then_some(due)
    }

    /// Requests that wait.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Requests that were given back since the start.
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}

/// How far a manager is behind with hearing at most: what is due is not put off for longer.
const MOST_BEHIND: Time = Time::millis(300);
/// So much quicker than it passed is time caught up with.
const CATCHES_UP: u64 = 4;

/// Until when everything was heard that was said to a manager. While it is at work it hears nothing, and what was
/// said meanwhile may wait in queues of which it sees the nearest end only. So the time for which it was at
/// work does not count against those who have answered: it is caught up with by listening.
#[derive(Clone, Copy, Default, Debug)]
pub struct Hearing {
    heard: Time,
    /// Since when it listens.
    since: Time,
}

impl Hearing {
    /// From now on it listens.
    pub const fn listen(&mut self, now: Time) {
        self.since = now;
    }

    /// Nothing is left to be read just now.
    pub fn all_read(&mut self, now: Time) {
        let listened = now - self.since;
        self.heard = now.min(self.heard + listened * CATCHES_UP).max(now - MOST_BEHIND);
        self.since = now;
    }

    /// Until when everything counts as heard: what is due later is not due yet.
    pub const fn until(&self) -> Time {
        self.heard
    }

    /// When something is due for this manager that is due at a time.
    pub fn when(&self, due: Time) -> Time {
        due + (self.since - self.heard)
    }
}

#[cfg(test)]
mod tests {
    use snin_mad::PKey;

    use super::*;

    fn request(lid: u16, qp: u32) -> Waiting {
        let from = Origin { lid: Lid(lid), qp, sl: 0, p_key: PKey::DEFAULT };
        Waiting { port: LocalPort(0), from, mad: Box::new(Mad::ZERO) }
    }

    #[test]
    fn hosts_have_their_turns_and_one_that_floods_takes_no_others_room() {
        let limits = IntakeLimits { waiting: 8, of_one: 4, ..IntakeLimits::default() };
        let mut intake = Intake::new(limits);
        let put = |intake: &mut Intake, lid, qp| intake.put(request(lid, qp)).is_ok();
        assert_eq!((0..6).filter(|&n| put(&mut intake, 1, n)).count(), 4);
        assert!(put(&mut intake, 2, 10) && put(&mut intake, 3, 20) && put(&mut intake, 2, 11));
        let mut served = std::iter::from_fn(|| intake.pop()).map(|it| (it.from.lid.0, it.from.qp));
        let order = [(1, 0), (2, 10), (3, 20), (1, 1), (2, 11), (1, 2), (1, 3)];
        assert!(served.by_ref().eq(order));
        drop(served);
        assert_eq!((intake.waiting(), intake.refused(), intake.next_deadline(false)), (0, 2, None));
        assert_eq!((0..12).filter(|&lid| put(&mut intake, lid, 0)).count(), 8);
        assert_eq!(intake.refused(), 6);
    }

    #[test]
    fn who_answered_while_the_manager_was_at_work_was_not_silent() {
        let mut hearing = Hearing::default();
        hearing.listen(Time::secs(1));
        hearing.all_read(Time::secs(2));
        assert_eq!(hearing.until(), Time::secs(2));
        // It was at work for 100 ms: of what was said it sees ten datagrams at a time.
        let at = |ms| Time::secs(2) + Time::millis(ms);
        hearing.listen(at(100));
        hearing.all_read(at(100));
        assert_eq!(hearing.until(), at(0), "who had until then 50 ms has them still");
        hearing.all_read(at(110));
        assert_eq!(hearing.until(), at(40));
        assert_eq!(hearing.when(at(50)), at(120));
        hearing.all_read(at(134));
        assert_eq!(hearing.until(), at(134), "caught up");
        // Nothing is put off for ever.
        hearing.listen(at(60_000));
        hearing.all_read(at(60_000));
        assert_eq!(hearing.until(), at(60_000) - MOST_BEHIND);
        // A manager that never listens for long.
        for ms in 60_000..61_000 {
            hearing.listen(at(ms));
            hearing.all_read(at(ms));
        }
        assert_eq!(hearing.until(), at(60_999) - MOST_BEHIND);
    }

    #[test]
    fn the_fabric_has_three_quarters_of_the_time_while_there_is_something_to_do() {
        let mut intake = Intake::default();
        assert_eq!(intake.slice(true, Time::ZERO), None, "nothing waits");
        assert!(intake.put(request(1, 0)).is_ok());
        let (until, _) = intake.slice(true, Time::millis(10)).unwrap();
        assert_eq!(until, Time::millis(10) + Time::micros(250));
        // It took longer, as a disk does.
        intake.served(Time::millis(10), Time::millis(17));
        assert_eq!(intake.next_deadline(true), Some(Time::millis(38)));
        assert_eq!(intake.slice(true, Time::millis(37)), None);
        assert!(intake.slice(true, Time::millis(38)).is_some());
        // A manager with nothing else to do waits for nothing.
        let (until, _) = intake.slice(false, Time::millis(18)).unwrap();
        assert_eq!(until, Time::millis(23));
    }
}
