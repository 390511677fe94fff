//! When a record was last changed, and by which manager.

use serde::{Deserialize, Serialize};
use snin_fabric::Guid;
use snin_protocol::Time;

/// A hybrid logical clock's reading and who read it: stamps of one origin only rise, and any two of a subnet
/// are in an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Stamp {
    /// The time, or that of the last stamp where the time has not moved on.
    pub time: Time,
    /// Counts stamps of one time.
    pub count: u32,
    /// The port GUID of the manager that made the change.
    pub origin: Guid,
}

/// Makes stamps.
#[derive(Debug)]
pub struct Clock {
    last: Stamp,
    /// What has to be added to the driver's time to have that of the epoch, which other managers have too.
    epoch: Time,
}

impl Clock {
    /// A clock that has made no stamp yet.
    pub const fn new(origin: Guid) -> Self {
        Self { last: Stamp { time: Time::ZERO, count: 0, origin }, epoch: Time::ZERO }
    }

    pub(super) const fn set_origin(&mut self, origin: Guid) {
        self.last.origin = origin;
    }

    pub(super) const fn set_epoch(&mut self, epoch: Time) {
        self.epoch = epoch;
    }

    /// Another manager's stamp, or an own one from before a restart: the next ones are later.
    pub(super) fn see(&mut self, stamp: Stamp) {
        if (stamp.time, stamp.count) > (self.last.time, self.last.count) {
            (self.last.time, self.last.count) = (stamp.time, stamp.count);
        }
    }

    /// What it reads: no less than any stamp that it made.
    pub(super) fn read(&self, now: Time) -> Time {
        self.last.time.max(now + self.epoch)
    }

    /// The next stamp: later than all before it, for any `now`.
    pub fn tick(&mut self, now: Time) -> Stamp {
        let now = now + self.epoch;
        if now > self.last.time {
            (self.last.time, self.last.count) = (now, 0);
        } else if self.last.count == u32::MAX {
            (self.last.time, self.last.count) = (Time(self.last.time.0 + 1), 0);
        } else {
            self.last.count += 1;
        }
        self.last
    }
}
