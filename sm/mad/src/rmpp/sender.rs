//! The sending side.

use snin_protocol::Time;

use super::{
    COUNTED, Policy, Rmpp, RmppFlags, RmppStatus, RmppType, abort, data_at, ending, reply,
};
use crate::mad::Mad;

/// A message on its way out.
#[derive(Debug)]
pub struct Sender {
    policy: Policy,
    /// The header of every segment, and nothing else.
    header: Mad,
    data: Vec<u8>,
    at: usize,
    segments: u32,
    acknowledged: u32,
    pub(super) window_last: u32,
    /// The next to be sent.
    next: u32,
    retries: u32,
    deadline: Time,
    end: Time,
}

/// What an acknowledgement led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more to be sent, or to be acknowledged.
    Going,
    /// Everything arrived.
    Done,
    /// The receiver wants no more.
    Ended(RmppStatus),
}

/// What became of a message whose time ran out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// It is not time yet.
    Waits,
    /// Segments are sent again.
    Again,
    /// It was sent often enough, or takes too long: the receiver is told so, and the message is over.
    GivenUp(RmppStatus),
}

impl Sender {
    /// Will send `data` behind the header of `header`.
    pub fn new(header: &Mad, data: Vec<u8>, policy: Policy, now: Time) -> Self {
        let at = data_at(header.header().class());
        let segments = data.len().div_ceil(256 - at).max(1) as u32;
        let mut own = Mad::ZERO;
        own.0[..at].copy_from_slice(&header.0[..at]);
        Self {
            policy,
            header: own,
            data,
            at,
            segments,
            acknowledged: 0,
            window_last: 1,
            next: 1,
            retries: 0,
            deadline: now + policy.timeout,
            end: now + policy.total,
        }
    }

    /// How many segments there are.
    pub const fn segments(&self) -> u32 {
        self.segments
    }

    /// Whether the receiver has answered anything yet.
    pub const fn is_heard(&self) -> bool {
        self.acknowledged > 0
    }

    /// Bytes that it holds.
    pub const fn bytes(&self) -> usize {
        self.data.len()
    }

    /// The next segment that may be sent now.
    pub fn poll(&mut self, now: Time) -> Option<Mad> {
        if self.next > self.window_last.min(self.segments) {
            return None;
        }
        let segment = self.segment(self.next);
        self.next += 1;
        self.deadline = (now + self.policy.timeout).min(self.end);
        Some(segment)
    }

    /// Segment `number`, from 1.
    fn segment(&self, number: u32) -> Mad {
        let room = 256 - self.at;
        let from = (number as usize - 1) * room;
        let part = &self.data[from..self.data.len().min(from + room)];
        let mut mad = self.header.clone();
        mad.0[self.at..self.at + part.len()].copy_from_slice(part);
        let (first, last) = (number == 1, number == self.segments);
        let mut flags = RmppFlags::ACTIVE;
        if first {
            flags = flags.with(RmppFlags::FIRST);
        }
        if last {
            flags = flags.with(RmppFlags::LAST);
        }
        let unused = self.segments as usize * room - self.data.len();
        let length = match (first, last) {
            (true, _) => self.segments as usize * COUNTED - unused,
            (false, true) => COUNTED - unused,
            (false, false) => 0,
        };
        Rmpp::edit(&mut mad.0)
            .version(1)
            .kind(RmppType::Data)
            .response_time(0x1F)
            .flags(flags)
            .status(RmppStatus::Normal)
            .segment(number)
            .length(length as u32);
        mad
    }

    /// Takes what the receiver says of this message.
    ///
    /// # Errors
    /// With what it is aborted when that breaks the rules; it is over then.
    pub fn receive(&mut self, mad: &Mad, now: Time) -> Result<Progress, RmppStatus> {
        let rmpp = mad.rmpp();
        if rmpp.version() != 1 {
            return Err(RmppStatus::BadVersion);
        }
        match rmpp.kind() {
            RmppType::Ack => self.acknowledge(rmpp.segment(), rmpp.length(), now),
            RmppType::Stop | RmppType::Abort => ending(mad).map(Progress::Ended),
            RmppType::Data | RmppType::None | RmppType::Unknown(_) => Err(RmppStatus::BadType),
        }
    }

    fn acknowledge(&mut self, segment: u32, last: u32, now: Time) -> Result<Progress, RmppStatus> {
        if last < segment {
            return Err(RmppStatus::WindowTooSmall);
        }
        if segment > self.segments || segment > self.window_last {
            return Err(RmppStatus::SegmentTooBig);
        }
        if segment < self.acknowledged || last < self.window_last {
            // An old one, overtaken by another.
            return Ok(Progress::Going);
        }
        if segment > self.acknowledged {
            self.acknowledged = segment;
            self.retries = 0;
        }
        if segment == self.segments {
            return Ok(Progress::Done);
        }
        self.window_last = last;
        self.next = self.next.max(segment + 1);
        self.deadline = (now + self.policy.timeout).min(self.end);
        Ok(Progress::Going)
    }

    /// When [`expire`](Self::expire) has to be called.
    pub fn deadline(&self) -> Time {
        self.deadline.min(self.end)
    }

    /// Goes back to the first segment that was not acknowledged, if its time has run out.
    pub fn expire(&mut self, now: Time) -> Expiry {
        if now < self.deadline() {
            return Expiry::Waits;
        }
        if now >= self.end {
            return Expiry::GivenUp(RmppStatus::TimeTooLong);
        }
        let most = if self.is_heard() { self.policy.retries } else { self.policy.unheard };
        if self.retries >= most {
            return Expiry::GivenUp(RmppStatus::TooManyRetries);
        }
        self.retries += 1;
        self.next = self.acknowledged + 1;
        self.deadline = (now + self.policy.timeout).min(self.end);
        Expiry::Again
    }

    /// What tells the receiver that this message is over.
    pub fn abort(&self, status: RmppStatus) -> Mad {
        // `abort` turns the direction; what the sender says goes on in its own.
        let mut mad = abort(&self.header, status);
        mad.0[3] ^= 0x80;
        mad
    }

    /// After a request that was itself a message arrived: the responder may send now (IBA 13.6.6.3).
    pub fn turn(&self, acknowledgement: &Mad) -> Mad {
        reply(acknowledgement, RmppType::Ack, RmppStatus::Normal, 0, 1)
    }
}
