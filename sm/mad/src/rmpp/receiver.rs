//! The receiving side.

use std::collections::BTreeMap;

use snin_protocol::Time;

use super::{COUNTED, Policy, RmppFlags, RmppStatus, RmppType, abort, data_at, ending, reply};
use crate::mad::Mad;

/// A message on its way in.
#[derive(Debug)]
pub struct Receiver {
    policy: Policy,
    /// The first segment: its header is the message's.
    first: Mad,
    at: usize,
    data: Vec<u8>,
    /// Segments that came before others, by number, and how many bytes of them count.
    early: BTreeMap<u32, (Mad, Option<usize>)>,
    /// The last segment that came with all before it.
    received: u32,
    window_last: u32,
    done: bool,
    end: Time,
}

/// What came of a segment.
#[derive(Debug, Default)]
pub struct Reception {
    /// What is said to the sender.
    pub reply: Option<Mad>,
    /// The message ended before it was whole.
    pub ended: Option<RmppStatus>,
}

impl Reception {
    fn reply(mad: Mad) -> Self {
        Self { reply: Some(mad), ended: None }
    }

    fn aborted(segment: &Mad, status: RmppStatus) -> Self {
        Self { reply: Some(abort(segment, status)), ended: Some(status) }
    }
}

impl Receiver {
    /// Begins with the first segment that came; give it to [`receive`](Self::receive) too.
    pub fn new(segment: &Mad, policy: Policy, now: Time) -> Self {
        Self {
            policy,
            first: segment.clone(),
            at: data_at(segment.header().class()),
            data: Vec::new(),
            early: BTreeMap::new(),
            received: 0,
            window_last: 1,
            done: false,
            end: now + policy.total,
        }
    }

    /// Takes a segment, or what the sender says about its message.
    pub fn receive(&mut self, mad: &Mad) -> Reception {
        let rmpp = mad.rmpp();
        if rmpp.version() != 1 {
            return Reception::aborted(mad, RmppStatus::BadVersion);
        }
        match rmpp.kind() {
            RmppType::Data => self.data(mad),
            RmppType::Stop | RmppType::Abort => match ending(mad) {
                Ok(status) => Reception { reply: None, ended: Some(status) },
                Err(status) => Reception::aborted(mad, status),
            },
            // Of the message that this one answers.
            RmppType::Ack => Reception::default(),
            RmppType::None | RmppType::Unknown(_) => Reception::aborted(mad, RmppStatus::BadType),
        }
    }

    fn data(&mut self, mad: &Mad) -> Reception {
        let rmpp = mad.rmpp();
        let (number, flags) = (rmpp.segment(), rmpp.flags());
        if rmpp.status() != RmppStatus::Normal {
            return Reception::aborted(mad, RmppStatus::BadStatus);
        }
        if number == 0 || flags.has(RmppFlags::FIRST) != (number == 1) {
            return Reception::aborted(mad, RmppStatus::BadSegment);
        }
        if number <= self.received {
            return Reception::reply(self.acknowledgement(mad));
        }
        if number > self.window_last || self.done {
            return Reception::default();
        }
        let room = 256 - self.at;
        let counts = if flags.has(RmppFlags::LAST) {
            // Of the only segment too the last rule holds: both give the same number.
            let uncounted = COUNTED - room;
            let length = (rmpp.length() as usize).checked_sub(uncounted);
            let Some(length) = length.filter(|&length| length <= room) else {
                return Reception::aborted(mad, RmppStatus::BadLength);
            };
            Some(length)
        } else {
            None
        };
        if number == 1 {
            self.first = mad.clone();
        }
        self.early.insert(number, (mad.clone(), counts));
        let last = self.take_in_order();
        if self.data.len() > self.policy.longest {
            let stop = reply(mad, RmppType::Stop, RmppStatus::ResourcesExhausted, 0, 0);
            let ended = Some(RmppStatus::ResourcesExhausted);
            return Reception { reply: Some(stop), ended };
        }
        self.done = last;
        if !last && self.received < self.window_last {
            return Reception::default();
        }
        self.window_last = self.received + self.policy.window.max(1);
        Reception::reply(self.acknowledgement(mad))
    }

    /// Appends what is next; whether the last segment was among it.
    fn take_in_order(&mut self) -> bool {
        while let Some((mad, counts)) = self.early.remove(&(self.received + 1)) {
            self.received += 1;
            let end = counts.map_or(256, |counts| self.at + counts);
            self.data.extend_from_slice(&mad.0[self.at..end]);
            if counts.is_some() {
                self.early.clear();
                return true;
            }
        }
        false
    }

    fn acknowledgement(&self, mad: &Mad) -> Mad {
        let window_last = self.window_last.max(self.received);
        reply(mad, RmppType::Ack, RmppStatus::Normal, self.received, window_last)
    }

    /// Whether the message is whole.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// The header of the message, in its first segment.
    pub const fn header(&self) -> &Mad {
        &self.first
    }

    /// What came so far, in order.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The data, once it is whole. It goes on to acknowledge what comes again.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.done.then(|| std::mem::take(&mut self.data))
    }

    /// When the message has taken too long.
    pub const fn deadline(&self) -> Time {
        self.end
    }

    /// What tells the sender so.
    pub fn abort(&self, status: RmppStatus) -> Mad {
        abort(&self.first, status)
    }
}
