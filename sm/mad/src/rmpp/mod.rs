//! RMPP: messages longer than a MAD, as segments that are acknowledged (IBA 13.6).
//!
//! A segment is a whole MAD: every one repeats the header, and carries a part of the data. [`Sender`] and
//! [`Receiver`] are the two sides as state machines without clock or socket: MADs and the time go in, MADs
//! come out.
//!
//! The sender begins with a window of one segment. The receiver acknowledges the first one, each that ends
//! a window, the last, and each that came twice; an acknowledgement also says how far the sender may go on.

mod receiver;
mod sender;

pub use receiver::{Receiver, Reception};
pub use sender::{Expiry, Progress, Sender};

use snin_protocol::Time;

use crate::header::{Class, Header, Method};
use crate::mad::Mad;
use crate::table::table;
use crate::wire::{codes, flags};

/// Bytes of a segment that PayloadLength counts: all after the RMPP header (IBA 13.6.2.2).
pub const COUNTED: usize = 256 - RMPP_END;
const RMPP_END: usize = 36;
const VENDOR_END: usize = 40;

table! {
    /// The RMPP header, after the common one (IBA 13.6.2.1).
    pub struct Rmpp("RMPP", 256 bytes) {
        /// 1; 0 in a MAD without RMPP.
        "RMPPVersion" version: u8 = 192, 8;
        /// A part of a message, or something about one.
        "RMPPType" kind: RmppType = 200, 8;
        /// How long the receiver may take to answer: 4.096 us times 2 to this; 31: not said.
        "RRespTime" response_time: u8 = 208, 5;
        /// Which part.
        "RMPPFlags" flags: RmppFlags = 213, 3;
        /// Why a message ends early.
        "RMPPStatus" status: RmppStatus = 216, 8;
        /// Which part, from 1; of an acknowledgement: the last that came with all before it.
        "SegmentNumber" segment: u32 = 224, 32;
        /// Bytes that count, in the first and the last part; of an acknowledgement: NewWindowLast, the last
        /// part that may be sent now.
        "PayloadLength" length: u32 = 256, 32;
    }
}

codes! {
    /// RMPPHeader:RMPPType (IBA 13.6.2.1).
    pub enum RmppType(u8) {
        /// No RMPP.
        None = 0 "none",
        /// A part of a message.
        Data = 1 "DATA",
        /// Parts came.
        Ack = 2 "ACK",
        /// No room for more.
        Stop = 3 "STOP",
        /// Something is wrong.
        Abort = 4 "ABORT",
    }

    /// RMPPHeader:RMPPStatus (IBA 13.6.2.1, table 112).
    pub enum RmppStatus(u8) {
        /// Nothing is wrong.
        Normal = 0 "normal",
        /// Resources are exhausted; with STOP only.
        ResourcesExhausted = 1 "ResX",
        /// The message took too long.
        TimeTooLong = 118 "T2L",
        /// PayloadLength of the last segment and the rest do not agree.
        BadLength = 119 "BadLen",
        /// First and the segment's number do not agree.
        BadSegment = 120 "BadSeg",
        /// No such type.
        BadType = 121 "BadT",
        /// NewWindowLast lies before the segment that it acknowledges.
        WindowTooSmall = 122 "W2S",
        /// An acknowledgement of what was not sent.
        SegmentTooBig = 123 "S2B",
        /// A status that the type does not go with.
        BadStatus = 124 "BadS",
        /// No such version.
        BadVersion = 125 "UnV",
        /// Repeated often enough.
        TooManyRetries = 126 "TMR",
        /// Something else.
        Unspecified = 127 "UNSP",
    }
}

flags! {
    /// RMPPHeader:RMPPFlags (IBA 13.6.2.1).
    pub struct RmppFlags(u8) {
        /// This MAD is RMPP's.
        ACTIVE = 1 "active",
        /// The first part.
        FIRST = 2 "first",
        /// The last part.
        LAST = 4 "last",
    }
}

/// How patient both sides are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// How long a sender waits for an acknowledgement before it sends again.
    pub timeout: Time,
    /// How often in a row it sends again.
    pub retries: u32,
    /// How often it sends the first segment again to a requester that has acknowledged nothing yet. One that lost
    /// it asks again, and one without RMPP never acknowledges.
    pub unheard: u32,
    /// How many segments a receiver lets come without an acknowledgement.
    pub window: u32,
    /// How long a message may take altogether.
    pub total: Time,
    /// The longest message that is taken, in bytes of data.
    pub longest: usize,
}

impl Default for Policy {
    /// As Linux has it (drivers/infiniband/core/mad_rmpp.c): 2 s, a window of 64, 40 s.
    fn default() -> Self {
        Self {
            timeout: Time::millis(2_000),
            retries: 3,
            unheard: 1,
            window: 64,
            total: Time::millis(40_000),
            longest: 1 << 20,
        }
    }
}

/// Where the data of a class begins, behind its own header (IBA 13.6.2; vendor classes 16.5).
pub const fn data_at(class: Class) -> usize {
    match class.code() {
        0x03 => 56,
        0x06 | 0x12 => 64,
        0x30..=0x4F => VENDOR_END,
        _ => RMPP_END,
    }
}

/// Whether a MAD is RMPP's.
pub fn is_active(mad: &Mad) -> bool {
    mad.rmpp().version() != 0 && mad.rmpp().flags().has(RmppFlags::ACTIVE)
}

/// How many bytes of a MAD a client is handed. Of a message in one segment those that count, as the kernel and
/// OpenSM hand it on: who counts records by the length would take the zeros behind them for more.
pub fn handed_on(mad: &Mad) -> usize {
    let (rmpp, at) = (mad.rmpp(), data_at(mad.header().class()));
    let only = RmppFlags::FIRST.0 | RmppFlags::LAST.0;
    let whole = at != RMPP_END
        && is_active(mad)
        && rmpp.kind() == RmppType::Data
        && rmpp.flags().0 & only == only;
    let length = usize::try_from(rmpp.length())
        .map_or(usize::MAX, |counted| counted.saturating_add(RMPP_END));
    if whole && (at..=mad.0.len()).contains(&length) { length } else { mad.0.len() }
}

/// A message about another: the same header, the other direction.
fn reply(to: &Mad, kind: RmppType, status: RmppStatus, segment: u32, window_last: u32) -> Mad {
    let mut mad = Mad::ZERO;
    // A vendor's number belongs to the header too.
    let end =
        if (0x30..=0x4F).contains(&to.header().class().code()) { VENDOR_END } else { RMPP_END };
    mad.0[..end].copy_from_slice(&to.0[..end]);
    let method = Method::new(to.header().method().code() ^ 0x80);
    Header::edit(&mut mad.0).method(method);
    Rmpp::edit(&mut mad.0)
        .version(1)
        .kind(kind)
        .response_time(0x1F)
        .flags(RmppFlags::ACTIVE)
        .status(status)
        .segment(segment)
        .length(window_last);
    mad
}

/// Ends the message that `mad` is part of.
pub fn abort(mad: &Mad, status: RmppStatus) -> Mad {
    reply(mad, RmppType::Abort, status, 0, 0)
}

/// What is wrong with a STOP or an ABORT itself, or the status that it gives.
fn ending(mad: &Mad) -> Result<RmppStatus, RmppStatus> {
    let (kind, status) = (mad.rmpp().kind(), mad.rmpp().status());
    let legal = match kind {
        RmppType::Stop => status == RmppStatus::ResourcesExhausted,
        _ => (118..=127).contains(&status.code()),
    };
    if legal { Ok(status) } else { Err(RmppStatus::BadStatus) }
}

#[cfg(test)]
mod tests;
